//! The witness at the entries of tunnels: tracing programs that see which outer packets Linux takes out of their tunnel
//! (bpf/devices/tunnels.bpf.c).
//!
//! They end with the daemon, after which nothing of tunnels is express for long.

use std::mem::MaybeUninit;
use std::os::fd::AsFd;

use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapHandle, MapType};
use rxlane_bpf::layout::DeviceOver;
use rxlane_bpf::pinned;
use rxlane_bpf::skeletons::tunnels as skel;
use rxlane_bpf::verifier;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_system::features::KernelTypes;
use rxlane_topology::tunnel::MAX_TUNNELS;

use super::witness::WitnessMaps;
use crate::DataplaneError;

/// Name of the programs together.
const PROGRAM: &str = "tunnels";
/// Modules whose functions they follow, where these are none of the kernel proper.
const MODULES: [&str; 3] = ["ip_tunnel", "sit", "vxlan"];
/// `struct tunnel_key` of bpf/devices/outer.h.
const KEY_BYTES: u32 = 16;
/// `BPF_F_NO_PREALLOC`: who looks up what is removed keeps it until he is done.
const NO_PREALLOC: u32 = 1;

/// Nobody's tunnels yet.
pub(crate) fn create() -> Result<MapHandle, BpfError> {
    let device = size_of::<DeviceOver>();
    pinned::create(
        MapType::Hash,
        "tunnels",
        KEY_BYTES,
        device,
        MAX_TUNNELS,
        NO_PREALLOC,
    )
}

/// What can be followed of tunnels in this kernel, by the functions that take packets out of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Followed {
    /// IP in IP, and GRE.
    pub(crate) ip: bool,
    /// IPv6 in IPv4.
    pub(crate) sit: bool,
    pub(crate) vxlan: bool,
}

impl Followed {
    pub(crate) fn of_this_kernel() -> Self {
        let types = KernelTypes::read(&MODULES);
        Self {
            ip: types.know("ip_tunnel_rcv"),
            sit: types.know("ipip6_rcv"),
            vxlan: types.know("vxlan_rcv"),
        }
    }

    /// Whether these functions take packets of an IP protocol out of tunnels.
    pub(crate) fn covers(self, protocol: u8) -> bool {
        const UDP: u8 = 17;
        const IPV6: u8 = 41;
        match protocol {
            UDP => self.vxlan,
            IPV6 => self.sit,
            _ => self.ip,
        }
    }
}

/// The attached programs.
pub(crate) struct Entries {
    pub(crate) followed: Followed,
    _links: Vec<Link>,
}

impl Entries {
    /// Attaches them.
    ///
    /// # Errors
    /// When one is refused: with functions in modules it takes `CAP_SYS_ADMIN`.
    pub(crate) fn follow(
        followed: Followed,
        tunnels: &MapHandle,
        witness: &WitnessMaps,
    ) -> Result<Self, DataplaneError> {
        let mut storage = MaybeUninit::uninit();
        let mut open = skel::TunnelsSkelBuilder::default()
            .open(&mut storage)
            .tried(|| "open the witness of tunnels".into())?;
        if let Some(constants) = open.maps.rodata_data.as_deref_mut() {
            constants.netns_cookie = rxlane_system::netns::cookie()?;
        }
        let reuse = || "share maps with the witness of tunnels".to_owned();
        let m = &mut open.maps;
        m.tunnels.reuse_fd(tunnels.as_fd()).tried(reuse)?;
        m.witnesses
            .reuse_fd(witness.witnesses.as_fd())
            .tried(reuse)?;
        m.witnessed_flows
            .reuse_fd(witness.flows.as_fd())
            .tried(reuse)?;
        open.progs.tunnel_takes.set_autoload(followed.ip);
        open.progs.sit_takes.set_autoload(followed.sit);
        open.progs.vxlan_takes.set_autoload(followed.vxlan);
        let loaded = verifier::load(PROGRAM, || open.load())?;
        let all = [
            (&loaded.progs.tunnel_takes, followed.ip),
            (&loaded.progs.sit_takes, followed.sit),
            (&loaded.progs.vxlan_takes, followed.vxlan),
        ];
        let mut links = Vec::new();
        for (program, _) in all.into_iter().filter(|(_, is_there)| *is_there) {
            let tried = || "attach the witness of tunnels".to_owned();
            links.push(program.attach().tried(tried)?);
        }
        Ok(Self {
            followed,
            _links: links,
        })
    }
}
