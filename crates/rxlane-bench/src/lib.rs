//! The lab and the benchmark.
//!
//! Purpose: put a router between a generator and a sink, in network namespaces or on real ports, and
//! measure what its classes see. Guarantees: the kernel and rxlane are measured in one run under the
//! same settings; a generator that fell behind makes a run invalid; what was made is removed, also
//! after Ctrl-C, and nothing else is touched.

pub mod bare;
pub mod bed;
pub mod bench;
pub mod lab;
pub mod report;
pub mod trial;

mod bulk;
pub mod by_core;
pub mod call;
mod circle;
mod clock;
pub mod core_use;
mod course;
mod daemon;
pub mod disturb;
pub mod dut;
mod error;
pub mod frame;
mod generator;
mod histogram;
pub mod hog;
mod idle;
mod in_turn;
pub mod installed;
mod layout;
mod maps;
mod median;
mod occupant;
mod options;
mod prime;
pub mod profile;
pub mod regret;
pub mod results;
mod sampler;
pub mod scene;
mod search;
mod session;
mod shell;
mod sink;
mod skeletons;
pub mod steps;
mod symbols;
mod tcp_info;
mod test_run;
pub mod threads;
mod traffic;
mod wire;
mod xdp_forward;

pub use error::BenchError;
pub use median::median;
pub use traffic::capture_gaps;

/// What the BPF programs in this crate are: the compiler, then name and SHA-256 of each object, separated by `;`.
pub const BPF: &str = env!("RXLANE_BPF");
