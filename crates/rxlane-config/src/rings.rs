//! The ring of a stack class: its size, its cores and its threads.

use rxlane_policy::class::{Ring, ThreadScheduling};

use crate::file;
use crate::place::{Mistakes, Place};

/// Packets of a ring unless said otherwise: `CPUMAP` takes up to 16384.
const DEFAULT_RING: u32 = 1024;
const MAX_RING: u32 = 16384;
const MAX_RING_CORES: usize = 64;
/// Cores that rings can be on: the counters of rings have as many places.
pub const MAX_CORES: u32 = 256;

pub(crate) fn ring(raw: &file::Class, at: &Place, mistakes: &mut Mistakes) -> Option<Ring> {
    let before = mistakes.0.len();
    let named = |message: String| format!("class `{}`: {message}", raw.name);
    let packets = raw.ring.unwrap_or(DEFAULT_RING);
    if !(8..=MAX_RING).contains(&packets) {
        mistakes.add(
            &at.key("ring"),
            named(format!(
                "ring = {packets} is outside 8 to {MAX_RING} packets"
            )),
        );
    }
    if let Some(cores) = &raw.cores {
        ring_cores(cores, &at.key("cores"), named, mistakes);
    }
    let thread = match (raw.weight, raw.priority) {
        (Some(_), Some(_)) => {
            mistakes.add(
                &at.key("priority"),
                named("use either `weight` or `priority`, not both".into()),
            );
            ThreadScheduling::Nice(0)
        }
        (_, Some(priority)) => {
            if !(1..=99).contains(&priority) {
                mistakes.add(
                    &at.key("priority"),
                    named(format!("priority = {priority} is outside 1 to 99")),
                );
            }
            ThreadScheduling::Fifo(priority)
        }
        (Some(weight), None) => {
            if !(15..=88_761).contains(&weight) {
                mistakes.add(
                    &at.key("weight"),
                    named(format!(
                        "weight = {weight} is outside 15 to 88761 (1024 is an ordinary thread)"
                    )),
                );
            }
            ThreadScheduling::Nice(nice_of_weight(weight))
        }
        (None, None) => ThreadScheduling::Nice(0),
    };
    (mistakes.0.len() == before).then(|| Ring {
        packets,
        cores: raw.cores.clone().unwrap_or_default(),
        thread,
    })
}

fn ring_cores(
    cores: &[u32],
    at: &Place,
    named: impl Fn(String) -> String,
    mistakes: &mut Mistakes,
) {
    if cores.is_empty() {
        mistakes.add(
            at,
            named("cores is empty: name some, or leave the key out for the core that polls".into()),
        );
    }
    if cores.len() > MAX_RING_CORES {
        mistakes.add(
            at,
            named(format!(
                "cores has {} entries, but a class has at most {MAX_RING_CORES}",
                cores.len()
            )),
        );
    }
    for (i, core) in cores.iter().enumerate() {
        if *core >= MAX_CORES {
            mistakes.add(
                &at.index(i),
                named(format!(
                    "core {core}: rings can be on cores 0 to {}",
                    MAX_CORES - 1
                )),
            );
        }
    }
}

/// The nice level whose scheduler weight is nearest: 1024 at 0, a factor of 1.25 a level
/// (`sched_prio_to_weight` in kernel/sched/core.c).
pub(crate) fn nice_of_weight(weight: u32) -> i8 {
    let levels = -(f64::from(weight) / 1024.0).ln() / 1.25f64.ln();
    levels.round().clamp(-20.0, 19.0) as i8
}

/// A weight whose nice level is this, as the scheduler has it.
pub fn weight_of_nice(nice: i8) -> u32 {
    let weight = 1024.0 * 1.25f64.powi(-i32::from(nice));
    weight.round().clamp(15.0, 88_761.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_become_nice_levels_as_in_the_kernel() {
        assert_eq!(nice_of_weight(1024), 0);
        assert_eq!(nice_of_weight(88761), -20);
        assert_eq!(nice_of_weight(15), 19);
        assert_eq!(nice_of_weight(820), 1);
    }
}
