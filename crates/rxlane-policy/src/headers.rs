//! What the classifier reads in a packet, and the reference parser that the BPF parser is held to.
//!
//! Guarantee: every byte string parses to exactly one [`Parsed`]; nothing panics.
//! Sources: IEEE 802.1Q (tags), RFC 2516 (sessions of PPPoE), RFC 791, RFC 8200, RFC 1812 section 5.2.2 (header validation).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes at the head of a frame that a `bytes` match can see.
pub const HEAD: usize = 64;

/// The outer VLAN tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    /// VLAN id, 0 to 4095.
    pub id: u16,
    /// Priority code point, 0 to 7.
    pub pcp: u8,
}

/// Why the express lane leaves a packet to the kernel before any lookup.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Obstacle {
    /// A VLAN tag with an id, or two tags: the packet came in by a VLAN device, which must be known. A single tag without an id
    /// gives its frame a priority and leaves it with the port (IEEE 802.1Q section 6.9).
    Vlan,
    /// IPv4 options, or an IPv6 extension header that Linux looks behind for protocol and ports: hop-by-hop options, routing,
    /// destination options. Policy rules and the hash of multipath routes go by what it finds there.
    Options,
    /// The IPv4 header checksum is wrong.
    Checksum,
    /// Loopback, multicast, broadcast, link-local or unspecified addresses (RFC 1812 section 5.3.7).
    SpecialAddress,
    /// TTL or hop limit of 1 or 0: an ICMP error is due.
    Ttl,
    /// A fragment.
    Fragment,
    /// An ICMP error: Linux chooses among several next hops by the packet that it is about.
    IcmpError,
}

/// Fields of an IP packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Headers {
    /// Ingress port, by index into the configured ports.
    pub port: u8,
    /// Outer VLAN tag.
    pub vlan: Option<Tag>,
    /// DSCP, 0 to 63.
    pub dscp: u8,
    /// IPv4 protocol or first IPv6 next header.
    pub protocol: u8,
    /// Address that the packet says it comes from.
    pub src: IpAddr,
    /// Destination address.
    pub dst: IpAddr,
    /// Source port, where the packet carries ports.
    pub src_port: Option<u16>,
    /// Destination port, where the packet carries ports.
    pub dst_port: Option<u16>,
    /// Whether the packet is a fragment; the first one counts, too.
    pub fragment: bool,
    /// The first reason why the express lane would not take it.
    pub obstacle: Option<Obstacle>,
    head: [u8; HEAD],
    head_len: usize,
}

/// What a frame turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An IP packet with a valid header.
    Ip(Box<Headers>),
    /// Addressed to another MAC, or broadcast or multicast: the kernel's affair.
    NotToUs,
    /// Not IP (ARP, LLDP, more than two VLAN tags …), or, to [`parse`], IP in a session of PPPoE.
    NotIp,
    /// Cut short, or a header that contradicts itself.
    Malformed,
}

pub(crate) const ETH_LEN: usize = 14;
const VLAN_TYPES: [u16; 2] = [0x8100, 0x88a8];
/// EtherType of a session of PPPoE.
pub(crate) const SESSION: u16 = 0x8864;
/// Bytes of a session's header, with the protocol of PPP.
pub(crate) const SESSION_LEN: usize = 8;

/// Protocols whose first four bytes are source and destination port: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub const PORT_PROTOCOLS: [u8; 5] = [6, 17, 33, 132, 136];

const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
/// Destination unreachable, source quench, redirect, time exceeded, parameter problem (RFC 792).
const ICMP_ERRORS: [u8; 5] = [3, 4, 5, 11, 12];
/// Types below are errors (RFC 4443 section 2.1).
const ICMPV6_INFORMATIONAL: u8 = 128;

impl Headers {
    /// The two bytes at `offset` of the frame, if it is that long.
    pub fn word(&self, offset: u8) -> Option<u16> {
        let at = usize::from(offset);
        (at + 2 <= self.head_len).then(|| u16::from_be_bytes([self.head[at], self.head[at + 1]]))
    }

