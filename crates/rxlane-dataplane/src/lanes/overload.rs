//! The long-lived part: shared maps and the programs that end polls and count rings.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, MapType};
use rxlane_bpf::features::{CPUMAP_TRACE, DEVMAP_TRACE, Features, NAPI_TRACE, REDIRECT_TRACE};
use rxlane_bpf::layout::{
    Core, Cpu, DeviceOver, Gates, GuardPlan, LinkQueue, MAX_PORTS, PortCounters, PortTable,
    RingCounters,
};
use rxlane_bpf::pinned;
use rxlane_bpf::possible_cores;
use rxlane_bpf::skeletons::overload as skel;
use rxlane_bpf::verifier::{self, Accepted};
use rxlane_bpf::{BpfError, BpfTried, FileTried};

use crate::DataplaneError;
use crate::instance::Instance;
use crate::lanes::latency::Latencies;
use crate::lanes::polls;
use crate::lanes::trace::TraceMaps;

/// The programs of overload.bpf.c, with the feature that each needs.
const PROGRAMS: [(&str, &str); 6] = [
    ("end_of_poll", NAPI_TRACE),
    ("begin_of_polls", NAPI_TRACE),
    ("ring_filled", CPUMAP_TRACE),
    ("ring_served", CPUMAP_TRACE),
    ("express_sent", DEVMAP_TRACE),
    ("express_refused", REDIRECT_TRACE),
];

/// Of the loaded programs those that stay across configurations.
pub(crate) fn of_these(programs: &[Accepted]) -> Vec<Accepted> {
    let stays = |p: &&Accepted| PROGRAMS.iter().any(|(name, _)| p.name == *name);
    programs.iter().filter(stays).cloned().collect()
}

/// Maps that stay when the configuration changes.
pub(crate) struct Shared {
    pub(crate) ports: MapHandle,
    pub(crate) cores: MapHandle,
    pub(crate) cpus: MapHandle,
    pub(crate) guard_plans: MapHandle,
    pub(crate) buckets: MapHandle,
    pub(crate) gates: MapHandle,
    pub(crate) session_changes: MapHandle,
    pub(crate) tunnels: MapHandle,
    pub(crate) ring_classes: MapHandle,
    pub(crate) ring_counters: MapHandle,
    pub(crate) port_counts: MapHandle,
    pub(crate) refusing: MapHandle,
    pub(crate) link_queues: MapHandle,
    pub(crate) latencies: MapHandle,
    pub(crate) trace: TraceMaps,
}

impl Shared {
    /// Opens what a running or orphaned router has pinned.
    ///
    /// # Errors
    /// [`DataplaneError::Layout`] for what another build of this version has left.
    pub(crate) fn open(pins: &Path) -> Result<Self, DataplaneError> {
        let shared = Self {
            ports: pinned::open_map(pins, "ports")?,
            cores: pinned::open_map(pins, "cores")?,
            cpus: pinned::open_map(pins, "cpus")?,
            guard_plans: pinned::open_map(pins, "guard_plans")?,
            buckets: pinned::open_map(pins, "buckets")?,
            gates: pinned::open_map(pins, "gates")?,
            session_changes: pinned::open_map(pins, "session_changes")?,
            tunnels: pinned::open_map(pins, "tunnels")?,
            ring_classes: pinned::open_map(pins, "ring_classes")?,
            ring_counters: pinned::open_map(pins, "ring_counters")?,
            port_counts: pinned::open_map(pins, "counts_of_ports")?,
            refusing: pinned::open_map(pins, "refusing")?,
            link_queues: pinned::open_map(pins, "link_queues")?,
            latencies: pinned::open_map(pins, "latencies")?,
            trace: TraceMaps::open(pins)?,
        };
        pinned::check_layout::<PortTable>(&shared.ports, "ports")?;
        pinned::check_layout::<Core>(&shared.cores, "cores")?;
        pinned::check_layout::<Cpu>(&shared.cpus, "cpus")?;
        pinned::check_layout::<GuardPlan>(&shared.guard_plans, "guard_plans")?;
        pinned::check_layout::<Gates>(&shared.gates, "gates")?;
        pinned::check_layout::<u32>(&shared.session_changes, "session_changes")?;
        pinned::check_layout::<DeviceOver>(&shared.tunnels, "tunnels")?;
        pinned::check_layout::<RingCounters>(&shared.ring_counters, "ring_counters")?;
        pinned::check_layout::<PortCounters>(&shared.port_counts, "counts_of_ports")?;
        pinned::check_layout::<LinkQueue>(&shared.link_queues, "link_queues")?;
        pinned::check_layout::<Latencies>(&shared.latencies, "latencies")?;
        Ok(shared)
    }

