//! Which classes stay with the kernel for now: a word that the XDP program reads and the daemon writes.

use libbpf_rs::{MapHandle, MapType};
use rxlane_bpf::BpfError;
use rxlane_bpf::layout::Gates;
use rxlane_bpf::pinned;
use rxlane_policy::class::{Class, Lane, Trust};

/// An open gate for nobody: the map before the daemon has looked around.
pub(crate) fn create() -> Result<MapHandle, BpfError> {
    pinned::create(MapType::Array, "gates", 4, size_of::<Gates>(), 1, 0)
}

/// The classes that something speaks against, one bit each.
pub(crate) fn closed(classes: &[Class], objections: &[(String, Vec<String>)]) -> u32 {
    let objected = |c: &Class| objections.iter().any(|(name, _)| *name == c.name);
    (0u32..)
        .zip(classes)
        .filter(|(_, c)| matches!(c.lane, Lane::Express { .. }) && objected(c))
        .fold(0, |mask, (i, _)| mask | 1 << i)
}

/// Whether only established flows can be express, so that nothing is where connection tracking knows of none.
pub(crate) fn only_established(classes: &[Class]) -> bool {
    classes.iter().all(|class| match &class.lane {
        Lane::Express { trust, .. } => *trust == Trust::Established,
        Lane::Stack { .. } => true,
    })
}

/// What the daemon has found.
pub(crate) fn set(gates: &MapHandle, found: &Gates) -> Result<(), BpfError> {
    pinned::put(gates, 0, bytemuck::bytes_of(found))
}
