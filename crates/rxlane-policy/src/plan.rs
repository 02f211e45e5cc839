//! The planner: what a lane must be set to for a latency target (low-latency-router III.D, V.A.2), with the same bound
//! that `rxlane status` gives of the lane at work. RT is traffic that cannot wait and BE, best effort, everything else.

use serde::{Deserialize, Serialize};

use crate::bound::{CPUMAP_BATCH, LatencyBound, largest_ring_budget, stack_packets_of_a_turn};
use crate::class::Aim;
use crate::poll::DEVICE_BUDGET;
use crate::{PolicyError, Ps};

/// What the user knows of the traffic, and the latency target.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Wanted {
    /// Service time of a BE packet, ns: `x`.
    pub service_time_ns: f64,
    /// Service time of an RT packet, ns; the paper knows only one.
    pub rt_service_time_ns: f64,
    /// Highest rate of RT packets: `lambda_RT`.
    pub rt_pps: f64,
    /// Highest rate of all packets.
    pub total_pps: f64,
    /// What RT packets may wait at most, ns: `T*`.
    pub target_ns: f64,
}

/// The devices that a worker of the engine polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Polled {
    /// Ports whose rings take turns on the core.
    pub ports: u32,
    /// Packets of a port in one poll.
    pub device_budget: u32,
}

/// A plan for the lane that is to be at work.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "lane", rename_all = "kebab-case")]
pub enum Plan {
    /// RT is forwarded inside the poll.
    Express(ExpressPlan),
    /// A worker serves a ring a class.
    Engine(EnginePlan),
}

/// Ring budgets, and every quantity on the way to them.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct EnginePlan {
    /// What was asked.
    pub wanted: Wanted,
    /// What the worker polls.
    pub polled: Polled,
    /// `rho_RT = x_RT lambda_RT`.
    pub rho_rt: f64,
    /// The target in service times: `m = T* / x`.
    pub m: f64,
    /// The limit for all that is in front of an RT packet, before rounding down: `m (1 - rho_RT)`.
    pub b_limit: f64,
    /// Packets of the whole polls of other ports, which are part of what is in front.
    pub other_ports: u32,
    /// BE ring budget: `b`, without those.
    pub be_ring_budget: u32,
    /// Mean number of RT packets that arrive while `b` BE packets arrive: `b r / (1 - r)`, where `r` is the
    /// share of RT packets; none where all packets are RT.
    pub rt_per_turn: Option<f64>,
    /// RT ring budget: the rest of the device budget.
    pub rt_ring_budget: u32,
    /// The bound that the budgets give.
    pub bound: LatencyBound,
    /// Load of the core by all traffic; above 1, BE packets are lost.
    pub rho: f64,
}

/// How the stack classes give way to RT under overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Giving {
    /// Shed on the polling core, in long polls: `aim = "throughput"`.
    Throughput,
    /// Shed on the polling core, in short polls: `aim = "latency"`, and the default while RT traffic is there.
    Latency,
    /// Queued to other cores: `overload = "queue"` with a ring whose cores do not poll.
    Queue,
}

/// The setting of the stack classes that keeps the target, and what it gives.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct ExpressPlan {
    /// What was asked.
    pub wanted: Wanted,
    /// `rho_RT = x_RT lambda_RT`.
    pub rho_rt: f64,
    /// The setting that keeps the target and costs the stack classes least.
    pub setting: Giving,
    /// Polls of at most 64 packets that a turn of the Rx ring takes.
    pub polls: u32,
    /// The bound that it gives; `ring_budget` is the number of stack packets in front.
    pub bound: LatencyBound,
    /// Every setting with its bound, ns, the dearest for RT first.
    pub settings: [(Giving, f64); 3],
    /// Load of the core by all traffic; above 1, stack packets are shed.
    pub rho: f64,
}

impl Giving {
    /// All of them, the longest wait of RT first.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::Latency, Self::Queue];

    /// Stack packets that it lets stand in front of an RT packet.
    fn in_front(self, stack_packet_ns: f64) -> f64 {
        let turn = |aim: Aim| stack_packets_of_a_turn(aim.poll_target(), stack_packet_ns);
        match self {
            Self::Throughput => turn(Aim::Throughput),
            Self::Latency => turn(Aim::Latency),
            Self::Queue => CPUMAP_BATCH,
        }
    }
}

fn refuse<T>(why: String) -> Result<T, PolicyError> {
    Err(PolicyError::Plan(why))
}

/// All packets a second that fill a core of which RT traffic has its part.
pub fn saturating_pps(service_time_ns: f64, rt_service_time_ns: f64, rt_pps: f64) -> f64 {
    let rest = 1.0 - rt_pps * rt_service_time_ns / 1e9;
    rt_pps + rest.max(0.0) * 1e9 / service_time_ns
}

