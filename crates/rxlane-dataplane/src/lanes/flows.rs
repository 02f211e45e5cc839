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
    /// Of a place.
    pub(crate) load: u16,
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

impl FlowRest {
    fn add(&mut self, packets: u64, bytes: u64) {
        self.packets += packets;
        self.bytes += bytes;
    }
}

impl FlowPlace {
    /// Whose it is.
    fn flow(&self) -> FlowId {
        FlowId { load: 0, ..self.id }
    }
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
    /// Those of an instance; made where it has none yet.
    pub(crate) fn open_or_create(instance: &Instance) -> Result<Self, BpfError> {
        if let Ok(maps) = Self::open(instance) {
            return Ok(maps);
        }
        Self::remove(instance)?;
        let maps = Self::create()?;
        let all = [&maps.totals, &maps.places, &maps.rests, &maps.told];
        for (map, name) in all.into_iter().zip(NAMES) {
            pinned::pin(map.as_fd(), &instance.pins.join(name))?;
        }
        Ok(maps)
    }

    /// Nobody counts any more.
    pub(crate) fn remove(instance: &Instance) -> Result<(), BpfError> {
        let mut names = NAMES.iter();
        names.try_for_each(|name| pinned::remove_pin(&instance.pins.join(name)))
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

    /// All flows with what they came to, and what was counted of others. Packets that are handed on meanwhile may be missing, and none is
    /// there twice.
    pub(crate) fn read(&self) -> Result<(BTreeMap<FlowId, FlowTotal>, FlowRest), BpfError> {
        let mut flows: BTreeMap<FlowId, FlowTotal> = entries(&self.totals)?
            .map(|(key, value)| (of_bytes(&key), of_bytes(&value)))
            .collect();
        let mut rest = FlowRest::default();
        for core in pinned::get_percpu::<FlowRest>(&self.rests, 0)? {
            rest.add(core.packets, core.bytes);
        }
        for (_, value) in entries(&self.places)? {
            let place: FlowPlace = of_bytes(&value);
            match flows.get_mut(&place.flow()) {
                Some(total) => {
                    total.packets += place.packets;
                    total.bytes += place.bytes;
                    total.last_ns = total.last_ns.max(place.last_ns);
                }
                // There was no room for it in the table.
                None => rest.add(place.packets, place.bytes),
            }
        }
        Ok((flows, rest))
    }

    /// What a collector was told of flows. Those that came back after they were forgotten are others.
    pub(crate) fn told(
        &self,
        flows: &BTreeMap<FlowId, FlowTotal>,
    ) -> Result<BTreeMap<FlowId, Told>, BpfError> {
        let mut all = BTreeMap::new();
        for (key, value) in entries(&self.told)? {
            let (id, told): (FlowId, Told) = (of_bytes(&key), of_bytes(&value));
            match flows.get(&id) {
                Some(total) if total.first_ns <= told.at_ns => _ = all.insert(id, told),
                _ => pinned::delete(&self.told, &key)?,
            }
        }
        Ok(all)
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

    /// Makes room: flows without a packet since then are forgotten, with what is counted at their places: those of which a collector has
    /// been told everything, and all. Returns how many.
    pub(crate) fn forget_before(&self, told_ns: u64, all_ns: u64) -> Result<usize, BpfError> {
        let (flows, _) = self.read()?;
        let told = self.told(&flows)?;
        let is_told = |id: &FlowId, total: &FlowTotal| {
            let told = told.get(id);
            told.is_some_and(|told| told.packets >= total.packets)
        };
        let mut forgotten = BTreeSet::new();
        for (id, total) in &flows {
            let then_ns = if is_told(id, total) { told_ns } else { all_ns };
            if total.last_ns >= then_ns {
                continue;
            }
            let key = bytemuck::bytes_of(id);
            let now = self
                .totals
                .lookup(key, MapFlags::ANY)
                .tried(|| tried(&self.totals))?;
            // It may have had a packet again.
            if now.is_some_and(|now| of_bytes::<FlowTotal>(&now).last_ns < then_ns) {
                pinned::delete(&self.totals, key)?;
                pinned::delete(&self.told, key)?;
                forgotten.insert(*id);
            }
        }
        if forgotten.is_empty() {
            return Ok(0);
        }
        for (key, value) in entries(&self.places)? {
            let place: FlowPlace = of_bytes(&value);
            if place.packets == 0 || !forgotten.contains(&place.flow()) {
                continue;
            }
            let now = self
                .places
                .lookup(&key, MapFlags::ANY)
                .tried(|| tried(&self.places))?;
            // Nor did another flow get it meanwhile.
            if now.as_ref() == Some(&value) {
                let empty = FlowPlace {
                    id: place.id,
                    ..FlowPlace::default()
                };
                self.places
                    .update(&key, bytemuck::bytes_of(&empty), MapFlags::ANY)
                    .tried(|| tried(&self.places))?;
            }
        }
        Ok(forgotten.len())
    }
}

fn tried(map: &MapHandle) -> String {
    format!("read or write map {}", map.name().to_string_lossy())
}

fn of_bytes<T: Pod>(bytes: &[u8]) -> T {
    bytemuck::pod_read_unaligned(bytes)
}

/// Keys and values of a map.
fn entries(map: &MapHandle) -> Result<impl Iterator<Item = (Vec<u8>, Vec<u8>)>, BpfError> {
    map.lookup_batch(BATCH, MapFlags::ANY, MapFlags::ANY)
        .tried(|| tried(map))
}
