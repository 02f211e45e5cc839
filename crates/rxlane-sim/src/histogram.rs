//! Latencies in log-linear buckets: constant memory, no division.

use hdrhistogram::Histogram;
use rxlane_policy::Ps;

const SUB_BITS: u32 = 5;
const BUCKETS: usize = 64 << SUB_BITS;

/// Counts of latencies, resolved to 1/32, with their sum and the largest of them.
#[derive(Debug, Clone)]
pub struct Latencies {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum_ps: u128,
    max: Ps,
}

impl Default for Latencies {
    fn default() -> Self {
        Self {
            counts: Box::new([0; BUCKETS]),
            count: 0,
            sum_ps: 0,
            max: Ps::ZERO,
        }
    }
}

#[inline]
fn bucket_of(Ps(ps): Ps) -> usize {
    let shift = (63 - (ps | 1).leading_zeros()).saturating_sub(SUB_BITS);
    ((shift as usize) << SUB_BITS) + (ps >> shift) as usize
}

/// Where a bucket begins.
fn low(bucket: usize) -> Ps {
    let sub = 1usize << SUB_BITS;
    if bucket < 2 * sub {
        return Ps(bucket as u64);
    }
    let shift = (bucket >> SUB_BITS) - 1;
    Ps(((sub + (bucket & (sub - 1))) as u64) << shift)
}

/// The middle of a bucket.
fn middle(bucket: usize) -> Ps {
    if bucket < 2 << SUB_BITS {
        return low(bucket);
    }
    Ps(low(bucket).0 + (1 << ((bucket >> SUB_BITS) - 1)) / 2)
}

impl Latencies {
    /// Adds one latency.
    #[inline]
    pub fn record(&mut self, latency: Ps) {
        self.counts[bucket_of(latency)] += 1;
        self.count += 1;
        self.sum_ps += u128::from(latency.0);
        self.max = self.max.max(latency);
    }

    /// Adds the latencies of another run.
    pub fn merge(&mut self, other: &Self) {
        for (a, b) in self.counts.iter_mut().zip(other.counts.iter()) {
            *a += b;
        }
        self.count += other.count;
        self.sum_ps += other.sum_ps;
        self.max = self.max.max(other.max);
    }

    /// Number of latencies.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Mean, us; 0 without any.
    pub fn mean_us(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum_ps as f64 / self.count as f64 / 1e6
    }

    /// The longest latency, us.
    pub fn max_us(&self) -> f64 {
        self.max.as_us()
    }

    /// Buckets that hold something, the shortest first: from, up to, and how many.
    pub fn buckets(&self) -> impl Iterator<Item = (Ps, Ps, u64)> + '_ {
        let held = self.counts.iter().enumerate().filter(|(_, n)| **n > 0);
        held.map(|(bucket, n)| (low(bucket), low(bucket + 1), *n))
    }

    /// The buckets as a histogram of ns.
    pub fn histogram(&self) -> Histogram<u64> {
        // 1 ns to a day at 3 digits is always a valid range.
        let mut h =
            Histogram::new_with_bounds(1, 86_400_000_000_000, 3).unwrap_or_else(|_| unreachable!());
        for (bucket, count) in self.counts.iter().enumerate().filter(|(_, c)| **c > 0) {
            h.saturating_record_n((middle(bucket).0 / 1000).max(1), *count);
        }
        h
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_lies_in_the_bucket_that_counts_it() {
        for ps in (0..5_000).chain((13..62).map(|e| (1u64 << e) + 12345)) {
            let mut l = Latencies::default();
            l.record(Ps(ps));
            let all: Vec<_> = l.buckets().collect();
            let [(from, to, 1)] = all[..] else {
                panic!("{all:?}")
            };
            assert!(from <= Ps(ps) && Ps(ps) < to, "{ps} in {from:?} to {to:?}");
        }
    }

    #[test]
    fn quantiles_are_within_two_percent_and_the_mean_is_exact() {
        for ps in (0..50_000).chain((13..62).map(|e| (1u64 << e) + 12345)) {
            let Ps(middle) = middle(bucket_of(Ps(ps)));
            assert!(
                middle.abs_diff(ps) as f64 <= ps as f64 * 0.017,
                "{ps} became {middle}"
            );
        }
        let mut l = Latencies::default();
        [1_500_000, 2_500_000]
            .into_iter()
            .for_each(|ps| l.record(Ps(ps)));
        assert_eq!((l.mean_us(), l.max_us(), l.count()), (2.0, 2.5, 2));
    }
}
