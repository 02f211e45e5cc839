//! Packets within packets: taken out of what a router's tunnel has sent, and put back for the way to it.

use super::build::checksum;

/// The SPI of every security association here, in both directions.
pub(crate) const SPI: u32 = 0x100;

/// What an ESP packet ends with after padding: its length, and the protocol inside.
const ESP_TRAILER: usize = 2;

/// What is around a packet.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Wrapping {
    /// Nothing between the headers: IPIP and its relatives.
    Bare,
    /// GRE with this header, of any length.
    Gre(Vec<u8>),
    /// UDP, VXLAN and Ethernet.
    Vxlan(Vec<u8>),
    /// ESP that neither encrypts nor signs.
    Esp,
}

/// A packet's outer headers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outer {
    header: Vec<u8>,
    wrapping: Wrapping,
}

/// Flags of GRE (RFC 2784, RFC 2890): a checksum, a key, a sequence number, each with four bytes.
const GRE_CHECKSUM: u8 = 0x80;
const GRE_FLAGS: [u8; 3] = [GRE_CHECKSUM, 0x20, 0x10];

/// Bytes of the header of GRE, if IP is in it.
fn gre_length(header: &[u8]) -> Option<usize> {
    let ([flags, 0, 8, 0] | [flags, 0, 0x86, 0xdd]) = header.get(..4)? else {
        return None;
    };
    let known = GRE_FLAGS.iter().fold(0, |all, flag| all | flag);
    let there = GRE_FLAGS.iter().filter(|flag| *flags & **flag != 0);
    (flags & !known == 0).then_some(4 + 4 * there.count())
}

/// Bytes of the headers before the frame in a VXLAN, and of that frame's own.
const VXLAN: usize = 8 + 8;
const ETHERNET: usize = 14;

/// Bytes before the packet in a VXLAN, if IP is in it. `udp` begins with its header.
fn vxlan_length(udp: &[u8]) -> Option<usize> {
    let frame = vxlan_frame(udp)?;
    matches!(frame.get(12..ETHERNET)?, [8, 0] | [0x86, 0xdd]).then_some(VXLAN + ETHERNET)
}

/// The frame in a VXLAN.
fn vxlan_frame(udp: &[u8]) -> Option<&[u8]> {
    let port = u16::from_be_bytes([*udp.get(2)?, *udp.get(3)?]);
    let is_one = [4789, 8472].contains(&port) && udp.get(8)? & 8 != 0;
    is_one.then(|| udp.get(VXLAN..)).flatten()
}

/// The frame that a packet of IPv4 carries in a VXLAN, whatever is in that.
pub(crate) fn framed(packet: &[u8]) -> Option<&[u8]> {
    let length = usize::from(packet.first()? & 15) * 4;
    let is_udp = packet.first()? >> 4 == 4 && *packet.get(9)? == 17;
    is_udp.then(|| vxlan_frame(packet.get(length..)?)).flatten()
}

