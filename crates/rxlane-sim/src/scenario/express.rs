//! The keys of the scheme `express`: lanes, their costs, and what controls overload.

use rxlane_policy::overload::{GuardedClass, Plan, Service};
use rxlane_policy::{Nanos, PolicyError};
use serde::{Deserialize, Serialize};

/// What decides about packets under overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Controller {
    /// Nothing: the kernel with an express lane.
    None,
    /// Every packet but those of the highest class is dropped: what a ring that tells no classes apart can at best
    /// do for RT.
    DropAll,
    /// Budgets in packets from an estimated service time: rxlane's first controller, until 2026-11-23.
    PacketBudget,
    /// Budgets in time by wall-clock, doubled and halved: the prototype after it.
    TimeBudget,
    /// [`rxlane_policy::overload::Core`].
    Guard,
}

impl Controller {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::None,
        Self::DropAll,
        Self::PacketBudget,
        Self::TimeBudget,
        Self::Guard,
    ];
}

/// By what way express packets leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExpressEgress {
    /// Redirected into the NIC's ring.
    #[default]
    Direct,
    /// Redirected, until the link is full: then all but the highest class leave through the queueing discipline, and that one too
    /// where the ring is full ([`rxlane_policy::egress`]).
    Auto,
}

/// The lanes of an XDP router, class 0 being the highest express class. The service time of a stack packet is that of
/// `cpu` with its stages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Express {
    /// What controls overload.
    pub controller: Controller,
    /// How many classes are express, from the highest.
    pub classes: usize,
    /// Classifying and redirecting an express packet, ns.
    pub redirect_ns: f64,
    /// Classifying and dropping a packet, ns.
    pub drop_ns: f64,
    /// End of a poll that redirected packets, which leave then: sending them and waking the next hop, ns.
    pub flush_ns: f64,
    /// Reading the clock, as a guarded core does at each packet, ns.
    pub clock_ns: f64,
    /// How many packets of connections wait for a guarded core in a ring of it, as TCP does of classes with `overload = "auto"`; 0: they
    /// are shed like datagrams.
    pub tcp_ring: usize,
    /// Putting a packet into that ring, and taking it out, ns.
    pub queue_ns: f64,
    /// How many packets are collected before the stack takes them (`net.core.gro_normal_batch`). What a poll has collected at its
    /// end is taken then, or after it if the poll has used up its budget.
    pub stack_batch: usize,
    /// How long a ring may go without being empty while stack packets pass, us.
    pub target_us: f64,
    /// By what way express packets leave; needs `qdisc`.
    pub egress: ExpressEgress,
    /// Weights of the stack classes, highest first; empty: equal.
    pub weights: Vec<u32>,
    /// Length of the windows over which the core's use is compared with what was dropped, ms.
    pub window_ms: f64,
}

impl Default for Express {
    fn default() -> Self {
        Self {
            controller: Controller::Guard,
            classes: 1,
            redirect_ns: 300.0,
            drop_ns: 200.0,
            flush_ns: 3000.0,
            clock_ns: 20.0,
            tcp_ring: 1024,
            queue_ns: 400.0,
            stack_batch: 1,
            target_us: 34.0,
            egress: ExpressEgress::Direct,
            weights: Vec::new(),
            window_ms: 10.0,
        }
    }
}

impl Express {
    /// The plan of the guard for so many classes, and rings of so many packets.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn plan(&self, classes: usize, ring: usize) -> Result<Plan, PolicyError> {
        let target = Nanos((self.target_us * 1e3) as u64);
        let class = |i: usize| GuardedClass {
            target,
            service: if i < self.classes {
                Service::Express
            } else {
                let weight = self.weights.get(i - self.classes).copied().unwrap_or(1);
                Service::Stack { weight }
            },
        };
        Plan::new(
            &(0..classes).map(class).collect::<Vec<_>>(),
            ring as u32,
            false,
        )
    }
}

/// Something that takes the core at constant distances, whatever it does: a thread of higher priority, a hypervisor.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hog {
    /// From begin to begin, us.
    pub every_us: f64,
    /// Of which it takes, us.
    pub takes_us: f64,
}

/// A change of the offered load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadStep {
    /// From when, s of simulated time, warm-up included.
    pub from_s: f64,
    /// Times the rate of the scenario.
    pub factor: f64,
}
