//! What `rxlane-lab bench` measures and `rxlane-lab sim` computes, in one form: a row a point, device, class and metric.
//!
//! Purpose: lay a measurement beside a prediction without knowing who wrote the file. Guarantee: the columns of [`Tidy`] are
//! the same for all sources and formats; whatever is read is either whole or refused with the cause and the cure.
//!
//! ```
//! let json = r#"{"schema_version": 1, "trials": 3, "traffic": {"rt_ratio": 0.0, "frame": 64},
//!     "duts": [{"name": "kernel", "pps": 1e6, "min_pps": 9e5, "max_pps": 1.1e6, "bps": 5e8}]}"#;
//! let tidy = rxlane_results::of_json(json.as_bytes())?;
//! let row = tidy.rows().next().expect("a row");
//! assert_eq!((row.device(), row.metric(), row.value), ("kernel", "throughput_pps", 1e6));
//! # Ok::<(), rxlane_results::ResultsError>(())
//! ```

#![forbid(unsafe_code)]

mod bench;
mod error;
mod json;
mod table;
mod tidy;
pub mod unit;
mod write;

pub use error::ResultsError;
pub use json::of_json;
pub use table::of_csv;
pub use tidy::{Key, Point, RowOf, SCHEMA_VERSION, Source, Tidy, class_of};
pub use write::Format;
