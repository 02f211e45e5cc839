//! Polling: which Rx ring of which device the core serves next, and for how many packets.
//!
//! A device is a [`QVector`]: the Rx rings of its traffic classes behind one interrupt. The loop is that
//! of low-latency-router Fig. 2, with any number of classes; devices with work wait in a [`PollList`]
//! (section II). Hosts own rings and packets: they ask [`QVector::next`], serve, and report. The strategies
//! of Table I (SQ, RR, LL-RR, LL-WFQ) are configurations of this one loop ([`crate::strategy`]).

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::PolicyError;

/// Packets that a device may have served in one poll (Linux `weight_p`, low-latency-router V.A.2).
pub const DEVICE_BUDGET: u32 = 64;

/// Most Rx rings that a device can have. The router has no more classes than [`crate::class::MAX_CLASSES`]; the model may have a
/// class for each of these (low-latency-router III.B: an arbitrary number).
pub const MAX_RINGS: usize = 64;

/// Which ring of a device has the first turn of a poll.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Order {
    /// The lowest class first, as the prototype's `PRB` list reads (Listing 1).
    #[default]
    LowestFirst,
    /// The highest class first.
    HighestFirst,
}

/// When a device stops going round its rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rounds {
    /// When all rings are empty or the device budget is spent (low-latency-router IV.B).
    #[default]
    UntilSpent,
    /// After one turn of every ring: the stock multi-ring poll of ixgbe.
    One,
}

/// What the host does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Serve this ring until it is empty, but at most `at_most` packets. Then report how many with
    /// [`QVector::served`].
    Serve {
        /// Number of the ring, 0 for the highest class.
        ring: usize,
        /// How many packets at most; never 0.
        at_most: u32,
    },
    /// The poll is over.
    End(PollEnd),
}

/// How a poll ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PollEnd {
    /// All rings are empty: the device leaves the poll list, and its interrupt is on again.
    Drained,
    /// Packets are left: the device goes to the tail of the poll list, and its interrupt stays off.
    BudgetSpent,
}

/// The Rx rings of a device behind one interrupt, and how far a poll has come with them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QVector {
    ring_budgets: [u32; MAX_RINGS],
    rings: usize,
    device_budget: u32,
    order: Order,
    rounds: Rounds,
    /// The current turn; turns are numbered in the order of service.
    turn: usize,
    turns_left: usize,
    left: u32,
}

impl QVector {
    /// A device with one ring for each budget, highest class first.
    ///
    /// # Errors
    /// [`PolicyError::Budget`] without a ring, with more than [`MAX_RINGS`], or with a budget of 0.
    pub fn new(
        ring_budgets: &[u32],
        device_budget: u32,
        order: Order,
        rounds: Rounds,
    ) -> Result<Self, PolicyError> {
        if ring_budgets.is_empty() {
            return Err(PolicyError::Budget(
                "a device needs at least one Rx ring: give one ring budget a class".into(),
            ));
        }
        if ring_budgets.len() > MAX_RINGS {
            return Err(PolicyError::Budget(format!(
                "{} ring budgets, but a device has at most {MAX_RINGS} rings",
                ring_budgets.len()
            )));
        }
        if device_budget == 0 || ring_budgets.contains(&0) {
            return Err(PolicyError::Budget(
                "a budget of 0 would never serve a packet: use at least 1".into(),
            ));
        }
        if let Some(budget) = ring_budgets.iter().find(|b| **b > device_budget) {
            return Err(PolicyError::Budget(format!(
                "ring budget {budget} is above the device budget {device_budget} and could never be used up: lower it, or raise the device budget"
            )));
        }
        let mut budgets = [0; MAX_RINGS];
        budgets[..ring_budgets.len()].copy_from_slice(ring_budgets);
        Ok(Self {
            ring_budgets: budgets,
            rings: ring_budgets.len(),
            device_budget,
            order,
            rounds,
            turn: 0,
            turns_left: 0,
            left: 0,
        })
    }

