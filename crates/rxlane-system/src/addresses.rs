//! Which devices have addresses.

use std::collections::BTreeSet;

use netlink_packet_route::address::AddressMessage;
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::netlink;

/// Indices of the devices of the current network namespace that have an IPv4 address.
///
/// # Errors
/// When netlink fails.
pub fn devices_with_ipv4() -> Result<BTreeSet<u32>, SystemError> {
    let mut asked = AddressMessage::default();
    asked.header.family = AddressFamily::Inet;
    let (all, _) = netlink::dump(RouteNetlinkMessage::GetAddress(asked), "list addresses")?;
    let device = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewAddress(m) if m.header.family == AddressFamily::Inet => {
            Some(m.header.index)
        }
        _ => None,
    };
    Ok(all.iter().filter_map(device).collect())
}
