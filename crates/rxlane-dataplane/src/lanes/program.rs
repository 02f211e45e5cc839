//! Loading the XDP program for one configuration.
//!
//! What the configuration fixes becomes a constant of the program, so the verifier removes what is not
//! used; a reload therefore loads a new program and swaps it in.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use libbpf_rs::MapHandle;
use libbpf_rs::skel::{OpenSkel, Skel, SkelBuilder};
use rxlane_bpf::at_tc;
use rxlane_bpf::layout::{BY_VLAN, EngineRing, NextHops};
use rxlane_bpf::pinned;
use rxlane_bpf::possible_cores;
use rxlane_bpf::skeletons::lane as skel;
use rxlane_bpf::verifier::{self, Accepted};
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_config::RouterConfig;
use rxlane_engine::{self as engine, RingMap};
use rxlane_policy::compile::Classifier;
use tracing::warn;

use crate::DataplaneError;
use crate::lanes::constants::{Wanted, is_plain, set_constants};
use crate::lanes::flows::FlowMaps;
use crate::lanes::overload::Shared;
use crate::lanes::rings;
use crate::lanes::tables::{self, TableMaps};
use crate::lanes::trace::Traced;
use crate::lanes::witness::WitnessMaps;

/// Flows that are known at once on a core (`KNOWN_SETS` and `KNOWN_WAYS` of bpf/known/table.h).
const KNOWN_SETS: u32 = 2048;
const KNOWN_WAYS: u32 = 4;

/// Flows that all cores can know at once.
pub(super) fn known_places() -> Result<u32, BpfError> {
    Ok(KNOWN_SETS * KNOWN_WAYS * possible_cores()?.len() as u32)
}

/// A loaded program, not yet attached to a port.
pub(crate) struct LaneProgram {
    /// The XDP program.
    pub(crate) program: OwnedFd,
    /// The same lane for ports that are served at tc ingress, where there may be any.
    pub(crate) at_tc: Option<OwnedFd>,
    /// Devices that the express lane may send to.
    pub(crate) egress: MapHandle,
    /// VLAN devices by port and tags, and how packets leave through them ([`crate::vlans`]).
    pub(crate) vlan_devices: MapHandle,
    /// See [`LaneProgram::vlan_devices`].
    pub(crate) vlan_ways: MapHandle,
    /// VLAN devices that are named, by port and tags.
    pub(crate) named_vlans: MapHandle,
    pub(crate) tunnel_ways: MapHandle,
    /// Stations by bridge and address, with the port that each is behind ([`crate::bridge_fdb`]).
    pub(crate) stations: MapHandle,
    /// Other ends of VXLANs, by device and station ([`crate::tunnels`]).
    pub(crate) vxlan_ends: MapHandle,
    /// Until when all is known that bridges and VXLANs have learned, CLOCK_MONOTONIC.
    pub(crate) heard_ns: MapHandle,
    /// Sessions of PPPoE by device, number and sender ([`crate::pppoe`]).
    pub(crate) sessions: MapHandle,
    /// Macvlan devices by port and address ([`crate::macvlans`]).
    pub(crate) mac_devices: MapHandle,
    /// Where express packets went lately ([`rxlane_bpf::layout::NextHops`]).
    pub(crate) next_hops: MapHandle,
    /// What it took the programs to be accepted.
    pub(crate) accepted: Vec<Accepted>,
    /// What `trust = "established"` is judged by, where a class has it.
    pub(crate) witness: Option<Arc<WitnessMaps>>,
    /// What the engine works with, where there is one.
    pub(crate) engine: Option<EngineMaps>,
}

/// The program's side of the engine.
pub(crate) struct EngineMaps {
    /// AF_XDP sockets by ring (`XSKMAP`).
    pub(crate) sockets: MapHandle,
    /// Counters of rings.
    pub(crate) rings: MapHandle,
}