    /// Rings of the device.
    pub fn rings(&self) -> usize {
        self.rings
    }

    /// The same rings, going round them otherwise.
    #[must_use]
    pub fn in_rounds(mut self, rounds: Rounds) -> Self {
        self.rounds = rounds;
        self
    }

    /// Begins a poll, with the whole device budget and the first ring's turn.
    pub fn begin(&mut self) {
        self.left = self.device_budget;
        self.turn = 0;
        self.turns_left = match self.rounds {
            Rounds::UntilSpent => usize::MAX,
            Rounds::One => self.rings,
        };
    }

    /// The next step, given which rings hold packets now.
    #[inline]
    pub fn next(&mut self, holds: impl Fn(usize) -> bool) -> Step {
        for _ in 0..self.rings {
            let turn = self.turn;
            let ring = match self.order {
                Order::LowestFirst => self.rings - 1 - turn,
                Order::HighestFirst => turn,
            };
            if holds(ring) {
                if self.left == 0 || self.turns_left == 0 {
                    return Step::End(PollEnd::BudgetSpent);
                }
                self.pass_on();
                return Step::Serve {
                    ring,
                    at_most: self.ring_budgets[ring].min(self.left),
                };
            }
            self.pass_on();
        }
        Step::End(PollEnd::Drained)
    }

    #[inline]
    fn pass_on(&mut self) {
        self.turn = if self.turn + 1 == self.rings {
            0
        } else {
            self.turn + 1
        };
        self.turns_left = self.turns_left.saturating_sub(1);
    }

    /// Reports how many packets the last step served.
    #[inline]
    pub fn served(&mut self, packets: u32) {
        self.left = self.left.saturating_sub(packets);
    }

    /// Packets that the device may still have served in this poll.
    pub fn left(&self) -> u32 {
        self.left
    }
}

/// Devices with work, first in, first out; a device is on it at most once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PollList {
    devices: VecDeque<u32>,
}

impl PollList {
    /// Appends a device; false if it is on the list already.
    #[inline]
    pub fn add(&mut self, device: u32) -> bool {
        let fresh = !self.devices.contains(&device);
        if fresh {
            self.devices.push_back(device);
        }
        fresh
    }

