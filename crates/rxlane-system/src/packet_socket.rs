//! Addresses of packet sockets (packet(7)), which send and receive whole frames.

use nix::errno::Errno;
use nix::sys::socket::{LinkAddr, SockaddrLike};

use crate::{SystemError, Tried};

/// An interface as the address of a packet socket. `protocol` is an EtherType (`ETH_P_ALL` for all, 0 for none): what a socket
/// that is bound to the address receives.
///
/// # Errors
/// When the C library refuses the structure.
#[allow(unsafe_code)]
pub fn address(ifindex: u32, protocol: u16) -> Result<LinkAddr, SystemError> {
    let raw = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: protocol.to_be(),
        sll_ifindex: ifindex as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    };
    let len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: `raw` is a whole sockaddr_ll, whose length is given, and it is copied before this returns.
    let address = unsafe { LinkAddr::from_raw((&raw const raw).cast(), Some(len)) };
    address
        .ok_or(Errno::EINVAL)
        .tried(|| "make a packet socket's address".into())
}
