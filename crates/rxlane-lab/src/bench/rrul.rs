//! `rxlane-lab bench rrul`: realtime response under load.

use std::path::PathBuf;

use clap::Args;
use rxlane_bench::bench::Dut;
use rxlane_bench::call::{Direction, Load, Options, rrul};
use rxlane_bench::lab::Firewall;

use super::call::{Hosts, Link, link, on_or_off};
use super::options::output;
use crate::{one_line, test_bed};

#[derive(Args)]
pub(crate) struct Rrul {
    /// Devices under test, alternating
    #[arg(
        long,
        default_value = "kernel,express-established",
        value_delimiter = ','
    )]
    dut: Vec<Dut>,
    /// Firewall: none, linear:N, stateful:N, flowtable:N
    #[arg(long, default_value = "stateful:60")]
    firewall: Firewall,
    /// Gbit/s that the link to each host takes; none: as much as the hosts' core does
    #[arg(long, default_value = "none", value_name = "GBPS|none", value_parser = link)]
    link_out: Link,
    /// Congestion control, by its name in Linux: cubic, bbr, reno
    #[arg(long, default_value = "cubic", value_name = "NAME")]
    congestion: String,
    /// Whether both ends negotiate ECN: off, on
    #[arg(long, default_value = "off", value_name = "off|on", value_parser = on_or_off)]
    ecn: bool,
    /// How long the load lasts, s; probes begin five seconds before it, and end five behind it
    #[arg(long, default_value_t = 30.0)]
    seconds: f64,
    /// Repetitions; all are shown, because with some queues a trial ends in one of two ways
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    /// Write a data file of flent for each trial into this directory, for `flent -i rrul-*.flent.gz -p all_scaled -o FILE`
    #[arg(long, value_name = "DIR")]
    flent: Option<PathBuf>,
    /// Write an HTML report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    hosts: Hosts,
    /// Print JSON (docs/src/reference/bench-json.md)
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Rrul) -> Result<(), String> {
    let load = Load {
        firewall: args.firewall,
        flows: 0,
        direction: Direction::Both,
        congestion: args.congestion.clone(),
        ecn: args.ecn,
        link_bps: args.link_out.0,
        link_in_bps: None,
    };
    let options = Options {
        seconds: args.seconds,
        repeat: args.repeat,
        ..args.hosts.options(&args.dut)?
    };
    if let Some(dir) = &args.flent {
        std::fs::create_dir_all(dir).map_err(|e| format!("make {}: {e}", dir.display()))?;
    }
    let report = rrul(&options, &load).map_err(one_line)?;
    for trial in &report.trials {
        let Some(dir) = &args.flent else { break };
        let path = dir.join(trial.file());
        crate::output::file(&path, &report.flent(trial).map_err(one_line)?)?;
        eprintln!("wrote {}", path.display());
    }
    output(&report, args.json, args.html.as_deref(), || {
        report.html(&test_bed::here()).map(Some).map_err(one_line)
    })
}