impl LaneProgram {
    /// Loads the program on top of the shared maps and the given rings.
    pub(crate) fn load(
        wanted: &Wanted<'_>,
        shared: &Shared,
        class_rings: &[Option<MapHandle>],
        plan: Option<&RingMap>,
        witness: Option<WitnessMaps>,
    ) -> Result<Self, DataplaneError> {
        let config = wanted.config;
        let classifier = Classifier::compile(&config.classes)?;
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::LaneSkelBuilder::default()
            .open(&mut storage)
            .tried(|| "open the XDP program".into())?;
        set_constants(&mut open, wanted, &classifier)?;
        if let Some(c) = open.maps.rodata_data.as_deref_mut() {
            // A port that is found later is there for VLAN devices.
            c.port_of_slot.fill(BY_VLAN);
            for (port, slot) in wanted.slots {
                c.port_of_slot[usize::from(*slot)] = *port;
            }
        }
        let engine_rings = prepare_engine(&mut open, config, plan)?;
        let plain = is_plain(&config.classes, &classifier);
        open.progs.rxlane_plain.set_autoload(plain);
        open.progs.rxlane_full.set_autoload(!plain);
        let (words, word_sets) = tables::word_entries(&classifier);
        let resize = || "size the classifier's tables".to_owned();
        open.maps.words.set_max_entries(words).tried(resize)?;
        open.maps
            .word_sets
            .set_max_entries(word_sets)
            .tried(resize)?;
        let reuse = || "share maps with the XDP program".to_owned();
        open.maps
            .ports
            .reuse_fd(shared.ports.as_fd())
            .tried(reuse)?;
        open.maps
            .cores
            .reuse_fd(shared.cores.as_fd())
            .tried(reuse)?;
        open.maps.cpus.reuse_fd(shared.cpus.as_fd()).tried(reuse)?;
        open.maps
            .ring_counters
            .reuse_fd(shared.ring_counters.as_fd())
            .tried(reuse)?;
        open.maps
            .guard_plans
            .reuse_fd(shared.guard_plans.as_fd())
            .tried(reuse)?;
        open.maps
            .buckets
            .reuse_fd(shared.buckets.as_fd())
            .tried(reuse)?;
        open.maps
            .gates
            .reuse_fd(shared.gates.as_fd())
            .tried(reuse)?;
        let m = &mut open.maps;
        m.session_changes
            .reuse_fd(shared.session_changes.as_fd())
            .tried(reuse)?;
        m.tunnels.reuse_fd(shared.tunnels.as_fd()).tried(reuse)?;
        m.refusing.reuse_fd(shared.refusing.as_fd()).tried(reuse)?;
        m.port_counts
            .reuse_fd(shared.port_counts.as_fd())
            .tried(reuse)?;
        m.latencies
            .reuse_fd(shared.latencies.as_fd())
            .tried(reuse)?;
        let trace = &shared.trace;
        m.trace_switches
            .reuse_fd(trace.switches.as_fd())
            .tried(reuse)?;
        m.trace_states.reuse_fd(trace.states.as_fd()).tried(reuse)?;
        m.traced_packets
            .reuse_fd(trace.packets.as_fd())
            .tried(reuse)?;
        prepare_witness(&mut open, witness.as_ref())?;
        prepare_flows(&mut open, wanted.flows)?;
        let template = rings::empty_ring("rxlane_template")?;
        open.maps
            .rings
            .set_inner_map_fd(template.as_fd())
            .tried(reuse)?;
        let name = if plain { "rxlane_plain" } else { "rxlane_full" };
        let loaded = verifier::load(name, || open.load())?;
        let program = if plain {
            &loaded.progs.rxlane_plain
        } else {
            &loaded.progs.rxlane_full
        };
        let m = &loaded.maps;
        pinned::check_layout::<NextHops>(&m.next_hops, "next_hops")?;
        pinned::check_layout::<Traced>(&m.traced, "traced")?;
        TableMaps {
            values: &m.values,
            words: &m.words,
            word_sets: &m.word_sets,
            src4: &m.src4,
            src6: &m.src6,
            dst4: &m.dst4,
            dst6: &m.dst6,
            trust4: &m.trust4,
            trust6: &m.trust6,
        }
        .fill(&classifier, &config.classes)?;
        for (class, ring) in (0u32..).zip(class_rings) {
            if let Some(ring) = ring {
                let fd = std::os::fd::AsRawFd::as_raw_fd(&ring.as_fd());
                pinned::put(&m.rings, class, &fd.to_ne_bytes())?;
            }
        }
        let engine = match engine_rings {
            Some(rings) => Some(EngineMaps {
                sockets: pinned::keep(&m.sockets)?,
                rings,
            }),
            None => None,
        };
        let mut accepted = vec![Accepted::ask(name, program.as_fd())];
        let at_tc = wanted.at_tc.then(|| at_tc::load(loaded.object()));
        let at_tc = match at_tc.transpose() {
            Ok(at_tc) => at_tc,
            Err(error) => {
                warn!(%error, "all ports are served in XDP");
                None
            }
        };
        let at_tc = at_tc.map(|(program, of_tc)| {
            accepted.push(of_tc);
            program
        });
        Ok(Self {
            at_tc,
            engine,
            witness: witness.map(Arc::new),
            accepted,
            program: pinned::keep_program(program.as_fd())?,
            egress: pinned::keep(&m.egress)?,
            vlan_devices: pinned::keep(&m.vlan_devices)?,
            mac_devices: pinned::keep(&m.mac_devices)?,
            vlan_ways: pinned::keep(&m.vlan_ways)?,
            named_vlans: pinned::keep(&m.named_vlans)?,
            tunnel_ways: pinned::keep(&m.tunnel_ways)?,
            stations: pinned::keep(&m.stations)?,
            vxlan_ends: pinned::keep(&m.vxlan_ends)?,
            heard_ns: pinned::keep(&m.heard_ns)?,
            sessions: pinned::keep(&m.sessions)?,
            next_hops: pinned::keep(&m.next_hops)?,
        })
    }
}

