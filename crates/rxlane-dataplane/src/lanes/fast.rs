//! The end of the fast lane (bpf/forward/fast.bpf.c) at tc ingress of ports that are served in XDP.
//!
//! Every packet that the stack gets there passes the program, so it is attached only while XDP has something to hand over: for classes
//! with `lane = "fast"`, and while a port refuses frames. Where it is not, what it would have sent is the stack's.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use rxlane_bpf::BpfTried;
use rxlane_bpf::skeletons::fast as skel;
use rxlane_bpf::{pinned, verifier};
use rxlane_config::RouterConfig;
use rxlane_system::links::Links;
use rxlane_system::tcx;
use tracing::warn;

use crate::DataplaneError;
use crate::instance::Instance;
use crate::lanes::overload::Shared;
use crate::port::PortState;

const NAME: &str = "rxlane_fast";

/// The program, once it was needed, and the devices that this process has attached it to.
#[derive(Debug, Default)]
pub(crate) struct Fast {
    program: Option<OwnedFd>,
    on: BTreeSet<u32>,
    /// Devices that refused it, of which has been told.
    refused: BTreeSet<u32>,
}

/// Whether a class leaves through queueing discipline by what the file says.
pub(crate) fn any_class(config: &RouterConfig) -> bool {
    config.classes.iter().any(|class| class.lane.is_fast())
}

impl Fast {
    /// Attaches the program to all ports in XDP if it is `wanted`, and takes it off all other devices. Notes of each port whether it is
    /// there.
    ///
    /// # Errors
    /// When pins cannot be removed, or the kernel refuses the program.
    pub(crate) fn follow(
        &mut self,
        instance: &Instance,
        shared: &Shared,
        ports: &mut BTreeMap<String, PortState>,
        devices: &Links,
        wanted: bool,
    ) -> Result<(), DataplaneError> {
        let served = ports.values().filter(|port| wanted && port.is_in_xdp());
        let served: BTreeSet<u32> = served.filter_map(|port| port.ifindex).collect();
        self.on.retain(|ifindex| served.contains(ifindex));
        for (ifindex, path) in instance.fast_links() {
            if !self.on.contains(&ifindex) {
                pinned::detach(&path)?;
            }
        }
        self.refused.retain(|ifindex| served.contains(ifindex));
        for ifindex in served.difference(&self.on.clone()) {
            let name = devices.at(*ifindex);
            match tcx::attach(self.program(shared)?.as_fd(), *ifindex) {
                Ok(link) => {
                    pinned::pin(link.as_fd(), &instance.fast_link(*ifindex))?;
                    self.on.insert(*ifindex);
                }
                Err(error) if self.refused.insert(*ifindex) => warn!(
                    port = name.map(|d| d.name.as_str()),
                    %error,
                    "no program can be at its tc ingress: packets of the fast lane are the stack's there"
                ),
                Err(_) => {}
            }
        }
        for port in ports.values_mut() {
            port.hands_over = port
                .ifindex
                .is_some_and(|ifindex| self.on.contains(&ifindex));
        }
        Ok(())
    }

    fn program(&mut self, shared: &Shared) -> Result<&OwnedFd, DataplaneError> {
        if self.program.is_none() {
            self.program = Some(load(shared)?);
        }
        Ok(self.program.as_ref().expect("it was just loaded"))
    }
}

fn load(shared: &Shared) -> Result<OwnedFd, DataplaneError> {
    let tried = || "share maps with the end of the fast lane".to_owned();
    let mut storage = MaybeUninit::uninit();
    let mut open = skel::FastSkelBuilder::default()
        .open(&mut storage)
        .tried(|| "open the end of the fast lane".into())?;
    if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
        constants.netns_cookie = rxlane_system::netns::cookie()?;
    }
    let m = &mut open.maps;
    m.ports.reuse_fd(shared.ports.as_fd()).tried(tried)?;
    m.port_counts
        .reuse_fd(shared.port_counts.as_fd())
        .tried(tried)?;
    m.cores.set_autocreate(false).tried(tried)?;
    let loaded = verifier::load(NAME, || open.load())?;
    Ok(pinned::keep_program(loaded.progs.rxlane_fast.as_fd())?)
}

impl Instance {
    /// Where the program of the fast lane on a device is pinned.
    fn fast_link(&self, ifindex: u32) -> PathBuf {
        self.pins.join(format!("{PREFIX}{ifindex}"))
    }

    /// All of these, by device.
    pub(crate) fn fast_links(&self) -> Vec<(u32, PathBuf)> {
        let entries = std::fs::read_dir(&self.pins)
            .into_iter()
            .flatten()
            .flatten();
        let of = |path: PathBuf| {
            let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
            Some((name.parse().ok()?, path))
        };
        entries.filter_map(|entry| of(entry.path())).collect()
    }
}

const PREFIX: &str = "fast_of_";
