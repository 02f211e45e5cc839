//! The model of a measured engine: what `rxlane-lab calibrate` writes and `rxlane-lab bench sweep --with-sim` asks.

use std::path::Path;

use rxlane_bench::bench::{Dut, Pattern, Prediction, Traffic};
use rxlane_config::{Datapath, EngineConfig};
use rxlane_policy::strategy::Strategy;
use rxlane_sim::run::replicate;
use rxlane_sim::scenario::Scenario;
use rxlane_sim::traffic;

use crate::{one_line, output};

/// The engine that a device under test configures.
pub(crate) fn engine_of(dut: &Dut) -> Result<EngineConfig, String> {
    let none = || {
        format!(
            "`{}` has no AF_XDP engine, so there is no model of it: use --dut afxdp, afxdp-mixed or afxdp-stack",
            dut.name()
        )
    };
    match &dut.config().ok_or_else(none)?.datapath {
        Datapath::Afxdp(engine) => Ok(engine.clone()),
        Datapath::Express => Err(none()),
    }
}

/// What is to be simulated: costs from a calibration, everything else as it was measured.
pub(crate) fn scenario(
    costs: &Scenario,
    engine: &EngineConfig,
    offered: &Traffic,
    rt_ratio: f64,
    pps: f64,
) -> Result<Scenario, String> {
    let mut s = costs.clone();
    s.traffic.pps = pps;
    s.traffic.rt_ratio = rt_ratio;
    s.traffic.frame = offered.frame.mean_bytes().round() as u32;
    s.traffic.pattern = match &offered.pattern {
        Pattern::Cbr => traffic::Pattern::Cbr { jitter: 0.0 },
        Pattern::Poisson => traffic::Pattern::Poisson,
        Pattern::Pcap(_) => return Err("--with-sim knows --pattern cbr and poisson".into()),
    };
    if let (Some(worker), Some(ring)) = (&mut s.worker, engine.rings.iter().copied().max()) {
        worker.ring = ring as usize;
    }
    s.interrupt.throttling = engine.itr;
    s.reception.device_budget = engine.device_budget;
    s.reception.order = engine.order;
    s.reception.strategy = engine.strategy.name();
    match &engine.strategy {
        Strategy::Sq | Strategy::Rr => {}
        Strategy::LlRr { ring_budget } => s.reception.ring_budget = *ring_budget,
        Strategy::LlWfq { budgets } => s.reception.budgets.clone_from(budgets),
    }
    Ok(s)
}

/// Writes a calibration to a file and prints what it says of itself, or prints all of it.
pub(crate) fn write(path: Option<&Path>, text: &str) -> Result<(), String> {
    let Some(path) = path else {
        print!("{text}");
        return Ok(());
    };
    output::file(path, text.as_bytes())?;
    for line in text.lines().filter(|l| l.starts_with('#')) {
        println!("{}", line.trim_start_matches(['#', ' ']));
    }
    eprintln!("wrote {}", path.display());
    Ok(())
}

/// What the model says of that.
pub(crate) fn predict(
    costs: &Scenario,
    engine: &EngineConfig,
    offered: &Traffic,
    rt_ratio: f64,
    pps: f64,
) -> Result<Prediction, String> {
    let at = scenario(costs, engine, offered, rt_ratio, pps)?;
    let (estimates, _) = replicate(&at).map_err(one_line)?;
    let get = |name: &str| {
        estimates
            .iter()
            .find(|e| e.name == name)
            .map_or(0.0, |e| e.mean)
    };
    Ok(Prediction {
        forwarded_pps: get("throughput_pps"),
        mean_us: [get("latency_us.rt.mean"), get("latency_us.be.mean")],
        cpu: get("cpu"),
        stable: get("loss") < 0.001,
    })
}
