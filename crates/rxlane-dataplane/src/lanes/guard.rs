//! The configuration as the guard of a core needs it.

use rxlane_bpf::layout::GuardPlan;
use rxlane_policy::class::{Aim, Class, Lane, ThreadScheduling};
use rxlane_policy::overload::{GuardedClass, Plan, Service};
use rxlane_system::ethtool::{Ethtool, Setting};

use crate::DataplaneError;

/// Descriptors of a ring whose driver does not say: a veth's (`VETH_RING_SIZE`, drivers/net/veth.c).
const RING: u64 = 256;

/// Compiles classes for the guard, for the smallest Rx ring of the ports.
///
/// # Errors
/// As [`Plan::new`], which takes what the configuration's check has accepted.
pub(crate) fn plan(classes: &[Class], ports: &[String]) -> Result<GuardPlan, DataplaneError> {
    let guarded: Vec<GuardedClass> = classes.iter().map(guarded).collect();
    let always =
        |class: &Class| matches!(&class.lane, Lane::Stack { aim, .. } if *aim != Aim::Auto);
    let plan = Plan::new(&guarded, smallest_ring(ports), classes.iter().any(always))?;
    Ok(GuardPlan::from(&plan))
}

fn guarded(class: &Class) -> GuardedClass {
    match &class.lane {
        Lane::Express { .. } => GuardedClass {
            service: Service::Express,
            target: Aim::Auto.poll_target(),
        },
        Lane::Stack { ring, aim, .. } => GuardedClass {
            service: Service::Stack {
                weight: weight(ring.thread),
            },
            target: aim.poll_target(),
        },
    }
}

/// A class has one weight, whether its packets are queued or share a poll.
fn weight(thread: ThreadScheduling) -> u32 {
    rxlane_config::weight_of_nice(match thread {
        ThreadScheduling::Nice(nice) => nice,
        ThreadScheduling::Fifo(_) => 0,
    })
}

fn smallest_ring(ports: &[String]) -> u32 {
    let ethtool = Ethtool::default();
    // A port that is absent says nothing, and what a driver cannot say is no reason not to start.
    let said = |port: &String| ethtool.get(port, Setting::RxRing).ok().flatten();
    let smallest = ports.iter().filter_map(said).filter(|n| *n > 0).min();
    u32::try_from(smallest.unwrap_or(RING)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_those_of_the_scheduler() {
        assert_eq!(weight(ThreadScheduling::Nice(0)), 1024);
        assert_eq!(weight(ThreadScheduling::Nice(1)), 819);
        assert_eq!(weight(ThreadScheduling::Fifo(10)), 1024);
    }
}