    /// The same packet as part of the frame that another one was read in: with that frame's tag, and bytes.
    pub(crate) fn in_frame_of(self, outer: &Self) -> Self {
        Self {
            vlan: outer.vlan,
            head: outer.head,
            head_len: outer.head_len,
            ..self
        }
    }
}

pub(crate) fn be16(frame: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]))
}

/// Where the packet of a frame begins, behind up to two VLAN tags; a session of PPPoE is a packet here.
pub(crate) fn l3_of(frame: &[u8]) -> usize {
    let mut at = ETH_LEN;
    while at < ETH_LEN + 8 && be16(frame, at - 2).is_some_and(|t| VLAN_TYPES.contains(&t)) {
        at += 4;
    }
    at
}

/// The protocol of PPP of a frame that carries a session, and where its packet begins; `None` where the header of the session
/// is cut short or not of RFC 2516, or says that more follows than does.
pub(crate) fn session_of(frame: &[u8]) -> Option<(u16, usize)> {
    let at = l3_of(frame);
    let header = frame.get(at..at + SESSION_LEN)?;
    let length = usize::from(be16(header, 4)?);
    let holds = header[..2] == [0x11, 0] && frame.len() >= at + 6 + length;
    Some((be16(header, 6)?, at + SESSION_LEN)).filter(|_| holds)
}

/// Parses what a frame received on port `port`, whose MAC address is `mac`, carries in a session of PPPoE. A frame without a
/// session is [`Parsed::NotIp`], as is one with anything but IP in it.
pub fn parse_session(frame: &[u8], port: u8, mac: [u8; 6]) -> Parsed {
    if parse(frame, port, mac) != Parsed::NotIp || be16(frame, l3_of(frame) - 2) != Some(SESSION) {
        return Parsed::NotIp;
    }
    let Some((protocol, at)) = session_of(frame) else {
        return Parsed::Malformed;
    };
    // As the same packet without a session, which may not be longer than that says.
    let (kind, length_at, more) = match protocol {
        0x21 => ([0x08, 0x00], 2, 0),
        0x57 => ([0x86, 0xdd], 4, 40),
        _ => return Parsed::NotIp,
    };
    let before = at - SESSION_LEN;
    let bare = [&frame[..before - 2], &kind, &frame[at..]].concat();
    let Parsed::Ip(mut headers) = parse(&bare, port, mac) else {
        return Parsed::Malformed;
    };
    let says = be16(frame, before + 4).map_or(0, usize::from);
    if be16(frame, at + length_at).is_none_or(|n| 2 + more + usize::from(n) > says) {
        return Parsed::Malformed;
    }
    headers.head = [0; HEAD];
    headers.head_len = frame.len().min(HEAD);
    headers.head[..headers.head_len].copy_from_slice(&frame[..headers.head_len]);
    Parsed::Ip(headers)
}

/// Parses a frame received on port `port`, whose MAC address is `mac`.
pub fn parse(frame: &[u8], port: u8, mac: [u8; 6]) -> Parsed {
    if frame.len() < ETH_LEN {
        return Parsed::Malformed;
    }
    if frame[..6] != mac {
        return Parsed::NotToUs;
    }
    let mut at = ETH_LEN;
    let mut ethertype = u16::from_be_bytes([frame[12], frame[13]]);
    let mut vlan = None;
    for _ in 0..2 {
        if !VLAN_TYPES.contains(&ethertype) {
            break;
        }
        let (Some(tci), Some(inner)) = (be16(frame, at), be16(frame, at + 2)) else {
            return Parsed::Malformed;
        };
        vlan.get_or_insert(Tag {
            id: tci & 0xfff,
            pcp: (tci >> 13) as u8,
        });
        ethertype = inner;
        at += 4;
    }
    let headers = match ethertype {
        0x0800 => ipv4(frame, at),
        0x86dd => ipv6(frame, at),
        _ => return Parsed::NotIp,
    };
    let Some(mut headers) = headers else {
        return Parsed::Malformed;
    };
    headers.port = port;
    headers.vlan = vlan;
    if vlan.is_some_and(|tag| tag.id != 0) || at > ETH_LEN + 4 {
        headers.obstacle = Some(Obstacle::Vlan);
    }
    headers.head_len = frame.len().min(HEAD);
    headers.head[..headers.head_len].copy_from_slice(&frame[..headers.head_len]);
    Parsed::Ip(Box::new(headers))
}

