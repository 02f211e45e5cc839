//! What is told of ports, cores, classes and rings.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_bpf::layout::{ClassCounters, PortCounters, RingCounters};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lanes::latency::LatencyStatus;

/// One interface of the router.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct PortStatus {
    /// Name of the interface that the program is attached to.
    pub name: String,
    /// The alternative name by which `ports` names it; missing where that is its own name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub named_as: Option<String>,
    /// VLAN devices over it that `ports` names instead of it, and whose packets alone are served; none where it is named itself.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub named: Vec<String>,
    /// Index; `None` while the device is gone.
    pub ifindex: Option<u32>,
    /// `native` or `generic` XDP, or `tc`: at tc ingress.
    pub mode: Option<String>,
    /// Whether Linux serves it alone for now, at tc ingress: so few of many packets are express that the lane would cost more than it saves.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub rests: bool,
    /// How packets of express classes leave through the port now: `directly`; by the `stack` and its queueing discipline, as where its driver takes no
    /// frames from XDP; or as the lane's through its `qdisc`, as where no port is served in XDP and while its driver refuses frames.
    pub leaves: &'static str,
    /// What of the port is full, so that packets wait in its queueing discipline: the `ring` of its driver, which has refused frames; or the
    /// `link`, by which the highest class still leaves directly. Missing where nothing is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub full: Option<&'static str>,
    /// Where something is: for how many seconds nothing may wait in its queueing discipline before packets leave directly again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusing_s: Option<u32>,
    /// Queueing disciplines that hold the port to a rate.
    pub shapers: BTreeSet<String>,
    /// Express frames sent and refused by this port's driver.
    #[serde(flatten)]
    pub egress: PortCounters,
    /// Times that NAPI has polled the port; not counted while no port is served in XDP.
    pub polls: u64,
    /// Packets left to the kernel, by reason.
    pub to_kernel: BTreeMap<&'static str, u64>,
    /// Packets that the router itself must hear, and that came first while the core was overloaded.
    pub control: u64,
    /// Packets of the same protocols, of a sender above its rate or above that of all, which were treated as any other. Of such a sender
    /// those count, too, that are for somebody else.
    pub control_policed: u64,
    /// Counters by class.
    pub classes: BTreeMap<String, ClassCounters>,
    /// Times that NAPI has polled the port, by core.
    pub cores: BTreeMap<usize, u64>,
}

/// A core that polls ports, and what its guard believes (docs/src/explanation/overload-control.md).
#[derive(Debug, Clone, Serialize, Deserialize, JsonSchema)]
pub struct CoreStatus {
    /// Number of the core.
    pub core: usize,
    /// Whether it is overloaded now: guarded, and polled within the last second.
    pub overloaded: bool,
    /// Times that overload began.
    pub overloads: u64,
    /// Seconds spent overloaded, up to the last time it ended.
    pub overloaded_s: f64,
    /// For how long it has been overloaded now, s; 0: it is not.
    pub overloaded_for_s: f64,
    /// Measured service time of a stack packet, ns; 0 before the first overload.
    pub service_time_ns: u64,
    /// Share of the time that the core had nothing to do, over some ms and while overloaded; more than 0.0625 counts as that.
    pub idle_share: f64,
    /// Whether the guard finds that all that is asked for fits into the time that there is.
    pub fits: bool,
    /// How long an Rx ring may go without being found empty before all stack packets are dropped until it is, us; 0 before the first overload.
    pub turn_us: f64,
    /// The longest that express packets may have waited while overloaded, us: from when their Rx ring began to fill to the
    /// end of the poll that sent them. What the core did besides is part of it.
    pub longest_wait_us: f64,
    /// The same within the last second or two; 0: there were none.
    pub longest_wait_lately_us: f64,
}

/// One class over all ports.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct ClassStatus {
    /// Name as configured.
    pub name: String,
    /// `express`, `fast` or `stack`.
    pub lane: &'static str,
    /// Sums over ports and cores.
    #[serde(flatten)]
    pub counters: ClassCounters,
    /// `forward`, `pass`, `shed` or `queue`: what the lane does now. An express class that passes stays with the kernel.
    pub at_work: &'static str,
    /// Why.
    pub why: String,
    /// What keeps the flows that meet it with the kernel, because it must see every packet of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<String>,
    /// Rings by core, where the class has some.
    pub rings: Vec<RingStatus>,
    /// How long its packets were inside of the router; missing where that is not measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<LatencyStatus>,
}

/// A class's ring on one core.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct RingStatus {
    /// Core that serves it.
    pub core: u32,
    /// Packets it holds at most.
    pub size: u32,
    /// Packets it holds now.
    pub occupancy: u64,
    /// What went through the ring.
    #[serde(flatten)]
    pub counters: RingCounters,
}
