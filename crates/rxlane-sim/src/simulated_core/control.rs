//! What controls overload: the guard of the policy, and what it is compared with.

use rxlane_policy::Nanos;
use rxlane_policy::overload::{Core, Moment, Park, Plan, PollEnd, Verdict};

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

    /// Whether TCP waits for the core, before [`Control::poll_begins`].
    pub(super) fn parks(&self, park: &mut Park, now: Nanos, empty: bool) -> bool {
        match self {
            Self::Guard(_, core) => park.poll_begins(core, now, empty),
            _ => false,
        }
    }

    /// Whether packets of connections that are not passed wait, instead of being dropped.
    pub(super) fn queues(&self) -> bool {
        matches!(self, Self::Guard(..))
    }

    /// Before the first packet of a poll.
    pub(super) fn poll_begins(&mut self, napi: u32, at: Moment, idle: Nanos) {
        match self {
            Self::None | Self::DropAll | Self::PacketBudget(_) => {}
            Self::TimeBudget(t) => t.poll_begins(at.now, idle),
            Self::Guard(_, core) => core.poll_begins(napi, at, idle),
        }
    }

    /// A packet of a class below the highest. `stack`: it would be passed to the stack. Says whether the clock was read, too.
    pub(super) fn packet(
        &mut self,
        class: usize,
        stack: bool,
        hash: u32,
        before: u32,
        at: Moment,
    ) -> (Verdict, bool) {
        let mut read = false;
        let verdict = match self {
            Self::None => Verdict::Pass,
            Self::DropAll => Verdict::Drop,
            Self::Guard(plan, core) => core.packet(plan, class, hash, before, || {
                read = true;
                at
            }),
            // The others know one kind of express class.
            _ if !stack => Verdict::Pass,
            Self::PacketBudget(p) => p.packet(class, at.now),
            Self::TimeBudget(t) => {
                read = t.is_guarded();
                t.packet(at.now)
            }
        };
        (verdict, read)
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
