//! Addresses of this machine, and which devices have some.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use netlink_packet_route::address::{AddressMessage, AddressScope};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::netlink;
use crate::{SystemError, Tried};

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

/// Indices of the devices of the current network namespace that have an address by which others reach them: IPv4, or IPv6 that is not of the
/// link alone.
///
/// # Errors
/// When netlink fails.
pub fn devices_with_addresses() -> Result<BTreeSet<u32>, SystemError> {
    let asked = AddressMessage::default();
    let (all, _) = netlink::dump(RouteNetlinkMessage::GetAddress(asked), "list addresses")?;
    let device = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewAddress(m) if m.header.family == AddressFamily::Inet => {
            Some(m.header.index)
        }
        RouteNetlinkMessage::NewAddress(m) if m.header.scope == AddressScope::Universe => {
            Some(m.header.index)
        }
        _ => None,
    };
    Ok(all.iter().filter_map(device).collect())
}

/// IPv4 addresses of the current network namespace, without those of some devices.
///
/// # Errors
/// When netlink fails.
pub fn own_ipv4(but: &BTreeSet<String>) -> Result<BTreeSet<Ipv4Addr>, SystemError> {
    let all = nix::ifaddrs::getifaddrs().tried(|| "list addresses".into())?;
    let all = all.filter(|interface| !but.contains(&interface.interface_name));
    let address =
        |interface: nix::ifaddrs::InterfaceAddress| Some(interface.address?.as_sockaddr_in()?.ip());
    Ok(all.filter_map(address).collect())
}
