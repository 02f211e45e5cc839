//! `rxlane-lab bench regret`: the whole matrix of loads, firewalls, frames and shares of RT.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Args;
use rxlane_bench::bench::{Dut, Offered, Options, Pattern, Traffic};
use rxlane_bench::call;
use rxlane_bench::call::CallReport;
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::Firewall;
use rxlane_bench::regret::{Matrix, regret};

use super::call::Hosts;
use super::options::{LabArgs, output};
use crate::{one_line, test_bed, tidy};

/// A connection needs some time to find its rate, and does so differently each time.
const LEAST_S: f64 = 3.0;
const LEAST_ROUNDS: u32 = 3;

#[derive(Args)]
pub(crate) struct Regret {
    /// Devices under test, alternating; ratios are to the first
    #[arg(
        long,
        default_value = "kernel,express,express-established",
        value_delimiter = ','
    )]
    dut: Vec<Dut>,
    /// Multiples of what the kernel forwards without loss
    #[arg(
        long,
        default_value = "0.1x,0.5x,0.9x,1.2x,2x,4x",
        value_delimiter = ','
    )]
    loads: Vec<Offered>,
    /// Firewalls: none, linear:N, stateful:N, flowtable:N
    #[arg(
        long,
        default_value = "none,stateful:60,linear:60",
        value_delimiter = ','
    )]
    firewalls: Vec<Firewall>,
    /// Ethernet frame sizes with FCS, bytes, or imix
    #[arg(long, default_value = "64,128,imix,1500", value_delimiter = ',')]
    frames: Vec<Frame>,
    /// Shares of packets marked EF
    #[arg(long, default_value = "0,0.05,0.2,0.5", value_delimiter = ',')]
    ratios: Vec<f64>,
    /// Long TCP downloads beside calls, behind each firewall, once all points are there; 0: none
    #[arg(
        long,
        default_value = "1,8",
        value_delimiter = ',',
        value_name = "CONNECTIONS"
    )]
    tcp: Vec<u32>,
    /// Flows of each class
    #[arg(long, default_value_t = 16)]
    flows: u32,
    /// Length of a trial
    #[arg(long, default_value_t = 0.5)]
    seconds: f64,
    /// Repetitions; a point that looks worse than wanted gets two more
    #[arg(long, default_value_t = 1)]
    repeat: u32,
    /// Keep each point in this file, and go on from what is in it
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Begin no new point after so many minutes
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    #[command(flatten)]
    lab: LabArgs,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON (docs/src/reference/bench-json.md)
    #[arg(long)]
    json: bool,
    /// Write results in the form that the simulator has, too, by the file's end: .json, .csv or .parquet (docs/src/reference/results.md)
    #[arg(long, value_name = "FILE")]
    tidy: Option<PathBuf>,
    /// Write a self-contained HTML page with heat maps
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

impl Regret {
    fn matrix(&self) -> Result<Matrix, String> {
        let loads = self.loads.iter().map(|load| match load {
            Offered::TimesKernel(times) => Ok(*times),
            Offered::Pps(_) => Err("--loads takes multiples of the kernel's capacity: 0.5x,2x"),
        });
        Ok(Matrix {
            firewalls: self.firewalls.clone(),
            frames: self.frames.clone(),
            rt_ratios: self.ratios.clone(),
            loads: loads.collect::<Result<_, _>>()?,
        })
    }
}

impl Regret {
    /// Closed loops, which the points have none of.
    fn calls(&self) -> Result<Option<CallReport>, String> {
        let flows: Vec<u32> = self.tcp.iter().copied().filter(|n| *n > 0).collect();
        if flows.is_empty() {
            return Ok(None);
        }
        let matrix = call::Matrix {
            firewalls: self.firewalls.clone(),
            flows,
            directions: vec![call::Direction::Down],
            congestions: vec!["cubic".into()],
            ecn: vec![false],
            links_bps: vec![None],
            links_in_bps: vec![None],
        };
        let options = call::Options {
            calls: 4,
            seconds: self.seconds.max(LEAST_S),
            repeat: self.repeat.max(LEAST_ROUNDS),
            ..Hosts::default_of(self.lab.config()?, &self.dut)
        };
        call::call(&options, &matrix).map(Some).map_err(one_line)
    }
}

pub(super) fn run(args: &Regret) -> Result<(), String> {
    args.tidy.as_deref().map(tidy::format).transpose()?;
    let matrix = args.matrix()?;
    let until = args
        .minutes
        .map(|m| Instant::now() + Duration::from_secs(60 * m));
    let options = Options {
        lab: args.lab.config()?,
        ports: None,
        hog: None,
        tcp: 0,
        traffic: Traffic {
            rt_ratio: 0.0,
            pattern: Pattern::Poisson,
            frame: Frame::Fixed(128),
            flows: args.flows,
            seed: args.seed,
        },
        duts: args.dut.clone(),
        seconds: args.seconds,
        repeat: args.repeat,
    };
    let mut report = regret(&options, &matrix, args.record.as_deref(), until).map_err(one_line)?;
    if report.complete && until.is_none_or(|end| Instant::now() < end) {
        report.calls = args.calls()?;
    }
    output(&report, args.json, args.html.as_deref(), || {
        report.html(&test_bed::here()).map(Some).map_err(one_line)
    })?;
    match &args.tidy {
        Some(path) => tidy::write(&report, path),
        None => Ok(()),
    }
}