impl Wanted {
    /// What both lanes need; gives `rho_RT`.
    fn check(&self) -> Result<f64, PolicyError> {
        for (value, what) in [
            (self.service_time_ns, "the service time"),
            (self.rt_service_time_ns, "the service time of RT packets"),
            (self.rt_pps, "the RT rate"),
            (self.total_pps, "the total rate"),
        ] {
            if !(value.is_finite() && value > 0.0) {
                return refuse(format!("{what} must be positive"));
            }
        }
        if !(self.target_ns.is_finite() && self.target_ns >= 0.0) {
            return refuse("the target must be a time of 0 or more".into());
        }
        let rho_rt = self.rt_pps * self.rt_service_time_ns / 1e9;
        if rho_rt >= 1.0 {
            return refuse(format!(
                "RT traffic alone needs {:.0} % of the core, so no target can be met; lower the RT rate (police it) below {:.0} packets a second, or use more cores",
                rho_rt * 100.0,
                1e9 / self.rt_service_time_ns
            ));
        }
        if self.total_pps < self.rt_pps {
            return refuse(format!(
                "{:.0} RT packets a second are more than {:.0} in all: raise the total rate",
                self.rt_pps, self.total_pps
            ));
        }
        Ok(rho_rt)
    }

    fn bound(&self, in_front: f64, rho_rt: f64) -> LatencyBound {
        LatencyBound::new(in_front, Ps::from_ns(self.service_time_ns), rho_rt)
    }

    fn keeps(&self, bound: &LatencyBound) -> bool {
        bound.t_max_ns <= self.target_ns * (1.0 + 1e-9)
    }

    fn rho(&self, rho_rt: f64) -> f64 {
        rho_rt + (self.total_pps - self.rt_pps) * self.service_time_ns / 1e9
    }

    /// Plans the ring budgets of the engine.
    ///
    /// # Errors
    /// [`PolicyError::Plan`] for values that are not positive, an RT load of 1 or more, or a target that
    /// not even `b = 1` keeps; it names the least target that can be met.
    pub fn engine(self, polled: Polled) -> Result<EnginePlan, PolicyError> {
        if polled.ports == 0 || polled.device_budget < 2 {
            return refuse(
                "a core polls at least one port, with a device budget of 2 or more: one packet a class"
                    .into(),
            );
        }
        let rho_rt = self.check()?;
        let m = self.target_ns / self.service_time_ns;
        let b_limit = m * (1.0 - rho_rt);
        let other_ports = (polled.ports - 1).saturating_mul(polled.device_budget);
        let be_ring_budget = largest_ring_budget(m, rho_rt)
            .saturating_sub(other_ports)
            .clamp(1, polled.device_budget - 1);
        let bound = self.bound(f64::from(be_ring_budget) + f64::from(other_ports), rho_rt);
        if !self.keeps(&bound) {
            let polls = if other_ports == 0 {
                String::new()
            } else {
                format!(
                    " and polls of {} other port(s), {} packets each",
                    polled.ports - 1,
                    polled.device_budget
                )
            };
            let cure = if other_ports == 0 {
                "use a faster core"
            } else {
                "lower the device budget or poll fewer ports on the core"
            };
            return refuse(format!(
                "a target of {:.2} us cannot be met: a BE packet{polls}, with the RT traffic that arrives meanwhile, take {:.2} us, which is the least target; raise the target, or {cure}",
                self.target_ns / 1e3,
                bound.t_max_ns / 1e3
            ));
        }
        let r = self.rt_pps / self.total_pps;
        Ok(EnginePlan {
            wanted: self,
            polled,
            rho_rt,
            m,
            b_limit,
            other_ports,
            be_ring_budget,
            rt_per_turn: (r < 1.0).then(|| f64::from(be_ring_budget) * r / (1.0 - r)),
            rt_ring_budget: polled.device_budget - be_ring_budget,
            bound,
            rho: self.rho(rho_rt),
        })
    }