fn ports(packet: &[u8], protocol: u8, at: usize) -> (Option<u16>, Option<u16>) {
    if !PORT_PROTOCOLS.contains(&protocol) {
        return (None, None);
    }
    match (be16(packet, at), be16(packet, at + 2)) {
        (Some(src), Some(dst)) => (Some(src), Some(dst)),
        _ => (None, None),
    }
}

fn ipv4(frame: &[u8], at: usize) -> Option<Headers> {
    let packet = frame.get(at..)?;
    let fixed = packet.get(..20)?;
    let header_len = usize::from(fixed[0] & 0xf) * 4;
    let total_len = usize::from(be16(fixed, 2)?);
    if fixed[0] >> 4 != 4 || header_len < 20 || total_len < header_len || total_len > packet.len() {
        return None;
    }
    let fragmentation = be16(fixed, 6)? & 0x3fff;
    let src = Ipv4Addr::new(fixed[12], fixed[13], fixed[14], fixed[15]);
    let dst = Ipv4Addr::new(fixed[16], fixed[17], fixed[18], fixed[19]);
    let (src_port, dst_port) = if fragmentation & 0x1fff == 0 {
        ports(&packet[..total_len], fixed[9], header_len)
    } else {
        (None, None)
    };
    let obstacle = if header_len > 20 {
        Some(Obstacle::Options)
    } else if ipv4_checksum(fixed) != 0 {
        Some(Obstacle::Checksum)
    } else if special_v4(src) || special_v4(dst) {
        Some(Obstacle::SpecialAddress)
    } else if fixed[8] <= 1 {
        Some(Obstacle::Ttl)
    } else if fragmentation != 0 {
        Some(Obstacle::Fragment)
    } else if fixed[9] == ICMP && packet.get(20).is_some_and(|t| ICMP_ERRORS.contains(t)) {
        Some(Obstacle::IcmpError)
    } else {
        None
    };
    Some(Headers {
        dscp: fixed[1] >> 2,
        protocol: fixed[9],
        src: src.into(),
        dst: dst.into(),
        src_port,
        dst_port,
        fragment: fragmentation != 0,
        obstacle,
        ..blank()
    })
}

fn ipv6(frame: &[u8], at: usize) -> Option<Headers> {
    let packet = frame.get(at..)?;
    let fixed = packet.get(..40)?;
    let payload_len = usize::from(be16(fixed, 4)?);
    if fixed[0] >> 4 != 6 || 40 + payload_len > packet.len() {
        return None;
    }
    let protocol = fixed[6];
    let src = Ipv6Addr::from(<[u8; 16]>::try_from(&fixed[8..24]).ok()?);
    let dst = Ipv6Addr::from(<[u8; 16]>::try_from(&fixed[24..40]).ok()?);
    let (src_port, dst_port) = ports(&packet[..40 + payload_len], protocol, 40);
    let obstacle = if [0, 43, 60].contains(&protocol) {
        Some(Obstacle::Options)
    } else if special_v6(src) || special_v6(dst) {
        Some(Obstacle::SpecialAddress)
    } else if fixed[7] <= 1 {
        Some(Obstacle::Ttl)
    } else if protocol == 44 {
        Some(Obstacle::Fragment)
    } else if protocol == ICMPV6 && packet.get(40).is_some_and(|t| *t < ICMPV6_INFORMATIONAL) {
        Some(Obstacle::IcmpError)
    } else {
        None
    };
    Some(Headers {
        dscp: ((fixed[0] & 0xf) << 2) | (fixed[1] >> 6),
        protocol,
        src: src.into(),
        dst: dst.into(),
        src_port,
        dst_port,
        fragment: protocol == 44,
        obstacle,
        ..blank()
    })
}

