//! `rxlane-lab bench cost`: what a packet costs, program by program and as a whole.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use clap::Args;
use comfy_table::{CellAlignment, Table, presets};
use rxlane_bench::bare::{Bare, Programs};
use rxlane_bench::bench::{self, Dut, Offered, Options, Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::hog::Hog;
use rxlane_bench::lab::{Firewall, Lab, LabConfig};
use rxlane_bench::median;
use rxlane_bench::results::LatencyReport;
use rxlane_bench::scene::{RUNS, Scene};
use rxlane_bpf::test_run::test_run;
use rxlane_config::{Ingress, RouterConfig};
use rxlane_dataplane::cost::believe;
use rxlane_dataplane::options::{Options as RouterOptions, STAGES};
use rxlane_dataplane::router::Router;
use rxlane_policy::class::{Lane, Trust};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::{Flex, Rule};
use rxlane_system::stop;
use serde::Serialize;

use super::options::{LabArgs, output};
use crate::one_line;

const EF: u8 = 46;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;
/// Routes of a router of the default-free zone.
const FULL_TABLE: u32 = 600_000;
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

/// A configuration to be measured.
struct Case {
    what: &'static str,
    trust: Trust,
    rules: u16,
    police: bool,
    /// A rule looks into the payload, so that nothing is remembered of flows.
    payload: bool,
    /// Of the frame.
    dscp: u8,
    /// Of the fast path, after which it ends; 0: none.
    ends_after: usize,
}

impl Case {
    fn new(what: &'static str, trust: Trust) -> Self {
        Self {
            what,
            trust,
            rules: 1,
            police: false,
            payload: false,
            dscp: EF,
            ends_after: 0,
        }
    }

    /// As the device under test `express`, but for this.
    fn config(&self) -> Result<RouterConfig, String> {
        let dut: Dut = "express".parse()?;
        let mut config = dut
            .config()
            .cloned()
            .ok_or("`express` has no configuration")?;
        config.ports = vec!["in0".into(), "out0".into()];
        // They stand for network cards.
        let in_xdp = |port: &String| (port.clone(), Ingress::Xdp);
        config.ingress = config.ports.iter().map(in_xdp).collect();
        let other = |i: u16| Rule {
            dst_ports: vec![20_000 + i..=20_000 + i],
            ..Rule::default()
        };
        let voice = &mut config.classes[0];
        voice.rules.splice(0..0, (1..self.rules).map(other));
        if self.payload {
            let flex = Flex {
                offset: Flex::MAX_OFFSET,
                value: 0xffff,
                mask: 0xffff,
            };
            voice.rules.push(Rule {
                flex: Some(flex),
                ..Rule::default()
            });
        }
        // More than is ever sent here, so that it is always within the rate.
        voice.police = self.police.then_some(Police {
            rate: Rate::Pps(100_000_000),
            burst: 1_000_000,
        });
        voice.lane = Lane::express(self.trust.clone());
        Ok(config)
    }
}

/// Measures programs in one scene.
struct Bench<'a> {
    scene: &'a Scene,
    bare: &'a Programs,
    rounds: u32,
    found: Vec<ProgramCost>,
}

