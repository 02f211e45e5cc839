//! The RT latency bound that a configuration implies (low-latency-router III.D).

use crate::overload::first_turn_ns;
use crate::{Nanos, Ps};
use serde::{Deserialize, Serialize};

/// `T_max = b x / (1 - rho_RT)` and where it came from. All times in ns.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LatencyBound {
    /// Best-effort packets served before the RT ring is looked at again: `b`.
    pub ring_budget: f64,
    /// Service time of a best-effort packet, ns: `x`.
    pub service_time_ns: f64,
    /// Share of the core that RT traffic may use: `rho_RT`.
    pub rho_rt: f64,
    /// The bound, ns; infinite where `rho_RT >= 1`.
    pub t_max_ns: f64,
}

impl LatencyBound {
    /// Eq. 1: the longest that a packet of the RT ring waits.
    pub fn new(ring_budget: f64, service_time: Ps, rho_rt: f64) -> Self {
        let service_time_ns = service_time.as_ns();
        let t_max_ns = if rho_rt < 1.0 {
            ring_budget * service_time_ns / (1.0 - rho_rt)
        } else {
            f64::INFINITY
        };
        Self {
            ring_budget,
            service_time_ns,
            rho_rt,
            t_max_ns,
        }
    }
}

/// Packets that a thread of a CPUMAP entry takes at once (`CPUMAP_BATCH` in kernel/bpf/cpumap.c).
pub const CPUMAP_BATCH: f64 = 8.0;

/// Cost of an express packet, and of one that the engine forwards (docs/src/explanation/costs.md).
pub const EXPRESS_SERVICE_NS: f64 = 600.0;

/// Stack packets that pass in a turn of the Rx ring. At least one, because a packet that has begun is served.
pub fn stack_packets_of(turn_ns: f64, stack_packet_ns: f64) -> f64 {
    (turn_ns / stack_packet_ns).floor().max(1.0)
}

/// What stands in front of an RT packet in the express lane while the stack classes are shed: the stack packets that pass in
/// the first turn of the Rx ring.
pub fn stack_packets_of_a_turn(poll_target: Nanos, stack_packet_ns: f64) -> f64 {
    stack_packets_of(first_turn_ns(poll_target) as f64, stack_packet_ns)
}

/// Eq. 2: the largest ring budget that keeps `T_max` within `m` service times, at least 1.
pub fn largest_ring_budget(m: f64, rho_rt: f64) -> u32 {
    // The product of two decimals such as 6 * 0.5 must not lose a whole packet to rounding.
    ((m * (1.0 - rho_rt) + 1e-9).floor()).max(1.0) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_examples_of_the_paper_give_4_and_3() {
        assert_eq!(largest_ring_budget(6.0, 0.3), 4);
        assert_eq!(largest_ring_budget(6.0, 0.5), 3);
    }

    #[test]
    fn the_bound_follows_equation_1_and_is_infinite_at_full_rt_load() {
        let bound = LatencyBound::new(4.0, Ps::from_ns(571.0), 0.3);
        assert!((bound.t_max_ns - 4.0 * 571.0 / 0.7).abs() < 1e-9);
        assert!(
            LatencyBound::new(4.0, Ps::from_ns(571.0), 1.0)
                .t_max_ns
                .is_infinite()
        );
    }
}
