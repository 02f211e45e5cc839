//! Loads of cores, from `/proc/stat` (proc_pid_stat(5), "proc/stat"), and what interrupted them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// Time of a core since boot, ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ticks {
    user: u64,
    system: u64,
    idle: u64,
    hard_irq: u64,
    soft_irq: u64,
    steal: u64,
}

/// Shares of a core's time, 0 to 1.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Processes, nice or not.
    pub user: f64,
    /// The kernel on behalf of processes, and its threads.
    pub system: f64,
    /// Hard interrupts.
    pub hard_irq: f64,
    /// Share of the time in soft interrupts.
    pub soft_irq: f64,
    /// Taken by the hypervisor.
    pub steal: f64,
    /// Nothing to do.
    pub idle: f64,
}

impl Load {
    /// Everything but idling.
    pub fn busy(&self) -> f64 {
        1.0 - self.idle
    }

    /// What would remain if the soft-IRQ were elsewhere.
    pub fn without_soft_irq(&self) -> f64 {
        (self.busy() - self.soft_irq).max(0.0)
    }
}

/// Counters of all cores at one time.
#[derive(Debug, Clone, Default)]
pub struct Counters {
    ticks: BTreeMap<usize, Ticks>,
    /// NET_RX soft-IRQs by core.
    net_rx: Vec<u64>,
}

impl Counters {
    /// Reads the counters of all cores.
    pub fn read(machine: &dyn Machine) -> Self {
        Self {
            ticks: stat(&machine.read("/proc/stat").unwrap_or_default()),
            net_rx: net_rx(&machine.read("/proc/softirqs").unwrap_or_default()),
        }
    }

    /// Loads since `before`, by core. Cores that were not there are left out.
    pub fn since(&self, before: &Self) -> BTreeMap<usize, Load> {
        self.ticks
            .iter()
            .filter_map(|(core, now)| {
                let then = before.ticks.get(core)?;
                let d = |f: fn(&Ticks) -> u64| f(now).saturating_sub(f(then)) as f64;
                let parts = [
                    d(|t| t.user),
                    d(|t| t.system),
                    d(|t| t.hard_irq),
                    d(|t| t.soft_irq),
                    d(|t| t.steal),
                    d(|t| t.idle),
                ];
                let all: f64 = parts.iter().sum();
                // No tick has passed: then nothing is known, and idle is the harmless answer.
                let share = |i: usize| if all > 0.0 { parts[i] / all } else { 0.0 };
                Some((
                    *core,
                    Load {
                        user: share(0),
                        system: share(1),
                        hard_irq: share(2),
                        soft_irq: share(3),
                        steal: share(4),
                        idle: if all > 0.0 { share(5) } else { 1.0 },
                    },
                ))
            })
            .collect()
    }

    /// Counters of a machine that has just booted: a recorded tree's loads are those since then.
    pub fn at_boot(&self) -> Self {
        Self {
            ticks: self.ticks.keys().map(|c| (*c, Ticks::default())).collect(),
            net_rx: vec![0; self.net_rx.len()],
        }
    }

    /// NET_RX soft-IRQs by core.
    pub fn net_rx(&self) -> &[u64] {
        &self.net_rx
    }
}

/// Lines `cpuN user nice system idle iowait irq softirq steal …`.
fn stat(text: &str) -> BTreeMap<usize, Ticks> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split_ascii_whitespace();
            let core = words.next()?.strip_prefix("cpu")?.parse().ok()?;
            let n: Vec<u64> = words.map_while(|w| w.parse().ok()).collect();
            let at = |i: usize| n.get(i).copied().unwrap_or(0);
            Some((
                core,
                Ticks {
                    user: at(0) + at(1),
                    system: at(2),
                    idle: at(3) + at(4),
                    hard_irq: at(5),
                    soft_irq: at(6),
                    steal: at(7),
                },
            ))
        })
        .collect()
}

/// The line `NET_RX: n n …`.
fn net_rx(text: &str) -> Vec<u64> {
    text.lines()
        .find_map(|line| line.trim().strip_prefix("NET_RX:"))
        .map(|rest| {
            rest.split_ascii_whitespace()
                .filter_map(|w| w.parse().ok())
                .collect()
        })
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_passed_between_two_readings() {
        let before = Counters {
            ticks: stat("cpu 9 9 9 9\ncpu0 100 0 100 1000 0 10 20 0 0 0\ncpu1 0 0 0 5 0 0 0 0\n"),
            net_rx: net_rx("  NET_TX: 1 2\n  NET_RX:  10  20\n"),
        };
        let after = Counters {
            ticks: stat("cpu0 110 10 110 1030 0 20 60 0 0 0\ncpu2 1 1 1 1\n"),
            net_rx: Vec::new(),
        };
        let loads = after.since(&before);
        assert_eq!(loads.len(), 1, "core 1 is gone, core 2 is new");
        let l = loads[&0];
        assert!(
            (l.soft_irq - 0.36).abs() < 0.01 && (l.busy() - 0.73).abs() < 0.01,
            "{l:?}"
        );
        assert_eq!(before.net_rx(), [10, 20]);
    }

    #[test]
    fn nothing_readable_is_nothing_known() {
        assert!(stat("garbage\ncpux 1 2\n").is_empty());
        assert!(net_rx("").is_empty());
    }
}
