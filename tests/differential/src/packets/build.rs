//! Frames from headers, right in all respects but those that are asked for.

use std::net::IpAddr;

use super::number::payload;

/// TCP flags.
pub mod tcp {
    /// The connection ends.
    pub const FIN: u8 = 1;
    /// It begins.
    pub const SYN: u8 = 2;
    /// It is torn down.
    pub const RST: u8 = 4;
    /// Data should be read.
    pub const PSH: u8 = 8;
    /// The acknowledgement counts.
    pub const ACK: u8 = 16;
}

/// What follows the IP header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transport {
    /// Ports.
    Udp(u16, u16),
    /// Ports, flags, sequence and acknowledgement numbers.
    Tcp(u16, u16, u8, u32, u32),
    /// An ICMP echo: whether it is the reply, its identifier and its sequence number.
    Echo(bool, u16, u16),
    /// ICMP "port unreachable" about a quoted packet.
    Unreachable(Vec<u8>),
    /// Another protocol.
    Other(u8),
}

/// What is unusual about a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quirk {
    /// The IPv4 header checksum is wrong.
    HeaderSum,
    /// The checksum of the transport is wrong.
    TransportSum,
    /// The IP header says more bytes than there are.
    TooShort,
    /// Bytes follow that no header knows of.
    Padding(u8),
    /// A router-alert option, or a hop-by-hop header.
    RouterAlert,
    /// An option that does nothing, or an IPv6 destination-options header.
    Options,
    /// The first of some fragments.
    FirstFragment,
    /// Another one.
    LaterFragment,
    /// Must not be fragmented (IPv4).
    DontFragment,
    /// A VLAN tag.
    Vlan(u16),
    /// The version says something else.
    Version,
}

/// A packet to be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    /// Destination MAC address.
    pub to_mac: [u8; 6],
    /// Source MAC address.
    pub from_mac: [u8; 6],
    /// Source address.
    pub src: IpAddr,
    /// Destination address, of the same family.
    pub dst: IpAddr,
    /// DSCP.
    pub dscp: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// What it carries.
    pub transport: Transport,
    /// The number in its payload.
    pub number: u32,
    /// How long that is.
    pub payload_bytes: usize,
    /// What is unusual.
    pub quirks: Vec<Quirk>,
}

impl Spec {
    fn has(&self, quirk: Quirk) -> bool {
        self.quirks.contains(&quirk)
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let (protocol, mut segment) = self.segment();
        if self.has(Quirk::LaterFragment) {
            segment = payload(self.number, segment.len().next_multiple_of(8));
        }
        if self.has(Quirk::FirstFragment) {
            segment.resize(segment.len() & !7, 0);
        }
        let packet = match self.src {
            IpAddr::V4(_) => self.ipv4(protocol, &segment),
            IpAddr::V6(_) => self.ipv6(protocol, &segment),
        };
        let mut frame = [self.to_mac, self.from_mac].concat();
        for quirk in &self.quirks {
            if let Quirk::Vlan(tag) = quirk {
                frame.extend([0x81, 0]);
                frame.extend(tag.to_be_bytes());
            }
        }
        frame.extend(if self.src.is_ipv4() {
            [8, 0]
        } else {
            [0x86, 0xdd]
        });
        frame.extend(packet);
        for quirk in &self.quirks {
            if let Quirk::Padding(bytes) = quirk {
                frame.extend(vec![0; usize::from(*bytes)]);
            }
        }
        if self.has(Quirk::TooShort) {
            frame.truncate(frame.len() - 8);
        }
        frame
    }

    /// A frame of ICMPv6 with this body, whose checksum is filled in.
    pub(crate) fn icmpv6_frame(&self, mut body: Vec<u8>) -> Vec<u8> {
        let sum = self.transport_sum(58, &body);
        body[2..4].copy_from_slice(&sum.to_be_bytes());
        let packet = self.ipv6(58, &body);
        [&self.to_mac[..], &self.from_mac, &[0x86, 0xdd], &packet].concat()
    }

    /// The checksum of a segment whose own checksum is 0.
    fn transport_sum(&self, protocol: u8, segment: &[u8]) -> u16 {
        if protocol == 1 {
            return checksum(segment);
        }
        let mut pseudo = [octets(self.src), octets(self.dst)].concat();
        pseudo.extend((segment.len() as u32).to_be_bytes());
        pseudo.extend([0, 0, 0, protocol]);
        pseudo.extend(segment);
        checksum(&pseudo)
    }

