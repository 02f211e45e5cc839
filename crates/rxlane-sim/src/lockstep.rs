//! Runs several cores in step, to see in which order packets leave all of them.
//!
//! Cores share nothing, so each is simulated alone. Only where flows are spread over cores does the order of
//! their departures matter. Departures are merged window by window, so that memory does not grow with time.

use std::collections::{HashMap, VecDeque};

use crate::simulated_core::{CoreResult, Departure, SimulatedCore};
use rxlane_policy::Ps;

const WINDOW: Ps = Ps(1_000_000_000);

/// Runs cores to the end. Returns their results, and how many of the measured packets left after a later
/// packet of their flow.
pub(crate) fn run(
    mut simulated: Vec<SimulatedCore>,
    warmup: Ps,
    measured: Ps,
) -> (Vec<CoreResult>, u64) {
    for core in &mut simulated {
        core.begin(warmup, measured);
        core.keep_departures();
    }
    let mut waiting: Vec<VecDeque<Departure>> = vec![VecDeque::new(); simulated.len()];
    let mut newest: HashMap<(usize, u16), u32> = HashMap::new();
    let mut late = 0;
    let mut to = Ps::ZERO;
    while to < warmup + measured {
        to += WINDOW;
        let mut left: Vec<Departure> = Vec::new();
        for (core, waiting) in simulated.iter_mut().zip(&mut waiting) {
            core.advance(to);
            waiting.extend(core.take_departures());
            // A core may have gone a little beyond `to`; such departures wait for the next window.
            while waiting.front().is_some_and(|d| d.at <= to) {
                left.extend(waiting.pop_front());
            }
        }
        left.sort_unstable();
        for d in left {
            let newest = newest.entry((d.nic, d.flow)).or_default();
            if d.sequence >= *newest {
                *newest = d.sequence;
            } else if d.at >= warmup {
                late += 1;
            }
        }
    }
    (
        simulated.into_iter().map(SimulatedCore::finish).collect(),
        late,
    )
}
