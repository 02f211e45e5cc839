//! Packets put into tunnels over IPv4, as the other ends of those send them, with outer headers that may be wrong.

use super::build::{checksum, udp_sum};
use super::{hex, tagged, unhex, untagged};

/// Where the packet of a frame without tags begins.
const AT: usize = 14;

/// The outer headers of a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Around {
    pub(crate) src: [u8; 4],
    pub(crate) dst: [u8; 4],
    /// 4, 41 or 47, or 17 of a VXLAN.
    pub(crate) protocol: u8,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) id: u16,
    /// "Don't fragment", more fragments, and where this one begins.
    pub(crate) fragment: u16,
    /// Whole words.
    pub(crate) options: Vec<u8>,
    /// Bytes that the length says too many.
    pub(crate) longer: i16,
    pub(crate) wrong_sum: bool,
    /// Flags of GRE besides that of the key.
    pub(crate) gre_flags: u16,
    pub(crate) key: Option<u32>,
    /// What GRE, or the frame in a VXLAN, says to be inside; else what is.
    pub(crate) inside: Option<u16>,
    /// Of a VXLAN.
    pub(crate) framed: Option<Framed>,
}

/// What is between the outer header and a packet in a VXLAN (RFC 7348).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Framed {
    /// From and to which one of UDP.
    pub(crate) ports: (u16, u16),
    pub(crate) flags: u32,
    /// The whole word.
    pub(crate) number: u32,
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
    /// Bytes that the length of UDP says too many.
    pub(crate) longer: i16,
    /// Whether it has a checksum of UDP, and which is right.
    pub(crate) sum: Option<bool>,
}

impl Framed {
    fn header(&self, kind: [u8; 2], inner: &[u8]) -> Vec<u8> {
        let length = (8 + 8 + AT + inner.len()) as u16;
        let mut header = Vec::new();
        for word in [
            self.ports.0,
            self.ports.1,
            length.wrapping_add_signed(self.longer),
            0,
        ] {
            header.extend(word.to_be_bytes());
        }
        header.extend(self.flags.to_be_bytes());
        header.extend(self.number.to_be_bytes());
        header.extend([self.to, self.from].concat());
        header.extend(kind);
        header
    }

    /// The checksum of a packet of UDP from `src` to `dst` that has none yet (RFC 768).
    fn sum(&self, src: [u8; 4], dst: [u8; 4], udp: &[u8]) -> u16 {
        match self.sum {
            None => 0,
            Some(right) => udp_sum(&[src, dst].concat(), udp).max(1) ^ (u16::from(!right) * 0x0101),
        }
    }
}

impl Around {
    fn packet(&self, kind: [u8; 2], inner: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        if self.protocol == 47 {
            let keyed = u16::from(self.key.is_some()) * 0x2000;
            body.extend((self.gre_flags | keyed).to_be_bytes());
            body.extend(self.inside.map_or(kind, u16::to_be_bytes));
            body.extend(self.key.into_iter().flat_map(u32::to_be_bytes));
        }
        if let Some(framed) = self.framed.filter(|_| self.protocol == 17) {
            body.extend(framed.header(self.inside.map_or(kind, u16::to_be_bytes), inner));
        }
        body.extend(inner);
        if let Some(framed) = self.framed.filter(|_| self.protocol == 17) {
            let sum = framed.sum(self.src, self.dst, &body);
            body[6..8].copy_from_slice(&sum.to_be_bytes());
        }
        let words = 5 + self.options.len() / 4;
        let total = (words * 4 + body.len()) as u16;
        let mut h = vec![0x40 | words as u8, self.tos];
        h.extend(total.wrapping_add_signed(self.longer).to_be_bytes());
        h.extend(self.id.to_be_bytes());
        h.extend(self.fragment.to_be_bytes());
        h.extend([self.ttl, self.protocol, 0, 0]);
        h.extend([self.src, self.dst].concat());
        h.extend(&self.options);
        let sum = checksum(&h) ^ (u16::from(self.wrong_sum) * 0x0101);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
        h.extend(body);
        h
    }
}

/// A frame in hexadecimal with its packet in a tunnel; what is no IP stays as it is.
pub(crate) fn into_tunnel(frame: &str, around: &Around) -> String {
    let (tags, bytes) = untagged(&unhex(frame));
    match bytes.get(12..AT) {
        Some(kind @ ([8, 0] | [0x86, 0xdd])) => {
            let packet = around.packet([kind[0], kind[1]], &bytes[AT..]);
            hex(&tagged(&[&bytes[..12], &[8, 0], &packet].concat(), &tags))
        }
        _ => frame.to_owned(),
    }
}

/// A frame of IPv4 in two fragments, if it is long enough and has no options.
pub(crate) fn fragments(frame: &str) -> Option<[String; 2]> {
    let (tags, bytes) = untagged(&unhex(frame));
    let packet = bytes.get(AT..)?;
    let (header, body) = packet.split_at_checked(20)?;
    let cut = (body.len() / 2).next_multiple_of(8);
    if header[0] != 0x45 || body.len() < 24 || cut >= body.len() {
        return None;
    }
    let part = |body: &[u8], fragment: u16| {
        let mut header = header.to_vec();
        header[2..4].copy_from_slice(&((20 + body.len()) as u16).to_be_bytes());
        header[6..8].copy_from_slice(&fragment.to_be_bytes());
        header[10..12].fill(0);
        let sum = checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        let whole = [&bytes[..AT], &header, body].concat();
        hex(&tagged(&whole, &tags))
    };
    Some([
        part(&body[..cut], 0x2000),
        part(&body[cut..], (cut / 8) as u16),
    ])
}