    /// Loads the programs, pins everything, and attaches all but those of polls ([`polls`]).
    pub(crate) fn load(
        instance: &Instance,
        features: &Features,
    ) -> Result<(Self, Vec<Accepted>), DataplaneError> {
        let accepted = with_programs(features, |loaded| {
            let m = &loaded.maps;
            let buckets = buckets()?;
            let pin = |fd: BorrowedFd<'_>, name: &str| pinned::pin(fd, &instance.pins.join(name));
            pin(m.ports.as_fd(), "ports")?;
            pin(m.cores.as_fd(), "cores")?;
            pin(m.cpus.as_fd(), "cpus")?;
            pin(m.guard_plans.as_fd(), "guard_plans")?;
            pin(buckets.as_fd(), "buckets")?;
            pin(super::gates::create()?.as_fd(), "gates")?;
            pin(super::sessions::create()?.as_fd(), "session_changes")?;
            pin(super::tunnels::create()?.as_fd(), "tunnels")?;
            pin(m.ring_classes.as_fd(), "ring_classes")?;
            pin(m.ring_counters.as_fd(), "ring_counters")?;
            pin(m.port_counts.as_fd(), "counts_of_ports")?;
            pin(m.refusing.as_fd(), "refusing")?;
            pin(m.link_queues.as_fd(), "link_queues")?;
            pin(m.latencies.as_fd(), "latencies")?;
            TraceMaps::create()?.pin(&instance.pins)?;
            let links = instance.pins.join("overload");
            std::fs::create_dir_all(&links).at(&links)?;
            let programs = programs(loaded, features);
            for (program, name) in &programs {
                if polls::OF_POLLS.contains(name) {
                    polls::keep(instance, program, name)?;
                } else {
                    let link = pinned::attach_tracing(program.as_fd(), name)?;
                    pinned::pin(link.as_fd(), &links.join(name))?;
                }
            }
            Ok(ask(&programs))
        })?;
        Ok((Self::open(&instance.pins)?, accepted))
    }

    /// Loads the programs without attaching or pinning anything: all of it goes with the value.
    pub(crate) fn rehearse(features: &Features) -> Result<(Self, Vec<Accepted>), DataplaneError> {
        with_programs(features, |loaded| {
            let m = &loaded.maps;
            let shared = Self {
                ports: pinned::keep(&m.ports)?,
                cores: pinned::keep(&m.cores)?,
                cpus: pinned::keep(&m.cpus)?,
                guard_plans: pinned::keep(&m.guard_plans)?,
                buckets: buckets()?,
                gates: super::gates::create()?,
                session_changes: super::sessions::create()?,
                tunnels: super::tunnels::create()?,
                ring_classes: pinned::keep(&m.ring_classes)?,
                ring_counters: pinned::keep(&m.ring_counters)?,
                port_counts: pinned::keep(&m.port_counts)?,
                refusing: pinned::keep(&m.refusing)?,
                link_queues: pinned::keep(&m.link_queues)?,
                latencies: pinned::keep(&m.latencies)?,
                trace: TraceMaps::create()?,
            };
            Ok((shared, ask(&programs(loaded, features))))
        })
    }
}

/// Loads the programs that this kernel has the tracepoints for.
fn with_programs<T>(
    features: &Features,
    then: impl FnOnce(&skel::OverloadSkel<'_>) -> Result<T, DataplaneError>,
) -> Result<T, DataplaneError> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::OverloadSkelBuilder::default()
        .open(&mut storage)
        .tried(|| "open the tracing programs".into())?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.netns_cookie = rxlane_system::netns::cookie()?;
        // There a tracing program keeps threads waiting that a poll would not.
        constants.awaits = u32::from(!is_preempt_rt());
    }
    let p = &mut open.progs;
    let all = [
        &mut p.end_of_poll,
        &mut p.begin_of_polls,
        &mut p.ring_filled,
        &mut p.ring_served,
        &mut p.express_sent,
        &mut p.express_refused,
    ];
    for (program, (_, feature)) in all.into_iter().zip(PROGRAMS) {
        program.set_autoload(features.has(feature));
    }
    let loaded = verifier::load("end_of_poll", || open.load())?;
    let m = &loaded.maps;
    pinned::check_layout::<PortTable>(&m.ports, "ports")?;
    pinned::check_layout::<Core>(&m.cores, "cores")?;
    pinned::check_layout::<GuardPlan>(&m.guard_plans, "guard_plans")?;
    pinned::check_layout::<Cpu>(&m.cpus, "cpus")?;
    pinned::check_layout::<RingCounters>(&m.ring_counters, "ring_counters")?;
    pinned::check_layout::<PortCounters>(&m.port_counts, "port_counts")?;
    pinned::check_layout::<Latencies>(&m.latencies, "latencies")?;
    then(&loaded)
}

