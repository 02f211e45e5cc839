//! Test runs of programs, one configuration after the other.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rxlane_bench::bare::{Bare, Programs};
use rxlane_bench::bench::Dut;
use rxlane_bench::lab::Lab;
use rxlane_bench::median;
use rxlane_bench::scene::{RUNS, Scene};
use rxlane_bpf::test_run::test_run;
use rxlane_config::{Flows, Ingress, RouterConfig};
use rxlane_dataplane::cost::believe;
use rxlane_dataplane::options::{Options as RouterOptions, STAGES};
use rxlane_dataplane::router::Router;
use rxlane_policy::class::{Lane, Trust};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::{Flex, Rule};
use rxlane_system::stop;

use super::ProgramCost;
use crate::one_line;

const EF: u8 = 46;
const PASS: u32 = 2;
const REDIRECT: u32 = 4;
/// Routes of a router of the default-free zone.
const FULL_TABLE: u32 = 600_000;

/// A configuration to be measured.
struct Case {
    what: &'static str,
    trust: Trust,
    rules: u16,
    police: bool,
    /// A rule looks into the payload, so that nothing is remembered of flows.
    payload: bool,
    /// Flows are counted.
    counted: bool,
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
            counted: false,
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
                    flows: case.counted.then_some(Flows::DEFAULT),
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

pub(super) fn programs(lab: &Lab, rounds: u32, split: bool) -> Result<Vec<ProgramCost>, String> {
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
    bench.case(&Case {
        counted: true,
        ..Case::new("express, all, flows counted", Trust::All)
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
        counted: true,
        ..Case::new("express, established, flows counted", Trust::Established)
    })?;
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
