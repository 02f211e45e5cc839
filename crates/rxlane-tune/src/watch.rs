//! Controllers: interrupt moderation that follows the packet rate, and cores that follow the load.
//!
//! A decision every tick, a change rarely: an interval is written when it is off by more than an eighth and a
//! second has passed, a core is left for one that is less loaded by a margin over ten seconds. Every change goes
//! through the journal, so `status` shows it and stopping undoes it.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use rxlane_policy::throttle::{Sample, Throttle, Throttler, Throttling};
use rxlane_policy::{Nanos, Pps};

use crate::TuneError;
use crate::apply::turn;
use crate::inventory::{Inventory, Window, nic};
use crate::journal::Journal;
use crate::load::{Counters, Load};
use crate::plan::{Area, Options, TunePlan};
use crate::{Knob, Machine, Value};
use rxlane_system::ethtool::Setting;

/// Between two writes of a port's interval.
const SETTLE_NS: u64 = 1_000_000_000;
/// An interval that is off by less than this share of it stays.
const TOLERANCE: u64 = 8;
/// Samples of cores' loads, and the time between them.
const LOADS: usize = 10;
const LOAD_NS: u64 = 1_000_000_000;

/// What to control.
#[derive(Debug, Clone)]
pub struct Control {
    /// Interfaces that are followed.
    pub ports: Vec<String>,
    /// The law of moderation; [`Throttling::Off`] leaves moderation alone.
    pub law: Throttling,
    /// Whether interrupts follow the load of cores.
    pub cores: bool,
}

/// Something that was changed, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Changed {
    /// The knob that was turned.
    pub knob: Knob,
    /// Its new value.
    pub to: Value,
    /// Why.
    pub why: String,
}

/// How a port's interval is set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Actuator {
    /// The driver's interrupt interval (`ethtool -C rx-usecs`).
    RxUsecs,
    /// NAPI deferral, for drivers without.
    Deferral,
}

struct Port {
    name: String,
    queues: u64,
    actuator: Actuator,
    throttler: Throttler,
    /// Packets, bytes, and when.
    last: Option<(u64, u64, u64)>,
    interval_ns: Option<u64>,
    written_ns: u64,
}

/// The controllers' state.
pub struct Watch {
    control: Control,
    ports: Vec<Port>,
    loads: VecDeque<BTreeMap<usize, Load>>,
    counters: Option<(u64, Counters)>,
    placed_ns: u64,
    /// CPU time of ports' NAPI threads when their cores were last looked at.
    thread_ns: BTreeMap<String, u64>,
    /// Number of decisions since the start.
    pub decisions: u64,
}

impl Watch {
    /// Begins; nothing is changed yet.
    ///
    /// # Errors
    /// A law without sense, a port that does not exist.
    pub fn new(machine: &dyn Machine, control: Control) -> Result<Self, TuneError> {
        let ports = control
            .ports
            .iter()
            .filter(|_| control.law != Throttling::Off)
            .map(|name| Port::new(machine, name, &control.law))
            .collect::<Result<Vec<Port>, TuneError>>()?;
        Ok(Self {
            control,
            ports,
            loads: VecDeque::new(),
            counters: None,
            placed_ns: 0,
            thread_ns: BTreeMap::new(),
            decisions: 0,
        })
    }

    /// One round of decisions at `now`; returns what was changed.
    ///
    /// # Errors
    /// When the kernel refuses a value or the journal cannot be written. A port that is gone is no error: it is
    /// taken up again when it is back.
    pub fn tick(
        &mut self,
        machine: &dyn Machine,
        journal: &mut Journal,
        Nanos(now_ns): Nanos,
    ) -> Result<Vec<Changed>, TuneError> {
        let mut changed = Vec::new();
        for port in &mut self.ports {
            self.decisions += 1;
            if let Some((interval_ns, why)) = port.decide(machine, now_ns) {
                port.write(machine, journal, interval_ns, &why, &mut changed)?;
                port.written_ns = now_ns;
            }
        }
        if self.control.cores {
            self.place(machine, journal, now_ns, &mut changed)?;
        }
        Ok(changed)
    }

