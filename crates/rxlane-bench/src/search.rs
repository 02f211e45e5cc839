//! Searches for the rate that a device forwards.

use crate::BenchError;
use crate::dut::Dut;
use crate::session::Session;
use crate::trial::Trial;

/// Search for the kernel's capacity: trial length, tolerated loss, and width at which it ends.
const CAPACITY_SECONDS: f64 = 0.4;
const CAPACITY_LOSS: f64 = 0.01;
/// The best of this many trials decides about a rate: a stall of the machine is not the router's limit.
const CAPACITY_TRIALS: u32 = 3;
const CAPACITY_WIDTH: f64 = 0.03;
/// A capacity is confirmed by loss at this multiple of it.
const CONFIRM_ABOVE: f64 = 1.3;
/// Where searches begin.
pub(crate) const LOWEST_PPS: f64 = 20_000.0;
const HIGHEST_PPS: f64 = 4_000_000.0;
/// Where searches give up: what fails here fails for another reason than its rate.
const GIVE_UP_PPS: f64 = 1000.0;

/// Parameters of a throughput search.
#[derive(Debug, Clone, Copy)]
pub struct Search {
    /// Share of packets that may be lost.
    pub loss_tolerance: f64,
    /// Relative width at which the search ends.
    pub width: f64,
    /// Trials at each rate; the median decides.
    pub trials: u32,
}

/// The rate that the kernel forwards with next to no loss.
///
/// # Errors
/// Those of a trial, [`BenchError::GeneratorTooSlow`] where the search ended at the generator's limit, and
/// [`BenchError::ForwardsNothing`].
pub(crate) fn kernel_capacity(session: &mut Session) -> Result<f64, BenchError> {
    session.bar.set_message("finding the kernel's capacity");
    capacity(|pps| {
        session.bar.inc_length(1);
        session.trial(&Dut::Kernel, pps, CAPACITY_SECONDS)
    })
}

fn capacity(mut trial: impl FnMut(f64) -> Result<Trial, BenchError>) -> Result<f64, BenchError> {
    // The lowest rate that the generator did not reach although the router lost nothing.
    let mut behind_pps = f64::INFINITY;
    let found = confirmed(|pps| {
        for _ in 0..CAPACITY_TRIALS {
            let trial = trial(pps)?;
            if trial.loss > CAPACITY_LOSS {
                continue;
            }
            // A generator that is slow has been tried again and again already.
            if !trial.valid {
                behind_pps = behind_pps.min(pps);
            }
            return Ok(trial.valid);
        }
        Ok(false)
    })?;
    if found == 0.0 && behind_pps == f64::INFINITY {
        return Err(BenchError::ForwardsNothing { pps: GIVE_UP_PPS });
    }
    if found == 0.0 || behind_pps * (1.0 - 2.0 * CAPACITY_WIDTH) <= found {
        return Err(BenchError::GeneratorTooSlow { pps: found });
    }
    Ok(found)
}

/// A search on a machine that stalls: its result holds when well above it there is loss again, else the search
/// goes on from there.
fn confirmed(mut passes: impl FnMut(f64) -> Result<bool, BenchError>) -> Result<f64, BenchError> {
    let mut from = LOWEST_PPS;
    loop {
        let found = search(from, CAPACITY_WIDTH, &mut passes)?;
        let above = CONFIRM_ABOVE * found.max(from);
        if above > HIGHEST_PPS || !passes(above)? {
            return Ok(found);
        }
        from = above;
    }
}

/// Bisection (RFC 2544 section 26.1): the highest rate for which `passes` holds, to a relative width; begins at
/// `from`. 0 if it does not hold at [`GIVE_UP_PPS`] either.
pub(crate) fn search(
    from: f64,
    width: f64,
    mut passes: impl FnMut(f64) -> Result<bool, BenchError>,
) -> Result<f64, BenchError> {
    let (mut low, mut high) = (0.0, from);
    while passes(high)? {
        low = high;
        high *= 2.0;
        if high > HIGHEST_PPS {
            return Ok(low);
        }
    }
    while high - low > width * high && (low > 0.0 || high > GIVE_UP_PPS) {
        let middle = (low + high) / 2.0;
        if passes(middle)? {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a router does that forwards so much, under a generator that sends so much.
    fn trial(pps: f64, router_pps: f64, generator_pps: f64) -> Trial {
        let sent_pps = pps.min(generator_pps);
        Trial {
            valid: sent_pps >= pps,
            sent_pps,
            forwarded_pps: sent_pps.min(router_pps),
            loss: (sent_pps - router_pps).max(0.0) / sent_pps,
            cpu: 0.0,
            hog_share: 0.0,
            stalled: 0.0,
            tcp_bps: 0.0,
            core: None,
            cores: Vec::new(),
            packet_ns: None,
            wakeups_per_s: 0.0,
            worker_wakeups_per_s: 0.0,
            classes: Vec::new(),
            latency_ns: Vec::new(),
        }
    }

    #[test]
    fn the_limit_of_the_generator_is_not_taken_for_that_of_the_kernel() {
        let found = capacity(|pps| Ok(trial(pps, 300_000.0, 900_000.0))).unwrap();
        assert!((285_000.0..=306_000.0).contains(&found), "{found}");
        for (router_pps, generator_pps) in [(50_000.0, 33_000.0), (9e6, 15_000.0), (9e6, 500.0)] {
            match capacity(|pps| Ok(trial(pps, router_pps, generator_pps))) {
                Err(BenchError::GeneratorTooSlow { pps }) => assert!(pps <= generator_pps),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn a_router_that_forwards_nothing_ends_the_search() {
        assert!(search(LOWEST_PPS, 0.01, |_| Ok(false)).unwrap() == 0.0);
        assert!(matches!(
            capacity(|pps| Ok(trial(pps, 0.0, 900_000.0))),
            Err(BenchError::ForwardsNothing { .. })
        ));
    }

    #[test]
    fn a_slow_router_is_searched_as_exactly_as_a_fast_one() {
        let limit = 700.0;
        let found = search(LOWEST_PPS, 0.01, |pps| Ok(pps <= limit)).unwrap();
        assert!(found <= limit && found > limit * 0.98, "{found}");
    }

    #[test]
    fn a_search_ends_within_its_width_below_the_limit() {
        let limit = 731_000.0;
        let found = search(LOWEST_PPS, 0.01, |pps| Ok(pps <= limit)).unwrap();
        assert!(found <= limit && found > limit * 0.98, "{found}");
    }

    #[test]
    fn a_stall_during_the_search_is_not_taken_for_the_limit() {
        let limit = 731_000.0;
        for stalled in 0..12 {
            let mut calls = 0;
            let found = confirmed(|pps| {
                calls += 1;
                Ok(pps <= limit && calls != stalled)
            });
            let found = found.unwrap();
            assert!(found <= limit && found > limit / CONFIRM_ABOVE, "{found}");
        }
    }
}
