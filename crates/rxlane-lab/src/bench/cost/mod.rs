//! `rxlane-lab bench cost`: what a packet costs, program by program and as a whole.

mod programs;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use rxlane_bench::bench::{self, Dut, Offered, Options, Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::hog::Hog;
use rxlane_bench::lab::{Firewall, Lab, LabConfig};
use rxlane_bench::results::LatencyReport;
use rxlane_system::stop;
use serde::Serialize;

use super::options::{LabArgs, output};
use crate::one_line;

/// Devices whose whole packets are measured, cheapest first.
const WHOLE: [&str; 7] = [
    "xdp-drop",
    "xdp-redirect",
    "xdp-fib",
    "express-all",
    "express-all-established",
    "express",
    "kernel",
];

#[derive(Args)]
pub(crate) struct Cost {
    /// Test runs of each program, in hundreds of packets; the median counts
    #[arg(long, default_value_t = 400, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    rounds: u32,
    /// Whole packets are measured at this rate, at which the ring should never be empty; 0: only programs
    #[arg(long, default_value = "1M", value_parser = rate)]
    pps: f64,
    /// What takes its part of the router's core meanwhile, so that a rate is more than the core takes, polls are full, and
    /// waking is no part of what a packet costs
    #[arg(long, default_value = "400/500us", value_name = "TAKES/EVERY")]
    hog: Hog,
    /// Length of a trial
    #[arg(long, default_value_t = 1.0)]
    seconds: f64,
    /// Trials of each device; results are medians
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// What each stage of the fast path takes, instead of all programs
    #[arg(long)]
    split: bool,
    #[command(flatten)]
    lab: LabArgs,
    /// Print JSON (docs/src/reference/bench-json.md)
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        _ if text == "0" => Ok(0.0),
        Ok(Offered::Pps(pps)) => Ok(pps),
        _ => Err("use packets a second (400k), or 0".into()),
    }
}

/// What a program takes.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct ProgramCost {
    /// What is done.
    what: String,
    /// Median of the test runs, ns a packet.
    ns: f64,
    /// Median of the quotients of these and of runs of the bare redirect right before them.
    of_redirect: f64,
}

/// What a packet takes of the router's threads, with driver, sending and waking.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct PacketCost {
    /// Device.
    dut: String,
    /// Run time by packets taken from the ring, ns; median.
    ns: f64,
    /// Packets a second that it forwarded; median.
    forwarded_pps: f64,
}

#[derive(Debug, Serialize)]
struct CostReport {
    /// False when the generator fell behind.
    valid: bool,
    programs: Vec<ProgramCost>,
    /// Rate at which whole packets were measured.
    offered_pps: f64,
    /// Beside this.
    hog: Hog,
    packets: Vec<PacketCost>,
}

fn packets(args: &Cost, config: LabConfig) -> Result<LatencyReport, String> {
    let duts = WHOLE.iter().map(|name| name.parse::<Dut>());
    let options = Options {
        lab: config,
        ports: None,
        hog: Some(args.hog),
        tcp: 0,
        traffic: Traffic {
            rt_ratio: 0.2,
            pattern: Pattern::Poisson,
            frame: Frame::Fixed(128),
            flows: 16,
            seed: 1,
        },
        duts: duts.collect::<Result<_, _>>()?,
        seconds: args.seconds,
        repeat: args.repeat,
    };
    bench::latency(&options, Offered::Pps(args.pps)).map_err(one_line)
}

pub(super) fn run(args: &Cost) -> Result<(), String> {
    let config = LabConfig {
        // Its rules are passed by; what matters is that there is connection tracking.
        firewall: Firewall::Stateful(2),
        ..args.lab.config()?
    };
    stop::listen();
    let built = Lab::up(config.clone()).map_err(one_line)?;
    let pinned = rxlane_system::threads::pin(0, config.router_core).map_err(one_line);
    let programs = pinned.and_then(|()| programs::programs(&built, args.rounds, args.split));
    built.down().map_err(one_line)?;
    let mut report = CostReport {
        valid: true,
        programs: programs?,
        offered_pps: args.pps,
        hog: args.hog,
        packets: Vec::new(),
    };
    if args.pps > 0.0 && !args.split {
        let measured = packets(args, config)?;
        report.valid = measured.valid;
        report.packets = measured
            .duts
            .iter()
            .filter_map(|dut| {
                Some(PacketCost {
                    dut: dut.name.clone(),
                    ns: dut.packet_ns?,
                    forwarded_pps: dut.forwarded_pps,
                })
            })
            .collect();
    }
    output(&report, args.json, None, || Ok(None))?;
    if report.valid {
        Ok(())
    } else {
        Err("invalid run: the generator fell behind; offer less (--pps)".into())
    }
}

impl std::fmt::Display for CostReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let table = |header: [&str; 3]| {
            let mut table = Table::new();
            table.load_style(presets::NOTHING).set_header(header);
            for i in 1..3 {
                if let Some(column) = table.column_mut(i) {
                    column.set_cell_alignment(CellAlignment::Right);
                }
            }
            table
        };
        let mut programs = table(["program", "ns", "of a bare redirect"]);
        for p in &self.programs {
            programs.add_row([
                p.what.clone(),
                format!("{:.0}", p.ns),
                format!("{:.2}", p.of_redirect),
            ]);
        }
        write!(
            f,
            "a packet in the programs, everything in the caches:\n\n{programs}\n"
        )?;
        if self.packets.is_empty() {
            return Ok(());
        }
        let mut packets = table(["router", "ns", "forwarded Mpps"]);
        for p in &self.packets {
            packets.add_row([
                p.dut.clone(),
                format!("{:.0}", p.ns),
                format!("{:.3}", p.forwarded_pps / 1e6),
            ]);
        }
        write!(
            f,
            "\na packet on the router's core, with its driver, whatever became of it; {:.0} kpps, 20 % RT, behind a stateful firewall, with a hog of {}:\n\n{packets}\n",
            self.offered_pps / 1e3,
            self.hog
        )
    }
}
