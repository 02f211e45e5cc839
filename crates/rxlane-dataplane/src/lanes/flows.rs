//! The maps in which express packets are counted by flow (`bpf/known/flows.h`). They outlive configurations and daemons, and so do
//! the counts.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{MapCore, MapFlags, MapHandle, MapType};
use rxlane_bpf::{BpfError, BpfTried, pinned};

use crate::instance::Instance;
use crate::lanes::program;

/// Flows at once (`MOST_FLOWS`).
pub(crate) const MOST: usize = 1 << 16;
const NAMES: [&str; 4] = ["flow_totals", "flow_places", "flow_rests", "flows_told"];
/// Entries that are read with one system call: all of the table. A batch of a hash table may be short of some, which the library takes for
/// its end.
const BATCH: u32 = MOST as u32;

/// A flow in one direction, as it comes in (`struct flow_id`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FlowId {
    pub(crate) source: [[u8; 4]; 4],
    pub(crate) destination: [[u8; 4]; 4],
    pub(crate) src_port: [u8; 2],
    pub(crate) dst_port: [u8; 2],
    pub(crate) protocol: u8,
    pub(crate) v6: u8,
    pub(crate) pad: u16,
}

/// What becomes of addresses and ports (`struct translation`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Translation {
    pub(crate) translated: u16,
    pub(crate) src_port: [u8; 2],
    pub(crate) dst_port: [u8; 2],
    pub(crate) l4_change: u16,
    pub(crate) source: [[u8; 4]; 4],
    pub(crate) destination: [[u8; 4]; 4],
}

/// What its packets came to (`struct flow_total`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FlowTotal {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) translation: Translation,
    pub(crate) ingress: u32,
    pub(crate) egress: u32,
    pub(crate) next_hop: [u8; 6],
    pub(crate) class: u8,
    pub(crate) dscp: u8,
}

/// What was counted at a place and is not in the table yet (`struct flow_place`).
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
struct FlowPlace {
    packets: u64,
    bytes: u64,
    last_ns: u64,
    id: FlowId,
}

/// Packets and bytes of flows for which there was no room.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct FlowRest {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
}

/// What of a flow a collector was told ([`crate::export`]).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Told {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    /// CLOCK_MONOTONIC; 0: never.
    pub(crate) at_ns: u64,
}

/// All maps by which flows are counted.
#[derive(Debug)]
pub(crate) struct FlowMaps {
    pub(crate) totals: MapHandle,
    pub(crate) places: MapHandle,
    pub(crate) rests: MapHandle,
    /// No program knows it.
    told: MapHandle,
}

impl FlowMaps {
    /// Those of an instance that counts flows, and none where it does not.
    pub(crate) fn settle(instance: &Instance, counts: bool) -> Result<Option<Self>, BpfError> {
        if counts && let Ok(maps) = Self::open(instance) {
            return Ok(Some(maps));
        }
        for name in NAMES {
            pinned::remove_pin(&instance.pins.join(name))?;
        }
        if !counts {
            return Ok(None);
        }
        let maps = Self::create()?;
        let all = [&maps.totals, &maps.places, &maps.rests, &maps.told];
        for (map, name) in all.into_iter().zip(NAMES) {
            pinned::pin(map.as_fd(), &instance.pins.join(name))?;
        }
        Ok(Some(maps))
    }

    /// Maps that are pinned nowhere.
    pub(crate) fn create() -> Result<Self, BpfError> {
        let id = size_of::<FlowId>() as u32;
        let (total, place) = (size_of::<FlowTotal>(), size_of::<FlowPlace>());
        let places = program::known_places()? as usize;
        Ok(Self {
            totals: pinned::create(MapType::Hash, NAMES[0], id, total, MOST, 0)?,
            places: pinned::create(MapType::Array, NAMES[1], 4, place, places, 0)?,
            rests: pinned::create(
                MapType::PercpuArray,
                NAMES[2],
                4,
                size_of::<FlowRest>(),
                1,
                0,
            )?,
            told: pinned::create(MapType::Hash, NAMES[3], id, size_of::<Told>(), MOST, 0)?,
        })
    }

