//! Which classes stay with the kernel for now: a word that the XDP program reads and the daemon writes.

use libbpf_rs::{MapHandle, MapType};
use rxlane_policy::Nanos;
use rxlane_policy::class::{Class, Lane};

use crate::DataplaneError;
use crate::layout::Gates;
use crate::pinned;

/// An open gate for nobody: the map before the daemon has looked around.
pub(crate) fn create() -> Result<MapHandle, DataplaneError> {
    pinned::create(MapType::Array, "gates", 4, size_of::<Gates>(), 1, 0)
}

/// Opens the classes that nothing speaks against, as of `now`; `route_mtu` is the largest packet where a route
/// asks for an MTU, IPv4 and IPv6.
pub(crate) fn set(
    gates: &MapHandle,
    classes: &[Class],
    objections: &[(String, Vec<String>)],
    route_mtu: [Option<u32>; 2],
    now: Nanos,
) -> Result<(), DataplaneError> {
    let objected = |c: &Class| objections.iter().any(|(name, _)| *name == c.name);
    let closed = (0u32..)
        .zip(classes)
        .filter(|(_, c)| matches!(c.lane, Lane::Express { .. }) && objected(c))
        .fold(0, |mask, (i, _)| mask | 1 << i);
    put(gates, closed, route_mtu.map(|mtu| mtu.unwrap_or(0)), now)
}

/// Closes all of them, until somebody has looked again.
pub(crate) fn close(gates: &MapHandle) -> Result<(), DataplaneError> {
    put(gates, u32::MAX, [0; 2], Nanos(0))
}

fn put(
    gates: &MapHandle,
    closed: u32,
    route_mtu: [u32; 2],
    now: Nanos,
) -> Result<(), DataplaneError> {
    let value = Gates {
        watched_ns: now.0,
        closed,
        route_mtu,
        pad: 0,
    };
    pinned::put(gates, 0, bytemuck::bytes_of(&value))
}
