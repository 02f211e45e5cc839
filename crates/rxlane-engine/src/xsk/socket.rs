//! AF_XDP sockets: the rings of one queue of a device.
//!
//! One socket a class on the same (device, queue), so all of them draw from one fill ring. Sockets of all
//! queues of a worker share one UMEM, so a packet goes from any Rx ring to any Tx ring without a copy.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpOptionsFlags,
    XdpRingOffset, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, sockopt};

use super::frames::Frames;
use super::memory::Mapping;
use super::ring::{Consumer, Desc, Offsets, Producer};
use rxlane_config::Copy;

/// Why a queue cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SocketError {
    /// The UMEM cannot be pinned.
    #[error(
        "the kernel cannot pin {mib} MiB of packet memory ({errno}): lower `ring`, or raise the memlock limit"
    )]
    Pin {
        /// What was asked for.
        mib: u32,
        /// The kernel's answer.
        errno: Errno,
    },
    /// Somebody else has the queue.
    #[error(
        "queue {0} is bound by another AF_XDP socket: stop that program, or leave the port out"
    )]
    Busy(u32),
    /// The device has fewer queues.
    #[error("there is no queue {0}: give the device more (ethtool -L), or the engine fewer cores")]
    NoQueue(u32),
    /// The driver has no zero-copy mode.
    #[error("the driver has no zero-copy mode here: use copy = \"auto\" or \"always\"")]
    NoZeroCopy,
    /// The kernel refused for a reason of its own.
    #[error("cannot {what}: {errno}")]
    Kernel {
        /// What was tried.
        what: &'static str,
        /// The kernel's answer.
        errno: Errno,
    },
}

