//! How long packets of a class were inside of the router: the log-linear buckets of `bpf/watch/latency.h`, read.

use bytemuck::{Pod, Zeroable};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One poll in so many is measured (`LATENCY_POLLS` of bpf/watch/latency.h).
pub const LATENCY_POLLS: u32 = 256;

const SUB_BITS: u32 = 3;
const BUCKETS: usize = 256;

/// What a CPU has measured of a class (`struct latencies`).
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Latencies {
    sum_ns: u64,
    bucket: [u64; BUCKETS],
}

/// The first time that a bucket is not for any more, ns.
fn end_ns(bucket: usize) -> u64 {
    let sub = 1usize << SUB_BITS;
    if bucket < 2 * sub {
        return bucket as u64 + 1;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    ((bucket - (shift << SUB_BITS)) as u64 + 1) << shift
}

/// Packets that took less than `below_ns`, and no less than the bucket before says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyBucket {
    /// Where the bucket ends, ns.
    pub below_ns: u64,
    /// Packets in it.
    pub packets: u64,
}

/// How long packets of a class were inside of the router, sampled: of one poll in 256, drawn at random, all packets. From when the XDP program
/// gets the poll's first packet to the end of the poll for those of the express lane, and until the program has decided for those that
/// are passed to the stack. Neither waiting in the NIC's ring before the poll nor the stack's own work is part of it; packets that are queued to
/// other cores or to the engine, and those that are dropped, are not measured.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LatencyStatus {
    /// Packets that were measured.
    pub measured: u64,
    /// The sum of their times, ns.
    pub sum_ns: u64,
    /// Half of them took no longer, us; resolved to an eighth, as the others.
    pub p50_us: f64,
    /// 99 % of them took no longer, us.
    pub p99_us: f64,
    /// 99.9 % of them took no longer, us.
    pub p999_us: f64,
    /// None of them took longer, us.
    pub longest_us: f64,
    /// How many took how long, shortest first, without buckets that are empty.
    pub buckets: Vec<LatencyBucket>,
}

impl LatencyStatus {
    /// The sum of what CPUs have measured.
    pub(crate) fn of(cpus: &[Latencies]) -> Self {
        let packets = |i: usize| cpus.iter().map(|cpu| cpu.bucket[i]).sum::<u64>();
        let all = (0..BUCKETS).map(|i| LatencyBucket {
            below_ns: end_ns(i),
            packets: packets(i),
        });
        let sum_ns = cpus.iter().map(|cpu| cpu.sum_ns).sum();
        Self::from_buckets(all.filter(|b| b.packets > 0).collect(), sum_ns)
    }

    fn from_buckets(buckets: Vec<LatencyBucket>, sum_ns: u64) -> Self {
        let mut this = Self {
            measured: buckets.iter().map(|b| b.packets).sum(),
            sum_ns,
            buckets,
            ..Self::default()
        };
        this.p50_us = this.quantile_us(0.5);
        this.p99_us = this.quantile_us(0.99);
        this.p999_us = this.quantile_us(0.999);
        this.longest_us = this.quantile_us(1.0);
        this
    }

    /// The time that a share of the packets did not exceed, us; 0 where none was measured.
    #[must_use]
    pub fn quantile_us(&self, share: f64) -> f64 {
        let rank = (self.measured as f64 * share).ceil().max(1.0) as u64;
        let mut seen = 0;
        let found = self.buckets.iter().find(|bucket| {
            seen += bucket.packets;
            seen >= rank
        });
        found.map_or(0.0, |bucket| bucket.below_ns as f64 / 1e3)
    }

    /// Packets that took less than so many ns, which is exact where that is a power of two.
    #[must_use]
    pub fn below(&self, ns: u64) -> u64 {
        let within = self.buckets.iter().filter(|b| b.below_ns <= ns);
        within.map(|b| b.packets).sum()
    }

    /// What has been measured since an earlier look at the same class; everything, if the counts have begun anew since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let was = |below_ns: u64| {
            let same = before.buckets.iter().find(|b| b.below_ns == below_ns);
            same.map_or(0, |b| b.packets)
        };
        let anew = self.measured < before.measured
            || self.buckets.iter().any(|b| b.packets < was(b.below_ns));
        if anew {
            return self.clone();
        }
        let more = self.buckets.iter().map(|b| LatencyBucket {
            packets: b.packets - was(b.below_ns),
            ..*b
        });
        let more = more.filter(|b| b.packets > 0).collect();
        Self::from_buckets(more, self.sum_ns.saturating_sub(before.sum_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `latency_bucket` of bpf/watch/latency.h, in Rust.
    fn bucket_of(ns: u64) -> usize {
        let shift = (63 - (ns >> SUB_BITS | 1).leading_zeros()) as usize;
        (shift << SUB_BITS) + (ns >> shift) as usize
    }

    fn measured(ns: &[u64]) -> LatencyStatus {
        let mut cpu: Latencies = Zeroable::zeroed();
        for ns in ns {
            cpu.bucket[bucket_of(*ns)] += 1;
            cpu.sum_ns += ns;
        }
        LatencyStatus::of(&[cpu])
    }

    #[test]
    fn a_time_lies_in_its_bucket_and_that_is_an_eighth_wide_at_most() {
        for ns in
            (0..5000).chain((13..34).flat_map(|e| [(1u64 << e) - 1, 1 << e, (1 << e) + 12345]))
        {
            let end = end_ns(bucket_of(ns));
            assert!(ns < end && end - ns <= ns / 8 + 1, "{ns} below {end}");
        }
        assert_eq!(bucket_of((1 << 34) - 1), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_where_so_many_have_passed() {
        let latency = measured(&[1_000, 2_000, 2_000, 70_000]);
        assert_eq!((latency.measured, latency.sum_ns), (4, 75_000));
        assert!((2.0..2.26).contains(&latency.p50_us), "{latency:?}");
        assert!((70.0..79.0).contains(&latency.p99_us), "{latency:?}");
        assert_eq!(latency.below(1 << 11), 3);
        assert_eq!(latency.below(1 << 20), 4);
        assert_eq!(measured(&[]).p99_us, 0.0);
    }

    #[test]
    fn what_was_measured_since_is_a_difference_unless_counts_begin_anew() {
        let (before, after) = (
            measured(&[1_000, 90_000]),
            measured(&[1_000, 90_000, 5_000]),
        );
        assert_eq!(after.since(&before), measured(&[5_000]));
        assert_eq!(before.since(&after), before);
    }
}
