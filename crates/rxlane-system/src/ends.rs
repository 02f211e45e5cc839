//! Where VXLANs send frames: behind which other end a station is (`bridge fdb show dev …`).

use std::net::Ipv4Addr;

use netlink_packet_core::{NetlinkPayload, Nla};
use netlink_packet_route::neighbour::{
    NeighbourAddress, NeighbourAttribute, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::neighbours;
use crate::netlink::{self, Message};

/// One line of what a VXLAN knows. A station may have several, and frames to it go to all of their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Index of the VXLAN's device.
    pub device: u32,
    /// Hardware address of the station; 0 stands for all that have no entry of their own.
    pub mac: [u8; 6],
    /// The other end; `None` if it is none of IPv4, or is sent to by another port, number or device than the VXLAN's.
    pub end: Option<Ipv4Addr>,
    /// Whether this is news that it is gone.
    pub gone: bool,
    /// Whether Linux forgets it once it has not been in use for long: it was learned, or was made so (`dynamic`).
    pub ages: bool,
}

/// `NDA_NH_ID` of include/uapi/linux/neighbour.h: a group of other ends.
const NEXTHOP: u16 = 13;

/// `None` for what no VXLAN has: neighbours of IP, what a bridge has learned, filters of devices.
fn from_message(message: &NeighbourMessage, gone: bool) -> Option<Entry> {
    let mut entry = Entry {
        device: message.header.ifindex,
        mac: [0; 6],
        end: None,
        gone,
        ages: matches!(
            message.header.state,
            NeighbourState::Reachable | NeighbourState::Stale
        ),
    };
    let (mut has_end, mut odd) = (false, false);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => {
                entry.mac = bytes.as_slice().try_into().ok()?;
            }
            NeighbourAttribute::Destination(address) => {
                has_end = true;
                entry.end = match address {
                    NeighbourAddress::Inet(v4) => Some(*v4),
                    NeighbourAddress::Other(bytes) => <[u8; 4]>::try_from(bytes.as_slice())
                        .ok()
                        .map(Ipv4Addr::from),
                    _ => None,
                };
            }
            NeighbourAttribute::Port(_)
            | NeighbourAttribute::Vni(_)
            | NeighbourAttribute::IfIndex(_)
            | NeighbourAttribute::SourceVni(_) => odd = true,
            NeighbourAttribute::Other(other) if other.kind() == NEXTHOP => {
                (has_end, odd) = (true, true);
            }
            // A bridge tells of its ports' stations in the same messages.
            NeighbourAttribute::Controller(_) => return None,
            _ => {}
        }
    }
    if odd {
        entry.end = None;
    }
    // Neighbours of IP on the VXLAN's device have the device's index, too.
    (message.header.family == AddressFamily::Bridge && has_end).then_some(entry)
}

/// All that VXLANs of the current network namespace know, and whether all of it could be read.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<(Vec<Entry>, bool), SystemError> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    let request = RouteNetlinkMessage::GetNeighbour(message);
    let (all, unread) = netlink::dump(request, "list what VXLANs know")?;
    let entry = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewNeighbour(m) => from_message(m, false),
        _ => None,
    };
    Ok((all.iter().filter_map(entry).collect(), unread == 0))
}

/// A subscription to what VXLANs learn and forget.
pub type Monitor = neighbours::NeighbourNews<Entry>;

impl Monitor {
    /// Subscribes in the current network namespace; before [`all`] is asked.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Self::of(became)
    }
}

pub(crate) fn became(message: Message) -> Option<Entry> {
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(m)) => {
            from_message(&m, false)
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelNeighbour(m)) => {
            from_message(&m, true)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(family: AddressFamily, attributes: &[NeighbourAttribute]) -> Option<Entry> {
        let mut message = NeighbourMessage::default();
        message.header.family = family;
        message.header.ifindex = 7;
        message.header.state = NeighbourState::Reachable;
        message.attributes = attributes.to_vec();
        from_message(&message, false)
    }

    #[test]
    fn only_what_vxlans_know_is_listed() {
        let mac = NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 9]);
        let end = NeighbourAttribute::Destination(NeighbourAddress::Other(vec![10, 0, 0, 2]));
        let known = entry(AddressFamily::Bridge, &[mac.clone(), end.clone()]);
        let expected = Entry {
            device: 7,
            mac: [2, 0, 0, 0, 0, 9],
            end: Some([10, 0, 0, 2].into()),
            gone: false,
            ages: true,
        };
        assert_eq!(known, Some(expected));
        let bridge = NeighbourAttribute::Controller(3);
        for other in [
            &[mac.clone()][..],
            &[mac.clone(), bridge],
            &[NeighbourAttribute::Controller(3), end.clone()],
        ] {
            assert_eq!(entry(AddressFamily::Bridge, other), None);
        }
        assert_eq!(
            entry(AddressFamily::Inet, &[mac.clone(), end.clone()]),
            None
        );
        // A neighbour without a hardware address, which is unreachable.
        assert_eq!(entry(AddressFamily::Inet, std::slice::from_ref(&end)), None);
        let elsewhere = entry(
            AddressFamily::Bridge,
            &[mac, end, NeighbourAttribute::Port(9)],
        );
        assert_eq!(elsewhere.and_then(|e| e.end), None);
    }
}
