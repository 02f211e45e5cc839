//! The outside end of a port: a raw socket that sends to the router and hears what the router sends.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, LinkAddr, MsgFlags, SockFlag, SockType, SockaddrLike, bind, recvfrom, send,
    setsockopt, socket, sockopt,
};
use rxlane_system::{SystemError, Tried, links, netns};

use crate::OracleError;

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
            bind(fd.as_raw_fd(), &address(ifindex)?).tried(what)?;
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
            match recvfrom::<LinkAddr>(self.0.as_raw_fd(), &mut frame) {
                Ok((_, Some(from))) if from.pkttype() == libc::PACKET_OUTGOING => {}
                Ok((len, _)) => {
                    frame.truncate(len);
                    return Ok(Some(frame));
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

/// All protocols of an interface.
#[allow(unsafe_code)]
fn address(ifindex: u32) -> Result<LinkAddr, SystemError> {
    let raw = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: (libc::ETH_P_ALL as u16).to_be(),
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
