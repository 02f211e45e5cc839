//! The extension module `rxlane._rxlane`: the model of rxlane for Python.
//!
//! Guarantee: numbers are those of the command `rxlane-lab sim`, bit by bit, on any number of threads, because the code is the same.
//! While it computes other Python threads run, and Ctrl-C ends it in the middle (`running.rs`). Results are Arrow tables that are
//! handed over without a copy (`table.rs`). What people use is `package/rxlane`, which is this and some pure Python.

mod column;
mod custom;
mod error;
mod estimate;
mod papers;
mod plan;
mod points;
mod policy;
mod result;
mod results;
mod running;
mod scenario;
mod sweep;
mod table;
mod unit;
mod value;

#[pyo3::pymodule]
mod _rxlane {
    #[pymodule_export]
    use super::column::Column;
    #[pymodule_export]
    use super::estimate::{Estimate, mean_and_ci95};
    #[pymodule_export]
    use super::papers::{papers, reproduce};
    #[pymodule_export]
    use super::plan::plan;
    #[pymodule_export]
    use super::points::{Point, Points};
    #[pymodule_export]
    use super::policy::{LinearLaw, Place, PollEnd, QVector, RtBound, Serve, Strategy};
    #[pymodule_export]
    use super::result::RunResult;
    #[pymodule_export]
    use super::results::results_of;
    #[pymodule_export]
    use super::scenario::Scenario;
    #[pymodule_export]
    use super::sweep::sweep;
    #[pymodule_export]
    use super::table::Table;
    #[pymodule_export]
    use super::unit::unit_of;

    /// The version of rxlane.
    #[pymodule_export]
    const VERSION: &str = env!("CARGO_PKG_VERSION");
}
