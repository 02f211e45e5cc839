//! `rxlane calibrate`: what a packet and a wake-up cost this machine's engine, as a file for the simulator.
//!
//! Overload gives the service time, because then nothing else is done. Latencies below it give the rest: what an
//! interrupt costs and what lies outside of the core, by the values with which the model comes closest.

use std::path::PathBuf;

use rxlane_bench::bench::{
    self, Dut, Offered, Options, Prediction, SweepAxes, SweepPoint, SweepReport,
};
use rxlane_config::EngineConfig;
use rxlane_sim::scenario::Scenario;

use super::bench::Common;
use crate::{model, one_line, output};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane calibrate --dut afxdp-stack --firewall 60 --frame 64 --write engine-model.toml
  sudo rxlane bench sweep --dut afxdp-stack --firewall 60 --frame 64 --with-sim engine-model.toml
  rxlane sim run engine-model.toml --set traffic.pps=150000")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Write the calibration here instead of printing it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Loads that latencies are taken at, as shares of the capacity.
const SHARES: [f64; 3] = [0.1, 0.4, 0.7];
/// The search for overload begins here and ends when this share is lost.
const FIRST_PPS: f64 = 150_000.0;
const OVERLOADED: f64 = 0.1;
/// A generator that sends less than this share of what was asked for has reached its own limit.
const KEPT_UP: f64 = 0.85;
/// Costs of an interrupt that are tried, ns.
const ISR_NS: (f64, f64) = (0.0, 30_000.0);

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let options = args.common.options()?;
    if let Some(path) = &args.write {
        output::will_take(path)?;
    }
    let [dut] = &options.duts[..] else {
        return Err("calibrate one engine: --dut afxdp, afxdp-mixed or afxdp-stack, with at most one strategy".into());
    };
    let engine = model::engine_of(dut)?;
    let capacity = capacity(&options)?;
    let loads: Vec<Offered> = SHARES.iter().map(|s| Offered::Pps(s * capacity)).collect();
    let report = sweep(&options, &loads)?;
    let costs = fit(&options, &engine, capacity, &report.points)?;
    let text = file(&options, dut, &engine, capacity, &costs, &report.points)?;
    model::write(args.write.as_deref(), &text)
}

/// Each load, with the share of RT and the hog of the options.
fn sweep(options: &Options, loads: &[Offered]) -> Result<SweepReport, String> {
    let axes = SweepAxes {
        loads,
        rt_ratios: &[options.traffic.rt_ratio],
        hogs: &[options.hog],
    };
    bench::sweep(options, axes).map_err(one_line)
}

/// What the engine forwards when it is offered more.
fn capacity(options: &Options) -> Result<f64, String> {
    let mut pps = FIRST_PPS;
    loop {
        let report = sweep(options, &[Offered::Pps(pps)])?;
        let point = report.points.first().ok_or("nothing was measured")?;
        let lost = 1.0 - point.dut.forwarded_pps / point.dut.offered_pps;
        if lost > OVERLOADED {
            return Ok(point.dut.forwarded_pps);
        }
        if point.dut.offered_pps < KEPT_UP * pps {
            return Err(format!(
                "the generator reaches {:.3} Mpps, which does not overload this engine: calibrate one that does more work (--dut afxdp-stack --firewall 60)",
                point.dut.offered_pps / 1e6
            ));
        }
        pps *= 1.4;
    }
}

/// Costs with which the model comes closest to the mean latencies.
fn fit(
    options: &Options,
    engine: &EngineConfig,
    capacity_pps: f64,
    points: &[SweepPoint],
) -> Result<Scenario, String> {
    let mut costs = Scenario {
        seconds: 0.5,
        replications: 3,
        ..Scenario::default()
    };
    costs.cpu.packet_ns = 1e9 / capacity_pps;
    let mut best = (f64::INFINITY, costs.clone());
    let (mut low, mut high) = ISR_NS;
    // Each round looks around the best value with a step a quarter as wide.
    for _ in 0..4 {
        let step = (high - low) / 8.0;
        for i in 0..=8 {
            let mut trial = costs.clone();
            trial.cpu.isr_ns = low + step * f64::from(i);
            let error = fit_offset(&mut trial, options, engine, points)?;
            if error < best.0 {
                best = (error, trial);
            }
        }
        low = (best.1.cpu.isr_ns - step).max(ISR_NS.0);
        high = best.1.cpu.isr_ns + step;
    }
    Ok(best.1)
}

