//! What the programs are told of a device by which packets come in.

use rxlane_bpf::layout::{DeviceOver, PORT_HIDES_TAGS, PORT_LOOSE, PORT_NO_IPV6, PORT_STRICT};
use rxlane_system::links::{Link, Links};
use rxlane_topology::device::{Checks, seen_as};

/// What Linux asks of packets that come in by a device, in the bits of the programs.
pub(crate) fn flags(checks: Checks) -> u8 {
    [
        (checks.strict, PORT_STRICT),
        (checks.loose, PORT_LOOSE),
        (checks.no_ipv6, PORT_NO_IPV6),
        (checks.hides_tags, PORT_HIDES_TAGS),
    ]
    .into_iter()
    .filter(|(holds, _)| *holds)
    .fold(0, |all, (_, bit)| all | bit)
}

/// A device, with [`flags`].
pub(crate) fn entry(device: &Link, links: &Links, flags: u8) -> DeviceOver {
    DeviceOver {
        seen_as: seen_as(device, links),
        flags,
        ..DeviceOver::seen_as_itself(device.ifindex)
    }
}
