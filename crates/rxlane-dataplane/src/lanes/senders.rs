//! From whom packets come, for rules that ask for the MAC address of senders (bpf/trust/sender.bpf.c).
//!
//! The program is attached only while there are such rules, because each packet that this machine receives passes it.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle};
use rxlane_bpf::BpfTried;
use rxlane_bpf::skeletons::sender as skel;
use rxlane_bpf::verifier;

use crate::DataplaneError;

/// The attached program.
pub(crate) struct Senders {
    _link: Link,
}

impl Senders {
    /// Attaches it.
    ///
    /// # Errors
    /// When the kernel refuses it.
    pub(crate) fn note(senders: &MapHandle) -> Result<Self, DataplaneError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::SenderSkelBuilder::default()
            .open(&mut storage)
            .tried(|| "open what notes senders".into())?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.netns_cookie = rxlane_system::netns::cookie()?;
        }
        let shared = open.maps.senders.reuse_fd(senders.as_fd());
        shared.tried(|| "share the map of senders".into())?;
        let loaded = verifier::load("linux_receives", || open.load())?;
        let link = loaded.progs.linux_receives.attach();
        Ok(Self {
            _link: link.tried(|| "attach what notes senders".into())?,
        })
    }
}
