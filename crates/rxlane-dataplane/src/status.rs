//! What a router is doing, read from its pinned maps and its state. Works whether or not its daemon still runs: devices are then shown as
//! they were at its end, which is what the programs know.

mod classes;
pub(crate) mod parts;
mod ports;

use std::collections::BTreeMap;

pub use parts::{ClassStatus, CoreStatus, PortStatus, RingStatus};
use rxlane_bpf::features::Feature;
use rxlane_bpf::layout::{Core, Cpu};
use rxlane_bpf::pinned::get_percpu;
use rxlane_bpf::verifier::Accepted;
use rxlane_policy::overload;
use rxlane_system::links;
pub use rxlane_topology::macvlan::MacvlanStatus;
pub use rxlane_topology::master::MasterStatus;
pub use rxlane_topology::session::SessionStatus;
pub use rxlane_topology::tunnel::TunnelStatus;
pub use rxlane_topology::vlan::VlanStatus;
use schemars::JsonSchema;
use serde::Serialize;

use crate::DataplaneError;
use crate::bound::BoundStatus;
use crate::engine_status::{self, EngineStatus};
use crate::flows;
use crate::help::Help;
use crate::instance::Instance;
pub use crate::lanes::latency::{LATENCY_POLLS, LatencyBucket, LatencyStatus};
use crate::lanes::overload::Shared;
use crate::queues::{self, QueueStatus};

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
            let of_counters = flows::warning(&state.config, state.options);
            let all = state.warnings.iter().cloned().chain(of_ports);
            all.chain(of_counters).collect()
        },
        reloads: instance.reload_count(),
        reload_refused: instance.reload_error(),
        undone_in_s: state.unconfirmed.as_ref().map(|u| u.left().as_secs_f64()),
        engine: engine_status::read(&instance, &state)?,
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

/// As bpf/overload/cpu.h keeps it: of the second under way, and of the one before.
fn longest_wait_lately_ns(cpu: &Cpu, now: u64) -> u64 {
    const LATELY_NS: u64 = 1 << 30;
    match now.saturating_sub(cpu.lately_ns) / LATELY_NS {
        0 => cpu.wait_ns.max(cpu.wait_before_ns),
        1 => cpu.wait_ns,
        _ => 0,
    }
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
        overloaded_for_s: match overloaded {
            true => now.saturating_sub(guard.entered_ns) as f64 / 1e9,
            false => 0.0,
        },
        service_time_ns: guard.cost_ns,
        idle_share: guard.idle_ns as f64 / overload::IDLE_MEMORY_NS as f64,
        fits: guard.fits != 0,
        turn_us: guard.turn_ns as f64 / 1e3,
        longest_wait_us: cpu.longest_wait_ns as f64 / 1e3,
        longest_wait_lately_us: longest_wait_lately_ns(cpu, now) as f64 / 1e3,
    }
}