/// A frame whose packet has these marks of congestion (RFC 3168), and the type of service it has then.
pub(crate) fn with_ecn(frame: &str, ecn: u8) -> String {
    let (tags, mut bytes) = untagged(&unhex(frame));
    match bytes.get(12..AT) {
        Some([8, 0]) if bytes.len() >= AT + 20 => {
            let header = AT..AT + usize::from(bytes[AT] & 15) * 4;
            let sum = bytes.get(header.clone()).map(checksum);
            bytes[AT + 1] = bytes[AT + 1] & !3 | ecn;
            // A wrong checksum stays one.
            if sum == Some(0) {
                bytes[AT + 10..AT + 12].fill(0);
                let sum = checksum(&bytes[header]);
                bytes[AT + 10..AT + 12].copy_from_slice(&sum.to_be_bytes());
            }
        }
        Some([0x86, 0xdd]) if bytes.len() >= AT + 40 => {
            bytes[AT + 1] = bytes[AT + 1] & !0x30 | ecn << 4;
        }
        _ => return frame.to_owned(),
    }
    hex(&tagged(&bytes, &tags))
}

/// Type of service or traffic class of a frame's packet.
pub(crate) fn tos_in(frame: &str) -> Option<u8> {
    let (_, bytes) = untagged(&unhex(frame));
    match (bytes.get(12..AT)?, bytes.get(AT..AT + 2)?) {
        ([8, 0], [_, tos]) => Some(*tos),
        ([0x86, 0xdd], [high, low]) => Some(high << 4 | low >> 4),
        _ => None,
    }
}

/// A frame whose packet says that it is longer than it is, by these bytes.
pub(crate) fn saying_longer(frame: &str, bytes_more: u16) -> String {
    let (tags, mut bytes) = untagged(&unhex(frame));
    let at = match bytes.get(12..AT) {
        Some([8, 0]) => AT + 2,
        Some([0x86, 0xdd]) => AT + 4,
        _ => return frame.to_owned(),
    };
    if bytes.len() < AT + 40 {
        return frame.to_owned();
    }
    let says = u16::from_be_bytes([bytes[at], bytes[at + 1]]).wrapping_add(bytes_more);
    bytes[at..at + 2].copy_from_slice(&says.to_be_bytes());
    if at == AT + 2 {
        let header = AT..AT + usize::from(bytes[AT] & 15) * 4;
        bytes[AT + 10..AT + 12].fill(0);
        let sum = bytes.get(header).map_or(0, checksum);
        bytes[AT + 10..AT + 12].copy_from_slice(&sum.to_be_bytes());
    }
    hex(&tagged(&bytes, &tags))
}

#[cfg(test)]
mod tests {
    use super::super::encapsulated::opened;
    use super::*;

    /// 48 bytes of UDP over IPv4 in a frame.
    fn frame() -> String {
        let mut packet = unhex("45b8003000010000401100000a02000a0a01000a");
        let sum = checksum(&packet);
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
        packet.extend((0..28).collect::<Vec<u8>>());
        hex(&[&unhex("0200000000010200000000020800")[..], &packet].concat())
    }

    fn around(protocol: u8, key: Option<u32>) -> Around {
        Around {
            src: [10, 1, 0, 10],
            dst: [10, 1, 0, 1],
            protocol,
            tos: 0xb8,
            ttl: 64,
            id: 7,
            fragment: 0x4000,
            options: Vec::new(),
            longer: 0,
            wrong_sum: false,
            gre_flags: 0,
            key,
            inside: None,
            framed: (protocol == 17).then_some(Framed {
                ports: (50_000, 4789),
                flags: 0x0800_0000,
                number: 7 << 8,
                to: [2, 0, 0, 0, 0, 5],
                from: [2, 0, 0, 0, 0, 6],
                longer: 0,
                sum: Some(true),
            }),
        }
    }

    #[test]
    fn what_is_put_into_a_tunnel_is_found_there() {
        for (protocol, key, room) in [
            (4, None, 20),
            (47, None, 24),
            (47, Some(7), 28),
            (17, None, 50),
        ] {
            let inside = unhex(&into_tunnel(&frame(), &around(protocol, key)));
            assert_eq!(inside.len(), AT + room + 48);
            assert_eq!(checksum(&inside[AT..AT + 20]), 0);
            let (_, inner) = opened(&inside[AT..]).expect("a packet inside");
            assert_eq!(hex(&inner), frame()[2 * AT..]);
        }
    }

    #[test]
    fn fragments_are_what_they_were_together() {
        let whole = into_tunnel(&frame(), &around(4, None));
        let [first, second] = fragments(&whole).expect("long enough").map(|f| unhex(&f));
        for part in [&first, &second] {
            assert_eq!(checksum(&part[AT..AT + 20]), 0);
            let says = u16::from_be_bytes([part[AT + 2], part[AT + 3]]);
            assert_eq!(usize::from(says), part.len() - AT);
        }
        let together = [&first[AT + 20..], &second[AT + 20..]].concat();
        assert_eq!(hex(&together), whole[2 * (AT + 20)..]);
        assert_eq!(usize::from(second[AT + 7]) * 8, first.len() - AT - 20);
    }

    #[test]
    fn marks_of_congestion_are_two_bits_of_the_type_of_service() {
        let marked = with_ecn(&frame(), 3);
        assert_eq!(tos_in(&marked), Some(0xbb));
        assert_eq!(checksum(&unhex(&marked)[AT..AT + 20]), 0);
        assert_eq!(with_ecn(&marked, 0), frame());
    }
}
