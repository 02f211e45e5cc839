//! `rxlane-lab bench`: measurements.

mod call;
mod cost;
mod options;
mod regret;
mod rrul;
mod steps;

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use rxlane_bench::bench::{self, Offered, Options, Search, SweepAxes};
use rxlane_bench::disturb::{Reloads, disturb};
use rxlane_bench::hog::Hog;
use rxlane_config::EngineConfig;
use rxlane_policy::Pps;
use rxlane_sim::scenario::Scenario;

pub(crate) use self::options::Common;
use crate::{model, one_line, test_bed};

#[derive(clap::Subcommand)]
#[allow(clippy::large_enum_variant, reason = "parsed once")]
pub(crate) enum Command {
    /// Latency and loss of each class at one rate
    #[command(after_help = "Examples:
  sudo rxlane-lab bench latency --dut kernel,express --offered 2x --rt-ratio 0.2 --firewall 200 --html report.html
  sudo rxlane-lab bench latency --offered 300k --firewall 60 --hog 300/500us
  sudo rxlane-lab bench latency --offered 150k --firewall stateful:60 --tcp 4")]
    Latency(Latency),
    /// The highest rate without loss (RFC 2544)
    #[command(after_help = "Example:
  sudo rxlane-lab bench throughput --dut kernel,express --rt-ratio 0 --frame 64 --seconds 1")]
    Throughput(Throughput),
    /// Latency and loss over load, RT ratio and what others take of the router's core
    #[command(after_help = "Examples:
  sudo rxlane-lab bench sweep --loads 100k,200k,300k,400k,600k --ratios 0.1,0.3 --firewall 60 --html sweep.html
  sudo rxlane-lab bench sweep --loads 300k --ratios 0.2 --hogs none,100/500us,200/500us,300/500us,400/500us --firewall 60")]
    Sweep(Sweep),
    /// Packets lost while the daemon reloads or is killed, the firewall is loaded anew, a port goes down
    #[command(after_help = "Example:
  sudo rxlane-lab bench disturb --pps 200k --seconds 3 --reloads 6")]
    Disturb(Disturb),
    /// Who loses packets, and how long, when the load changes
    #[command(after_help = "Examples:
  sudo rxlane-lab bench steps --dut kernel,express --firewall 200 --html steps.html
  sudo rxlane-lab bench steps --firewall 200 --profile \"20*(3x@10ms,0.2x@40ms)\"")]
    Steps(steps::Steps),
    /// What a packet costs, program by program and as a whole
    #[command(after_help = "Examples:
  sudo rxlane-lab bench cost
  sudo rxlane-lab bench cost --pps 0 --rounds 800    (only the programs)
  sudo rxlane-lab bench cost --split                 (the fast path, stage by stage)")]
    Cost(cost::Cost),
    /// Calls beside TCP, which sends more until some queue is full
    #[command(after_help = "Examples:
  sudo rxlane-lab bench call
  sudo rxlane-lab bench call --flows 1,8,32 --direction down,both --congestion cubic,bbr --ecn off,on --firewalls none
  sudo rxlane-lab bench call --qdisc fq_codel --flows 8")]
    Call(call::Call),
    /// Realtime response under load: four TCP connections each way beside probes, in several code points, over time
    #[command(after_help = "Examples:
  sudo rxlane-lab bench rrul --html rrul.html
  sudo rxlane-lab bench rrul --link-out 1 --qdisc fq_codel --flent . && flent -i rrul-*.flent.gz -p all_scaled -o rrul.png")]
    Rrul(rrul::Rrul),
    /// Whether anything is worse than with Linux alone: every load, firewall, frame size and share of RT
    #[command(after_help = "Examples:
  sudo rxlane-lab bench regret --record regret.jsonl --html regret.html    (35 minutes; interrupted, the same command goes on)
  sudo rxlane-lab bench regret --firewalls stateful:60 --frames 128 --ratios 0.2 --repeat 3")]
    Regret(regret::Regret),
}

#[derive(Args)]
pub(crate) struct Latency {
    #[command(flatten)]
    common: Common,
    /// Packets a second (300k, 1.2M), or a multiple of what the kernel forwards without loss (2x)
    #[arg(long, default_value = "2x")]
    offered: Offered,
    /// Bulk TCP connections through the router beside the packets, best effort, with their goodput in the result
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 0)]
    tcp: u32,
}

#[derive(Args)]
pub(crate) struct Throughput {
    #[command(flatten)]
    common: Common,
    /// Share of packets that may be lost
    #[arg(long, default_value_t = 0.001)]
    loss: f64,
    /// Relative width at which the search ends
    #[arg(long, default_value_t = 0.02)]
    width: f64,
    /// Trials at each rate; the median loss decides
    #[arg(long, default_value_t = 3)]
    trials: u32,
}