/// Of an IPv4 header whose checksum is still 0 (RFC 791, RFC 1071); 0 of one whose checksum holds.
pub fn ipv4_checksum(header: &[u8]) -> u16 {
    let words = header.chunks_exact(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    !((folded & 0xffff) + (folded >> 16)) as u16
}

/// Addresses that a router must not forward: 0/8, 127/8, 224/4 and above; link-local 169.254/16.
fn special_v4(address: Ipv4Addr) -> bool {
    let [a, b, ..] = address.octets();
    a == 0 || a == 127 || a >= 224 || (a == 169 && b == 254)
}

/// Unspecified, loopback and v4-mapped (::/80), link-local (fe80::/10) and multicast (ff00::/8).
fn special_v6(address: Ipv6Addr) -> bool {
    let s = address.segments();
    s[..5] == [0; 5] || s[0] & 0xffc0 == 0xfe80 || s[0] >> 8 == 0xff
}

fn blank() -> Headers {
    Headers {
        port: 0,
        vlan: None,
        dscp: 0,
        protocol: 0,
        src: Ipv4Addr::UNSPECIFIED.into(),
        dst: Ipv4Addr::UNSPECIFIED.into(),
        src_port: None,
        dst_port: None,
        fragment: false,
        obstacle: None,
        head: [0; HEAD],
        head_len: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// A UDP packet, EF, 10.0.0.1:1000 to 10.1.0.1:2000, with a correct checksum.
    fn udp4() -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        f.extend([0x45, 0xb8, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        f.extend([
            10, 0, 0, 1, 10, 1, 0, 1, 3, 232, 7, 208, 0, 12, 0, 0, 1, 2, 3, 4,
        ]);
        let sum: u32 = f[14..34]
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        let check = !(((sum & 0xffff) + (sum >> 16)) as u16);
        f[24..26].copy_from_slice(&check.to_be_bytes());
        f
    }

    #[test]
    fn a_udp_packet_gives_its_fields() {
        let Parsed::Ip(h) = parse(&udp4(), 3, MAC) else {
            panic!("not parsed")
        };
        assert_eq!((h.port, h.dscp, h.protocol), (3, 46, 17));
        assert_eq!((h.src_port, h.dst_port), (Some(1000), Some(2000)));
        assert_eq!(h.obstacle, None);
        assert_eq!(h.word(34), Some(1000));
    }

    #[test]
    fn obstacles_are_seen_in_order() {
        let mut f = udp4();
        f[22] = 1;
        let Parsed::Ip(h) = parse(&f, 0, MAC) else {
            panic!()
        };
        assert_eq!(
            h.obstacle,
            Some(Obstacle::Checksum),
            "TTL changed, checksum not"
        );
    }

    #[test]
    fn icmp_errors_are_obstacles_and_pings_are_not() {
        let obstacle_of = |protocol: u8, icmp_type: u8| {
            let mut f = udp4();
            (f[23], f[34]) = (protocol, icmp_type);
            f[24..26].fill(0);
            let words = f[14..34].chunks(2);
            let sum: u32 = words
                .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
                .sum();
            let check = !(((sum & 0xffff) + (sum >> 16)) as u16);
            f[24..26].copy_from_slice(&check.to_be_bytes());
            let Parsed::Ip(h) = parse(&f, 0, MAC) else {
                panic!("not parsed")
            };
            h.obstacle
        };
        for error in ICMP_ERRORS {
            assert_eq!(obstacle_of(ICMP, error), Some(Obstacle::IcmpError));
        }
        for (protocol, byte) in [(ICMP, 8), (ICMP, 0), (17, 3)] {
            assert_eq!(obstacle_of(protocol, byte), None, "{protocol} {byte}");
        }
    }

    #[test]
    fn any_prefix_of_a_packet_parses_without_a_panic() {
        let f = udp4();
        for n in 0..f.len() {
            assert!(
                !matches!(parse(&f[..n], 0, MAC), Parsed::Ip(_)),
                "{n} bytes"
            );
        }
    }

    #[test]
    fn frames_for_others_are_left_alone() {
        assert_eq!(parse(&udp4(), 0, [2, 0, 0, 0, 0, 9]), Parsed::NotToUs);
    }
}
