//! What a lane must be set to for a latency target.

use pyo3::prelude::*;
use rxlane_policy::Bps;
use rxlane_policy::bound::EXPRESS_SERVICE_NS;
use rxlane_policy::plan::{Plan, Polled, Wanted, saturating_pps};

use crate::error::{PlanError, of_policy};
use crate::value::json_to_python;

/// What a lane must be set to so that no RT packet waits longer than `target_ns`, as a dict: what `rxlane-lab plan --json` prints.
///
/// service_time_ns: of a packet, 1e9 / the highest packet rate of one core; for the express lane that of a stack packet.
/// rt_pps: highest rate of RT packets, those of the highest class.
/// target_ns: what an RT packet may wait at most.
/// lane: "express" (the default datapath) or "engine" (ring budgets of the AF_XDP engine).
/// rt_service_time_ns: of an RT packet; without it 600 ns in the express lane, and that of the others in the engine.
/// total_pps: highest rate of all packets; without it, all that the core can serve.
/// link_bps, frame: in place of it, a link full of frames of so many bytes with FCS.
/// ports, device_budget: of the engine: ports that take turns on a core, packets of a port in one poll.
///
/// >>> plan = rxlane.plan(lane="engine", ports=1, service_time_ns=571, rt_pps=875e3, total_pps=1.75e6, target_ns=3430)
/// >>> plan["be_ring_budget"], plan["rt_ring_budget"]
/// (3, 61)
///
/// Raises PlanError for a target that nothing keeps; the message names the least one that can be kept.
#[pyfunction]
#[pyo3(signature = (*, service_time_ns, rt_pps, target_ns, lane="express", rt_service_time_ns=None, total_pps=None, link_bps=None, frame=64, ports=2, device_budget=64))]
#[expect(clippy::too_many_arguments, reason = "they are keywords")]
pub(crate) fn plan<'py>(
    py: Python<'py>,
    service_time_ns: f64,
    rt_pps: f64,
    target_ns: f64,
    lane: &str,
    rt_service_time_ns: Option<f64>,
    total_pps: Option<f64>,
    link_bps: Option<f64>,
    frame: u32,
    ports: u32,
    device_budget: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let of_lane = match lane {
        "express" => EXPRESS_SERVICE_NS,
        "engine" => service_time_ns,
        other => {
            return Err(PlanError::new_err(format!(
                "lane = {other}: no such lane: use express or engine"
            )));
        }
    };
    if total_pps.is_some() && link_bps.is_some() {
        return Err(PlanError::new_err(
            "total_pps and link_bps both say how much comes: give one of them",
        ));
    }
    if link_bps.is_some_and(|bps| !(bps.is_finite() && bps > 0.0)) || frame < 64 {
        return Err(PlanError::new_err(
            "a link has more than 0 bit/s, and frames of 64 bytes and more: give link_bps as 1e9, and frame as 64",
        ));
    }
    let rt_service_time_ns = rt_service_time_ns.unwrap_or(of_lane);
    let line_rate = link_bps.map(|bps| Bps(bps).line_rate(frame).0);
    let wanted = Wanted {
        service_time_ns,
        rt_service_time_ns,
        rt_pps,
        total_pps: line_rate
            .or(total_pps)
            .unwrap_or_else(|| saturating_pps(service_time_ns, rt_service_time_ns, rt_pps)),
        target_ns,
    };
    let polled = Polled {
        ports,
        device_budget,
    };
    let plan = match lane {
        "express" => wanted.express().map(Plan::Express),
        _ => wanted.engine(polled).map(Plan::Engine),
    };
    let plan = plan.map_err(|e| of_policy(&e))?;
    let json = serde_json::to_value(plan).map_err(|e| PlanError::new_err(e.to_string()))?;
    json_to_python(py, &json)
}
