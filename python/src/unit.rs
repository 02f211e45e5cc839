//! Units for Python.

use pyo3::prelude::*;
pub(crate) use rxlane_results::unit::{of_key, of_metric};

/// The unit of a metric or of a scenario's key, as the columns of results carry it: `us`, `packets/s`, `1` for shares and
/// counts of nothing in particular; None where there is none.
///
/// >>> rxlane.unit_of("latency_us.rt.p99"), rxlane.unit_of("loss"), rxlane.unit_of("cpu.packet_ns")
/// ('us', '1', 'ns')
#[pyfunction]
pub(crate) fn unit_of(name: &str) -> Option<&'static str> {
    rxlane_results::unit::of(name)
}