/// Shares the maps of the witness with the program; one that never asks has none.
fn prepare_witness(
    open: &mut skel::OpenLaneSkel<'_>,
    witness: Option<&WitnessMaps>,
) -> Result<(), BpfError> {
    let tried = || "share the witness with the XDP program".to_owned();
    let (witnesses, flows) = (&mut open.maps.witnesses, &mut open.maps.witnessed_flows);
    let (known, sets) = (&mut open.maps.known_flows, &mut open.maps.known_sets);
    let (tcp, unmarked) = (&mut open.maps.tcp_connections, &mut open.maps.unmarked);
    match witness {
        Some(w) => {
            let places = known_places()?;
            known.set_max_entries(places).tried(tried)?;
            sets.set_max_entries(places / KNOWN_WAYS).tried(tried)?;
            witnesses.reuse_fd(w.witnesses.as_fd()).tried(tried)?;
            tcp.reuse_fd(w.connections.as_fd()).tried(tried)?;
            unmarked.reuse_fd(w.unmarked.as_fd()).tried(tried)?;
            flows.reuse_fd(w.flows.as_fd()).tried(tried)
        }
        None => {
            witnesses.set_autocreate(false).tried(tried)?;
            tcp.set_autocreate(false).tried(tried)?;
            unmarked.set_autocreate(false).tried(tried)?;
            flows.set_autocreate(false).tried(tried)?;
            known.set_autocreate(false).tried(tried)?;
            sets.set_autocreate(false).tried(tried)
        }
    }
}

/// Shares the counters of flows with the program; one that counts none has none.
fn prepare_flows(
    open: &mut skel::OpenLaneSkel<'_>,
    flows: Option<&FlowMaps>,
) -> Result<(), BpfError> {
    let tried = || "share the counters of flows with the XDP program".to_owned();
    let m = &mut open.maps;
    match flows {
        Some(flows) => {
            m.flow_totals.reuse_fd(flows.totals.as_fd()).tried(tried)?;
            m.flow_places.reuse_fd(flows.places.as_fd()).tried(tried)?;
            m.flow_rests.reuse_fd(flows.rests.as_fd()).tried(tried)
        }
        None => {
            m.flow_totals.set_autocreate(false).tried(tried)?;
            m.flow_places.set_autocreate(false).tried(tried)?;
            m.flow_rests.set_autocreate(false).tried(tried)
        }
    }
}

/// Sizes the engine's maps and tells the program about rings; without an engine it has neither.
fn prepare_engine(
    open: &mut skel::OpenLaneSkel<'_>,
    config: &RouterConfig,
    plan: Option<&RingMap>,
) -> Result<Option<MapHandle>, DataplaneError> {
    let tried = || "prepare the engine's maps".to_owned();
    let Some(plan) = plan else {
        open.maps.sockets.set_autocreate(false).tried(tried)?;
        open.maps.engine_rings.set_autocreate(false).tried(tried)?;
        return Ok(None);
    };
    let entries = plan.entries(config.ports.len());
    let rings = engine::create_map("engine_rings", size_of::<EngineRing>(), entries)?;
    open.maps
        .engine_rings
        .reuse_fd(rings.as_fd())
        .tried(tried)?;
    open.maps
        .sockets
        .set_max_entries(entries as u32)
        .tried(tried)?;
    if let Some(c) = open.maps.rodata_data.as_deref_mut() {
        c.engine = 1;
        c.engine_queues = plan.queues;
        c.engine_rings_of_queue = plan.rings() as u32;
        for (to, ring) in c.engine_ring_of.iter_mut().zip(&plan.ring_of_class) {
            *to = *ring as u32;
        }
        for (to, share) in c.engine_share.iter_mut().zip(&plan.shares) {
            *to = *share;
        }
    }
    Ok(Some(rings))
}
