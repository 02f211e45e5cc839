//! Runs several cores in step, where they share something, and to see in which order packets leave all of them.
//!
//! Cores that share nothing are simulated one after the other, each alone. Where flows are spread over cores the order of
//! their departures matters: it is merged window by window, so that memory does not grow with time.

use std::collections::{HashMap, VecDeque};

use crate::scenario::{Scenario, Spread};
use crate::simulated_core::{CoreResult, Departure, Shared, SimulatedCore};
use crate::stop::Stop;
use rxlane_policy::Ps;

const WINDOW: Ps = Ps(1_000_000_000);

/// Cores that are run together.
pub(crate) struct Together {
    cores: Vec<SimulatedCore>,
    /// What they share.
    shared: Option<Box<Shared>>,
    /// Cores of each NIC, which its interrupts go round; empty: all.
    affinity: Vec<Vec<usize>>,
    watches_order: bool,
}

/// Departures of all cores, and what has left of each flow.
#[derive(Default)]
struct Order {
    waiting: Vec<VecDeque<Departure>>,
    newest: HashMap<(usize, u16), u32>,
    late: u64,
}

impl Together {
    /// Gives the cores back where each can be run alone.
    pub(crate) fn new(
        scenario: &Scenario,
        cores: Vec<SimulatedCore>,
    ) -> Result<Self, Vec<SimulatedCore>> {
        let shared = Shared::new(scenario);
        let watches_order = scenario.cpu.spread == Spread::RoundRobin && cores.len() > 1;
        if shared.is_none() && !watches_order {
            return Err(cores);
        }
        Ok(Self {
            cores,
            shared,
            affinity: scenario.cpu.affinity.clone(),
            watches_order,
        })
    }

    /// Runs the cores to the end, or until `stop` asks for it. Returns their results, and how many of the measured packets left after a later packet of
    /// their flow.
    pub(crate) fn run(mut self, warmup: Ps, measured: Ps, stop: &Stop) -> (Vec<CoreResult>, u64) {
        let mut order = Order {
            waiting: vec![VecDeque::new(); self.cores.len()],
            ..Order::default()
        };
        for core in &mut self.cores {
            core.begin(warmup, measured);
            if self.watches_order {
                core.keep_departures();
            }
        }
        let end = warmup + measured;
        let mut to = Ps::ZERO;
        while to < end && !stop.is_asked() {
            to = if self.watches_order { to + WINDOW } else { end };
            // What goes beyond the end of the run is not waited for.
            self.advance(if to < end { to } else { Ps::NEVER });
            order.merge(&mut self.cores, to, warmup);
        }
        let results: Vec<CoreResult> = self.cores.into_iter().map(SimulatedCore::finish).collect();
        let late = match self.watches_order {
            true => order.late,
            false => results.iter().map(|c| c.tally.reordered).sum(),
        };
        (results, late)
    }

    fn advance(&mut self, to: Ps) {
        if self.shared.is_some() {
            self.advance_sharing(to);
        } else {
            self.cores.iter_mut().for_each(|core| core.advance(to));
        }
    }

    /// The core that acts first makes a step, and so on: so all ask for what they share in the order of time.
    fn advance_sharing(&mut self, to: Ps) {
        loop {
            let acting = self.cores.iter().enumerate().filter(|(_, c)| !c.is_over());
            let first = acting.map(|(i, c)| (c.acts_at(), i)).min();
            let Some((_, core)) = first.filter(|(at, _)| *at < to) else {
                return;
            };
            self.cores[core].step_sharing(&mut self.shared);
            if let Some(nic) = self.cores[core].take_emptied() {
                self.pass_on(core, nic);
            }
        }
    }

    /// The next interrupt of a NIC goes to the next of its cores.
    fn pass_on(&mut self, from: usize, nic: usize) {
        let next = match self.affinity.get(nic) {
            None => (from + 1) % self.cores.len(),
            Some(cores) => {
                let at = cores.iter().position(|c| *c == from).unwrap_or(0);
                cores[(at + 1) % cores.len()]
            }
        };
        if let Ok([a, b]) = self.cores.get_disjoint_mut([from, next]) {
            a.give_nic_to(b, nic);
        }
    }
}

impl Order {
    fn merge(&mut self, cores: &mut [SimulatedCore], to: Ps, warmup: Ps) {
        let mut left: Vec<Departure> = Vec::new();
        for (core, waiting) in cores.iter_mut().zip(&mut self.waiting) {
            waiting.extend(core.take_departures());
            // A core may have gone a little beyond `to`; such departures wait for the next window.
            while waiting.front().is_some_and(|d| d.at <= to) {
                left.extend(waiting.pop_front());
            }
        }
        left.sort_unstable();
        for d in left {
            let newest = self.newest.entry((d.nic, d.flow)).or_default();
            if d.sequence >= *newest {
                *newest = d.sequence;
            } else if d.at >= warmup {
                self.late += 1;
            }
        }
    }
}
