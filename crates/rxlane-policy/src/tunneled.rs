//! Packets in tunnels over IPv4: the reference that the BPF parser is held to.
//!
//! Guarantee: nothing panics; what is `None` here is no packet in a tunnel for the lane, but a packet like others.
//! Sources: RFC 2003 (IP in IP), RFC 4213 (IPv6 in IPv4), RFC 2784 and RFC 2890 (GRE), RFC 7348 (VXLAN),
//! RFC 6040 (ECN).

use std::net::{IpAddr, Ipv4Addr};

use crate::headers::{
    ETH_LEN, Headers, Parsed, SESSION, SESSION_LEN, be16, l3_of, parse, parse_session,
};

const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const UDP: u8 = 17;
const GRE: u8 = 47;
/// UDP ports of VXLAN: that of RFC 7348, and that of Linux before it.
pub const VXLAN_PORTS: [u16; 2] = [4789, 8472];
/// The one flag of VXLAN that the lane knows, and has to be there: a number follows.
const NUMBERED: [u8; 4] = [8, 0, 0, 0];
/// Bytes of the headers of UDP, VXLAN and Ethernet.
const VXLAN: usize = 8 + 8 + ETH_LEN;
/// The one flag of GRE that the lane knows, in the header's first word: a key follows.
const KEYED: u16 = 0x2000;
const IPV4_TYPE: u16 = 0x0800;
const IPV6_TYPE: u16 = 0x86dd;
/// Bytes of an IPv4 header without options.
const OUTER: usize = 20;

/// A packet in a tunnel, with what its tunnel is found by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tunneled {
    /// Destination of the outer header: an address of the router.
    pub local: Ipv4Addr,
    /// Source of the outer header.
    pub remote: Ipv4Addr,
    /// Protocol of the outer header: 4, 41 or 47, or 17 of a VXLAN.
    pub protocol: u8,
    /// The key of GRE, or the number of a VXLAN.
    pub key: Option<u32>,
    /// The frame in a VXLAN.
    pub framed: Option<Framed>,
    /// Bytes between the beginnings of the outer packet and of that inside.
    pub room: usize,
    /// The packet inside.
    pub inner: Headers,
}

/// The frame that a packet has in a VXLAN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Framed {
    /// UDP port that it came to.
    pub port: u16,
    /// To which station.
    pub to: [u8; 6],
    /// From which station.
    pub from: [u8; 6],
    /// Whether the checksum of UDP is right, or there is none: Linux drops what has another one.
    pub sum_holds: bool,
}

/// Whether a packet of UDP over IPv4, which begins behind its addresses, has a checksum that is right, or none (RFC 768).
fn sum_holds(from_addresses: &[u8]) -> bool {
    let words = from_addresses.chunks(2);
    let words =
        words.map(|w| u64::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])));
    let length = from_addresses.len().saturating_sub(8) as u64;
    let sum = words.sum::<u64>() + u64::from(UDP) + length;
    let folded = (sum & 0xffff) + (sum >> 16);
    let folded = (folded & 0xffff) + (folded >> 16);
    be16(from_addresses, 14) == Some(0) || (folded & 0xffff) + (folded >> 16) == 0xffff
}

/// What a packet of UDP, from its addresses on, carries of a VXLAN: type of the packet inside, number and frame. `None` if it is none of
/// `length` bytes with nothing but a number.
fn framed(from_addresses: &[u8], length: usize) -> Option<(u16, u32, Framed)> {
    let udp = from_addresses.get(8..)?;
    let port = be16(udp, 2).filter(|port| VXLAN_PORTS.contains(port))?;
    let said = usize::from(be16(udp, 4)?);
    let number = u32::from_be_bytes(udp.get(12..16)?.try_into().ok()?);
    let plain = udp.get(8..12)? == NUMBERED && number & 0xff == 0;
    let station = |at: usize| udp.get(at..at + 6)?.try_into().ok();
    let framed = Framed {
        port,
        to: station(16)?,
        from: station(22)?,
        sum_holds: sum_holds(from_addresses.get(..8 + length)?),
    };
    (plain && said == length).then_some((be16(udp, 28)?, number >> 8, framed))
}

/// Where the packet of a frame begins, with or without a session of PPPoE.
fn outer_of(frame: &[u8]) -> usize {
    let at = l3_of(frame);
    match be16(frame, at - 2) {
        Some(SESSION) => at + SESSION_LEN,
        _ => at,
    }
}