    /// Those that are pinned.
    pub(crate) fn open(instance: &Instance) -> Result<Self, BpfError> {
        let [totals, places, rests, told] =
            NAMES.map(|name| pinned::open_map(&instance.pins, name));
        let maps = Self {
            totals: totals?,
            places: places?,
            rests: rests?,
            told: told?,
        };
        pinned::check_layout::<FlowTotal>(&maps.totals, NAMES[0])?;
        pinned::check_key::<FlowId>(&maps.totals, NAMES[0])?;
        pinned::check_layout::<FlowPlace>(&maps.places, NAMES[1])?;
        pinned::check_layout::<FlowRest>(&maps.rests, NAMES[2])?;
        pinned::check_layout::<Told>(&maps.told, NAMES[3])?;
        Ok(maps)
    }

    /// All flows with what they came to. Packets that are handed on meanwhile may be missing, and none is there twice.
    pub(crate) fn read(&self) -> Result<Vec<(FlowId, FlowTotal)>, BpfError> {
        let mut flows: BTreeMap<FlowId, FlowTotal> = entries(&self.totals)?
            .map(|(key, value)| (of_bytes(&key), of_bytes(&value)))
            .collect();
        for (_, value) in entries(&self.places)? {
            let place: FlowPlace = of_bytes(&value);
            if place.packets == 0 {
                continue;
            }
            let total = flows.entry(place.id).or_insert(FlowTotal {
                first_ns: place.last_ns,
                ..FlowTotal::default()
            });
            total.packets += place.packets;
            total.bytes += place.bytes;
            total.last_ns = total.last_ns.max(place.last_ns);
        }
        Ok(flows.into_iter().collect())
    }

    /// What was counted of flows that are in no table.
    pub(crate) fn rest(&self) -> Result<FlowRest, BpfError> {
        let cores = pinned::get_percpu::<FlowRest>(&self.rests, 0)?;
        Ok(cores
            .iter()
            .fold(FlowRest::default(), |sum, core| FlowRest {
                packets: sum.packets + core.packets,
                bytes: sum.bytes + core.bytes,
            }))
    }

    /// What a collector was told of flows.
    pub(crate) fn told(&self) -> Result<BTreeMap<FlowId, Told>, BpfError> {
        Ok(entries(&self.told)?
            .map(|(key, value)| (of_bytes(&key), of_bytes(&value)))
            .collect())
    }

    /// It was told of these packets of a flow, too.
    pub(crate) fn note(&self, id: &FlowId, at_ns: u64, more: &FlowTotal) -> Result<(), BpfError> {
        let key = bytemuck::bytes_of(id);
        let tried = || format!("write map {}", NAMES[3]);
        let before = self.told.lookup(key, MapFlags::ANY).tried(tried)?;
        let mut told: Told = before.map_or_else(Told::default, |bytes| of_bytes(&bytes));
        told.packets += more.packets;
        told.bytes += more.bytes;
        told.at_ns = at_ns;
        self.told
            .update(key, bytemuck::bytes_of(&told), MapFlags::ANY)
            .tried(tried)
    }

    /// Makes room: flows without a packet since then are forgotten, with what is counted at their places. Returns how many.
    pub(crate) fn forget_before(&self, then_ns: u64) -> Result<usize, BpfError> {
        let idle: BTreeSet<FlowId> = self
            .read()?
            .into_iter()
            .filter(|(_, total)| total.last_ns < then_ns)
            .map(|(id, _)| id)
            .collect();
        if idle.is_empty() {
            return Ok(0);
        }
        for (key, value) in entries(&self.places)? {
            let place: FlowPlace = of_bytes(&value);
            // Its flow is known no more, so that no core writes there.
            if place.packets > 0 && idle.contains(&place.id) {
                self.places
                    .update(
                        &key,
                        bytemuck::bytes_of(&FlowPlace::default()),
                        MapFlags::ANY,
                    )
                    .tried(|| format!("write map {}", NAMES[1]))?;
            }
        }
        for id in &idle {
            pinned::delete(&self.totals, bytemuck::bytes_of(id))?;
            pinned::delete(&self.told, bytemuck::bytes_of(id))?;
        }
        Ok(idle.len())
    }
}

fn of_bytes<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}

/// Keys and values of a map.
fn entries(map: &MapHandle) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>, BpfError> {
    map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
        .tried(|| format!("read map {}", map.name().to_string_lossy()))
}
