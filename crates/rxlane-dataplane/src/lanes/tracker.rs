//! What connection tracking is told to do, and connections that it should be told about: bpf/tracker.h.

use libbpf_rs::{MapCore, MapHandle, MapType};
use rxlane_system::conntrack::{Connection, Marker};
use rxlane_system::sysctl::Held;
use tracing::warn;

use crate::DataplaneError;
use crate::layout::{TCP_LIBERAL, TCP_MARKED, Timeouts, Unmarked};
use crate::pinned;

/// Connections of TCP that are known at once.
const CONNECTIONS: usize = 1 << 16;
/// `struct tcp_connection`.
const CONNECTION_BYTES: usize = 32;
/// Connections that wait to be marked; more ask again.
const UNMARKED: usize = 4096;
/// As many are marked in one go, so that a flood of new ones keeps nobody waiting.
const AT_ONCE: usize = 512;

/// What is known of connections, nothing yet.
pub(crate) fn connections() -> Result<MapHandle, DataplaneError> {
    let name = "tcp_connections";
    pinned::create(MapType::LruHash, name, 8, CONNECTION_BYTES, CONNECTIONS, 0)
}

/// Connections to be marked, none yet.
pub(crate) fn unmarked() -> Result<MapHandle, DataplaneError> {
    let key = size_of::<Unmarked>() as u32;
    pinned::create(MapType::Hash, "unmarked", key, 4, UNMARKED, 0)
}

impl From<&Unmarked> for Connection {
    fn from(of: &Unmarked) -> Self {
        let address = |bytes: [u8; 16]| {
            if of.v6 != 0 {
                return std::net::IpAddr::from(bytes);
            }
            std::net::IpAddr::from([bytes[0], bytes[1], bytes[2], bytes[3]])
        };
        Self {
            source: address(of.source),
            destination: address(of.destination),
            source_port: u16::from_be_bytes(of.from_port),
            destination_port: u16::from_be_bytes(of.to_port),
        }
    }
}

/// The settings of connection tracking in a network namespace, followed by asking: nobody tells of changes.
pub(crate) struct Tracker {
    settings: [(&'static str, u32, Option<Held>); 5],
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
            ("net.netfilter.nf_conntrack_tcp_timeout_established", 432_000),
            ("net.netfilter.nf_conntrack_tcp_timeout_unacknowledged", 300),
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
        let [udp_ms, udp_stream_ms, established, unacknowledged, close] =
            self.settings.each_mut().map(|(name, default, held)| {
                let s = read(held, name).unwrap_or((*default).into());
                u32::try_from(s.saturating_mul(1000)).unwrap_or(i32::MAX as u32)
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
                tcp_close_ms: close,
            },
            tcp,
        }
    }

    /// Marks connections that the lane has asked for.
    ///
    /// # Errors
    /// When the map cannot be read.
    pub(crate) fn mark(&mut self, unmarked: &MapHandle) -> Result<(), DataplaneError> {
        let Some(marker) = &mut self.marker else {
            return Ok(());
        };
        let keys: Vec<Vec<u8>> = unmarked.keys().take(AT_ONCE).collect();
        if keys.is_empty() {
            return Ok(());
        }
        for key in &keys {
            pinned::delete(unmarked, key)?;
        }
        let connections: Vec<Connection> = keys
            .iter()
            .filter_map(|key| bytemuck::try_pod_read_unaligned::<Unmarked>(key).ok())
            .map(|unmarked| Connection::from(&unmarked))
            .collect();
        // Once: a kernel that refuses one refuses many.
        if let Err(error) = marker.mark(&connections)
            && !std::mem::replace(&mut self.said, true)
        {
            warn!(%error, "some connections of TCP stay with the kernel");
        }
        Ok(())
    }
}
