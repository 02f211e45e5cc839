//! A lab, or real ports, with a bed in it: where trials are made.

use std::collections::BTreeMap;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rxlane_policy::Pps;
use rxlane_system::{Tried, netns, stop};

use crate::BenchError;
use crate::bed::Bed;
use crate::dut::Dut;
use crate::hog::{self, Hog};
use crate::installed::Installed;
use crate::lab::{Lab, LabConfig, Place, Settings};
use crate::options::Options;
use crate::threads::Threads;
use crate::trial::Trial;
use crate::wire::{RealPorts, Wire};

/// How often a trial whose generator fell behind is tried again before a run is invalid.
pub(crate) const RETRIES: u32 = 4;

pub(crate) struct Session {
    pub(crate) lab: Option<Lab>,
    pub(crate) bed: Bed,
    pub(crate) settings: Settings,
    pub(crate) bar: ProgressBar,
    /// As [`RETRIES`], or fewer where that is likely.
    pub(crate) retries: u32,
    hog: Option<Hog>,
    /// What of TCP is beside the packets.
    tcp: Option<String>,
}

impl Session {
    fn new(
        lab: Option<Lab>,
        bed: Bed,
        settings: Settings,
        bar: &ProgressBar,
        options: &Options,
    ) -> Result<Self, BenchError> {
        let mut session = Self {
            lab,
            bed,
            settings,
            bar: bar.clone(),
            retries: RETRIES,
            hog: None,
            tcp: None,
        };
        session.share_core_with(options.hog)?;
        session.bed.share_router_with(options.tcp)?;
        if let (Some(lab), 1..) = (&session.lab, options.tcp) {
            let name = netns::within(&lab.netns(Place::Gen), false, || {
                let file = "/proc/sys/net/ipv4/tcp_congestion_control";
                std::fs::read_to_string(file).tried(|| format!("read {file}"))
            })?;
            let text = format!("{} bulk connections, {}", options.tcp, name.trim());
            session.tcp = Some(text);
        }
        Ok(session)
    }

    /// From now on this takes its part of the router's core in each trial.
    pub(crate) fn share_core_with(&mut self, hog: Option<Hog>) -> Result<(), BenchError> {
        self.bed.share_core_with(hog)?;
        self.hog = hog;
        Ok(())
    }

    /// What everything was measured under.
    pub(crate) fn settings(&self) -> BTreeMap<String, String> {
        let mut settings = self.settings.settings.clone();
        if let Some(hog) = self.hog {
            let text = format!(
                "takes {hog} of the router's core at SCHED_FIFO {}",
                hog::FIFO_PRIORITY
            );
            settings.insert("hog".into(), text);
        }
        if let Some(reason) = self.bed.unsampled() {
            settings.insert(
                "what the core does".into(),
                format!("not sampled: {reason}"),
            );
        }
        if let Some(tcp) = &self.tcp {
            settings.insert("tcp".into(), tcp.clone());
        }
        settings
    }

    /// Puts a device in charge of the lab's router; behind real ports there is one already.
    pub(crate) fn install(
        &mut self,
        dut: &Dut,
    ) -> Result<(Option<Installed>, Threads), BenchError> {
        let mut installed = None;
        let mut workers = Vec::new();
        if let Some(lab) = &self.lab {
            let router = dut.install(lab)?;
            // Attaching programs makes new NAPI threads, so they are placed again for each device.
            self.settings = lab.tune()?;
            workers = router.workers();
            installed = Some(router);
        }
        let threads = Threads {
            napi: self.settings.napi_threads.clone(),
            traffic: self.settings.traffic_threads.clone(),
            workers,
            ingress: self.lab.as_ref().map(|lab| {
                let ports = lab.wires().into_iter();
                let ins = ports.filter(|p| p.starts_with("in")).collect();
                (lab.netns(Place::Router), ins)
            }),
        };
        Ok((installed, threads))
    }

    pub(crate) fn trial(&mut self, dut: &Dut, pps: f64, seconds: f64) -> Result<Trial, BenchError> {
        let (installed, threads) = self.install(dut)?;
        let (rate, length) = (Pps(pps), Duration::from_secs_f64(seconds));
        let mut trial = self.bed.run(rate, length, &threads)?;
        for _ in 0..self.retries {
            if trial.valid {
                break;
            }
            trial = self.bed.run(rate, length, &threads)?;
        }
        drop(installed);
        self.bar.inc(1);
        Ok(trial)
    }
}

/// Whether there are devices, and trials of at least so many seconds.
pub(crate) fn check(
    duts: &[Dut],
    seconds: f64,
    least_s: f64,
    repeat: u32,
) -> Result<(), BenchError> {
    let wrong = |text: String| Err(BenchError::Parameter(text));
    if duts.is_empty() {
        return wrong("--dut is empty: name at least one device under test".into());
    }
    if !(least_s..=3600.0).contains(&seconds) {
        return wrong(format!("--seconds {seconds}: use {least_s} to 3600"));
    }
    if !(1..=1000).contains(&repeat) {
        return wrong(format!("--repeat {repeat}: use 1 to 1000"));
    }
    Ok(())
}

/// How far a measurement of so many steps has come, on the terminal.
pub(crate) fn progress(steps: u64) -> ProgressBar {
    let bar = ProgressBar::new(steps);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {pos}/{len} {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message("building the lab");
    bar.enable_steady_tick(Duration::from_millis(500));
    bar
}

/// Builds the lab, measures, and removes it whatever happens.
pub(crate) fn in_lab<T>(
    options: &Options,
    steps: u64,
    measure: impl FnOnce(&mut Session) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    check(&options.duts, options.seconds, 0.1, options.repeat)?;
    stop::listen();
    let bar = progress(steps);
    let outcome = match &options.ports {
        Some(ports) => on_ports(options, ports, &bar, measure),
        None => {
            let lab = Lab::up(LabConfig {
                router_core_halts: options.lab.router_core_halts || serves_rings(options),
                ..options.lab.clone()
            })?;
            let outcome = Bed::new(&lab, &options.traffic).and_then(|bed| {
                let settings = lab.tune()?;
                let lab = Some(lab.clone());
                measure(&mut Session::new(lab, bed, settings, &bar, options)?)
            });
            lab.down()?;
            outcome
        }
    };
    bar.finish_and_clear();
    outcome
}

/// Whether packets wait in a ring for its thread. That is an ordinary one, which what soaks up idle time would starve.
fn serves_rings(options: &Options) -> bool {
    options.tcp > 0 || options.duts.iter().any(Dut::queues)
}

/// Measures a router on another machine, or one that somebody else set up.
fn on_ports<T>(
    options: &Options,
    ports: &RealPorts,
    bar: &ProgressBar,
    measure: impl FnOnce(&mut Session) -> Result<T, BenchError>,
) -> Result<T, BenchError> {
    if options.duts.len() != 1 {
        return Err(BenchError::Parameter(
            "with --in and --out there is one device: name it with --dut".into(),
        ));
    }
    let bed = Bed::on(&Wire::of_ports(ports)?, &options.traffic)?;
    let settings = Settings::of_ports(&ports.ingress, &ports.egress, ports.traffic_core);
    measure(&mut Session::new(None, bed, settings, bar, options)?)
}
