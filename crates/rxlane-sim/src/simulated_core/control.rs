//! What controls overload: the guard of the policy, and what it is compared with.

use rxlane_policy::Nanos;
use rxlane_policy::overload::{Core, Plan, PollEnd, Verdict};

use super::packet_budget::PacketBudget;
use super::time_budget::TimeBudget;
use crate::SimError;
use crate::scenario::{Controller, Scenario};

/// A controller at work.
#[derive(Debug)]
pub(super) enum Control {
    None,
    DropAll,
    PacketBudget(Box<PacketBudget>),
    TimeBudget(TimeBudget),
    Guard(Plan, Box<Core>),
}

impl Control {
    pub(super) fn new(scenario: &Scenario) -> Result<Self, SimError> {
        let express = &scenario.express;
        let classes = scenario.traffic.class_shares().len();
        let target = (express.target_us * 1e3) as u64;
        Ok(match express.controller {
            Controller::None => Self::None,
            Controller::DropAll => Self::DropAll,
            Controller::PacketBudget => Self::PacketBudget(Box::new(PacketBudget::new(
                express.classes..classes,
                target,
            ))),
            Controller::TimeBudget => Self::TimeBudget(TimeBudget::new(target)),
            Controller::Guard => Self::Guard(
                express.plan(classes, scenario.nic.descriptors)?,
                Box::default(),
            ),
        })
    }

    /// Whether it reads the clock at each packet that it is asked about.
    pub(super) fn reads_clock(&self) -> bool {
        match self {
            Self::None | Self::DropAll | Self::PacketBudget(_) => false,
            Self::TimeBudget(t) => t.is_guarded(),
            Self::Guard(_, core) => core.reads_clock(),
        }
    }

    /// Before the first packet of a poll.
    pub(super) fn poll_begins(&mut self, napi: u32, now: Nanos, idle: Nanos) {
        match self {
            Self::None | Self::DropAll | Self::PacketBudget(_) => {}
            Self::TimeBudget(t) => t.poll_begins(now, idle),
            Self::Guard(_, core) => core.poll_begins(napi, now, idle),
        }
    }

    /// A packet of a class below the highest. `stack`: it would be passed to the stack.
    pub(super) fn packet(&mut self, class: usize, stack: bool, hash: u32, now: Nanos) -> Verdict {
        match self {
            Self::None => Verdict::Pass,
            Self::DropAll => Verdict::Drop,
            Self::Guard(plan, core) => core.packet(plan, class, hash, now),
            // The others know one kind of express class.
            _ if !stack => Verdict::Pass,
            Self::PacketBudget(p) => p.packet(class, now),
            Self::TimeBudget(t) => t.packet(now),
        }
    }

    pub(super) fn poll_ends(&mut self, end: PollEnd) {
        match self {
            Self::None | Self::DropAll => {}
            Self::PacketBudget(p) => p.poll_ends(end),
            Self::TimeBudget(t) => t.poll_ends(end),
            Self::Guard(plan, core) => core.poll_ends(plan, end),
        }
    }
}
