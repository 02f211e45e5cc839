//! XDP programs on interfaces, attached by BPF links.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::genl::{Family, find, number};

/// How a program is attached to an interface (`Documentation/networking/filter.rst`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Inside the driver.
    Native,
    /// Behind it, on skbs: works everywhere, slowly.
    Generic,
    /// Native where the driver can, else generic.
    Any,
}

impl Mode {
    /// Its name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Generic => "generic",
            Self::Any => "any",
        }
    }

    fn flags(self) -> u32 {
        match self {
            Self::Native => libbpf_sys::XDP_FLAGS_DRV_MODE,
            Self::Generic => libbpf_sys::XDP_FLAGS_SKB_MODE,
            Self::Any => 0,
        }
    }
}

/// Whether a driver takes frames that XDP redirects to it (`ndo_xdp_xmit`). Before Linux 6.3 nobody can say, and those with
/// native XDP are believed to.
pub fn sends(ifindex: u32) -> bool {
    const NDO_XMIT: u64 = 4;
    features(ifindex).is_none_or(|f| f & NDO_XMIT != 0)
}

/// Whether it also takes those of several pieces (multi-buffer XDP). Of whom nobody can say it is not believed: half of a
/// frame would be sent.
pub fn sends_pieces(ifindex: u32) -> bool {
    const NDO_XMIT_SG: u64 = 64;
    features(ifindex).is_some_and(|f| f & NDO_XMIT_SG != 0)
}

/// `xdp-features` of `dev-get` (Documentation/netlink/specs/netdev.yaml).
fn features(ifindex: u32) -> Option<u64> {
    const DEVICE_GET: u8 = 1;
    const IFINDEX: u16 = 1;
    const FEATURES: u16 = 3;
    Family::open("netdev")
        .and_then(|family| family.ask(DEVICE_GET, vec![number(IFINDEX, ifindex)]))
        .ok()
        .and_then(|answer| find(&answer, FEATURES))
}

/// Attaches an XDP program to an interface of this network namespace. Closing the descriptor detaches, unless the
/// link is pinned.
///
/// # Errors
/// The kernel's answer.
pub fn attach(program: BorrowedFd<'_>, ifindex: u32, mode: Mode) -> Result<OwnedFd, io::Error> {
    link(program, ifindex, libbpf_sys::BPF_XDP, mode.flags())
}

/// Has a link hold a program at a hook of an interface.
#[allow(unsafe_code)]
pub(crate) fn link(
    program: BorrowedFd<'_>,
    ifindex: u32,
    hook: libbpf_sys::bpf_attach_type,
    flags: u32,
) -> Result<OwnedFd, io::Error> {
    let opts = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as _,
        flags,
        ..Default::default()
    };
    // SAFETY: the program descriptor and the options outlive the call.
    let fd = unsafe {
        libbpf_sys::bpf_link_create(program.as_raw_fd(), ifindex as i32, hook, &raw const opts)
    };
    if fd < 0 {
        return Err(io::Error::from_raw_os_error(-fd));
    }
    // SAFETY: the call returned a new descriptor that nobody else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
