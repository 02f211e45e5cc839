//! What happens to packets and cores over a while (single-input-queue IV): soft-IRQ load of each core, interrupts,
//! and loss at each buffer on the way.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use rxlane_policy::samples::Samples;
use rxlane_system::{links, softnet};
use serde::{Deserialize, Serialize};

use crate::interrupts;
use crate::load::{Counters, Load};
use crate::machine::Machine;

/// Packets lost at each buffer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// In the device: no descriptor was free.
    pub nic: u64,
    /// In softnet's backlog.
    pub backlog: u64,
    /// In UDP sockets.
    pub socket: u64,
}

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// How long, s.
    pub seconds: f64,
    /// Loads of each core, a sample after the other.
    pub loads: BTreeMap<usize, Vec<Load>>,
    /// Hard interrupts a second, of numbered lines.
    pub interrupts_per_s: f64,
    /// NET_RX soft-IRQs a second, by core.
    pub net_rx_per_s: Vec<f64>,
    /// Packets received a second by the ports.
    pub rx_pps: f64,
    /// Packets that were lost meanwhile, by place.
    pub losses: Losses,
    /// Times that a soft-IRQ ran out of budget.
    pub squeezed: u64,
}

/// A record, and when it was taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// `before` or `after`.
    pub when: String,
    /// What was measured.
    pub record: Record,
}

impl Named {
    /// This record.
    pub fn of(when: &str, record: Record) -> Self {
        Self {
            when: when.into(),
            record,
        }
    }

    /// The load of a core, of all samples.
    pub fn samples(&self, core: usize) -> Samples {
        let loads = self.record.loads.get(&core).map_or(&[][..], Vec::as_slice);
        Samples::new(loads.iter().map(|l| (l.busy(), 1)))
    }
}

/// Cores of which some record has loads.
pub fn cores(records: &[Named]) -> BTreeSet<usize> {
    let all = records.iter().flat_map(|named| named.record.loads.keys());
    all.copied().collect()
}

#[derive(Default)]
struct Totals {
    losses: Losses,
    squeezed: u64,
    interrupts: u64,
    packets: u64,
}

fn totals(machine: &dyn Machine, ports: &[String]) -> Totals {
    let statistic = |port: &String, what: &str| -> u64 {
        machine
            .read(&format!("/sys/class/net/{port}/statistics/{what}"))
            .and_then(|t| t.trim().parse().ok())
            .unwrap_or(0)
    };
    let sum = |what: &str| ports.iter().map(|p| statistic(p, what)).sum::<u64>();
    let missed = |port| {
        let of = |what| statistic(port, what);
        links::missed(of("rx_missed_errors"), of("rx_fifo_errors"))
    };
    let missed = ports.iter().map(missed).sum::<u64>();
    let softnet = softnet::of(&machine.read(softnet::FILE).unwrap_or_default());
    Totals {
        losses: Losses {
            nic: missed + sum("rx_dropped"),
            backlog: softnet.iter().map(|core| core.dropped).sum(),
            socket: udp_overflows(machine),
        },
        squeezed: softnet.iter().map(|core| core.squeezed).sum(),
        interrupts: interrupts::all(machine).iter().map(|i| i.count).sum(),
        packets: sum("rx_packets"),
    }
}

/// `RcvbufErrors` of `/proc/net/snmp`, whose lines come in pairs of names and values, and of `/proc/net/snmp6`.
fn udp_overflows(machine: &dyn Machine) -> u64 {
    let v4 = machine.read("/proc/net/snmp").unwrap_or_default();
    let mut lines = v4.lines().filter(|l| l.starts_with("Udp:"));
    let names = lines.next().unwrap_or_default();
    let values = lines.next().unwrap_or_default();
    let of_v4 = names
        .split_ascii_whitespace()
        .zip(values.split_ascii_whitespace())
        .find_map(|(name, value)| (name == "RcvbufErrors").then(|| value.parse::<u64>().ok())?);
    let v6 = machine.read("/proc/net/snmp6").unwrap_or_default();
    let of_v6 = v6.lines().find_map(|l| {
        l.strip_prefix("Udp6RcvbufErrors")?
            .trim()
            .parse::<u64>()
            .ok()
    });
    of_v4.unwrap_or(0) + of_v6.unwrap_or(0)
}

impl Record {
    /// Looks for `length`, with a sample of loads `every` so often; `meanwhile` is told the share that is done and
    /// says whether to go on.
    pub fn take(
        machine: &dyn Machine,
        ports: &[String],
        length: Duration,
        every: Duration,
        mut meanwhile: impl FnMut(f64) -> bool,
    ) -> Self {
        let started = Instant::now();
        let before = totals(machine, ports);
        let first = Counters::read(machine);
        let mut last = first.clone();
        let mut loads: BTreeMap<usize, Vec<Load>> = BTreeMap::new();
        while started.elapsed() < length {
            std::thread::sleep(every);
            let now = Counters::read(machine);
            for (core, load) in now.since(&last) {
                loads.entry(core).or_default().push(load);
            }
            last = now;
            if !meanwhile(started.elapsed().as_secs_f64() / length.as_secs_f64()) {
                break;
            }
        }
        let after = totals(machine, ports);
        let seconds = started.elapsed().as_secs_f64();
        let since = |f: fn(&Totals) -> u64| f(&after).saturating_sub(f(&before));
        Self {
            seconds,
            loads,
            interrupts_per_s: since(|t| t.interrupts) as f64 / seconds,
            net_rx_per_s: last
                .net_rx()
                .iter()
                .zip(first.net_rx())
                .map(|(now, then)| now.saturating_sub(*then) as f64 / seconds)
                .collect(),
            rx_pps: since(|t| t.packets) as f64 / seconds,
            losses: Losses {
                nic: since(|t| t.losses.nic),
                backlog: since(|t| t.losses.backlog),
                socket: since(|t| t.losses.socket),
            },
            squeezed: since(|t| t.squeezed),
        }
    }
}
