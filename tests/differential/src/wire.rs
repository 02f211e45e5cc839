//! The outside end of a port: a raw socket that sends to the router and hears what the router sends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockType, bind, send, setsockopt, socket, sockopt,
};
use rxlane_system::{SystemError, Tried, links, netns, packet_socket};

use crate::OracleError;
use crate::packets::tagged;

/// Holds all that a batch can make, however late it is read.
const RECEIVE_BYTES: usize = 8 << 20;

/// A raw socket on one interface.
#[derive(Debug)]
pub(crate) struct Wire(OwnedFd);

impl Wire {
    /// Opens one inside a namespace; it stays there whoever uses it.
    pub(crate) fn open(netns: &str, interface: &str) -> Result<Self, OracleError> {
        Ok(netns::within(netns, false, || {
            let what = || format!("open a raw socket on {interface}");
            let ifindex = links::by_name(interface)?.ifindex;
            // No protocol yet: nothing arrives before it is bound to its interface.
            let fd = socket(
                AddressFamily::Packet,
                SockType::Raw,
                SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC,
                None,
            )
            .tried(what)?;
            setsockopt(&fd, sockopt::RcvBufForce, &RECEIVE_BYTES).tried(what)?;
            tell_tags(&fd).tried(what)?;
            let all = packet_socket::address(ifindex, libc::ETH_P_ALL as u16)?;
            bind(fd.as_raw_fd(), &all).tried(what)?;
            Ok(Self(fd))
        })?)
    }

    /// Sends a frame; the router has dealt with it when this returns, but for what it does later on purpose.
    pub(crate) fn send(&self, frame: &[u8]) -> Result<(), SystemError> {
        match send(self.0.as_raw_fd(), frame, MsgFlags::empty()) {
            Ok(_) => Ok(()),
            // The link is down, which was drawn.
            Err(Errno::ENETDOWN | Errno::ENOBUFS) => Ok(()),
            Err(e) => Err(e).tried(|| format!("send a frame of {} bytes", frame.len())),
        }
    }

    /// The next frame that the router has sent, if there is one.
    pub(crate) fn receive(&self) -> Result<Option<Vec<u8>>, SystemError> {
        let mut frame = vec![0; 16 << 10];
        loop {
            match receive(&self.0, &mut frame) {
                Ok((_, libc::PACKET_OUTGOING, _)) => {}
                Ok((len, _, tag)) => {
                    frame.truncate(len);
                    return Ok(Some(match tag {
                        Some(tag) => tagged(&frame, &tag),
                        None => frame,
                    }));
                }
                Err(Errno::EAGAIN) => return Ok(None),
                // Said once when the link goes down.
                Err(Errno::ENETDOWN | Errno::EINTR) => {}
                Err(e) => return Err(e).tried(|| "receive a frame".into()),
            }
        }
    }

    fn as_poll(&self) -> PollFd<'_> {
        let fd: BorrowedFd<'_> = self.0.as_fd();
        PollFd::new(fd, PollFlags::POLLIN)
    }
}

/// Waits until something arrives on a wire; false when nothing did in time.
pub(crate) fn wait<'a>(wires: impl Iterator<Item = &'a Wire>, time: Duration) -> bool {
    let mut fds: Vec<PollFd<'_>> = wires.map(Wire::as_poll).collect();
    let timeout = PollTimeout::try_from(time).unwrap_or(PollTimeout::ZERO);
    poll(&mut fds, timeout).is_ok_and(|ready| ready > 0)
}

/// Linux takes the outer VLAN tag out of a frame before a socket sees it; this asks for it.
#[allow(unsafe_code)]
fn tell_tags(fd: &OwnedFd) -> nix::Result<()> {
    let yes: libc::c_int = 1;
    let len = size_of_val(&yes) as libc::socklen_t;
    // SAFETY: `yes` is an int of that length and outlives the call.
    let ret = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            libc::SOL_PACKET,
            libc::PACKET_AUXDATA,
            (&raw const yes).cast(),
            len,
        )
    };
    Errno::result(ret).map(drop)
}

/// One frame: its length, its `sll_pkttype`, and the tag that was taken out of it.
#[allow(unsafe_code)]
fn receive(fd: &OwnedFd, into: &mut [u8]) -> nix::Result<(usize, u8, Option<[u8; 4]>)> {
    /// Aligned as control messages are, with room for one `tpacket_auxdata`.
    #[repr(C, align(8))]
    struct Control([u8; 64]);
    let mut control = Control([0; 64]);
    // SAFETY: all zeros is a valid value of these structs of integers and pointers.
    let (mut from, mut message): (libc::sockaddr_ll, libc::msghdr) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    let mut part = libc::iovec {
        iov_base: into.as_mut_ptr().cast(),
        iov_len: into.len(),
    };
    message.msg_name = (&raw mut from).cast();
    message.msg_namelen = size_of_val(&from) as libc::socklen_t;
    message.msg_iov = &raw mut part;
    message.msg_iovlen = 1;
    message.msg_control = control.0.as_mut_ptr().cast();
    message.msg_controllen = control.0.len() as _;
    // SAFETY: name, part and control are buffers of the given lengths, and outlive the call.
    let ret = unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut message, 0) };
    let len = Errno::result(ret)? as usize;
    let mut tag = None;
    // SAFETY: the kernel has filled `message` in.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    while !next.is_null() {
        // SAFETY: a header that CMSG_FIRSTHDR or CMSG_NXTHDR returns lies within `control`.
        let header = unsafe { *next };
        if (header.cmsg_level, header.cmsg_type) == (libc::SOL_PACKET, libc::PACKET_AUXDATA) {
            // SAFETY: such a message carries a whole tpacket_auxdata, of integers only.
            let told = unsafe {
                libc::CMSG_DATA(next)
                    .cast::<libc::tpacket_auxdata>()
                    .read_unaligned()
            };
            if told.tp_status & libc::TP_STATUS_VLAN_VALID != 0 {
                let [a, b] = told.tp_vlan_tpid.to_be_bytes();
                let [c, d] = told.tp_vlan_tci.to_be_bytes();
                tag = Some([a, b, c, d]);
            }
        }
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(&raw const message, next) };
    }
    Ok((len, from.sll_pkttype, tag))
}
