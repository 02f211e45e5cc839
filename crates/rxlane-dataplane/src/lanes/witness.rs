//! The witness of `trust = "firewall"` and `"established"`: a tracing program that sees what Linux itself forwards.
//!
//! Its tracepoint is passed by every packet that this machine sends, which costs each some tens of ns. So it is attached only while somebody
//! asks: the program that does calls the daemon ([`crate::sentry`]), and the flow's next packet is seen.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{MapHandle, MapType, Program};
use rxlane_bpf::layout::{KeptFlows, MAX_KEPT_FLOWS, Witness, Witnessed};
use rxlane_bpf::pinned;
use rxlane_bpf::skeletons::witness as skel;
use rxlane_bpf::skeletons::witness::types;
use rxlane_bpf::verifier::{self, Accepted};
use rxlane_bpf::{BpfError, BpfTried};

use crate::DataplaneError;
use crate::instance::Instance;
use crate::lanes::tracker;

/// Name of the program, and of its pin.
const PROGRAM: &str = "linux_forwards";
/// Directions of flows that are known at once; those used least recently are forgotten, and asked for again.
const FLOWS: usize = 1 << 16;
/// `struct sender` of bpf/trust/sender.h.
const SENDER_BYTES: usize = 24;
/// Packets in the stack whose senders are known.
const SENDERS: usize = 4096;

/// What is asked about flows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Asking {
    /// Their senders' MAC address, because rules ask for it.
    pub(crate) by_sender: bool,
    /// Those that connection tracking does not see, too.
    pub(crate) follows_untracked: bool,
}

/// What the witness and the XDP program share.
pub(crate) struct WitnessMaps {
    pub(crate) witnesses: MapHandle,
    pub(crate) flows: MapHandle,
    pub(crate) kept: MapHandle,
    pub(crate) senders: MapHandle,
    pub(crate) connections: MapHandle,
    pub(crate) unmarked: MapHandle,
    /// Who answers, if he may be had to.
    program: Option<OwnedFd>,
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
        // One that is there has other maps.
        remove(instance)?;
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
            program: None,
        };
        pinned::check_layout::<Witness>(&maps.witnesses, "witnesses")?;
        pinned::check_layout::<Witnessed>(&maps.flows, "witnessed_flows")?;
        pinned::check_key::<types::witnessed_key>(&maps.flows, "witnessed_flows")?;
        pinned::check_layout::<KeptFlows>(&maps.kept, "kept_flows")?;
        Ok(maps)
    }

    /// Maps that are pinned nowhere.
    pub(crate) fn create() -> Result<Self, DataplaneError> {
        let create =
            |kind, name, key, value, entries| pinned::create(kind, name, key, value, entries, 0);
        let (flow, kept) = (size_of::<Witnessed>(), size_of::<KeptFlows>());
        let key = size_of::<types::witnessed_key>() as u32;
        Ok(Self {
            witnesses: create(MapType::Array, MAPS[0], 4, size_of::<Witness>(), 1)?,
            flows: create(MapType::LruHash, MAPS[1], key, flow, FLOWS)?,
            kept: create(MapType::Array, MAPS[2], 4, kept, MAX_KEPT_FLOWS)?,
            senders: create(MapType::LruHash, MAPS[3], 8, SENDER_BYTES, SENDERS)?,
            connections: tracker::connections()?,
            unmarked: tracker::unmarked()?,
            program: None,
        })
    }

    /// Has the witness look, until what is returned is dropped.
    pub(crate) fn look(&self) -> Result<Option<OwnedFd>, BpfError> {
        let Some(program) = &self.program else {
            return Ok(None);
        };
        pinned::attach_tracing(program.as_fd(), PROGRAM).map(Some)
    }

    /// When somebody asked last, in jiffies, and whether questions may be open still.
    pub(crate) fn asked(&self) -> Result<(u64, bool), DataplaneError> {
        let witness: Witness = pinned::get(&self.witnesses, 0)?.unwrap_or_default();
        Ok((witness.asked_ticks, witness.open != 0))
    }

    /// Of which flows a rule is to see each packet, and what else is to be known of flows. What was seen before is not believed any
    /// more.
    pub(crate) fn keep(&self, kept: &[KeptFlows], asking: Asking) -> Result<(), BpfError> {
        for (at, flows) in (0u32..).zip(kept) {
            pinned::put(&self.kept, at, bytemuck::bytes_of(flows))?;
        }
        self.change(|witness| {
            witness.kept = kept.len() as u16;
            witness.by_sender = asking.by_sender.into();
            witness.follows_untracked = asking.follows_untracked.into();
            witness.generation = witness.generation.wrapping_add(1);
        })
    }

    /// What was seen is not believed any more: firewall, rules or policies have changed.
    ///
    /// The XDP program may write the time of its last question in between, which is then lost; its next packet asks again.
    pub(crate) fn disbelieve(&self) -> Result<(), BpfError> {
        self.change(|witness| witness.generation = witness.generation.wrapping_add(1))
    }

    /// What was found about flows is looked up again: routes have changed.
    pub(crate) fn look_up_again(&self) -> Result<(), BpfError> {
        self.change(|witness| witness.routes = witness.routes.wrapping_add(1))
    }

    fn change(&self, how: impl FnOnce(&mut Witness)) -> Result<(), BpfError> {
        let mut witness: Witness = pinned::get(&self.witnesses, 0)?.unwrap_or_default();
        how(&mut witness);
        pinned::put(&self.witnesses, 0, bytemuck::bytes_of(&witness))
    }
}

/// Loads the program.
pub(crate) fn load(
    maps: &WitnessMaps,
    tunnels: &MapHandle,
) -> Result<(OwnedFd, Accepted), DataplaneError> {
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
    let program = loaded.progs.linux_forwards.as_fd();
    Ok((
        pinned::keep_program(program)?,
        Accepted::ask(PROGRAM, program),
    ))
}

/// Finds the witness, or loads and pins it: what one that is there has seen stays believed.
pub(crate) fn settle(
    instance: &Instance,
    tunnels: &MapHandle,
    known: &[Accepted],
) -> Result<(WitnessMaps, Accepted), DataplaneError> {
    let pin = instance.pins.join(PROGRAM);
    let mut maps = WitnessMaps::open_or_create(instance)?;
    let accepted = known.iter().find(|p| p.name == PROGRAM);
    let pinned = Program::fd_from_pinned_path(&pin).ok();
    let (program, accepted) = match (pinned, accepted) {
        (Some(program), Some(accepted)) => (program, accepted.clone()),
        _ => {
            pinned::remove_pin(&pin)?;
            let (program, accepted) = load(&maps, tunnels)?;
            pinned::pin(program.as_fd(), &pin)?;
            (program, accepted)
        }
    };
    maps.program = Some(program);
    Ok((maps, accepted))
}

/// Removes the witness, when no class needs it any more.
pub(crate) fn remove(instance: &Instance) -> Result<(), BpfError> {
    pinned::remove_pin(&instance.pins.join(PROGRAM))
}
