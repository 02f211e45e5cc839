//! Packets whose checksum is missing: the reference that the BPF program is held to.
//!
//! Who sends through a veth has by default the device make checksums. No device does, and the kernel notes so beside the packet
//! (`CHECKSUM_PARTIAL`, include/linux/skbuff.h), which XDP does not see. What stands in the packet is the sum over its pseudo header.

use crate::headers::be16;

const IP_IN_IP: u8 = 4;
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const SCTP: u8 = 132;
/// IPv6 hop-by-hop options, routing, destination options, behind which the lane does not look.
const EXTENSIONS: [u8; 3] = [0, 43, 60];
/// Layer 2 tunnels and MPLS in IP.
const OTHERS: [u8; 2] = [115, 137];
/// Ports whose packets carry others: VXLAN (RFC 7348, that of Linux before it, GPE), Geneve (RFC 8926), GTP-U, L2TP, MPLS.
const TUNNEL_PORTS: [u16; 7] = [4789, 8472, 4790, 6081, 2152, 1701, 6635];

/// Whether an IP packet that has been parsed, with the rest of its frame, may have no checksum, or carry one that has none: TCP and UDP with
/// nothing but the sum over the pseudo header (RFC 9293 section 3.1, RFC 768, RFC 8200 section 8.1), SCTP without a CRC, and whatever
/// carries other packets. One of 65,536 that have a checksum looks so, too.
pub fn is_unfinished(packet: &[u8]) -> bool {
    found(packet).unwrap_or(false)
}

fn found(packet: &[u8]) -> Option<bool> {
    let v6 = packet.first()? >> 4 == 6;
    let (protocol, l4, end, addresses, is_later_fragment) = if v6 {
        let end = 40 + usize::from(be16(packet, 4)?);
        (*packet.get(6)?, 40, end, packet.get(8..40)?, false)
    } else {
        let l4 = usize::from(packet[0] & 0xf) * 4;
        let later = be16(packet, 6)? & 0x1fff != 0;
        let end = usize::from(be16(packet, 2)?);
        (*packet.get(9)?, l4, end, packet.get(12..20)?, later)
    };
    if [IP_IN_IP, IPV6_IN_IP, GRE].contains(&protocol)
        || OTHERS.contains(&protocol)
        || (v6 && EXTENSIONS.contains(&protocol))
    {
        return Some(true);
    }
    let length = end.checked_sub(l4)?;
    if is_later_fragment || length < 4 {
        return None;
    }
    let to = be16(packet, l4 + 2)?;
    let sum = || {
        let words = addresses.chunks_exact(2);
        let words = words.map(|w| u64::from(u16::from_be_bytes([w[0], w[1]])));
        let sum: u64 = words.sum::<u64>() + (length as u64 & 0xffff) + u64::from(protocol);
        let folded = (sum & 0xffff) + (sum >> 16);
        ((folded & 0xffff) + (folded >> 16)) as u16
    };
    match protocol {
        UDP if TUNNEL_PORTS.contains(&to) => Some(true),
        UDP => Some(be16(packet, l4 + 6)? == sum()),
        TCP => Some(be16(packet, l4 + 16)? == sum()),
        SCTP => Some(packet.get(l4 + 8..l4 + 12)? == [0; 4]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UDP from 10.0.0.2 to 10.1.0.2 with 4 bytes, and this checksum.
    fn udp(check: u16) -> Vec<u8> {
        let mut packet = vec![0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
        packet.extend([10, 0, 0, 2, 10, 1, 0, 2, 3, 232, 7, 208, 0, 12]);
        packet.extend(check.to_be_bytes());
        packet.extend([1, 2, 3, 4]);
        packet
    }

    #[test]
    fn the_sum_over_the_pseudo_header_alone_is_no_checksum() {
        // 0x0a00 + 0x0002 + 0x0a01 + 0x0002 + 12 + 17
        assert!(is_unfinished(&udp(0x1422)));
        assert!(!is_unfinished(&udp(0x1423)));
        assert!(!is_unfinished(&udp(0)), "UDP may do without");
    }

    #[test]
    fn what_carries_other_packets_may_carry_one_without() {
        let mut packet = udp(0);
        packet[9] = GRE;
        assert!(is_unfinished(&packet));
        packet[9] = UDP;
        packet[22..24].copy_from_slice(&4789u16.to_be_bytes());
        assert!(is_unfinished(&packet));
    }

    #[test]
    fn later_fragments_and_what_is_cut_off_have_no_place_for_one() {
        let mut packet = udp(0x1422);
        packet[7] = 1;
        assert!(!is_unfinished(&packet));
        assert!(!is_unfinished(&udp(0x1422)[..26]));
        assert!(!is_unfinished(&[]));
    }
}
