//! What connection tracking is told to do, and connections that it should be told about: bpf/trust/tracker.h.

use std::cell::RefCell;
use std::rc::Rc;

use libbpf_rs::{MapHandle, MapType, RingBuffer, RingBufferBuilder};
use rxlane_bpf::layout::{TCP_LIBERAL, TCP_MARKED, Timeouts, Unmarked};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_system::conntrack::{Connection, Marker};
use rxlane_system::sysctl::Held;
use tracing::warn;

use crate::DataplaneError;

/// Connections of TCP that are known at once.
const CONNECTIONS: usize = 1 << 16;
/// `struct tcp_connection`.
const CONNECTION_BYTES: usize = 32;
/// Bytes of connections that wait to be marked, some thousand; more ask again.
const UNMARKED_BYTES: usize = 1 << 17;
/// As many are marked by one call.
const AT_ONCE: usize = 256;

/// What is known of connections, nothing yet.
pub(crate) fn connections() -> Result<MapHandle, BpfError> {
    let name = "tcp_connections";
    pinned::create(MapType::LruHash, name, 8, CONNECTION_BYTES, CONNECTIONS, 0)
}

/// Connections to be marked, none yet.
pub(crate) fn unmarked() -> Result<MapHandle, BpfError> {
    pinned::create(MapType::RingBuf, "unmarked", 0, 0, UNMARKED_BYTES, 0)
}

fn connection(of: &Unmarked) -> Connection {
    let address = |bytes: [u8; 16]| {
        if of.v6 != 0 {
            return std::net::IpAddr::from(bytes);
        }
        std::net::IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])
    };
    Connection {
        source: address(of.source),
        destination: address(of.destination),
        source_port: u16::from_be_bytes(of.from_port),
        destination_port: u16::from_be_bytes(of.to_port),
    }
}

/// The settings of connection tracking in a network namespace, followed by asking: nobody tells of changes.
pub(crate) struct Tracker {
    settings: [(&'static str, u32, Option<Held>); 6],
    liberal: Option<Held>,
    marker: Option<Marker>,
    said: bool,
}

/// What the tracker does now.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tracking {
    pub(crate) timeouts: Timeouts,
    /// [`TCP_MARKED`], [`TCP_LIBERAL`].
    pub(crate) tcp: u8,
}

const LIBERAL: &str = "net.netfilter.nf_conntrack_tcp_be_liberal";

impl Tracker {
    /// Of the current network namespace.
    pub(crate) fn open() -> Self {
        // With what they are where the kernel says nothing, s.
        let settings = [
            ("net.netfilter.nf_conntrack_udp_timeout", 30),
            ("net.netfilter.nf_conntrack_udp_timeout_stream", 120),
            (
                "net.netfilter.nf_conntrack_tcp_timeout_established",
                432_000,
            ),
            ("net.netfilter.nf_conntrack_tcp_timeout_unacknowledged", 300),
            ("net.netfilter.nf_conntrack_tcp_timeout_max_retrans", 300),
            ("net.netfilter.nf_conntrack_tcp_timeout_close", 10),
        ];
        let marker = Marker::open().unwrap_or_else(|error| {
            warn!(%error, "TCP of `established` classes needs {LIBERAL}=1");
            None
        });
        Self {
            settings: settings.map(|(name, s)| (name, s, Held::open(name))),
            liberal: Held::open(LIBERAL),
            marker,
            said: false,
        }
    }

    /// What is set now. The module may have come meanwhile, and its settings with it.
    pub(crate) fn now(&mut self) -> Tracking {
        let read = |held: &mut Option<Held>, name| {
            if held.is_none() {
                *held = Held::open(name);
            }
            held.as_ref().and_then(Held::read)
        };
        let [
            udp_ms,
            udp_stream_ms,
            established,
            unacknowledged,
            retransmitted,
            close,
        ] = self.settings.each_mut().map(|(name, default, held)| {
            let s = read(held, name).unwrap_or((*default).into());
            // More would be for ever to the kernel (`msecs_to_jiffies`).
            s.saturating_mul(1000).min(i32::MAX as u64) as u32
        });
        let liberal = read(&mut self.liberal, LIBERAL) == Some(1);
        let mut tcp = if liberal { TCP_LIBERAL } else { 0 };
        if self.marker.is_some() {
            tcp |= TCP_MARKED;
        }
        Tracking {
            timeouts: Timeouts {
                udp_ms,
                udp_stream_ms,
                tcp_established_ms: established,
                tcp_unacknowledged_ms: unacknowledged,
                tcp_retransmitted_ms: retransmitted,
                tcp_close_ms: close,
            },
            tcp,
        }
    }

    /// Marks connections that the lane has asked for.
    pub(crate) fn mark(&mut self, unmarked: &[Unmarked]) {
        let Some(marker) = &mut self.marker else {
            return;
        };
        for some in unmarked.chunks(AT_ONCE) {
            let connections: Vec<Connection> = some.iter().map(connection).collect();
            // Once: a kernel that refuses one refuses many.
            if let Err(error) = marker.mark(&connections)
                && !std::mem::replace(&mut self.said, true)
            {
                warn!(%error, "some connections of TCP stay with the kernel");
            }
        }
    }
}

/// Connections that the lane asks to be marked.
pub(crate) struct Unmarkeds {
    ring: RingBuffer<'static>,
    found: Rc<RefCell<Vec<Unmarked>>>,
}

impl Unmarkeds {
    /// # Errors
    /// When the ring buffer cannot be read.
    pub(crate) fn open(ring: &MapHandle) -> Result<Self, DataplaneError> {
        let tried = || "read the ring buffer of connections".to_owned();
        let found = Rc::new(RefCell::new(Vec::new()));
        let sink = Rc::clone(&found);
        let mut builder = RingBufferBuilder::new();
        let note = move |bytes: &[u8]| {
            if let Ok(unmarked) = bytemuck::try_pod_read_unaligned(bytes) {
                sink.borrow_mut().push(unmarked);
            }
            0
        };
        builder.add(ring, note).tried(tried)?;
        let ring = builder.build().tried(tried)?;
        Ok(Self { ring, found })
    }

    /// Those that have come.
    pub(crate) fn take(&self) -> Vec<Unmarked> {
        // What cannot be read now is read the next time.
        let _ = self.ring.consume();
        self.found.take()
    }
}
