//! What imaginary hosts answer when the router asks for their MAC address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packets::{Spec, Transport, tagged, untagged};

/// The MAC address of the host with an address behind a port. A function of both, so that no table is needed.
pub(crate) fn mac_of(port: usize, address: IpAddr) -> [u8; 6] {
    let low = match address {
        IpAddr::V4(a) => a.octets()[3],
        IpAddr::V6(a) => a.octets()[15],
    };
    [2, 0, port as u8 + 1, 0, 0x10, low]
}

/// Whether a frame is something that routers say by themselves about neighbours and groups: it differs in time and
/// number between equal routers. ARP, neighbour discovery, redirects, MLD and IGMP, and the spanning tree of bridges.
pub(crate) fn is_chatter(frame: &[u8]) -> bool {
    if frame.starts_with(&[1, 0x80, 0xc2, 0, 0]) {
        return true;
    }
    let (_, frame) = untagged(frame);
    match frame.get(12..14) {
        Some([8, 6]) => true,
        Some([8, 0]) => {
            let header = 14 + usize::from(frame.get(14).copied().unwrap_or(0) & 15) * 4;
            match frame.get(23) {
                Some(2) => true,
                Some(1) => frame.get(header) == Some(&5),
                _ => false,
            }
        }
        Some([0x86, 0xdd]) => match frame.get(20) {
            Some(58) => matches!(frame.get(54), Some(130..=137 | 143)),
            // MLD follows a hop-by-hop header.
            Some(0) => frame.get(54) == Some(&58) && matches!(frame.get(62), Some(130..=132 | 143)),
            _ => false,
        },
        _ => false,
    }
}

/// The answer to an ARP request or a neighbour solicitation that is for a living host, in the same VLAN.
pub(crate) fn reply(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let (tags, frame) = untagged(frame);
    let reply = match frame.get(12..14)? {
        [8, 6] => arp(port, &frame, alive),
        [0x86, 0xdd] if frame.get(20) == Some(&58) && frame.get(54) == Some(&135) => {
            solicitation(port, &frame, alive)
        }
        _ => None,
    };
    Some(tagged(&reply?, &tags))
}

fn arp(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let request = frame.get(14..42)?;
    if request[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let wanted: [u8; 4] = request[24..28].try_into().ok()?;
    let address = IpAddr::from(Ipv4Addr::from(wanted));
    if !alive.contains(&address) {
        return None;
    }
    let mac = mac_of(port, address);
    let mut reply = request[8..14].to_vec();
    reply.extend(mac);
    reply.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend(mac);
    reply.extend(wanted);
    reply.extend(&request[8..18]);
    Some(reply)
}

fn solicitation(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let asker: [u8; 16] = frame.get(22..38)?.try_into().ok()?;
    let wanted: [u8; 16] = frame.get(62..78)?.try_into().ok()?;
    let (asker, address) = (Ipv6Addr::from(asker), Ipv6Addr::from(wanted));
    if asker.is_unspecified() || !alive.contains(&address.into()) {
        return None;
    }
    let mac = mac_of(port, address.into());
    let spec = Spec {
        to_mac: frame.get(6..12)?.try_into().ok()?,
        from_mac: mac,
        src: address.into(),
        dst: asker.into(),
        dscp: 0,
        ttl: 255,
        transport: Transport::Other(58),
        number: 0,
        payload_bytes: 0,
        quirks: Vec::new(),
    };
    let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    body.extend(wanted);
    body.extend([2, 1]);
    body.extend(mac);
    Some(spec.icmpv6_frame(body))
}