    fn place(
        &mut self,
        machine: &dyn Machine,
        journal: &mut Journal,
        now_ns: u64,
        changed: &mut Vec<Changed>,
    ) -> Result<(), TuneError> {
        match &self.counters {
            Some((then_ns, _)) if now_ns - then_ns < LOAD_NS => return Ok(()),
            Some((_, before)) => {
                let now = Counters::read(machine);
                if self.loads.len() == LOADS {
                    self.loads.pop_front();
                }
                self.loads.push_back(now.since(before));
                self.counters = Some((now_ns, now));
            }
            None => {
                self.counters = Some((now_ns, Counters::read(machine)));
                return Ok(());
            }
        }
        if self.loads.len() < LOADS || now_ns - self.placed_ns < LOADS as u64 * LOAD_NS {
            return Ok(());
        }
        let window_ns = (now_ns - self.placed_ns) as f64;
        self.placed_ns = now_ns;
        self.decisions += 1;
        let there = machine.list("/sys/class/net");
        let ports: Vec<String> = self
            .control
            .ports
            .iter()
            .filter(|p| there.contains(p))
            .cloned()
            .collect();
        if ports.is_empty() {
            return Ok(());
        }
        let at_once = Window {
            every: Duration::ZERO,
            samples: 1,
        };
        let mut inventory = Inventory::take(machine, &ports, at_once, |_| ())?;
        inventory.samples = self.loads.iter().cloned().collect();
        let mut known = true;
        for nic in &mut inventory.nics {
            let ns = machine.napi_thread_ns(&nic.name);
            let before = self.thread_ns.insert(nic.name.clone(), ns);
            known &= before.is_some();
            nic.napi_thread_load = ns.saturating_sub(before.unwrap_or(ns)) as f64 / window_ns;
        }
        if !known {
            return Ok(());
        }
        let options = Options {
            skip: Area::ALL
                .into_iter()
                .filter(|a| *a != Area::Interrupts)
                .collect(),
            ..Options::default()
        };
        for change in TunePlan::new(machine, &inventory, &options)?.changes {
            turn(machine, journal, &change.knob, &change.now, &change.wanted)?;
            changed.push(Changed {
                knob: change.knob,
                to: change.wanted,
                why: change.why,
            });
        }
        Ok(())
    }
}

impl Port {
    fn new(machine: &dyn Machine, name: &str, law: &Throttling) -> Result<Self, TuneError> {
        let nic = nic(machine, name, &[]);
        if nic.rx_queues == 0 {
            return Err(TuneError::Gone {
                knob: format!("port {name}"),
            });
        }
        Ok(Self {
            name: name.into(),
            queues: nic.rx_queues as u64,
            actuator: if nic.moderates() {
                Actuator::RxUsecs
            } else {
                Actuator::Deferral
            },
            throttler: law.start().map_err(|source| TuneError::Policy {
                what: "moderate interrupts",
                source,
            })?,
            last: None,
            interval_ns: None,
            written_ns: 0,
        })
    }

    /// The interval to write, if one is due.
    fn decide(&mut self, machine: &dyn Machine, now_ns: u64) -> Option<(u64, String)> {
        let count = |what: &str| -> Option<u64> {
            let path = format!("/sys/class/net/{}/statistics/{what}", self.name);
            machine.read(&path)?.trim().parse().ok()
        };
        let (Some(packets), Some(bytes)) = (count("rx_packets"), count("rx_bytes")) else {
            // Unplugged: whatever it is set to when it comes back is not ours.
            self.last = None;
            self.interval_ns = None;
            return None;
        };
        let (p, b, then_ns) = self.last.replace((packets, bytes, now_ns))?;
        let sample = Sample {
            packets: packets.saturating_sub(p) / self.queues,
            bytes: bytes.saturating_sub(b) / self.queues,
            elapsed: Nanos(now_ns).since(Nanos(then_ns)).max(Nanos(1)),
        };
        let Nanos(wanted) = self.throttler.update(sample);
        let settled = now_ns.saturating_sub(self.written_ns) >= SETTLE_NS;
        let near = self
            .interval_ns
            .is_some_and(|is| is.abs_diff(wanted) <= is / TOLERANCE);
        (settled && !near).then(|| {
            let Pps(pps) = Pps::of(sample.packets, sample.elapsed);
            (wanted, format!("{pps:.0} packets/s a queue"))
        })
    }

    fn write(
        &mut self,
        machine: &dyn Machine,
        journal: &mut Journal,
        interval_ns: u64,
        why: &str,
        changed: &mut Vec<Changed>,
    ) -> Result<(), TuneError> {
        let knobs = match self.actuator {
            Actuator::RxUsecs => vec![
                (
                    Knob::ethtool(&self.name, Setting::AdaptiveRx),
                    Value::Switch(false),
                ),
                (
                    Knob::ethtool(&self.name, Setting::RxUsecs),
                    Value::Us(interval_ns.div_ceil(1000)),
                ),
            ],
            Actuator::Deferral => {
                let device = || self.name.clone();
                vec![
                    (Knob::PollTimer { device: device() }, Value::Ns(interval_ns)),
                    (
                        Knob::DeferredPolls { device: device() },
                        Value::Count(u64::from(interval_ns > 0)),
                    ),
                ]
            }
        };
        for (knob, to) in knobs {
            let Some(now) = machine.get(&knob)? else {
                continue;
            };
            if now != to {
                turn(machine, journal, &knob, &now, &to)?;
                changed.push(Changed {
                    knob,
                    to,
                    why: why.into(),
                });
            }
        }
        self.interval_ns = Some(interval_ns);
        Ok(())
    }
}