impl Bench<'_> {
    fn one(&self, program: BorrowedFd<'_>, dscp: u8, action: u32) -> Result<f64, String> {
        let frame = self.scene.frame(dscp);
        // Looking around, in between, may take longer than flows are known. They are by their third packet.
        for _ in 0..2 {
            test_run(program, &frame, self.scene.ingress, RUNS).map_err(one_line)?;
        }
        let (run, ns) = test_run(program, &frame, self.scene.ingress, RUNS).map_err(one_line)?;
        if run.action == action {
            Ok(f64::from(ns))
        } else {
            Err(format!(
                "a test packet went another way (action {} instead of {action}): is something else changing the network?",
                run.action
            ))
        }
    }

    fn measure(
        &self,
        what: &str,
        program: BorrowedFd<'_>,
        dscp: u8,
        action: u32,
        mut before_round: impl FnMut() -> Result<(), String>,
    ) -> Result<ProgramCost, String> {
        let (mut costs, mut quotients) = (Vec::new(), Vec::new());
        for _ in 0..self.rounds {
            stop::check().map_err(one_line)?;
            before_round()?;
            let least = self.one(self.bare.program(Bare::Redirect), EF, REDIRECT)?;
            let ns = self
                .one(program, dscp, action)
                .map_err(|e| format!("{what}: {e}"))?;
            costs.push(ns);
            quotients.push(ns / least.max(1.0));
        }
        Ok(ProgramCost {
            what: what.into(),
            ns: median(costs),
            of_redirect: median(quotients),
        })
    }

    /// What the router's program takes in this configuration.
    fn case(&mut self, case: &Case) -> Result<(), String> {
        let (scene, config) = (self.scene, case.config()?);
        let measured = scene
            .within(|| {
                let file = Path::new("bench-cost.toml");
                let options = RouterOptions {
                    accept_bypass: true,
                    ends_after: case.ends_after,
                    ..RouterOptions::default()
                };
                let mut router = match Router::start(config, file, options, || ()) {
                    Ok(router) => router,
                    Err(e) => return Ok(Err(one_line(e))),
                };
                let measured = self.routed(case, &mut router);
                Ok(router.detach().map_err(one_line).and(measured))
            })
            .map_err(one_line)?;
        self.found.push(measured?);
        Ok(())
    }

    fn routed(&self, case: &Case, router: &mut Router) -> Result<ProgramCost, String> {
        let express = case.dscp == EF;
        if express {
            // Nobody forwards here, so nobody sees it: the first packet asks, and this answers.
            let frame = self.scene.frame(EF);
            test_run(router.program(), &frame, self.scene.ingress, 1).map_err(one_line)?;
            believe(&*router, self.scene.egress, self.scene.mac).map_err(one_line)?;
        }
        let action = if express { REDIRECT } else { PASS };
        let program = router.program().try_clone_to_owned().map_err(one_line)?;
        // What nobody watches is Linux's after ten seconds.
        let watch = || router.keep_watch().map_err(one_line);
        self.measure(case.what, program.as_fd(), case.dscp, action, watch)
    }

    fn bare(&mut self, what: &str, which: Bare) -> Result<(), String> {
        let program = self.bare.program(which);
        let scene = self.scene;
        let measured = scene
            .within(|| Ok(self.measure(what, program, EF, REDIRECT, || Ok(()))))
            .map_err(one_line)?;
        self.found.push(measured?);
        Ok(())
    }
}

/// The fast path, ended after each of its stages: the last line is a known flow's packet.
fn stages(bench: &mut Bench<'_>) -> Result<(), String> {
    for (stage, what) in (1..).zip(STAGES) {
        bench.case(&Case {
            ends_after: stage % STAGES.len(),
            ..Case::new(what, Trust::Established)
        })?;
    }
    Ok(())
}

fn programs(lab: &Lab, rounds: u32, split: bool) -> Result<Vec<ProgramCost>, String> {
    eprintln!("measuring programs");
    let scene = Scene::new(lab).map_err(one_line)?;
    let bare = Programs::load(scene.egress, scene.mac).map_err(one_line)?;
    let mut bench = Bench {
        scene: &scene,
        bare: &bare,
        rounds,
        found: Vec::new(),
    };
    let prefixes = || Trust::Prefixes(["10.10.0.0/16".parse()].into_iter().flatten().collect());
    bench.bare("a bare redirect", Bare::Redirect)?;
    bench.bare("a redirect as the kernel's FIB says", Bare::Fib)?;
    if split {
        stages(&mut bench)?;
        return Ok(bench.found);
    }
    bench.case(&Case {
        dscp: 0,
        ..Case::new("to the stack, 1 rule", Trust::All)
    })?;
    bench.case(&Case {
        dscp: 0,
        rules: 255,
        ..Case::new("to the stack, 255 rules", Trust::All)
    })?;
    bench.case(&Case::new("express, all", Trust::All))?;
    bench.case(&Case {
        rules: 255,
        ..Case::new("express, all, 255 rules", Trust::All)
    })?;
    bench.case(&Case {
        police: true,
        ..Case::new("express, all, within a rate", Trust::All)
    })?;
    bench.case(&Case::new("express, prefixes", prefixes()))?;
    bench.case(&Case {
        payload: true,
        ..Case::new(
            "express, established, nothing remembered",
            Trust::Established,
        )
    })?;
    bench.case(&Case::new("express, established", Trust::Established))?;
    bench.case(&Case {
        rules: 255,
        police: true,
        ..Case::new(
            "express, established, 255 rules, within a rate",
            Trust::Established,
        )
    })?;
    scene.set_rp_filter(2).map_err(one_line)?;
    bench.case(&Case::new(
        "express, established, rp_filter = 2",
        Trust::Established,
    ))?;
    scene.set_rp_filter(0).map_err(one_line)?;
    eprintln!("adding {FULL_TABLE} routes");
    scene.add_routes(FULL_TABLE).map_err(one_line)?;
    bench.bare(
        "a redirect as the kernel's FIB says, 600,000 routes",
        Bare::Fib,
    )?;
    bench.case(&Case::new("express, all, 600,000 routes", Trust::All))?;
    bench.case(&Case::new(
        "express, established, 600,000 routes",
        Trust::Established,
    ))?;
    Ok(bench.found)
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
    let programs = pinned.and_then(|()| programs(&built, args.rounds, args.split));
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
