//! The witness of `trust = "established"`: a tracing program that sees what Linux itself forwards.
//!
//! It is attached only while a class needs it, because its tracepoint is passed by every packet that this machine sends.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, MapType};

use crate::DataplaneError;
use crate::error::BpfTried;
use crate::instance::Instance;
use crate::lanes::tracker;
use crate::layout::{KeptFlows, MAX_KEPT_FLOWS, Witness, Witnessed};
use crate::pinned;
use crate::skeletons::witness as skel;
use crate::verifier::{self, Accepted};

/// Name of the program, and of its pinned link.
const PROGRAM: &str = "linux_forwards";
/// Directions of flows that are known at once; those used least recently are forgotten, and asked for again.
const FLOWS: usize = 1 << 16;
/// `struct sender` of bpf/sender.h.
const SENDER_BYTES: usize = 24;
/// Packets in the stack whose senders are known.
const SENDERS: usize = 4096;

/// What the witness and the XDP program share.
pub(crate) struct WitnessMaps {
    pub(crate) witnesses: MapHandle,
    pub(crate) flows: MapHandle,
    pub(crate) kept: MapHandle,
    pub(crate) senders: MapHandle,
    pub(crate) connections: MapHandle,
    pub(crate) unmarked: MapHandle,
}

/// Their names, in order.
const MAPS: [&str; 6] = [
    "witnesses",
    "witnessed_flows",
    "kept_flows",
    "senders",
    "tcp_connections",
    "unmarked",
];

impl WitnessMaps {
    /// The maps of this instance; made where it has none yet.
    pub(crate) fn open_or_create(instance: &Instance) -> Result<Self, DataplaneError> {
        if let Ok(maps) = Self::open(instance) {
            return Ok(maps);
        }
        let maps = Self::create()?;
        let all = [
            &maps.witnesses,
            &maps.flows,
            &maps.kept,
            &maps.senders,
            &maps.connections,
            &maps.unmarked,
        ];
        for (map, name) in all.into_iter().zip(MAPS) {
            let path = instance.pins.join(name);
            pinned::remove_pin(&path)?;
            pinned::pin(map.as_fd(), &path)?;
        }
        Ok(maps)
    }

    pub(crate) fn open(instance: &Instance) -> Result<Self, DataplaneError> {
        let open = |name| pinned::open_map(&instance.pins, name);
        let [witnesses, flows, kept, senders, connections, unmarked] = MAPS.map(open);
        let maps = Self {
            witnesses: witnesses?,
            flows: flows?,
            kept: kept?,
            senders: senders?,
            connections: connections?,
            unmarked: unmarked?,
        };
        pinned::check_layout::<Witness>(&maps.witnesses, "witnesses")?;
        pinned::check_layout::<Witnessed>(&maps.flows, "witnessed_flows")?;
        pinned::check_layout::<KeptFlows>(&maps.kept, "kept_flows")?;
        Ok(maps)
    }

    /// Maps that are pinned nowhere.
    pub(crate) fn create() -> Result<Self, DataplaneError> {
        let create =
            |kind, name, key, value, entries| pinned::create(kind, name, key, value, entries, 0);
        let (flow, kept) = (size_of::<Witnessed>(), size_of::<KeptFlows>());
        Ok(Self {
            witnesses: create(MapType::Array, MAPS[0], 4, size_of::<Witness>(), 1)?,
            flows: create(MapType::LruHash, MAPS[1], 16, flow, FLOWS)?,
            kept: create(MapType::Array, MAPS[2], 4, kept, MAX_KEPT_FLOWS)?,
            senders: create(MapType::LruHash, MAPS[3], 8, SENDER_BYTES, SENDERS)?,
            connections: tracker::connections()?,
            unmarked: tracker::unmarked()?,
        })
    }

    /// Of which flows a rule is to see each packet, and whether rules ask for the MAC address of senders. What was seen before is not
    /// believed any more, if either is new.
    pub(crate) fn keep(&self, kept: &[KeptFlows], by_sender: bool) -> Result<(), DataplaneError> {
        for (at, flows) in (0u32..).zip(kept) {
            pinned::put(&self.kept, at, bytemuck::bytes_of(flows))?;
        }
        self.change(|witness| {
            witness.kept = kept.len() as u16;
            witness.by_sender = by_sender.into();
            witness.generation = witness.generation.wrapping_add(1);
        })
    }

    /// What was seen is not believed any more: firewall, rules or policies have changed.
    ///
    /// The XDP program may write the time of its last question in between, which is then lost; its next packet asks again.
    pub(crate) fn disbelieve(&self) -> Result<(), DataplaneError> {
        self.change(|witness| witness.generation = witness.generation.wrapping_add(1))
    }

    /// What was found about flows is looked up again: routes have changed.
    pub(crate) fn look_up_again(&self) -> Result<(), DataplaneError> {
        self.change(|witness| witness.routes = witness.routes.wrapping_add(1))
    }

    fn change(&self, how: impl FnOnce(&mut Witness)) -> Result<(), DataplaneError> {
        let mut witness: Witness = pinned::get(&self.witnesses, 0)?.unwrap_or_default();
        how(&mut witness);
        pinned::put(&self.witnesses, 0, bytemuck::bytes_of(&witness))
    }
}

/// Loads the program, and attaches and pins it unless this is a rehearsal.
pub(crate) fn load(
    maps: &WitnessMaps,
    tunnels: &MapHandle,
    instance: Option<&Instance>,
) -> Result<Accepted, DataplaneError> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::WitnessSkelBuilder::default()
        .open(&mut storage)
        .tried(|| "open the witness".into())?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.netns_cookie = rxlane_system::netns::cookie()?;
    }
    let reuse = || "share maps with the witness".to_owned();
    open.maps
        .witnesses
        .reuse_fd(maps.witnesses.as_fd())
        .tried(reuse)?;
    open.maps
        .witnessed_flows
        .reuse_fd(maps.flows.as_fd())
        .tried(reuse)?;
    let m = &mut open.maps;
    m.kept_flows.reuse_fd(maps.kept.as_fd()).tried(reuse)?;
    m.senders.reuse_fd(maps.senders.as_fd()).tried(reuse)?;
    m.tunnels.reuse_fd(tunnels.as_fd()).tried(reuse)?;
    let loaded = verifier::load(PROGRAM, || open.load())?;
    let program = &loaded.progs.linux_forwards;
    if let Some(instance) = instance {
        let link = program
            .attach()
            .tried(|| format!("attach the tracing program `{PROGRAM}`"))?;
        pinned::pin(link.as_fd(), &instance.pins.join(PROGRAM))?;
    }
    Ok(Accepted::ask(PROGRAM, program.as_fd()))
}

/// Attaches the witness, unless it is there: then what it has seen stays believed.
pub(crate) fn settle(
    instance: &Instance,
    tunnels: &MapHandle,
    known: &[Accepted],
) -> Result<(WitnessMaps, Accepted), DataplaneError> {
    let link = instance.pins.join(PROGRAM);
    let maps = WitnessMaps::open_or_create(instance)?;
    match known.iter().find(|p| p.name == PROGRAM) {
        Some(accepted) if link.exists() => Ok((maps, accepted.clone())),
        _ => {
            pinned::remove_pin(&link)?;
            let accepted = load(&maps, tunnels, Some(instance))?;
            Ok((maps, accepted))
        }
    }
}

/// Takes the witness off, when no class needs it any more.
pub(crate) fn remove(instance: &Instance) -> Result<(), DataplaneError> {
    pinned::remove_pin(&instance.pins.join(PROGRAM))
}