    /// Plans how the stack classes give way to the express lane.
    ///
    /// # Errors
    /// As [`Wanted::engine`].
    pub fn express(self) -> Result<ExpressPlan, PolicyError> {
        let rho_rt = self.check()?;
        let of = |g: Giving| self.bound(g.in_front(self.service_time_ns), rho_rt);
        let settings = Giving::ALL.map(|g| (g, of(g).t_max_ns));
        let Some(setting) = Giving::ALL.into_iter().find(|g| self.keeps(&of(*g))) else {
            let of = |g| of(g).t_max_ns / 1e3;
            return refuse(format!(
                "a target of {:.2} us cannot be met: RT waits for a turn of the Rx ring, {:.1} us, or, with the stack classes queued to other cores, for batches of {CPUMAP_BATCH} packets, {:.1} us, which is the least target; raise the target, or use the engine's ring budgets (--lane engine)",
                self.target_ns / 1e3,
                of(Giving::Latency),
                of(Giving::Queue),
            ));
        };
        let bound = of(setting);
        Ok(ExpressPlan {
            wanted: self,
            rho_rt,
            setting,
            polls: (bound.ring_budget / f64::from(DEVICE_BUDGET)).ceil() as u32,
            bound,
            settings,
            rho: self.rho(rho_rt),
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
            rt_service_time_ns: x,
            rt_pps: rho_rt / x * 1e9,
            total_pps: 1.5e6,
            target_ns: m * x,
        }
    }

    fn of_ports(ports: u32) -> Polled {
        Polled {
            ports,
            device_budget: DEVICE_BUDGET,
        }
    }

    #[test]
    fn the_two_examples_of_the_paper_give_4_and_3_and_budgets_that_fill_the_device_budget() {
        let plan = wanted(6.0, 0.3).engine(of_ports(1)).unwrap();
        assert_eq!((plan.be_ring_budget, plan.rt_ring_budget), (4, 60));
        let plan = wanted(6.0, 0.5).engine(of_ports(1)).unwrap();
        assert_eq!((plan.be_ring_budget, plan.rt_ring_budget), (3, 61));
        assert!(plan.bound.t_max_ns <= plan.wanted.target_ns);
    }

    #[test]
    fn while_four_be_packets_arrive_so_do_1_7_rt_packets_as_in_v_a_2() {
        let wanted = Wanted {
            rt_pps: 0.45e6,
            ..wanted(6.0, 0.3)
        };
        let plan = wanted.engine(of_ports(1)).unwrap();
        assert_eq!(plan.be_ring_budget, 4);
        assert!((plan.rt_per_turn.unwrap() - 1.714).abs() < 0.001);
        let only_rt = Wanted {
            total_pps: wanted.rt_pps,
            ..wanted
        };
        assert_eq!(only_rt.engine(of_ports(1)).unwrap().rt_per_turn, None);
    }

    #[test]
    fn polls_of_other_ports_stand_in_front_and_a_smaller_device_budget_shortens_them() {
        let plan = wanted(120.0, 0.3).engine(of_ports(2)).unwrap();
        assert_eq!((plan.be_ring_budget, plan.other_ports), (20, 64));
        assert_eq!(plan.bound.ring_budget, 84.0);
        let error = |polled| wanted(6.0, 0.3).engine(polled).unwrap_err().to_string();
        // (64 + 1) 571 ns / 0.7.
        assert!(
            error(of_ports(2)).contains("53.02 us, which is the least"),
            "{}",
            error(of_ports(2))
        );
        let small = Polled {
            ports: 2,
            device_budget: 3,
        };
        let plan = wanted(6.0, 0.3).engine(small).unwrap();
        assert_eq!((plan.be_ring_budget, plan.rt_ring_budget), (1, 2));
    }

    #[test]
    fn the_express_lane_is_set_to_what_costs_the_stack_least_and_keeps_the_target() {
        let with_target = |target_us: f64| {
            let wanted = Wanted {
                service_time_ns: 2000.0,
                rt_service_time_ns: 600.0,
                rt_pps: 100e3,
                total_pps: 0.5e6,
                target_ns: target_us * 1e3,
            };
            wanted.express()
        };
        // 8 targets of 34 us in packets of 2 us beside an RT load of 6 %, as `rxlane status` has it.
        let plan = with_target(300.0).unwrap();
        assert_eq!((plan.setting, plan.polls), (Giving::Latency, 3));
        assert_eq!(plan.bound.ring_budget, 136.0);
        assert!((plan.bound.t_max_ns - 272_000.0 / 0.94).abs() < 1.0);
        assert_eq!(with_target(1000.0).unwrap().setting, Giving::Throughput);
        assert_eq!(with_target(20.0).unwrap().setting, Giving::Queue);
        let error = with_target(10.0).unwrap_err().to_string();
        assert!(error.contains("17.0 us, which is the least"), "{error}");
    }

    #[test]
    fn impossible_wishes_are_refused_with_the_reason() {
        let of = |m, rho| wanted(m, rho);
        for (bad, why) in [
            (of(6.0, 1.0), "RT traffic alone"),
            (of(0.5, 0.1), "the least target"),
            (of(0.0, 0.1), "the least target"),
            (
                Wanted {
                    rt_pps: 1.6e6,
                    ..of(6.0, 0.3)
                },
                "more than",
            ),
            (
                Wanted {
                    target_ns: -1.0,
                    ..of(6.0, 0.3)
                },
                "0 or more",
            ),
            (
                Wanted {
                    service_time_ns: 0.0,
                    ..of(6.0, 0.3)
                },
                "must be positive",
            ),
            (
                Wanted {
                    service_time_ns: f64::NAN,
                    ..of(6.0, 0.3)
                },
                "must be positive",
            ),
        ] {
            for error in [
                bad.engine(of_ports(1)).unwrap_err(),
                bad.express().unwrap_err(),
            ] {
                assert!(error.to_string().contains(why), "{bad:?}: {error}");
            }
        }
    }
}
