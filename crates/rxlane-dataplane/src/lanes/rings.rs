//! The rings of stack classes: one CPUMAP a class, one entry and kernel thread a core.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use libbpf_rs::{MapHandle, MapType};
use rxlane_bpf::features::{CPUMAP_TRACE, Features};
use rxlane_bpf::layout::RING_CPUS;
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_bpf::{is_online, possible_cores};
use rxlane_config::{Datapath, RouterConfig, ring_cores};
use rxlane_policy::class::{Class, Lane, MAX_CLASSES, Overload, Ring, ThreadScheduling};
use rxlane_system::threads::{self, Scheduling};

use crate::DataplaneError;
use crate::instance::Instance;
use crate::lanes::overload::Shared;

/// Whether TCP waits for an overloaded core where other packets are shed. The engine has rings of its own.
pub(crate) fn parks_tcp(config: &RouterConfig, features: &Features) -> bool {
    features.cpumaps_merge && features.has(CPUMAP_TRACE) && config.datapath == Datapath::Express
}

/// Cores that get a ring of the class. One that comes online later has none for TCP, which is shed there.
fn cores_of(class: &Class, parks_tcp: bool) -> Result<Option<Vec<u32>>, DataplaneError> {
    let mut all = possible_cores()?;
    all.truncate(RING_CPUS);
    if matches!(
        &class.lane,
        Lane::Stack {
            overload: Overload::Auto,
            ..
        }
    ) {
        all.retain(is_online);
    }
    Ok(ring_cores(class, &all, parks_tcp))
}

/// A CPUMAP without entries, also the template of the map of maps.
pub(crate) fn empty_ring(name: &str) -> Result<MapHandle, BpfError> {
    pinned::create(MapType::Cpumap, name, 4, 8, possible_cores()?.len(), 0)
}

/// Makes the rings that `classes` need, reusing those of `old` that stay as they are.
///
/// A ring that changes is a new one: the old one is served until it is empty.
pub(crate) fn prepare(
    instance: &Instance,
    classes: &[Class],
    parks_tcp: bool,
    old: Option<&[Class]>,
) -> Result<Vec<Option<MapHandle>>, DataplaneError> {
    let mut rings = Vec::new();
    for (i, class) in classes.iter().enumerate() {
        let Some(cores) = cores_of(class, parks_tcp)? else {
            rings.push(None);
            continue;
        };
        let Lane::Stack { ring, .. } = &class.lane else {
            rings.push(None);
            continue;
        };
        let same = old
            .and_then(|o| o.get(i))
            .is_some_and(|o| same_ring(o, class));
        let pinned = if same {
            pinned::open_map(&instance.pins, &pin_name(i)).ok()
        } else {
            None
        };
        let map = match pinned {
            Some(map) => map,
            None => new_ring(i, ring, &cores)?,
        };
        rings.push(Some(map));
    }
    Ok(rings)
}

/// Schedules the threads of all rings.
pub(crate) fn schedule_all(
    classes: &[Class],
    parks_tcp: bool,
    rings: &[Option<MapHandle>],
) -> Result<(), DataplaneError> {
    for (class, map) in classes.iter().zip(rings) {
        let cores = cores_of(class, parks_tcp)?;
        if let (Some(map), Lane::Stack { ring, .. }, Some(cores)) = (map, &class.lane, cores) {
            schedule(map, ring, cores.len())?;
        }
    }
    Ok(())
}

fn same_ring(old: &Class, new: &Class) -> bool {
    match (&old.lane, &new.lane) {
        (
            Lane::Stack {
                ring: a,
                overload: x,
                ..
            },
            Lane::Stack {
                ring: b,
                overload: y,
                ..
            },
        ) => old.name == new.name && a.packets == b.packets && a.cores == b.cores && x == y,
        _ => false,
    }
}

fn new_ring(class: usize, ring: &Ring, cores: &[u32]) -> Result<MapHandle, DataplaneError> {
    let map = empty_ring(&format!("rxlane_ring_{class}"))?;
    for core in cores {
        // struct bpf_cpumap_val: queue size, and no program at the serving end.
        let mut value = ring.packets.to_ne_bytes().to_vec();
        value.extend([0; 4]);
        pinned::put(&map, *core, &value)?;
    }
    Ok(map)
}

/// Finds the ring's kernel threads (`cpumap/CORE/map:ID`) and schedules them.
fn schedule(map: &MapHandle, ring: &Ring, cores: usize) -> Result<(), DataplaneError> {
    let id = pinned::id_of(map)?;
    let suffix = format!("/map:{id}");
    let how = match ring.thread {
        ThreadScheduling::Nice(nice) => Scheduling::Nice(i32::from(nice)),
        ThreadScheduling::Fifo(priority) => Scheduling::Fifo(i32::from(priority)),
    };
    // The kernel starts the threads before the update returns, but names them a moment later.
    let deadline = Instant::now() + Duration::from_secs(1);
    loop {
        let found = threads::find(|name| name.starts_with("cpumap/") && name.ends_with(&suffix));
        if found.len() >= cores || Instant::now() > deadline {
            for thread in found {
                threads::schedule(thread, how)?;
            }
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn pin_name(class: usize) -> String {
    format!("ring_{class}")
}

/// Pins the rings in place of those that were there.
pub(crate) fn pin(instance: &Instance, rings: &[Option<MapHandle>]) -> Result<(), DataplaneError> {
    for class in 0..MAX_CLASSES {
        let path = instance.pins.join(pin_name(class));
        pinned::remove_pin(&path)?;
        if let Some(Some(map)) = rings.get(class) {
            pinned::pin(map.as_fd(), &path)?;
        }
    }
    Ok(())
}

/// Tells the counting programs which ring belongs to which class. Rings of older configurations are
/// remembered while they drain, as long as there is room.
pub(crate) fn announce_rings(
    shared: &Shared,
    class_rings: &[Option<MapHandle>],
) -> Result<(), DataplaneError> {
    use libbpf_rs::MapCore;
    let known: Vec<Vec<u8>> = shared.ring_classes.keys().collect();
    if known.len() > 48 {
        for key in known {
            shared
                .ring_classes
                .delete(&key)
                .tried(|| "forget a drained ring".into())?;
        }
    }
    for (class, ring) in (0u32..).zip(class_rings) {
        if let Some(ring) = ring {
            pinned::put(
                &shared.ring_classes,
                pinned::id_of(ring)?,
                &class.to_ne_bytes(),
            )?;
        }
    }
    Ok(())
}
