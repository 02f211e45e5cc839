//! Searches for the rate that a device forwards.

use crate::BenchError;
use crate::bench::Session;
use crate::dut::Dut;

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

/// The rate that the kernel forwards with next to no loss.
pub(crate) fn kernel_capacity(session: &mut Session) -> Result<f64, BenchError> {
    session.bar.set_message("finding the kernel's capacity");
    confirmed(|pps| {
        for _ in 0..CAPACITY_TRIALS {
            session.bar.inc_length(1);
            let trial = session.trial(&Dut::Kernel, pps, CAPACITY_SECONDS)?;
            if trial.valid && trial.loss <= CAPACITY_LOSS {
                return Ok(true);
            }
        }
        Ok(false)
    })
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
/// `from`.
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
    while high - low > width * high {
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