/// The programs that were loaded, with their names.
fn programs<'a>(
    loaded: &'a skel::OverloadSkel<'_>,
    features: &Features,
) -> Vec<(&'a libbpf_rs::ProgramMut<'a>, &'static str)> {
    let p = &loaded.progs;
    [
        &p.end_of_poll,
        &p.begin_of_polls,
        &p.ring_filled,
        &p.ring_served,
        &p.express_sent,
        &p.express_refused,
    ]
    .into_iter()
    .zip(PROGRAMS)
    .filter(|(_, (_, feature))| features.has(feature))
    .map(|(program, (name, _))| (program, name))
    .collect()
}

fn ask(programs: &[(&libbpf_rs::ProgramMut<'_>, &str)]) -> Vec<Accepted> {
    programs
        .iter()
        .map(|(program, name)| Accepted::ask(name, program.as_fd()))
        .collect()
}

/// Token buckets keep their fill across configurations.
fn buckets() -> Result<MapHandle, BpfError> {
    pinned::create(
        MapType::Array,
        "buckets",
        4,
        8,
        rxlane_policy::class::MAX_CLASSES,
        0,
    )
}

/// Counters of other classes would mislead: they start again.
pub(crate) fn reset_counters(shared: &Shared) -> Result<(), BpfError> {
    (0..MAX_PORTS as u8).try_for_each(|slot| reset_port(shared, slot))?;
    let classes = 0..rxlane_policy::class::MAX_CLASSES as u32;
    classes
        .into_iter()
        .try_for_each(|class| zero(&shared.latencies, class, size_of::<Latencies>()))
}

/// Sets the values of all CPUs behind a key to nothing.
fn zero(map: &MapHandle, key: u32, size: usize) -> Result<(), BpfError> {
    use libbpf_rs::{MapCore, MapFlags};
    let cores = possible_cores()?.len();
    map.update_percpu(
        &key.to_ne_bytes(),
        &vec![vec![0u8; size]; cores],
        MapFlags::ANY,
    )
    .tried(|| "reset the counters".into())
}

/// What a port left behind that had the slot before is not the new one's.
pub(crate) fn reset_port(shared: &Shared, slot: u8) -> Result<(), BpfError> {
    let slot = u32::from(slot);
    pinned::put(&shared.refusing, slot, &0u32.to_ne_bytes())?;
    let unknown = LinkQueue::default();
    pinned::put(&shared.link_queues, slot, bytemuck::bytes_of(&unknown))?;
    zero(&shared.cores, slot, size_of::<Core>())?;
    zero(&shared.port_counts, slot, size_of::<PortCounters>())
}

/// Moves the calling thread to the core that polls least.
///
/// The kernel verifies a program for some ms without giving way on its core; a port polled there would
/// lose what its ring cannot hold meanwhile.
pub(crate) fn leave_polling_cores(shared: &Shared) {
    let mut polls: Vec<u64> = Vec::new();
    for slot in 0..MAX_PORTS as u32 {
        let Ok(cores) = pinned::get_percpu::<Core>(&shared.cores, slot) else {
            return;
        };
        polls.resize(polls.len().max(cores.len()), 0);
        polls
            .iter_mut()
            .zip(&cores)
            .for_each(|(sum, core)| *sum += core.polls);
    }
    if polls.iter().all(|p| *p == 0) {
        return;
    }
    if let Some((core, _)) = polls.iter().enumerate().min_by_key(|(_, p)| **p) {
        // A core that is offline or forbidden is no reason not to go on.
        if let Err(error) = rxlane_system::threads::pin(0, core) {
            tracing::debug!(%error, "staying on a polling core");
        }
    }
}

/// Whether the kernel says that it is built for real-time preemption.
fn is_preempt_rt() -> bool {
    let version = nix::sys::utsname::uname().map(|u| u.version().to_string_lossy().into_owned());
    version.is_ok_and(|v| v.contains("PREEMPT_RT"))
}
