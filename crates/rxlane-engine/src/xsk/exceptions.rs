//! Gives packets back to the kernel, which answers, delivers or filters them, or asks for neighbours.
//!
//! Packets leave through a device of our own. A program there (bpf/engine/engine.bpf.c) turns each into a packet that
//! its port has just received, so that nothing in the kernel can tell the difference. Packets are sent in
//! batches, with one system call for each batch.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, setsockopt, socket,
    sockopt::{Mark, SndBufForce},
};
use rxlane_system::{links, sysctl};

use super::frames::{Frames, Packet};

/// Names of our device and of its peer, which no packet ever reaches.
const DEVICE: &str = "rxlane-up";
const PEER: &str = "rxlane-nil";
const VLAN_TAG: u32 = 4;
/// At least this, as a packet may be larger than its port's MTU is by now.
const LEAST_MTU: u32 = 1500;
/// Most packets that one system call sends.
const BATCH: usize = 64;
const SEND_BUFFER: usize = 4 << 20;

/// The device that exceptions are sent through; deleted with its owner.
#[derive(Debug)]
pub(crate) struct ExceptionDevice {
    pub(crate) ifindex: u32,
}

impl ExceptionDevice {
    /// Makes the device, in place of one that a killed engine left.
    pub(crate) fn create() -> Result<Self, rxlane_system::SystemError> {
        if let Ok(old) = links::by_name(DEVICE) {
            links::delete(old.ifindex)?;
        }
        links::create_veth(DEVICE, PEER)?;
        let device = Self {
            ifindex: links::by_name(DEVICE)?.ifindex,
        };
        // Neighbour discovery is not needed on these devices.
        for name in [DEVICE, PEER] {
            let _ = sysctl::write(&format!("net.ipv6.conf.{name}.disable_ipv6"), "1");
            links::set_up(links::by_name(name)?.ifindex)?;
        }
        Ok(device)
    }
}

impl ExceptionDevice {
    /// Makes it take what ports with that MTU at most receive, which is as much more as a VLAN tag is long, tag or none
    /// (`is_skb_forwardable`, include/linux/netdevice.h). The kernel refuses what is larger.
    pub(crate) fn carry(&self, mtu: u32) -> Result<(), rxlane_system::SystemError> {
        let least = mtu.max(LEAST_MTU) + VLAN_TAG;
        let now = links::all()?
            .into_iter()
            .find(|d| d.ifindex == self.ifindex);
        match now {
            Some(device) if device.mtu == least => Ok(()),
            _ => links::set_mtu(self.ifindex, least),
        }
    }
}

impl Drop for ExceptionDevice {
    fn drop(&mut self) {
        if let Err(error) = links::delete(self.ifindex) {
            tracing::debug!(%error, "the engine's device is gone already");
        }
    }
}

/// A worker's way into the kernel: a socket for each port, and the packets that wait to be sent.
#[derive(Debug)]
pub(crate) struct KernelLane {
    /// Indexed by the number of the port; empty without a kernel (benchmarks).
    sockets: Vec<Option<OwnedFd>>,
    device: u32,
    waiting: Vec<(u16, Packet)>,
}

impl KernelLane {
    /// `ports` has the interface index of each port, 0 for those that are gone.
    pub(crate) fn new(device: u32, ports: &[u32]) -> io::Result<Self> {
        let sockets = ports
            .iter()
            .map(|ifindex| (*ifindex != 0).then(|| open(*ifindex)).transpose())
            .collect::<io::Result<_>>()?;
        Ok(Self {
            sockets,
            device,
            waiting: Vec::with_capacity(BATCH),
        })
    }

    /// Whether the next packet must wait for [`KernelLane::flush`].
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() == BATCH
    }

    /// Adds a packet that came in through a port.
    #[inline]
    pub(crate) fn push(&mut self, port: u16, packet: Packet) {
        debug_assert!(!self.is_full(), "flush first");
        self.waiting.push((port, packet));
    }

    /// Sends what waits; returns how many the kernel refused.
    pub(crate) fn flush(&mut self, frames: &mut Frames) -> u32 {
        let mut refused = 0;
        while let Some((port, _)) = self.waiting.first() {
            let port = *port;
            let n = self.waiting.iter().take_while(|(p, _)| *p == port).count();
            let sent = match self.sockets.get(usize::from(port)) {
                Some(Some(socket)) => send(socket, self.device, frames, &self.waiting[..n]),
                _ => 0,
            };
            // A refused packet would be refused again, so leave it out: the next ones may still go.
            let done = if sent < n { sent + 1 } else { n };
            refused += u32::from(sent < n);
            for (_, packet) in self.waiting.drain(..done) {
                frames.discard(packet);
            }
        }
        refused
    }
}

/// A packet socket whose packets carry the port in their mark.
fn open(port: u32) -> io::Result<OwnedFd> {
    // Protocol 0: it receives nothing.
    let fd = socket(
        AddressFamily::Packet,
        SockType::Raw,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )?;
    setsockopt(&fd, Mark, &port)?;
    setsockopt(&fd, SndBufForce, &SEND_BUFFER)?;
    Ok(fd)
}

/// How many of the packets were sent.
#[allow(unsafe_code)]
fn send(socket: &OwnedFd, device: u32, frames: &Frames, packets: &[(u16, Packet)]) -> usize {
    let mut to = libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: device as i32,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 6,
        sll_addr: [0; 8],
    };
    let mut parts = [MaybeUninit::<libc::iovec>::uninit(); BATCH];
    let mut messages = [MaybeUninit::<libc::mmsghdr>::uninit(); BATCH];
    for ((part, message), (_, packet)) in parts.iter_mut().zip(&mut messages).zip(packets) {
        let bytes = frames.bytes(packet);
        let part = part.write(libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        });
        // SAFETY: zeros are a valid message header: no address, no parts, no control data.
        let mut header: libc::msghdr = unsafe { std::mem::zeroed() };
        header.msg_name = (&raw mut to).cast();
        header.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        header.msg_iov = part;
        header.msg_iovlen = 1;
        message.write(libc::mmsghdr {
            msg_hdr: header,
            msg_len: 0,
        });
    }
    let n = packets.len().min(BATCH) as u32;
    // SAFETY: the first `n` messages are initialised and point to an address, parts and bytes that outlive
    // the call.
    let sent = unsafe {
        libc::sendmmsg(
            socket.as_fd().as_raw_fd(),
            messages.as_mut_ptr().cast(),
            n,
            libc::MSG_DONTWAIT,
        )
    };
    usize::try_from(sent).unwrap_or(0)
}
