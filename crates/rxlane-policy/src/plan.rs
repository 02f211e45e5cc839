//! The budget planner: ring budgets for a latency target (low-latency-router III.D, V.A.2). RT is traffic
//! that cannot wait and BE, best effort, everything else.

use serde::{Deserialize, Serialize};

use crate::bound::{LatencyBound, largest_ring_budget};
use crate::poll::DEVICE_BUDGET;
use crate::{PolicyError, Ps};

/// What the user knows of the traffic, and the latency target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Service time of a packet, ns: `x`.
    pub service_time_ns: f64,
    /// Highest rate of RT packets: `lambda_RT`.
    pub rt_pps: f64,
    /// Highest rate of all packets, for the RT ring budget.
    pub total_pps: f64,
    /// What RT packets may wait at most, ns: `T*`.
    pub target_ns: f64,
}

/// Ring budgets, and every quantity on the way to them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What was asked.
    pub wanted: Wanted,
    /// `rho_RT = x lambda_RT`.
    pub rho_rt: f64,
    /// The target in service times: `m = T* / x`.
    pub m: f64,
    /// The limit for `b`, before rounding down: `m (1 - rho_RT)`.
    pub b_limit: f64,
    /// BE ring budget: `b`.
    pub be_ring_budget: u32,
    /// Mean number of RT packets that arrive while `b` BE packets arrive: `b r / (1 - r)`, where `r` is the
    /// share of RT packets.
    pub rt_per_turn: f64,
    /// RT ring budget: the rest of the device budget.
    pub rt_ring_budget: u32,
    /// The bound that the budgets give.
    pub bound: LatencyBound,
    /// Load of the core by all traffic; above 1, BE packets are lost.
    pub rho: f64,
}

impl Wanted {
    /// Plans the ring budgets.
    ///
    /// # Errors
    /// [`PolicyError::Plan`] for values that are not positive, an RT load of 1 or more, or a target that
    /// not even `b = 1` keeps.
    pub fn plan(self) -> Result<Plan, PolicyError> {
        for (value, what) in [
            (self.service_time_ns, "the service time"),
            (self.rt_pps, "the RT rate"),
            (self.total_pps, "the total rate"),
            (self.target_ns, "the target"),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return Err(PolicyError::Plan(format!("{what} must be positive")));
            }
        }
        if self.total_pps < self.rt_pps {
            return Err(PolicyError::Plan(format!(
                "{:.0} RT packets a second are more than {:.0} in all: raise the total rate",
                self.rt_pps, self.total_pps
            )));
        }
        let rho_rt = self.rt_pps * self.service_time_ns / 1e9;
        if rho_rt >= 1.0 {
            return Err(PolicyError::Plan(format!(
                "RT traffic alone needs {:.0} % of the core: no ring budget bounds its latency; lower the RT rate (police it), or use more cores",
                rho_rt * 100.0
            )));
        }
        let m = self.target_ns / self.service_time_ns;
        let b_limit = m * (1.0 - rho_rt);
        let be_ring_budget = largest_ring_budget(m, rho_rt).min(DEVICE_BUDGET - 1);
        let bound = LatencyBound::new(
            f64::from(be_ring_budget),
            Ps::from_ns(self.service_time_ns),
            rho_rt,
        );
        if bound.t_max_ns > self.target_ns * (1.0 + 1e-9) {
            return Err(PolicyError::Plan(format!(
                "a target of {:.2} us is below one BE packet's service, {:.2} us with the RT traffic that arrives meanwhile: raise the target, or use a faster core",
                self.target_ns / 1e3,
                bound.t_max_ns / 1e3
            )));
        }
        let r = self.rt_pps / self.total_pps;
        Ok(Plan {
            wanted: self,
            rho_rt,
            m,
            b_limit,
            be_ring_budget,
            rt_per_turn: if r < 1.0 {
                f64::from(be_ring_budget) * r / (1.0 - r)
            } else {
                f64::INFINITY
            },
            rt_ring_budget: DEVICE_BUDGET - be_ring_budget,
            bound,
            rho: self.total_pps * self.service_time_ns / 1e9,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(m: f64, rho_rt: f64) -> Wanted {
        let x = 571.0;
        Wanted {
            service_time_ns: x,
            rt_pps: rho_rt / x * 1e9,
            total_pps: 1.5e6,
            target_ns: m * x,
        }
    }

    #[test]
    fn the_two_examples_of_the_paper_give_4_and_3_and_budgets_that_fill_the_device_budget() {
        let plan = wanted(6.0, 0.3).plan().unwrap();
        assert_eq!((plan.be_ring_budget, plan.rt_ring_budget), (4, 60));
        let plan = wanted(6.0, 0.5).plan().unwrap();
        assert_eq!((plan.be_ring_budget, plan.rt_ring_budget), (3, 61));
        assert!(plan.bound.t_max_ns <= plan.wanted.target_ns);
    }

    #[test]
    fn impossible_wishes_are_refused_with_the_reason() {
        for bad in [
            wanted(6.0, 1.0),
            wanted(0.5, 0.1),
            Wanted {
                rt_pps: 2e6,
                ..wanted(6.0, 0.3)
            },
            Wanted {
                target_ns: -1.0,
                ..wanted(6.0, 0.3)
            },
            Wanted {
                service_time_ns: f64::NAN,
                ..wanted(6.0, 0.3)
            },
        ] {
            assert!(bad.plan().is_err(), "{bad:?}");
        }
    }
}
