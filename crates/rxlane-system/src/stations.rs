//! What bridges have learned: behind which port a station is.

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::neighbour::{
    NeighbourAttribute, NeighbourFlags, NeighbourMessage, NeighbourState,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::neighbours;
use crate::netlink::{self, Message};

/// A station, as a bridge knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Station {
    /// Index of the bridge.
    pub bridge: u32,
    /// Its hardware address.
    pub mac: [u8; 6],
    /// Index of the port that it is behind; `None` once the bridge has forgotten it, or where it is the machine itself.
    pub port: Option<u32>,
    /// Whether the bridge believes it to be there wherever it is heard (`sticky`).
    pub stays: bool,
}

/// `None` for what is no station of a bridge: neighbours of IP, what a device filters by, and stations of one VLAN.
fn from_message(message: &NeighbourMessage) -> Option<Station> {
    if message.header.family != AddressFamily::Bridge {
        return None;
    }
    let (mut mac, mut bridge) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            NeighbourAttribute::LinkLayerAddress(bytes) => mac = bytes.as_slice().try_into().ok(),
            NeighbourAttribute::Controller(index) => bridge = Some(*index),
            NeighbourAttribute::Vlan(_) => return None,
            _ => {}
        }
    }
    Some(Station {
        bridge: bridge?,
        mac: mac?,
        // Permanent ones are addresses of the machine itself.
        port: Some(message.header.ifindex)
            .filter(|_| message.header.state != NeighbourState::Permanent),
        stays: message.header.flags.contains(NeighbourFlags::Sticky),
    })
}

/// All stations that bridges of the current network namespace know.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<Vec<Station>, SystemError> {
    let mut message = NeighbourMessage::default();
    message.header.family = AddressFamily::Bridge;
    let request = RouteNetlinkMessage::GetNeighbour(message);
    let (all, _) = netlink::dump(request, "list what bridges have learned")?;
    let station = |message: &RouteNetlinkMessage| match message {
        RouteNetlinkMessage::NewNeighbour(m) => from_message(m),
        _ => None,
    };
    Ok(all.iter().filter_map(station).collect())
}

/// A subscription to what bridges learn and forget.
pub type Monitor = neighbours::NeighbourNews<Station>;

impl Monitor {
    /// Subscribes in the current network namespace; before [`all`] is asked.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Self::of(became)
    }
}

/// What a station has become, by a message of the kernel's.
fn became(message: Message) -> Option<Station> {
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewNeighbour(m)) => from_message(&m),
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelNeighbour(m)) => {
            from_message(&m).map(|station| Station {
                port: None,
                ..station
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(state: NeighbourState, attributes: &[NeighbourAttribute]) -> NeighbourMessage {
        let mut message = NeighbourMessage::default();
        message.header.family = AddressFamily::Bridge;
        message.header.ifindex = 7;
        message.header.state = state;
        message.attributes = attributes.to_vec();
        message
    }

    #[test]
    fn only_stations_behind_ports_of_bridges_are_known() {
        let mac = NeighbourAttribute::LinkLayerAddress(vec![2, 0, 0, 0, 0, 9]);
        let bridge = NeighbourAttribute::Controller(3);
        let learned = message(NeighbourState::Reachable, &[mac.clone(), bridge.clone()]);
        let station = Station {
            bridge: 3,
            mac: [2, 0, 0, 0, 0, 9],
            port: Some(7),
            stays: false,
        };
        assert_eq!(from_message(&learned), Some(station));
        let mut sticky = learned;
        sticky.header.flags = NeighbourFlags::Sticky;
        assert!(from_message(&sticky).is_some_and(|station| station.stays));
        let own = message(NeighbourState::Permanent, &[mac.clone(), bridge.clone()]);
        assert_eq!(from_message(&own).and_then(|own| own.port), None);
        let of_the_device = message(NeighbourState::Reachable, std::slice::from_ref(&mac));
        let vlan = NeighbourAttribute::Vlan(5);
        let of_a_vlan = message(NeighbourState::Reachable, &[mac, bridge, vlan]);
        for other in [&of_the_device, &of_a_vlan] {
            assert_eq!(from_message(other), None);
        }
    }
}
