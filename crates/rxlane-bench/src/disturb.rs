//! What happens to a router on an ordinary day, and what it costs in packets: reloads, restarts, the death of the daemon, a firewall
//! that is loaded anew, a port that goes down and comes back, another MTU. Beside it the same for the kernel, and nothing
//! happening at all.
//!
//! A machine that shares its cores with others loses packets by itself now and then, so every kind of
//! disturbance alternates with undisturbed trials of the same length.

use std::time::Duration;

use crate::dut::Dut;
use crate::installed::Installed;
use crate::lab::{Lab, Place};
use crate::median::median;
use crate::options::Options;
use crate::results::{DisturbanceReport, Disturbed};
use crate::session::{Session, in_lab};
use crate::shell::run;
use crate::threads::Threads;
use crate::trial::Trial;
use nix::sys::signal::Signal;
use rxlane_policy::Pps;
use rxlane_system::stop;

use crate::BenchError;

/// The daemon verifies its programs on the generator's core, which pauses meanwhile: for some 0.3 s when it begins anew.
const KEPT_UP: f64 = 0.85;

/// What happens while packets are under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disturbance {
    /// Nothing: what the machine loses by itself.
    None,
    /// Reloads, each with another configuration than the one before.
    Reload,
    /// SIGKILL. The programs stay attached.
    Kill,
    /// `systemctl restart`: the next daemon takes the programs over.
    Restart,
    /// What an upgrade does that brings other programs: they are removed, and those of the next daemon attached.
    Anew,
    /// `systemctl stop`: the programs are removed, and the kernel forwards.
    Stop,
    /// The firewall is flushed and loaded again, in one transaction.
    Firewall,
    /// The ingress port goes down and comes back 100 ms later.
    Flap,
    /// The egress port gets a smaller MTU, through which the packets still fit, and then the old one.
    Mtu,
}

/// How long a port stays down.
const DOWN: Duration = Duration::from_millis(100);

impl Disturbance {
    /// What is tried on a device, in this order.
    fn of(dut: &Dut) -> &'static [Self] {
        match dut {
            Dut::Rxlane(..) => &[
                Self::None,
                Self::Reload,
                Self::Kill,
                Self::Restart,
                Self::Anew,
                Self::Stop,
                Self::Firewall,
                Self::Flap,
                Self::Mtu,
            ],
            // It has no daemon.
            _ => &[Self::None, Self::Firewall, Self::Flap, Self::Mtu],
        }
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "nothing",
            Self::Reload => "reload",
            Self::Kill => "kill -9",
            Self::Restart => "restart",
            Self::Anew => "stop and start",
            Self::Stop => "stop",
            Self::Firewall => "firewall",
            Self::Flap => "port flap",
            Self::Mtu => "MTU",
        }
    }
}

/// Reloads of one trial, spread over its length.
#[derive(Debug, Clone, Copy)]
pub struct Reloads {
    /// Rate offered.
    pub rate: Pps,
    /// Reloads in a trial.
    pub reloads: u32,
}

/// Loss under every disturbance, in turn, `repeat` times.
///
/// # Errors
/// What [`BenchError`] names, and a reload that the daemon refuses.
pub fn disturb(options: &Options, plan: Reloads) -> Result<DisturbanceReport, BenchError> {
    if !options.duts.iter().any(|d| matches!(d, Dut::Rxlane(..))) {
        return Err(BenchError::Parameter(
            "--dut names no rxlane, and nothing else reloads: use express".into(),
        ));
    }
    let plans: Vec<(&Dut, Disturbance)> = options
        .duts
        .iter()
        .flat_map(|dut| Disturbance::of(dut).iter().map(move |what| (dut, *what)))
        .collect();
    if plan.reloads == 0 || f64::from(plan.reloads) * 0.1 > options.seconds {
        return Err(BenchError::Parameter(format!(
            "--reloads {}: use at least 1, and at most 10 a second of --seconds",
            plan.reloads
        )));
    }
    let steps = plans.len() as u64 * u64::from(options.repeat);
    in_lab(options, steps, |session| {
        let mut trials: Vec<Vec<Trial>> = vec![Vec::new(); plans.len()];
        let mut stolen = vec![0u64; plans.len()];
        for round in 0..options.repeat {
            for ((of, stolen), (dut, what)) in trials.iter_mut().zip(&mut stolen).zip(&plans) {
                session.bar.set_message(format!(
                    "{}, {}, round {}",
                    dut.name(),
                    what.name(),
                    round + 1
                ));
                let before = stolen_ms();
                of.push(disturbed(session, dut, options.seconds, plan, *what)?);
                *stolen += stolen_ms().saturating_sub(before);
                session.bar.inc(1);
            }
        }
        Ok(DisturbanceReport {
            valid: trials
                .iter()
                .flatten()
                .all(|t| t.sent_pps >= KEPT_UP * plan.rate.0),
            offered_pps: plan.rate.0,
            seconds: options.seconds,
            repeat: options.repeat,
            reloads: plan.reloads,
            traffic: options.traffic.clone(),
            settings: session.settings(),
            disturbances: plans
                .iter()
                .zip(&trials)
                .zip(stolen)
                .map(|(((dut, what), trials), stolen_ms)| Disturbed {
                    stolen_ms,
                    ..summarise(dut, *what, trials)
                })
                .collect(),
        })
    })
}