trait Tried<T> {
    fn to(self, what: &'static str) -> Result<T, SocketError>;
}

impl<T> Tried<T> for Result<T, Errno> {
    fn to(self, what: &'static str) -> Result<T, SocketError> {
        self.map_err(|errno| SocketError::Kernel { what, errno })
    }
}

impl<T> Tried<T> for std::io::Result<T> {
    fn to(self, what: &'static str) -> Result<T, SocketError> {
        self.map_err(|e| SocketError::Kernel {
            what,
            errno: Errno::from_io_error(&e).unwrap_or(Errno::IO),
        })
    }
}

/// The rings of one queue.
#[derive(Debug)]
pub(crate) struct QueueSockets {
    /// A socket and its Rx ring for each ring asked for; the first one owns the other rings.
    pub(crate) rx: Vec<(OwnedFd, Consumer<Desc>)>,
    pub(crate) tx: Producer<Desc>,
    pub(crate) fill: Producer<u64>,
    pub(crate) completion: Consumer<u64>,
    /// Whether the driver writes into the UMEM itself.
    pub(crate) zero_copy: bool,
}

/// Sizes of a queue's rings, powers of two.
#[derive(Debug, Clone)]
pub(crate) struct Sizes {
    pub(crate) rx: Vec<u32>,
    pub(crate) tx: u32,
    pub(crate) fill: u32,
}

fn socket() -> Result<OwnedFd, SocketError> {
    let flags = SocketFlags::CLOEXEC;
    rustix::net::socket_with(AddressFamily::XDP, SocketType::RAW, flags, None)
        .to("open an AF_XDP socket (CAP_NET_RAW)")
}

fn offsets(at: &XdpRingOffset) -> Offsets {
    let producer = at.producer as usize;
    Offsets {
        producer,
        consumer: at.consumer as usize,
        // Kernels before 5.4 have no flags, so the producer's number stands in; it is never NEED_WAKEUP alone
        // for long.
        flags: at.flags.map_or(producer, |f| f as usize),
        items: at.desc as usize,
    }
}

fn memory<T>(
    fd: BorrowedFd<'_>,
    page: u64,
    at: &Offsets,
    size: u32,
) -> Result<Arc<Mapping>, SocketError> {
    let len = at.items + size as usize * size_of::<T>();
    Mapping::file(fd, page, len).map(Arc::new).to("map a ring")
}

impl QueueSockets {
    /// Opens the sockets of a queue. `first`: a socket of another queue with the same UMEM; without one, the
    /// UMEM is registered here.
    pub(crate) fn open(
        ifindex: u32,
        queue: u32,
        sizes: &Sizes,
        umem: &Frames,
        first: Option<BorrowedFd<'_>>,
        copy: Copy,
    ) -> Result<Self, SocketError> {
        let main = socket()?;
        if first.is_none() {
            register(main.as_fd(), umem)?;
        }
        sockopt::set_xdp_umem_fill_ring_size(&main, sizes.fill).to("size the fill ring")?;
        sockopt::set_xdp_umem_completion_ring_size(&main, sizes.tx)
            .to("size the completion ring")?;
        sockopt::set_xdp_tx_ring_size(&main, sizes.tx).to("size the Tx ring")?;
        let at = sockopt::xdp_mmap_offsets(&main).to("ask for the layout of rings")?;
        let mut rx = Vec::new();
        let mut rest = Vec::new();
        for (i, size) in sizes.rx.iter().enumerate() {
            let class = if i == 0 { None } else { Some(socket()?) };
            let fd = class.as_ref().map_or(main.as_fd(), AsFd::as_fd);
            sockopt::set_xdp_rx_ring_size(fd, *size).to("size an Rx ring")?;
            let ring = offsets(&at.rx);
            let memory = memory::<Desc>(fd, XDP_PGOFF_RX_RING, &ring, *size)?;
            rx.push(Consumer::new(memory, ring, *size));
            rest.extend(class);
        }
        let ring = offsets(&at.fr);
        let fill = Producer::new(
            memory::<u64>(main.as_fd(), XDP_UMEM_PGOFF_FILL_RING, &ring, sizes.fill)?,
            ring,
            sizes.fill,
        );
        let ring = offsets(&at.cr);
        let completion = Consumer::new(
            memory::<u64>(
                main.as_fd(),
                XDP_UMEM_PGOFF_COMPLETION_RING,
                &ring,
                sizes.tx,
            )?,
            ring,
            sizes.tx,
        );
        let ring = offsets(&at.tx);
        let tx = Producer::new(
            memory::<Desc>(main.as_fd(), XDP_PGOFF_TX_RING, &ring, sizes.tx)?,
            ring,
            sizes.tx,
        );
        match first {
            Some(first) => bind_shared(&main, ifindex, queue, first)?,
            None => bind_first(&main, ifindex, queue, copy)?,
        }
        for fd in &rest {
            bind_shared(fd, ifindex, queue, main.as_fd())?;
        }
        let options = sockopt::xdp_options(&main).to("ask for the mode of a socket")?;
        let sockets = std::iter::once(main).chain(rest);
        Ok(Self {
            rx: sockets.zip(rx).collect(),
            tx,
            fill,
            completion,
            zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
        })
    }
}

fn register(fd: BorrowedFd<'_>, umem: &Frames) -> Result<(), SocketError> {
    let memory = umem.memory();
    let region = XdpUmemReg {
        addr: memory.at::<u8>(0).as_ptr() as u64,
        len: memory.len() as u64,
        chunk_size: umem.size(),
        headroom: 0,
        flags: XdpUmemRegFlags::empty(),
        tx_metadata_len: 0,
    };
    sockopt::set_xdp_umem_reg(fd, region).map_err(|errno| SocketError::Pin {
        mib: (memory.len() >> 20) as u32,
        errno,
    })
}

fn bind_first(fd: &OwnedFd, ifindex: u32, queue: u32, copy: Copy) -> Result<(), SocketError> {
    let flags = SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP
        | match copy {
            Copy::Auto => SocketAddrXdpFlags::empty(),
            Copy::Always => SocketAddrXdpFlags::XDP_COPY,
            Copy::Never => SocketAddrXdpFlags::XDP_ZEROCOPY,
        };
    bind(fd, &SocketAddrXdp::new(flags, ifindex, queue)).map_err(|e| refusal(e, queue, copy))
}

fn bind_shared(
    fd: &OwnedFd,
    ifindex: u32,
    queue: u32,
    with: BorrowedFd<'_>,
) -> Result<(), SocketError> {
    let addr = SocketAddrXdp::new(SocketAddrXdpFlags::XDP_SHARED_UMEM, ifindex, queue);
    let addr = SocketAddrXdpWithSharedUmem {
        addr,
        shared_umem_fd: with,
    };
    bind(fd, &addr).map_err(|e| refusal(e, queue, Copy::Auto))
}

fn refusal(errno: Errno, queue: u32, copy: Copy) -> SocketError {
    match errno {
        Errno::BUSY => SocketError::Busy(queue),
        // A driver may have the mode and refuse it: virtio-net without VIRTIO_F_ACCESS_PLATFORM.
        Errno::OPNOTSUPP | Errno::INVAL if copy == Copy::Never => SocketError::NoZeroCopy,
        Errno::INVAL => SocketError::NoQueue(queue),
        errno => SocketError::Kernel {
            what: "bind an AF_XDP socket",
            errno,
        },
    }
}

/// Lets calls on a socket poll its device's NAPI, which then leaves the interrupt alone as far as the device's
/// `napi_defer_hard_irqs` and `gro_flush_timeout` allow (Documentation/networking/napi.rst, "Busy polling"). Needs
/// `CAP_NET_ADMIN`, and a socket that knows its NAPI: since Linux 6.14 only zero-copy ones do.
#[allow(unsafe_code)]
pub(crate) fn prefer_busy_poll(fd: BorrowedFd<'_>) -> std::io::Result<()> {
    /// NAPI's own weight; a driver may not do more in a poll without further privileges.
    const BUDGET: libc::c_int = 64;
    /// Longest time in one call, us; a call polls once and is back long before.
    const US: libc::c_int = 20;
    let options: [(libc::c_int, libc::c_int); 3] = [
        (libc::SO_PREFER_BUSY_POLL, 1),
        (libc::SO_BUSY_POLL, US),
        (libc::SO_BUSY_POLL_BUDGET, BUDGET),
    ];
    for (option, value) in options {
        let at: *const libc::c_int = &raw const value;
        // SAFETY: `at` is an integer of that size, which is what the three options take.
        let outcome = unsafe {
            libc::setsockopt(
                fd.as_raw_fd(),
                libc::SOL_SOCKET,
                option,
                at.cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
        if outcome < 0 {
            return Err(std::io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Wakes the kernel's sender. In copy mode it sends up to 32 packets a call, and says "try again" when there
/// are more, so only the Tx ring tells whether it made progress. Without memory, with the device's queue
/// full or the device down, the packets stay on the ring.
pub(crate) fn kick(fd: BorrowedFd<'_>) {
    let _ = rustix::net::send(fd, &[], rustix::net::SendFlags::DONTWAIT);
}