/// Parses what a frame received on port `port`, whose MAC address is `mac`, carries in a tunnel, itself in a session of PPPoE
/// or not. `None` if the outer packet is none that the lane looks into: none in IPv4, with an obstacle besides VLAN tags, with
/// options, other flags of GRE or VXLAN; or if the one inside is malformed, is longer than the outer one says, or would be given
/// another mark of congestion by Linux.
pub fn parse_tunneled(frame: &[u8], port: u8, mac: [u8; 6]) -> Option<Tunneled> {
    let parsed = match parse(frame, port, mac) {
        Parsed::NotIp => parse_session(frame, port, mac),
        parsed => parsed,
    };
    let Parsed::Ip(outer) = parsed else {
        return None;
    };
    let (IpAddr::V4(remote), IpAddr::V4(local)) = (outer.src, outer.dst) else {
        return None;
    };
    let at = outer_of(frame);
    // Tags come first among obstacles, and would hide others: the packet is looked at without them.
    let bare = [
        &frame[..ETH_LEN - 2],
        &IPV4_TYPE.to_be_bytes(),
        &frame[at..],
    ]
    .concat();
    if !matches!(parse(&bare, port, mac), Parsed::Ip(h) if h.obstacle.is_none()) {
        return None;
    }
    let length = usize::from(be16(frame, at + 2)?);
    let mut frame_inside = None;
    let (inner_type, room, key) = match outer.protocol {
        IP_IN_IP => (IPV4_TYPE, OUTER, None),
        IPV6_IN_IP => (IPV6_TYPE, OUTER, None),
        GRE => {
            let (flags, inner_type) = (be16(frame, at + OUTER)?, be16(frame, at + OUTER + 2)?);
            let key = frame.get(at + OUTER + 4..at + OUTER + 8);
            match flags {
                0 => (inner_type, OUTER + 4, None),
                KEYED => (
                    inner_type,
                    OUTER + 8,
                    Some(u32::from_be_bytes(key?.try_into().ok()?)),
                ),
                _ => return None,
            }
        }
        UDP => {
            let (inner_type, number, inside) =
                framed(frame.get(at + OUTER - 8..)?, length.checked_sub(OUTER)?)?;
            frame_inside = Some(inside);
            (inner_type, OUTER + VXLAN, Some(number))
        }
        _ => return None,
    };
    let (length_at, besides) = match inner_type {
        IPV4_TYPE => (2, 0),
        IPV6_TYPE => (4, 40),
        _ => return None,
    };
    let packet = frame.get(at + room..)?;
    let bare = [&frame[..ETH_LEN - 2], &inner_type.to_be_bytes(), packet].concat();
    let Parsed::Ip(inner) = parse(&bare, port, mac) else {
        return None;
    };
    if room + besides + usize::from(be16(packet, length_at)?) > length {
        return None;
    }
    let outer_ecn = frame[at + 1] & 3;
    let inner_ecn = match inner_type {
        IPV4_TYPE => packet[1] & 3,
        _ => packet[1] >> 4 & 3,
    };
    if outer_ecn != 0 && outer_ecn != inner_ecn {
        return None;
    }
    Some(Tunneled {
        local,
        remote,
        protocol: outer.protocol,
        key,
        framed: frame_inside,
        room,
        inner: inner.in_frame_of(&outer),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::ipv4_checksum;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn ipv4(protocol: u8, tos: u8, payload: &[u8]) -> Vec<u8> {
        let length = 20 + payload.len() as u8;
        let mut packet = vec![0x45, tos, 0, length, 0, 0, 0x40, 0, 64, protocol, 0, 0];
        packet.extend([10, 0, 0, 2, 10, 0, 0, 1]);
        let check = ipv4_checksum(&packet);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
        packet.extend(payload);
        packet
    }

    fn frame(packet: &[u8]) -> Vec<u8> {
        [&MAC[..], &[2, 0, 0, 0, 0, 2, 8, 0], packet].concat()
    }

    fn udp() -> Vec<u8> {
        ipv4(17, 0xb8, &[3, 232, 7, 208, 0, 8, 0, 0])
    }

    #[test]
    fn a_packet_in_gre_is_found_by_addresses_and_key() {
        let header = [0x20, 0, 8, 0, 0, 0, 1, 44];
        let found = parse_tunneled(
            &frame(&ipv4(GRE, 0, &[&header[..], &udp()].concat())),
            3,
            MAC,
        );
        let found = found.expect("a packet in a tunnel");
        assert_eq!(found.remote, Ipv4Addr::new(10, 0, 0, 2));
        assert_eq!(found.local, Ipv4Addr::new(10, 0, 0, 1));
        assert_eq!((found.protocol, found.key), (GRE, Some(300)));
        assert_eq!((found.inner.dscp, found.inner.dst_port), (46, Some(2000)));
        assert_eq!((found.inner.port, found.inner.obstacle), (3, None));
    }

    /// A packet of UDP to a port, with a VXLAN's headers whose bytes are changed.
    fn vxlan(to: u16, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let inside = udp();
        let length = (VXLAN + inside.len()) as u16;
        let mut body = vec![0xc0, 0];
        body.extend([to, length, 0].iter().flat_map(|word| word.to_be_bytes()));
        body.extend([8, 0, 0, 0, 0, 0, 42, 0]);
        body.extend([2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 6, 8, 0]);
        body.extend(inside);
        change(&mut body);
        frame(&ipv4(UDP, 0, &body))
    }

    #[test]
    fn a_packet_in_a_vxlan_is_found_by_its_number() {
        for port in VXLAN_PORTS {
            let found = parse_tunneled(&vxlan(port, |_| ()), 3, MAC).expect("a packet in a tunnel");
            assert_eq!((found.protocol, found.key), (UDP, Some(42)));
            let framed = Framed {
                port,
                to: [2, 0, 0, 0, 0, 5],
                from: [2, 0, 0, 0, 0, 6],
                sum_holds: true,
            };
            assert_eq!((found.framed, found.room), (Some(framed), 50));
            assert_eq!((found.inner.dscp, found.inner.dst_port), (46, Some(2000)));
        }
        assert_eq!(parse_tunneled(&vxlan(4790, |_| ()), 3, MAC), None);
    }

    #[test]
    fn of_a_vxlan_wrong_checksums_are_told() {
        let holds = |check: u16| {
            let frame = vxlan(4789, |body| {
                body[6..8].copy_from_slice(&check.to_be_bytes())
            });
            let found = parse_tunneled(&frame, 3, MAC).and_then(|found| found.framed);
            found.is_some_and(|framed| framed.sum_holds)
        };
        assert!(holds(0), "there may be none");
        let right: Vec<u16> = (1..=u16::MAX).filter(|check| holds(*check)).collect();
        assert_eq!(right.len(), 1);
        // RFC 768: the complement of the sum over all else.
        let frame = vxlan(4789, |_| ());
        let words = frame[26..].chunks_exact(2);
        let sum = words.fold(17 + (frame.len() - 34) as u64, |sum, w| {
            sum + u64::from(u16::from_be_bytes([w[0], w[1]]))
        });
        assert_eq!(u64::from(right[0]), 0xffff - sum % 0xffff);
    }

    #[test]
    fn of_a_vxlan_other_flags_and_lengths_are_left_to_linux() {
        for at in [5, 8, 9, 10, 11, 15, 28, 29] {
            let changed = vxlan(4789, |body| body[at] ^= 1);
            assert_eq!(parse_tunneled(&changed, 3, MAC), None, "byte {at}");
        }
        for at in [0, 12, 13, 14, 16, 22] {
            let changed = vxlan(4789, |body| body[at] ^= 1);
            assert!(parse_tunneled(&changed, 3, MAC).is_some(), "byte {at}");
        }
    }

    #[test]
    fn flags_of_gre_besides_the_key_are_not_looked_behind() {
        for flags in [[0x80, 0], [0x10, 0], [0x30, 0], [0, 1]] {
            let header = [&flags[..], &[8, 0, 0, 0, 0, 0, 0, 0, 0, 0]].concat();
            let packet = ipv4(GRE, 0, &[&header[..], &udp()].concat());
            assert_eq!(parse_tunneled(&frame(&packet), 0, MAC), None, "{flags:?}");
        }
    }

    #[test]
    fn marks_of_congestion_that_differ_are_left_to_linux() {
        let inside = |ecn: u8| ipv4(17, 0xb8 | ecn, &[3, 232, 7, 208, 0, 8, 0, 0]);
        for outer in 0..4 {
            for inner in 0..4 {
                let found = parse_tunneled(&frame(&ipv4(IP_IN_IP, outer, &inside(inner))), 0, MAC);
                assert_eq!(
                    found.is_some(),
                    outer == 0 || outer == inner,
                    "{outer} {inner}"
                );
            }
        }
    }

    #[test]
    fn a_packet_longer_than_its_outer_one_is_none() {
        let mut packet = ipv4(IP_IN_IP, 0, &udp());
        packet.push(0);
        packet[23] += 1;
        packet[20 + 10..20 + 12].fill(0);
        let check = ipv4_checksum(&packet[20..40]);
        packet[20 + 10..20 + 12].copy_from_slice(&check.to_be_bytes());
        assert!(matches!(parse(&frame(&packet), 0, MAC), Parsed::Ip(_)));
        assert_eq!(parse_tunneled(&frame(&packet), 0, MAC), None);
    }
}
