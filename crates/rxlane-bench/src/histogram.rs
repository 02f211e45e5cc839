//! Latencies as the sink's log-linear buckets, and the quantiles read from them.

use hdrhistogram::Histogram;

use crate::layout::BUCKETS;

const SUB_BITS: u32 = 6;

/// The middle of a bucket, ns; the inverse of `bucket_of` in `bpf/sink.bpf.c`.
fn middle_ns(bucket: usize) -> u64 {
    let sub = 1usize << SUB_BITS;
    if bucket < sub {
        return bucket as u64;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let low = ((bucket - (shift << SUB_BITS)) as u64) << shift;
    low + (1u64 << shift) / 2
}

/// Collects bucket counts into a histogram of 3 significant digits.
pub(crate) fn from_buckets(counts: impl IntoIterator<Item = (usize, u64)>) -> Histogram<u64> {
    // 1 ns to an hour at 3 digits is always a valid range.
    let mut h =
        Histogram::new_with_bounds(1, 3_600_000_000_000, 3).unwrap_or_else(|_| unreachable!());
    for (bucket, count) in counts {
        if count > 0 && bucket < BUCKETS {
            h.saturating_record_n(middle_ns(bucket), count);
        }
    }
    h
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bucket_of` of the sink, in Rust.
    fn bucket_of(ns: u64) -> usize {
        if ns < 1 << SUB_BITS {
            return ns as usize;
        }
        let shift = 63 - ns.leading_zeros() - SUB_BITS;
        ((shift << SUB_BITS) as usize) + (ns >> shift) as usize
    }

    #[test]
    fn quantiles_are_within_one_percent_of_the_latency() {
        for ns in (0..5000).chain((13..36).map(|e| (1u64 << e) + 12345)) {
            let middle = middle_ns(bucket_of(ns));
            assert!(
                middle.abs_diff(ns) as f64 <= ns as f64 * 0.008,
                "{ns} became {middle}"
            );
        }
    }
}
