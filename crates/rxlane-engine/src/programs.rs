//! The engine's own BPF programs (bpf/engine/engine.bpf.c). They end with the daemon, because nothing of them is
//! pinned.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle, TC_EGRESS, TcHookBuilder};
use rxlane_bpf::BpfTried;
use rxlane_bpf::features::{Features, REDIRECT_TRACE};
use rxlane_bpf::pinned;
use rxlane_bpf::skeletons::engine as skel;
use rxlane_bpf::verifier::{self, Accepted};

use crate::EngineError;
use crate::xsk::exceptions::ExceptionDevice;

/// Attached programs and our device.
pub struct Programs {
    pub(crate) device: ExceptionDevice,
    /// What accepting them took.
    pub accepted: Vec<Accepted>,
    _not_received: Option<Link>,
}

impl Programs {
    /// Makes the device and attaches the programs.
    pub fn attach(
        sockets: &MapHandle,
        ring_counters: &MapHandle,
        features: &Features,
    ) -> Result<Self, EngineError> {
        with_programs(sockets, ring_counters, features, |loaded, accepted| {
            let device = ExceptionDevice::create()?;
            let mut hook = TcHookBuilder::new(loaded.progs.into_kernel.as_fd())
                .ifindex(device.ifindex as i32)
                .replace(true)
                .handle(1)
                .priority(1)
                .hook(TC_EGRESS);
            hook.create()
                .and_then(|mut hook| hook.attach())
                .tried(|| "attach the way into the kernel".into())?;
            let link = features
                .has(REDIRECT_TRACE)
                .then(|| loaded.progs.not_received.attach())
                .transpose()
                .tried(|| "attach the tracing program `not_received`".into())?;
            Ok(Self {
                device,
                accepted,
                _not_received: link,
            })
        })
    }

    /// Loads the programs and forgets them.
    pub fn rehearse(
        sockets: &MapHandle,
        ring_counters: &MapHandle,
        features: &Features,
    ) -> Result<Vec<Accepted>, EngineError> {
        with_programs(sockets, ring_counters, features, |_, accepted| Ok(accepted))
    }
}

fn with_programs<T>(
    sockets: &MapHandle,
    ring_counters: &MapHandle,
    features: &Features,
    then: impl FnOnce(&skel::EngineSkel<'_>, Vec<Accepted>) -> Result<T, EngineError>,
) -> Result<T, EngineError> {
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::EngineSkelBuilder::default()
        .open(&mut storage)
        .tried(|| "open the engine's programs".into())?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.sockets_map_id = pinned::id_of(sockets)?;
    }
    let traced = features.has(REDIRECT_TRACE);
    open.progs.not_received.set_autoload(traced);
    open.maps
        .engine_rings
        .reuse_fd(ring_counters.as_fd())
        .tried(|| "share the engine's rings".into())?;
    let loaded = verifier::load("into_kernel", || open.load())?;
    let p = &loaded.progs;
    let mut accepted = vec![Accepted::ask("into_kernel", p.into_kernel.as_fd())];
    if traced {
        accepted.push(Accepted::ask("not_received", p.not_received.as_fd()));
    }
    then(&loaded, accepted)
}
