//! From whom packets came that Linux forwards, for rules that ask for the MAC address of senders (bpf/sender.bpf.c).
//!
//! The programs are attached only while there are such rules, because each packet that this machine forwards passes them.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};
use rxlane_system::features::KernelTypes;

use crate::DataplaneError;
use crate::error::BpfTried;
use crate::skeletons::sender as skel;
use crate::verifier;

/// The attached programs.
pub(crate) struct Senders {
    _links: Vec<Link>,
}

impl Senders {
    /// Attaches them.
    ///
    /// # Errors
    /// When one is refused: with functions in modules it takes `CAP_SYS_ADMIN`.
    pub(crate) fn note(senders: &MapHandle) -> Result<Self, DataplaneError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::SenderSkelBuilder::default()
            .open(&mut storage)
            .tried(|| "open what notes senders".into())?;
        let shared = open.maps.senders.reuse_fd(senders.as_fd());
        shared.tried(|| "share the map of senders".into())?;
        let ipv6 = KernelTypes::read(&["ipv6"]).know("ip6_forward");
        open.progs.forwards_ipv6.set_autoload(ipv6);
        let loaded = verifier::load("senders", || open.load())?;
        let programs = [
            (&loaded.progs.forwards_ipv4, true),
            (&loaded.progs.forwards_ipv6, ipv6),
        ];
        let attached = programs.into_iter().filter(|(_, is_there)| *is_there);
        let attached = attached.map(|(program, _)| program.attach());
        let links: Result<_, _> = attached.collect();
        Ok(Self {
            _links: links.tried(|| "attach what notes senders".into())?,
        })
    }
}
