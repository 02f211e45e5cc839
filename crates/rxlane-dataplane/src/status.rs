//! What a router is doing, read from its pinned maps. Works whether or not its daemon still runs.

mod classes;
mod ports;

use std::collections::{BTreeMap, BTreeSet};

use rxlane_policy::overload;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::DataplaneError;
use crate::bound::BoundStatus;
use crate::engine::{self, EngineStatus};
use crate::features::Feature;
use crate::help::Help;
use crate::instance::Instance;
pub use crate::lanes::latency::{LATENCY_POLLS, LatencyBucket, LatencyStatus};
use crate::lanes::overload::Shared;
use crate::layout::{ClassCounters, Core, Cpu, PortCounters, RingCounters};
use crate::pinned::get_percpu;
pub use crate::pppoe::SessionStatus;
use crate::queues::{self, QueueStatus};
pub use crate::tunnels::TunnelStatus;
use crate::verifier::Accepted;
use rxlane_system::links;
pub use rxlane_topology::macvlan::MacvlanStatus;
pub use rxlane_topology::master::MasterStatus;
pub use rxlane_topology::vlan::VlanStatus;

/// A router's state and counters. All counts are since the start, or since classes or ports changed.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct Status {
    /// Process id of the daemon; `None` when it is gone and the lanes work on their own.
    pub daemon: Option<u32>,
    /// File the configuration came from.
    pub config_file: String,
    /// Whether the router only observes: every packet goes to the Linux stack, and counters say what would become of it otherwise.
    pub observe: bool,
    /// Whether the lanes help now.
    pub help: Help,
    /// Release of the kernel.
    pub kernel: String,
    /// Features that this kernel lacks, with what that costs.
    pub missing_features: Vec<Feature>,
    /// Loaded programs, with what it took the kernel to accept each.
    pub programs: Vec<Accepted>,
    /// Things the operator should know.
    pub warnings: Vec<String>,
    /// Reloads that daemons have answered.
    pub reloads: u64,
    /// Why the last of them was refused, if it was; the configuration before it is in force.
    pub reload_refused: Option<String>,
    /// Seconds until the last reload is undone, if that waits to be confirmed.
    pub undone_in_s: Option<f64>,
    /// Ports that the program is attached to, in the order of the configuration.
    pub ports: Vec<PortStatus>,
    /// VLAN devices over the ports.
    pub vlans: Vec<VlanStatus>,
    /// Macvlan devices over the ports, such as virtual MAC addresses of VRRP.
    pub macvlans: Vec<MacvlanStatus>,
    /// Devices of PPPoE sessions, as they were found last.
    pub sessions: Vec<SessionStatus>,
    /// Tunnels over IPv4, as they were found last.
    pub tunnels: Vec<TunnelStatus>,
    /// Devices that ports belong to, such as bridges and VRFs, and why packets of some ports stay with the kernel.
    pub masters: Vec<MasterStatus>,
    /// Classes over all ports, highest priority first.
    pub classes: Vec<ClassStatus>,
    /// Cores that have polled.
    pub cores: Vec<CoreStatus>,
    /// Queues on the way of packets, in its order: what each holds and what it lost.
    pub queues: Vec<QueueStatus>,
    /// The AF_XDP engine, where the configuration has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub engine: Option<EngineStatus>,
    /// The latency bound of express classes.
    pub rt_bound: BoundStatus,
}

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
    /// What keeps those established flows with the kernel that meet it, because it must see every packet.
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

/// Reads the router of the current network namespace.
///
/// # Errors
/// [`DataplaneError::NotRunning`] when there is none.
pub fn read() -> Result<Status, DataplaneError> {
    let instance = Instance::current()?;
    let state = instance.load_state().ok_or(DataplaneError::NotRunning)?;
    let shared = Shared::open(&instance.pins).map_err(|_| DataplaneError::NotRunning)?;
    let mut cores: BTreeMap<u8, Vec<Core>> = BTreeMap::new();
    for port in state.ports.values() {
        cores.insert(port.slot, get_percpu(&shared.cores, u32::from(port.slot))?);
    }
    let devices = links::all()?;
    let ports = ports::all(&state, &shared, &cores, &devices)?;
    let daemon = instance.daemon();
    let polling = polling(&shared, &cores)?;
    let classes = classes::all(&state, &shared, &cores, &polling, daemon.is_some())?;
    let is_here = state.ports.values().any(|port| port.ifindex.is_some());
    let all_at_tc = is_here && !state.passes_the_stack_by();
    Ok(Status {
        daemon,
        config_file: state.config_file.display().to_string(),
        observe: state.options.observe,
        queues: queues::all(&ports, &classes, &devices)?,
        help: Help::of(state.options.observe, &classes, &polling, &ports),
        kernel: state.features.kernel.clone(),
        missing_features: state.features.missing().cloned().collect(),
        programs: state.programs.clone(),
        warnings: {
            let of_ports = state.warnings_of_ports(&devices).into_iter();
            state.warnings.iter().cloned().chain(of_ports).collect()
        },
        reloads: instance.reload_count(),
        reload_refused: instance.reload_error(),
        undone_in_s: state.unconfirmed.as_ref().map(|u| u.left().as_secs_f64()),
        engine: engine::status::read(&instance, &state)?,
        rt_bound: BoundStatus::of(&state.config, &polling, daemon.is_some(), all_at_tc),
        cores: polling,
        vlans: state.topology.vlans.clone(),
        macvlans: state.topology.macvlans.clone(),
        sessions: state.sessions.clone(),
        tunnels: state.tunnels.clone(),
        masters: state.topology.masters.clone(),
        ports,
        classes,
    })
}

/// Cores that have polled, with their guards.
fn polling(
    shared: &Shared,
    cores: &BTreeMap<u8, Vec<Core>>,
) -> Result<Vec<CoreStatus>, DataplaneError> {
    let now = crate::clock::monotonic().0;
    let cpus = get_percpu::<Cpu>(&shared.cpus, 0)?;
    let polls = |core: usize| cores.values().any(|all| all[core].polls > 0);
    let all = cpus.iter().enumerate().filter(|(core, _)| polls(*core));
    Ok(all.map(|(core, cpu)| guard(core, cpu, now)).collect())
}

fn guard(core: usize, cpu: &Cpu, now: u64) -> CoreStatus {
    const SECOND_NS: u64 = 1_000_000_000;
    let guard = &cpu.guard;
    // A core without packets does not poll, and so does not leave the guard.
    let overloaded = guard.guarded != 0 && now.saturating_sub(guard.last_ns) < SECOND_NS;
    CoreStatus {
        core,
        overloaded,
        overloads: cpu.guards,
        overloaded_s: cpu.guarded_ns as f64 / 1e9,
        service_time_ns: guard.cost_ns,
        idle_share: guard.idle_ns as f64 / overload::IDLE_MEMORY_NS as f64,
        fits: guard.fits != 0,
        turn_us: guard.turn_ns as f64 / 1e3,
        longest_wait_us: cpu.longest_wait_ns as f64 / 1e3,
    }
}