    fn ipv4(&self, protocol: u8, segment: &[u8]) -> Vec<u8> {
        let options: &[u8] = if self.has(Quirk::RouterAlert) {
            &[0x94, 4, 0, 0]
        } else if self.has(Quirk::Options) {
            &[1, 1, 1, 0]
        } else {
            &[]
        };
        let total = (20 + options.len() + segment.len()) as u16;
        let version = if self.has(Quirk::Version) { 0x60 } else { 0x40 };
        let fragment: u16 = if self.has(Quirk::FirstFragment) {
            0x2000
        } else if self.has(Quirk::LaterFragment) {
            0x0010
        } else if self.has(Quirk::DontFragment) {
            0x4000
        } else {
            0
        };
        let mut h = vec![version | (5 + options.len() as u8 / 4), self.dscp << 2];
        h.extend(total.to_be_bytes());
        h.extend(id_of(self.number).to_be_bytes());
        h.extend(fragment.to_be_bytes());
        h.extend([self.ttl, protocol, 0, 0]);
        h.extend(octets(self.src));
        h.extend(octets(self.dst));
        h.extend(options);
        let mut sum = checksum(&h);
        if self.has(Quirk::HeaderSum) {
            sum ^= 0x0101;
        }
        h[10..12].copy_from_slice(&sum.to_be_bytes());
        h.extend(segment);
        h
    }

    fn ipv6(&self, protocol: u8, segment: &[u8]) -> Vec<u8> {
        let mut headers: Vec<(u8, Vec<u8>)> = Vec::new();
        if self.has(Quirk::RouterAlert) {
            headers.push((0, vec![5, 2, 0, 0, 1, 0]));
        }
        if self.has(Quirk::Options) {
            headers.push((60, vec![1, 4, 0, 0, 0, 0]));
        }
        let id = self.number.to_be_bytes();
        if self.has(Quirk::FirstFragment) {
            headers.push((44, [&[0, 1][..], &id].concat()));
        } else if self.has(Quirk::LaterFragment) {
            headers.push((44, [&[0, 0x80][..], &id].concat()));
        }
        let mut body = Vec::new();
        for (n, (_, content)) in headers.iter().enumerate() {
            body.push(headers.get(n + 1).map_or(protocol, |(next, _)| *next));
            // Length in units of eight bytes after the first eight; reserved in a fragment header.
            body.push(0);
            body.extend(content);
        }
        body.extend(segment);
        let first = headers.first().map_or(protocol, |(kind, _)| *kind);
        let version = if self.has(Quirk::Version) { 4 } else { 6 };
        let mut h = vec![version << 4 | self.dscp >> 2, (self.dscp & 3) << 6, 0, 0];
        h.extend((body.len() as u16).to_be_bytes());
        h.extend([first, self.ttl]);
        h.extend(octets(self.src));
        h.extend(octets(self.dst));
        h.extend(body);
        h
    }

    /// The protocol's number and its header with the payload.
    fn segment(&self) -> (u8, Vec<u8>) {
        let v6 = self.src.is_ipv6();
        let icmp = if v6 { 58 } else { 1 };
        let content = payload(self.number, self.payload_bytes);
        let (protocol, sum_at, mut s) = match &self.transport {
            Transport::Udp(sport, dport) => {
                let mut s = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
                s.extend((8 + content.len() as u16).to_be_bytes());
                s.extend([0, 0]);
                (17, Some(6), s)
            }
            Transport::Tcp(sport, dport, flags, seq, ack) => {
                let mut s = [sport.to_be_bytes(), dport.to_be_bytes()].concat();
                s.extend(seq.to_be_bytes());
                s.extend(ack.to_be_bytes());
                s.extend([0x50, *flags, 0xfa, 0xf0, 0, 0, 0, 0]);
                (6, Some(16), s)
            }
            Transport::Echo(reply, id, sequence) => {
                let kind = match (v6, reply) {
                    (false, true) => 0,
                    (false, false) => 8,
                    (true, false) => 128,
                    (true, true) => 129,
                };
                let mut s = vec![kind, 0, 0, 0];
                s.extend(id.to_be_bytes());
                s.extend(sequence.to_be_bytes());
                (icmp, Some(2), s)
            }
            Transport::Unreachable(quoted) => {
                let mut s = if v6 { vec![1, 4] } else { vec![3, 3] };
                s.extend([0; 6]);
                s.extend(quoted);
                (icmp, Some(2), s)
            }
            Transport::Other(protocol) => (*protocol, None, Vec::new()),
        };
        s.extend(content);
        if let Some(at) = sum_at {
            let mut sum = self.transport_sum(protocol, &s);
            if protocol == 17 && sum == 0 {
                sum = 0xffff;
            }
            if self.has(Quirk::TransportSum) {
                sum ^= 0x0101;
            }
            s[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        (protocol, s)
    }
}

/// The IPv4 identification of a packet: never 0, which routers may replace.
pub(crate) fn id_of(number: u32) -> u16 {
    (number % 0xffff) as u16 + 1
}

fn octets(address: IpAddr) -> Vec<u8> {
    match address {
        IpAddr::V4(a) => a.octets().to_vec(),
        IpAddr::V6(a) => a.octets().to_vec(),
    }
}

/// The checksum of a packet of UDP over IPv4, or 0 if the one that it has is right, by its addresses, one after the other (RFC 768).
pub(crate) fn udp_sum(addresses: &[u8], udp: &[u8]) -> u16 {
    let length = (udp.len() as u16).to_be_bytes();
    checksum(&[addresses, &[0, 17], &length, udp].concat())
}

/// The Internet checksum.
pub(crate) fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|w| {
        let low = w.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([w[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