#[derive(Args)]
pub(crate) struct Sweep {
    #[command(flatten)]
    common: Common,
    /// Rates, packets a second, or multiples of what the kernel forwards without loss (0.5x,2x)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "100k,200k,300k,400k,500k,600k"
    )]
    loads: Vec<Offered>,
    /// RT ratios
    #[arg(long, value_delimiter = ',', default_value = "0.1,0.3")]
    ratios: Vec<f64>,
    /// Bulk TCP connections through the router beside the packets, best effort, with their goodput in the result
    #[arg(long, value_name = "CONNECTIONS", default_value_t = 0)]
    tcp: u32,
    /// What takes its part of the router's core, as --hog; none: nothing does
    #[arg(long, value_delimiter = ',', value_parser = hog_or_none, value_name = "HOGS", conflicts_with_all = ["hog", "with_sim"])]
    hogs: Vec<HogOrNone>,
    /// Lay the model of this calibration (see `rxlane-lab calibrate`) over the measurement
    #[arg(long, value_name = "FILE")]
    with_sim: Option<PathBuf>,
}

/// An element of `--hogs`; an `Option` would be an optional argument to clap.
#[derive(Debug, Clone, Copy)]
struct HogOrNone(Option<Hog>);

fn hog_or_none(text: &str) -> Result<HogOrNone, String> {
    match text {
        "none" => Ok(HogOrNone(None)),
        text => text.parse().map(|hog| HogOrNone(Some(hog))),
    }
}

#[derive(Args)]
pub(crate) struct Disturb {
    #[command(flatten)]
    common: Common,
    /// Packets a second
    #[arg(long, default_value = "200k")]
    pps: Offered,
    /// Reloads in a trial
    #[arg(long, default_value_t = 6)]
    reloads: u32,
}

pub(crate) fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Latency(args) => {
            args.common.check_tidy(true)?;
            let options = Options {
                tcp: args.tcp,
                ..args.common.options()?
            };
            let report = bench::latency(&options, args.offered).map_err(one_line)?;
            args.common.output(&report, report.valid, || {
                report.html(&test_bed::here()).map(Some).map_err(one_line)
            })
        }
        Command::Throughput(args) => {
            args.common.check_tidy(true)?;
            let how = Search {
                loss_tolerance: args.loss,
                width: args.width,
                trials: args.trials,
            };
            let report = bench::throughput(&args.common.options()?, how).map_err(one_line)?;
            args.common.output(&report, report.valid, || Ok(None))
        }
        Command::Disturb(args) => {
            args.common.check_tidy(false)?;
            let Offered::Pps(pps) = args.pps else {
                return Err("--pps takes packets a second, not a multiple".into());
            };
            let plan = Reloads {
                rate: Pps(pps),
                reloads: args.reloads,
            };
            let report = disturb(&args.common.options()?, plan).map_err(one_line)?;
            args.common.output(&report, report.valid, || Ok(None))
        }
        Command::Steps(args) => steps::run(&args),
        Command::Cost(args) => cost::run(&args),
        Command::Call(args) => call::run(&args),
        Command::Rrul(args) => rrul::run(&args),
        Command::Regret(args) => regret::run(&args),
        Command::Sweep(args) => {
            args.common.check_tidy(true)?;
            let options = Options {
                tcp: args.tcp,
                ..args.common.options()?
            };
            let model = args.with_sim.as_ref().map(|f| costs(f, &options));
            let model = model.transpose()?;
            let mut hogs: Vec<Option<Hog>> = args.hogs.iter().map(|hog| hog.0).collect();
            if hogs.is_empty() {
                hogs.push(options.hog);
            }
            let axes = SweepAxes {
                loads: &args.loads,
                rt_ratios: &args.ratios,
                hogs: &hogs,
            };
            let mut report = bench::sweep(&options, axes).map_err(one_line)?;
            if let Some((costs, engines)) = model {
                for point in &mut report.points {
                    let Some(engine) = engines.get(&point.dut.name) else {
                        continue;
                    };
                    let (ratio, pps) = (point.rt_ratio, point.asked_pps);
                    let said = model::predict(&costs, engine, &options.traffic, ratio, pps)?;
                    point.predicted = Some(said);
                }
            }
            args.common.output(&report, true, || {
                report.html(&test_bed::here()).map(Some).map_err(one_line)
            })
        }
    }
}

/// A calibration, and the engine of each device under test; checked before anything is measured.
fn costs(
    file: &std::path::Path,
    options: &Options,
) -> Result<(Scenario, BTreeMap<String, EngineConfig>), String> {
    let loaded = rxlane_sim::scenario::load(file, &[]).map_err(one_line)?;
    let engines = options
        .duts
        .iter()
        .map(|dut| Ok((dut.name().to_owned(), model::engine_of(dut)?)))
        .collect::<Result<_, String>>()?;
    Ok((loaded.scenario, engines))
}