fn disturbed(
    session: &mut Session,
    dut: &Dut,
    seconds: f64,
    plan: Reloads,
    what: Disturbance,
) -> Result<Trial, BenchError> {
    let Some(lab) = session.lab.clone() else {
        return Err(BenchError::Parameter(
            "a disturbance needs a lab: leave out --in and --out".into(),
        ));
    };
    let mut installed = dut.install(&lab)?;
    session.settings = lab.tune()?;
    let mut outcome = Ok(());
    let trial = session.bed.run_with(
        plan.rate,
        Duration::from_secs_f64(seconds),
        &Threads::default(),
        || {
            outcome = act(&lab, &mut installed, what, plan.reloads, seconds);
        },
    )?;
    outcome?;
    Ok(trial)
}

fn act(
    lab: &Lab,
    installed: &mut Installed,
    what: Disturbance,
    reloads: u32,
    seconds: f64,
) -> Result<(), BenchError> {
    let gap = Duration::from_secs_f64(seconds / f64::from(reloads + 1));
    let middle = || stop::sleep(Duration::from_secs_f64(seconds / 2.0));
    let router = lab.netns(Place::Router);
    match what {
        Disturbance::None => Ok(()),
        Disturbance::Firewall => {
            middle()?;
            lab.load_firewall()
        }
        Disturbance::Flap => {
            middle()?;
            run(&format!("ip -n {router} link set in0 down"))?;
            let waited = stop::sleep(DOWN);
            run(&format!("ip -n {router} link set in0 up"))?;
            Ok(waited?)
        }
        Disturbance::Mtu => {
            middle()?;
            run(&format!("ip -n {router} link set out0 mtu 1400"))?;
            run(&format!("ip -n {router} link set out0 mtu 1500"))?;
            Ok(())
        }
        Disturbance::Kill => {
            middle()?;
            installed.end(Signal::SIGKILL);
            Ok(())
        }
        Disturbance::Restart => {
            middle()?;
            installed.end(Signal::SIGUSR1);
            installed.start()
        }
        Disturbance::Anew => {
            middle()?;
            installed.end(Signal::SIGTERM);
            installed.start()
        }
        Disturbance::Stop => {
            middle()?;
            installed.end(Signal::SIGTERM);
            Ok(())
        }
        Disturbance::Reload => {
            for i in 0..reloads {
                stop::sleep(gap)?;
                installed.reload(i % 2 == 0)?;
            }
            Ok(())
        }
    }
}

/// Time that a hypervisor took from all cores of this machine since it started, in ms, to 10 ms.
pub fn stolen_ms() -> u64 {
    let text = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let ticks = text
        .lines()
        .next()
        .and_then(|cpu| cpu.split_whitespace().nth(8)?.parse::<u64>().ok());
    ticks.unwrap_or(0) * 10
}

fn summarise(dut: &Dut, what: Disturbance, trials: &[Trial]) -> Disturbed {
    let lost = |class: usize| trials.iter().map(move |t| t.classes[class].lost);
    Disturbed {
        dut: dut.name().into(),
        name: what.name().into(),
        sent: median(
            trials
                .iter()
                .map(|t| t.classes.iter().map(|c| c.sent).sum()),
        ),
        stolen_ms: 0,
        rt_lost: lost(0).collect(),
        be_lost: lost(1).collect(),
        reordered: trials
            .iter()
            .flat_map(|t| &t.classes)
            .map(|c| c.reordered)
            .sum(),
    }
}