    /// The device whose turn it is.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.devices.front().copied()
    }

    /// Applies the end of the first device's poll: the device leaves the list or goes to its tail, as
    /// `outcome` says.
    #[inline]
    pub fn ended(&mut self, outcome: PollEnd) {
        if let Some(device) = self.devices.pop_front()
            && outcome == PollEnd::BudgetSpent
        {
            self.devices.push_back(device);
        }
    }

    /// Devices on the list.
    pub fn len(&self) -> usize {
        self.devices.len()
    }

    /// Whether no device has work.
    pub fn is_empty(&self) -> bool {
        self.devices.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Polls once over rings in which nothing arrives. Returns the turns, and how the poll ended.
    fn poll(q: &mut QVector, rings: &mut [u32]) -> (Vec<(usize, u32)>, PollEnd) {
        let mut turns = Vec::new();
        q.begin();
        loop {
            let held = rings.to_vec();
            match q.next(|r| held[r] > 0) {
                Step::End(outcome) => return (turns, outcome),
                Step::Serve { ring, at_most } => {
                    let n = at_most.min(rings[ring]);
                    rings[ring] -= n;
                    q.served(n);
                    turns.push((ring, n));
                }
            }
        }
    }

    fn wfq(budgets: &[u32]) -> QVector {
        QVector::new(budgets, 64, Order::LowestFirst, Rounds::UntilSpent).unwrap()
    }

    #[test]
    fn rings_take_turns_of_their_budgets_until_the_device_budget_is_spent() {
        let (turns, outcome) = poll(&mut wfq(&[60, 4]), &mut [100, 100]);
        assert_eq!(turns, [(1, 4), (0, 60)]);
        assert_eq!(outcome, PollEnd::BudgetSpent);
        let (turns, outcome) = poll(&mut wfq(&[4, 4]), &mut [100, 100]);
        assert_eq!(turns.len(), 16);
        assert_eq!(turns[..3], [(1, 4), (0, 4), (1, 4)]);
        assert_eq!(outcome, PollEnd::BudgetSpent);
    }

    proptest::proptest! {
        #[test]
        fn no_budget_is_ever_exceeded_and_a_poll_ends_for_its_reason(
            budgets in proptest::collection::vec(1u32..80, 1..8),
            more in 0u32..100,
            held in proptest::collection::vec(0u32..200, 8),
            highest in proptest::bool::ANY,
            one in proptest::bool::ANY,
        ) {
            let device = budgets.iter().max().unwrap() + more;
            let order = if highest { Order::HighestFirst } else { Order::LowestFirst };
            let rounds = if one { Rounds::One } else { Rounds::UntilSpent };
            let mut rings = held[..budgets.len()].to_vec();
            let all: u32 = rings.iter().sum();
            let mut q = QVector::new(&budgets, device, order, rounds).unwrap();
            let (turns, outcome) = poll(&mut q, &mut rings);
            let served: u32 = turns.iter().map(|(_, n)| n).sum();
            proptest::prop_assert!(served <= device);
            proptest::prop_assert!(turns.iter().all(|(ring, n)| *n <= budgets[*ring]));
            proptest::prop_assert_eq!(served + rings.iter().sum::<u32>(), all);
            proptest::prop_assert_eq!(outcome == PollEnd::Drained, rings.iter().all(|r| *r == 0));
            if !one && outcome == PollEnd::BudgetSpent {
                proptest::prop_assert_eq!(served, device);
            }
        }
    }

    #[test]
    fn an_empty_ring_gives_its_turn_away_and_all_empty_drains_the_device() {
        let (turns, outcome) = poll(&mut wfq(&[60, 4]), &mut [0, 10]);
        assert_eq!(turns, [(1, 4), (1, 4), (1, 2)]);
        assert_eq!(outcome, PollEnd::Drained);
    }

    #[test]
    fn a_device_that_is_drained_by_its_last_packet_of_budget_is_drained() {
        let (_, outcome) = poll(&mut wfq(&[64]), &mut [64]);
        assert_eq!(outcome, PollEnd::Drained);
    }

    #[test]
    fn the_stock_multi_ring_poll_gives_every_ring_one_turn() {
        let mut q = QVector::new(&[32, 32], 64, Order::LowestFirst, Rounds::One).unwrap();
        let (turns, outcome) = poll(&mut q, &mut [10, 100]);
        assert_eq!(turns, [(1, 32), (0, 10)]);
        assert_eq!(outcome, PollEnd::BudgetSpent);
    }

    #[test]
    fn the_highest_class_can_have_the_first_turn() {
        let mut q = QVector::new(&[60, 4], 64, Order::HighestFirst, Rounds::UntilSpent).unwrap();
        let (turns, _) = poll(&mut q, &mut [3, 10]);
        assert_eq!(turns[0], (0, 3));
    }

    #[test]
    fn budgets_that_cannot_work_are_refused_with_the_reason() {
        for (rings, device) in [
            (&[][..], 64),
            (&[0], 64),
            (&[4, 4], 0),
            (&[65], 64),
            (&[1; MAX_RINGS + 1], 64),
        ] {
            assert!(
                QVector::new(rings, device, Order::LowestFirst, Rounds::UntilSpent).is_err(),
                "{rings:?} of {device}"
            );
        }
    }

    #[test]
    fn a_device_is_on_the_poll_list_once_and_goes_to_the_tail_when_its_budget_is_spent() {
        let mut list = PollList::default();
        assert!(list.add(0) && list.add(1) && !list.add(0));
        list.ended(PollEnd::BudgetSpent);
        assert_eq!(list.first(), Some(1));
        list.ended(PollEnd::Drained);
        assert_eq!((list.first(), list.len()), (Some(0), 1));
    }
}
