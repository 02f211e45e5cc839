//! A queue of a port as its worker serves it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::frames::{Frames, Packet};
use super::ring::{Consumer, Desc, Producer};
use super::socket::{QueueSockets, kick};

/// An Rx ring, and what is done with its packets.
#[derive(Debug)]
pub(crate) struct RxRing {
    pub(crate) packets: Consumer<Desc>,
    /// Whether its packets are the stack's.
    pub(crate) stack: bool,
    /// Its place in the table that is shared with the XDP program.
    pub(crate) index: usize,
    /// None without a kernel behind it (benchmarks).
    pub(crate) socket: Option<OwnedFd>,
}

/// The rings of one queue of a port.
#[derive(Debug)]
pub(crate) struct Queue {
    /// Number of the port.
    pub(crate) port: u16,
    pub(crate) rx: Vec<RxRing>,
    /// Whether the driver writes into the UMEM itself.
    pub(crate) zero_copy: bool,
    tx: Producer<Desc>,
    fill: Producer<u64>,
    completion: Consumer<u64>,
}

/// Most system calls that one flush makes to send; what is left then waits for the next poll.
const MOST_KICKS: u32 = 64;

impl Queue {
    /// A queue with the sockets of a device.
    pub(crate) fn new(port: u16, sockets: QueueSockets, index: usize, stack: &[bool]) -> Self {
        Self {
            port,
            rx: sockets
                .rx
                .into_iter()
                .zip(stack)
                .enumerate()
                .map(|(i, ((socket, packets), stack))| RxRing {
                    packets,
                    stack: *stack,
                    index: index + i,
                    socket: Some(socket),
                })
                .collect(),
            zero_copy: sockets.zero_copy,
            tx: sockets.tx,
            fill: sockets.fill,
            completion: sockets.completion,
        }
    }

    /// A queue with rings in memory.
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn in_memory(
        port: u16,
        rx: Vec<Consumer<Desc>>,
        tx: Producer<Desc>,
        fill: Producer<u64>,
        completion: Consumer<u64>,
    ) -> Self {
        Self {
            port,
            rx: rx
                .into_iter()
                .enumerate()
                .map(|(index, packets)| RxRing {
                    packets,
                    stack: false,
                    index,
                    socket: None,
                })
                .collect(),
            zero_copy: false,
            tx,
            fill,
            completion,
        }
    }

    /// The socket that sends. It is also the one whose UMEM the others share.
    pub(crate) fn sender(&self) -> Option<BorrowedFd<'_>> {
        self.rx.first()?.socket.as_ref().map(AsFd::as_fd)
    }

    /// Takes back frames that were sent, then gives the kernel frames to receive into: Tx cleaning comes
    /// first (low-latency-router IV.B).
    #[inline]
    pub(crate) fn turn_over(&mut self, frames: &mut Frames) {
        frames.recycle(&mut self.completion);
        if frames.refill(&mut self.fill) > 0 && self.fill.needs_wakeup() {
            self.receive();
        }
    }

    /// Makes the driver look at its rings. A driver that ran out of frames needs this, and so do all that
    /// prefer busy polling.
    pub(crate) fn receive(&self) {
        if let Some(fd) = self.sender() {
            let _ = rustix::net::recv(fd, &mut [0u8; 0][..], rustix::net::RecvFlags::DONTWAIT);
        }
    }

    /// Puts a packet on the Tx ring; it is sent with the next flush.
    #[inline]
    pub(crate) fn send(&mut self, frames: &mut Frames, packet: Packet) -> Result<(), Packet> {
        let Err(packet) = frames.send(packet, &mut self.tx) else {
            return Ok(());
        };
        self.flush(frames);
        self.tx.free_now();
        frames.send(packet, &mut self.tx)
    }

    /// Sends what was put on the Tx ring, after making room on the completion ring.
    #[inline]
    pub(crate) fn flush(&mut self, frames: &mut Frames) {
        self.tx.submit();
        frames.recycle(&mut self.completion);
        if self.sender().is_none() || self.tx.pending() == 0 {
            return;
        }
        for _ in 0..MOST_KICKS {
            if !self.tx.needs_wakeup() {
                return;
            }
            let before = self.tx.pending();
            let Some(fd) = self.sender() else { return };
            kick(fd);
            let left = self.tx.pending();
            if left == 0 || left == before {
                return;
            }
        }
    }

    /// Whether the Tx ring still holds packets.
    pub(crate) fn is_sending(&mut self) -> bool {
        self.tx.pending() > 0
    }

    /// Whether the kernel has all the frames that it can take.
    pub(crate) fn is_filled(&mut self) -> bool {
        self.fill.free_now() == 0
    }

    /// How many frames the kernel has into which it can receive.
    pub(crate) fn unfilled(&mut self) -> u32 {
        self.fill.pending()
    }
}