/// Sets the latency outside of the model to what fits best, and returns the sum of squared relative errors.
fn fit_offset(
    trial: &mut Scenario,
    options: &Options,
    engine: &EngineConfig,
    points: &[SweepPoint],
) -> Result<f64, String> {
    let mut pairs = Vec::new();
    for p in points {
        let model = predict(trial, options, engine, p)?;
        for (class, modelled) in p.dut.classes.iter().zip(model.mean_us) {
            if class.received > 0.0 {
                pairs.push((class.latency_us.mean, modelled));
            }
        }
    }
    // Least squares of (model + offset - measured) / measured.
    let weights: f64 = pairs.iter().map(|(m, _)| 1.0 / (m * m)).sum();
    let offset: f64 = pairs.iter().map(|(m, s)| (m - s) / (m * m)).sum::<f64>() / weights;
    trial.nic.fixed_latency_us = offset.max(0.0);
    Ok(pairs
        .iter()
        .map(|(m, s)| ((s + trial.nic.fixed_latency_us - m) / m).powi(2))
        .sum())
}

/// What the model says of a measured point.
fn predict(
    costs: &Scenario,
    options: &Options,
    engine: &EngineConfig,
    p: &SweepPoint,
) -> Result<Prediction, String> {
    let offered = &options.traffic;
    model::predict(costs, engine, offered, p.rt_ratio, p.dut.offered_pps)
}

fn file(
    options: &Options,
    dut: &Dut,
    engine: &EngineConfig,
    capacity_pps: f64,
    costs: &Scenario,
    points: &[SweepPoint],
) -> Result<String, String> {
    let mut text = format!(
        "# Measured by `rxlane calibrate --dut {}`, firewall {}, frames of {} bytes, {} times {} s a point.\n# It forwards {:.0} packets a second when it is offered more.\n",
        dut.name(),
        options.lab.firewall,
        options.traffic.frame,
        options.repeat,
        options.seconds,
        capacity_pps
    );
    for p in points {
        let model = predict(costs, options, engine, p)?;
        for (class, modelled) in p.dut.classes.iter().zip(model.mean_us) {
            let measured = class.latency_us.mean;
            text += &format!(
                "#   {:.3} Mpps, {}: mean latency measured {measured:.1} us, model {modelled:.1} us, {:+.1} %\n",
                p.dut.offered_pps / 1e6,
                class.name,
                100.0 * (modelled / measured - 1.0)
            );
        }
    }
    let at = model::scenario(
        costs,
        engine,
        &options.traffic,
        options.traffic.rt_ratio,
        capacity_pps / 2.0,
    )?;
    text += &format!(
        "seconds = {:?}\nreplications = {}\n\n[traffic]\npps = {:?}\nrt_ratio = {:?}\nframe = {}\n\n[nic]\ndescriptors = {}\nfixed_latency_us = {:.2}\n\n[cpu]\npacket_ns = {:.1}\nisr_ns = {:.1}\n",
        costs.seconds,
        costs.replications,
        at.traffic.pps.round(),
        at.traffic.rt_ratio,
        at.traffic.frame,
        at.nic.descriptors,
        costs.nic.fixed_latency_us,
        costs.cpu.packet_ns,
        costs.cpu.isr_ns,
    );
    #[derive(serde::Serialize)]
    struct Reception<'a> {
        reception: &'a rxlane_sim::scenario::Reception,
    }
    text += "\n";
    text += &toml::to_string(&Reception {
        reception: &at.reception,
    })
    .map_err(one_line)?;
    Ok(text)
}
