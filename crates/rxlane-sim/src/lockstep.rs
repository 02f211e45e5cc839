//! Several cores in step, to see in which order packets leave them together.
//!
//! Cores share nothing, so each is simulated alone; only where flows are spread over cores do their departures
//! meet. They are merged window by window, so that memory does not grow with time.

use std::collections::{HashMap, VecDeque};

use crate::engine::{CoreResult, Departure, SimulatedCore};
use crate::time::Ps;

const WINDOW: Ps = 1_000_000_000;

/// Runs cores to the end. Returns their results, and how many of the measured packets left behind a later one
/// of their flow.
pub(crate) fn run(
    mut engines: Vec<SimulatedCore>,
    warmup: Ps,
    measured: Ps,
) -> (Vec<CoreResult>, u64) {
    for engine in &mut engines {
        engine.begin(warmup, measured);
        engine.keep_departures();
    }
    let mut waiting: Vec<VecDeque<Departure>> = vec![VecDeque::new(); engines.len()];
    let mut newest: HashMap<(usize, u16), u32> = HashMap::new();
    let mut late = 0;
    let mut to = 0;
    while to < warmup + measured {
        to += WINDOW;
        let mut left: Vec<Departure> = Vec::new();
        for (engine, waiting) in engines.iter_mut().zip(&mut waiting) {
            engine.advance(to);
            waiting.extend(engine.take_departures());
            // A core may be a little ahead of the others.
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
        engines.into_iter().map(SimulatedCore::finish).collect(),
        late,
    )
}
