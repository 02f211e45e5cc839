//! `rxlane-lab calibrate`: what a packet and a wake-up cost this machine's engine, as a file for the simulator.
//!
//! Under overload nothing is done but packets. Latencies and the use of the core below it give the rest: what an interrupt, a change
//! of thread and waking cost, and what lies outside of the core, by the values with which the model comes closest.

mod costs;

use std::path::PathBuf;

use indicatif::{ProgressBar, ProgressStyle};
use rxlane_bench::bench::{self, Dut, Offered, Options, SweepAxes, SweepPoint, SweepReport};
use rxlane_sim::scenario::{Reception, Scenario, Worker};

use super::bench::Common;
use crate::{model, one_line, output};
use costs::Measured;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane-lab calibrate --dut afxdp-stack --firewall 60 --frame 64 --write engine-model.toml
  sudo rxlane-lab bench sweep --dut afxdp-stack --firewall 60 --frame 64 --with-sim engine-model.toml
  rxlane-lab sim run engine-model.toml --set traffic.pps=150000")]
pub(crate) struct Args {
    #[command(flatten)]
    common: Common,
    /// Write the calibration here instead of printing it
    #[arg(long, value_name = "FILE")]
    write: Option<PathBuf>,
}

/// Loads that latencies are taken at, as shares of the capacity.
const SHARES: [f64; 5] = [0.1, 0.25, 0.4, 0.55, 0.7];
/// The search for overload begins here and ends when this share is lost.
const FIRST_PPS: f64 = 150_000.0;
const OVERLOADED: f64 = 0.1;
/// A generator that sends less than this share of what was asked for has reached its own limit.
const KEPT_UP: f64 = 0.85;

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let options = args.common.options()?;
    if let Some(path) = &args.write {
        output::will_take(path)?;
    }
    let [dut] = &options.duts[..] else {
        return Err("calibrate one engine: --dut afxdp, afxdp-mixed or afxdp-stack, with at most one strategy".into());
    };
    let engine = model::engine_of(dut)?;
    let overloaded = overload(&options)?;
    let capacity = overloaded.dut.forwarded_pps;
    let loads: Vec<Offered> = SHARES.iter().map(|s| Offered::Pps(s * capacity)).collect();
    let report = sweep(&options, &loads)?;
    let measured = Measured {
        options: &options,
        engine: &engine,
        points: &report.points,
        overloaded: &overloaded,
    };
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} models tried, {elapsed}") {
        bar.set_style(style);
    }
    let costs = measured.fit(&bar)?;
    bar.finish_and_clear();
    let text = file(&measured, dut, &costs)?;
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

/// The engine where it is offered more than it forwards.
fn overload(options: &Options) -> Result<SweepPoint, String> {
    let mut pps = FIRST_PPS;
    loop {
        let report = sweep(options, &[Offered::Pps(pps)])?;
        let point = report
            .points
            .into_iter()
            .next()
            .ok_or("nothing was measured")?;
        let lost = 1.0 - point.dut.forwarded_pps / point.dut.offered_pps;
        if lost > OVERLOADED {
            return Ok(point);
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

fn file(measured: &Measured, dut: &Dut, costs: &Scenario) -> Result<String, String> {
    let options = measured.options;
    let capacity_pps = measured.overloaded.dut.forwarded_pps;
    let mut text = format!(
        "# Measured by `rxlane-lab calibrate --dut {}`, firewall {}, frames of {} bytes, {} times {} s a point.\n",
        dut.name(),
        options.lab.firewall,
        options.traffic.frame,
        options.repeat,
        options.seconds,
    );
    let percent = |model: f64, measured: f64| 100.0 * (model / measured - 1.0);
    let over = measured.predict(costs, measured.overloaded)?.forwarded_pps;
    text += &format!(
        "# Offered {:.3} Mpps, it forwards {:.3}, the model {:.3}, {:+.1} %.\n",
        measured.overloaded.dut.offered_pps / 1e6,
        capacity_pps / 1e6,
        over / 1e6,
        percent(over, capacity_pps)
    );
    for p in measured.points {
        let model = measured.predict(costs, p)?;
        let mpps = p.dut.offered_pps / 1e6;
        text += &format!(
            "#   {mpps:.3} Mpps: core in use {:.1} %, model {:.1} %\n",
            p.dut.cpu * 100.0,
            model.cpu * 100.0
        );
        for (class, modelled) in p.dut.classes.iter().zip(model.mean_us) {
            let mean = class.latency_us.mean;
            text += &format!(
                "#   {mpps:.3} Mpps, {}: mean latency measured {mean:.1} us, model {modelled:.1} us, {:+.1} %\n",
                class.name,
                percent(modelled, mean)
            );
        }
    }
    let at = model::scenario(
        costs,
        measured.engine,
        &options.traffic,
        options.traffic.rt_ratio,
        capacity_pps / 2.0,
    )?;
    let round = |x: f64| (x * 10.0).round() / 10.0;
    text += &toml::to_string(&File {
        seconds: costs.seconds,
        replications: costs.replications,
        traffic: Traffic {
            pps: at.traffic.pps.round(),
            rt_ratio: at.traffic.rt_ratio,
            frame: at.traffic.frame,
        },
        nic: Nic {
            descriptors: at.nic.descriptors,
            fixed_latency_us: round(costs.nic.fixed_latency_us),
        },
        cpu: Cpu {
            packet_ns: round(costs.cpu.packet_ns),
            isr_ns: round(costs.cpu.isr_ns),
            wake_ns: round(costs.cpu.wake_ns),
        },
        worker: at.worker.map(|w| Worker {
            receive_ns: round(w.receive_ns),
            switch_ns: round(w.switch_ns),
            ..w
        }),
        reception: &at.reception,
    })
    .map_err(one_line)?;
    Ok(text)
}

/// What a calibration says; every other key has its default.
#[derive(serde::Serialize)]
struct File<'a> {
    seconds: f64,
    replications: u32,
    traffic: Traffic,
    nic: Nic,
    cpu: Cpu,
    worker: Option<Worker>,
    reception: &'a Reception,
}

#[derive(serde::Serialize)]
struct Traffic {
    pps: f64,
    rt_ratio: f64,
    frame: u32,
}

#[derive(serde::Serialize)]
struct Nic {
    descriptors: usize,
    fixed_latency_us: f64,
}

#[derive(serde::Serialize)]
struct Cpu {
    packet_ns: f64,
    isr_ns: f64,
    wake_ns: f64,
}