/// Makes the checksum of GRE right, if it has one. `body` begins with its header.
pub(crate) fn sum_up(body: &mut [u8]) {
    if body[0] & GRE_CHECKSUM != 0 && body.len() >= 8 {
        body[4..8].fill(0);
        let sum = checksum(body);
        body[4..6].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The outer headers and the packet inside, if there is a whole one. `packet` begins with an IP header.
pub(crate) fn opened(packet: &[u8]) -> Option<(Outer, Vec<u8>)> {
    let v6 = packet.first()? >> 4 == 6;
    let (length, protocol) = if v6 {
        (40, *packet.get(6)?)
    } else {
        (usize::from(packet.first()? & 15) * 4, *packet.get(9)?)
    };
    let header = packet.get(..length)?.to_vec();
    let rest = packet.get(length..)?;
    let (wrapping, inner) = match protocol {
        4 | 41 => (Wrapping::Bare, rest),
        47 => {
            let (header, inner) = rest.split_at_checked(gre_length(rest)?)?;
            (Wrapping::Gre(header.to_vec()), inner)
        }
        17 => {
            let (header, inner) = rest.split_at_checked(vxlan_length(rest)?)?;
            (Wrapping::Vxlan(header.to_vec()), inner)
        }
        50 if rest.get(..4)? == SPI.to_be_bytes() => (Wrapping::Esp, rest.get(8..)?),
        _ => return None,
    };
    let long = match inner.first()? >> 4 {
        4 => usize::from(u16::from_be_bytes([*inner.get(2)?, *inner.get(3)?])),
        6 => 40 + usize::from(u16::from_be_bytes([*inner.get(4)?, *inner.get(5)?])),
        _ => return None,
    };
    // A length that leaves no room for its own header is no packet's.
    if long < 20 {
        return None;
    }
    // More than padding is a signature, which is not made here.
    if wrapping == Wrapping::Esp && inner.len() > long + ESP_TRAILER + 3 {
        return None;
    }
    let inner = inner.get(..long)?.to_vec();
    Some((Outer { header, wrapping }, inner))
}

impl Outer {
    /// Bytes before the packet inside.
    pub(crate) fn length(&self) -> usize {
        self.header.len()
            + match &self.wrapping {
                Wrapping::Bare => 0,
                Wrapping::Gre(header) | Wrapping::Vxlan(header) => header.len(),
                Wrapping::Esp => 8,
            }
    }

    /// Whether it is a header of GRE that follows the outer one.
    pub(crate) fn is_gre(&self) -> bool {
        matches!(self.wrapping, Wrapping::Gre(_))
    }

    /// Whether it is in a VXLAN, whose source port its sender draws.
    pub(crate) fn is_vxlan(&self) -> bool {
        matches!(self.wrapping, Wrapping::Vxlan(_))
    }

    /// A packet in the same headers on the way back. `number` is told apart by ESP's sequence.
    pub(super) fn closed(&self, inner: &[u8], number: u32) -> Vec<u8> {
        let inner_v6 = inner.first().is_some_and(|b| b >> 4 == 6);
        let mut body = match &self.wrapping {
            Wrapping::Bare => Vec::new(),
            Wrapping::Gre(header) => {
                let mut header = header.clone();
                let kind = if inner_v6 { [0x86, 0xdd] } else { [8, 0] };
                header[2..4].copy_from_slice(&kind);
                header
            }
            Wrapping::Vxlan(header) => {
                let mut header = header.clone();
                let length = (header.len() + inner.len()) as u16;
                header[4..6].copy_from_slice(&length.to_be_bytes());
                let (to, from) = header[VXLAN..VXLAN + 12].split_at_mut(6);
                to.swap_with_slice(from);
                let kind = if inner_v6 { [0x86, 0xdd] } else { [8, 0] };
                header[VXLAN + 12..].copy_from_slice(&kind);
                header
            }
            Wrapping::Esp => [SPI.to_be_bytes(), number.to_be_bytes()].concat(),
        };
        body.extend(inner);
        if self.wrapping == Wrapping::Esp {
            let padding =
                (inner.len() + ESP_TRAILER).next_multiple_of(4) - inner.len() - ESP_TRAILER;
            body.extend((1..=padding as u8).collect::<Vec<_>>());
            body.extend([padding as u8, if inner_v6 { 41 } else { 4 }]);
        }
        if matches!(self.wrapping, Wrapping::Gre(_)) {
            sum_up(&mut body);
        }
        let mut header = self.header.clone();
        if header[0] >> 4 == 6 {
            let (src, dst) = (header[8..24].to_vec(), header[24..40].to_vec());
            header[8..24].copy_from_slice(&dst);
            header[24..40].copy_from_slice(&src);
            header[4..6].copy_from_slice(&(body.len() as u16).to_be_bytes());
        } else {
            let (src, dst) = (header[12..16].to_vec(), header[16..20].to_vec());
            header[12..16].copy_from_slice(&dst);
            header[16..20].copy_from_slice(&src);
            let total = (header.len() + body.len()) as u16;
            header[2..4].copy_from_slice(&total.to_be_bytes());
            header[10..12].fill(0);
            let sum = checksum(&header);
            header[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        header.extend(body);
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ipv4(protocol: u8, src: u8, dst: u8, body: &[u8]) -> Vec<u8> {
        let mut h = vec![
            0x45,
            0,
            0,
            20 + body.len() as u8,
            0,
            1,
            0,
            0,
            64,
            protocol,
            0,
            0,
        ];
        h.extend([10, 0, 0, src, 10, 0, 0, dst]);
        let sum = checksum(&h);
        h[10..12].copy_from_slice(&sum.to_be_bytes());
        h.extend(body);
        h
    }

    #[test]
    fn what_is_closed_can_be_opened_and_goes_the_other_way() {
        let inner = ipv4(17, 7, 8, &[1, 2, 3, 4, 5]);
        let esp = [&[0, 0, 1, 0, 0, 0, 0, 9][..], &inner, &[1, 1, 4]].concat();
        let gre = [&[0, 0, 8, 0][..], &inner].concat();
        let key = [&[0x20, 0, 8, 0, 0, 0, 0, 7][..], &inner].concat();
        let mut summed = [
            &[0xb0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1][..],
            &inner,
        ]
        .concat();
        sum_up(&mut summed);
        assert_eq!(checksum(&summed), 0);
        let vxlan = [
            &[195, 80, 18, 181, 0, 55, 0, 0, 8, 0, 0, 0, 0, 0, 7, 0][..],
            &[2, 0, 0, 0, 0, 5, 2, 0, 0, 0, 0, 5, 8, 0],
            &inner,
        ]
        .concat();
        for (protocol, body) in [
            (17, vxlan),
            (4, inner.clone()),
            (47, gre),
            (47, key),
            (47, summed),
            (50, esp),
        ] {
            let (outer, found) = opened(&ipv4(protocol, 1, 2, &body)).expect("a packet inside");
            assert_eq!(found, inner);
            let back = outer.closed(&inner, 9);
            assert_eq!(back, ipv4(protocol, 2, 1, &body), "protocol {protocol}");
        }
        let signed = [&[0, 0, 1, 0, 0, 0, 0, 9][..], &inner, &[0; 15]].concat();
        assert_eq!(opened(&ipv4(50, 1, 2, &signed)), None);
        assert_eq!(opened(&inner), None);
    }
}
