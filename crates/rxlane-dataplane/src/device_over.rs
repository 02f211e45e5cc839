//! What the programs are told of a device by which packets come in.

use rxlane_system::links::{Link, Links};
use rxlane_topology::device::{Checks, seen_as};

use crate::layout::{DeviceOver, PORT_HIDES_TAGS, PORT_LOOSE, PORT_NO_IPV6, PORT_STRICT};

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

impl DeviceOver {
    /// A device, with [`flags`].
    pub(crate) fn of(device: &Link, links: &Links, flags: u8) -> Self {
        Self {
            seen_as: seen_as(device, links),
            flags,
            ..Self::seen_as_itself(device.ifindex)
        }
    }

    /// A device of no VRF, of which Linux asks nothing.
    pub(crate) fn seen_as_itself(ifindex: u32) -> Self {
        Self {
            ifindex,
            seen_as: ifindex,
            flags: 0,
            priorities: 0,
            unfollowed: 0,
            pad: 0,
        }
    }
}
