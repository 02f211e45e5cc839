//! What left two routers, compared packet by packet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::neighbours::is_chatter;
use crate::packets::{
    checksum, framed, hex, id_of, number_in, opened, sum_up, tagged, udp_sum, untagged,
};

/// A frame that left a router.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Sent {
    /// Number of the port.
    pub port: usize,
    /// The frame, in hexadecimal where it is written.
    #[serde(with = "as_hex")]
    pub frame: Vec<u8>,
}

/// What two routers did unequally.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The packet that it is about; none for frames without a number, such as TCP resets.
    pub number: Option<u32>,
    /// Whether only the order differs.
    pub reordered: bool,
    /// What plain Linux sent.
    pub plain: Vec<Sent>,
    /// What the other router sent.
    pub lane: Vec<Sent>,
    /// What differs of how long a connection is remembered, and nothing of packets.
    #[serde(default)]
    pub life: Option<String>,
}

type ByNumber = BTreeMap<Option<u32>, Vec<Sent>>;

/// Compares all that left since the start. Content first; order only where content is equal.
pub fn compare(plain: &[Sent], lane: &[Sent]) -> Vec<Mismatch> {
    let (plain, lane) = (comparable(plain), comparable(lane));
    let (a, b) = (by_number(&plain), by_number(&lane));
    let mut found = Vec::new();
    let keys: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
    for number in keys {
        let of = |side: &ByNumber| side.get(number).cloned().unwrap_or_default();
        let (plain, lane) = (of(&a), of(&b));
        if plain != lane {
            found.push(Mismatch {
                number: *number,
                reordered: false,
                plain,
                lane,
                life: None,
            });
        }
    }
    if found.is_empty() {
        found = reordered(&plain, &lane);
    }
    found
}

/// Without what routers say by themselves, and normalised.
fn comparable(sent: &[Sent]) -> Vec<Sent> {
    let ours = sent.iter().filter(|s| !is_chatter_anywhere(&s.frame));
    ours.map(|s| Sent {
        port: s.port,
        frame: normalised(&s.frame),
    })
    .collect()
}

/// As multisets.
fn by_number(sent: &[Sent]) -> ByNumber {
    let mut sides = ByNumber::new();
    for one in sent {
        let number = number_in(&one.frame);
        sides.entry(number).or_default().push(one.clone());
    }
    for side in sides.values_mut() {
        side.sort();
    }
    sides
}

/// The identification of an IPv4 packet that the router itself makes is arbitrary, and with it the checksum: of errors, of the outer header of
/// a tunnel, and of errors within a tunnel.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let (tags, mut frame) = untagged(frame);
    let number = number_in(&frame);
    if frame.len() >= 14 {
        without_arbitrary(&mut frame[14..], number);
    }
    frame.truncate(without_padding(&frame));
    tagged(&frame, &tags)
}

/// The shortest frame of Ethernet, without its check sequence.
const SHORTEST: usize = 60;

/// The length of a frame without zeros behind its packet that make it as long as Ethernet wants it. What comes out of a tunnel or loses tags may become
/// shorter than that: rxlane pads it, and Linux leaves that to the device, which a veth does not do.
fn without_padding(frame: &[u8]) -> usize {
    let word = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *frame.get(at)?,
            *frame.get(at + 1)?,
        ])))
    };
    let length = match frame.get(12..14) {
        Some([8, 0]) => word(16),
        Some([0x86, 0xdd]) => word(18).map(|payload| 40 + payload),
        _ => None,
    };
    match length.map(|length| 14 + length) {
        Some(end)
            if frame.len() <= SHORTEST
                && end < frame.len()
                && frame[end..].iter().all(|b| *b == 0) =>
        {
            end
        }
        _ => frame.len(),
    }
}

/// Whether a packet of UDP over IPv4 has a checksum that is right.
fn udp_holds(packet: &[u8]) -> bool {
    let length = usize::from(u16::from_be_bytes([packet[2], packet[3]]));
    let Some(udp) = packet.get(20..length) else {
        return false;
    };
    udp.get(6..8) != Some(&[0, 0]) && udp_sum(&packet[12..20], udp) == 0
}

/// Zeroes what is arbitrary in a packet, and in the packet that is in that.
fn without_arbitrary(packet: &mut [u8], number: Option<u32>) {
    if packet.len() < 20 {
        return;
    }
    if let Some((outer, inner)) = opened(packet) {
        let header = usize::from(packet[0] & 15) * 4;
        let at = outer.length();
        let sum_holds = outer.is_vxlan() && header == 20 && udp_holds(packet);
        without_arbitrary(&mut packet[at..at + inner.len()], number);
        // What leaves has a source port that is drawn; what is forwarded has a number's identification.
        let id = u16::from_be_bytes([packet[4], packet[5]]);
        let made_here = outer.is_vxlan() && number.is_none_or(|n| id != id_of(n));
        if made_here && packet[..header].len() == 20 && checksum(&packet[..header]) == 0 {
            packet[4..6].fill(0);
            packet[10..12].fill(0);
            packet[header..header + 2].fill(0);
            // The sum over it, if that is right; 0 would say that there is none.
            if sum_holds {
                packet[header + 6..header + 8].fill(0xff);
            }
        }
        // Of GRE that has a checksum, which is about the packet inside.
        if packet[at..at + inner.len()] != inner[..] && outer.is_gre() {
            sum_up(&mut packet[header..]);
        }
    }
    if packet[0] >> 4 != 4 {
        return;
    }
    let id = u16::from_be_bytes([packet[4], packet[5]]);
    let place = u16::from_be_bytes([packet[6], packet[7]]) & 0x3fff;
    let made_here = match packet[9] {
        // A piece of a packet in a VXLAN, which cannot be looked into.
        17 if place != 0 => number.is_none_or(|n| id != id_of(n)),
        1 => number.is_none_or(|n| id != id_of(n)),
        6 => number.is_none(),
        // The outer header of a tunnel; what is merely forwarded has the number's own.
        4 | 41 | 47 | 50 => number.is_none_or(|n| id != id_of(n)),
        _ => false,
    };
    // A wrong checksum stays one.
    let right = packet
        .get(..usize::from(packet[0] & 15) * 4)
        .is_some_and(|h| checksum(h) == 0);
    if made_here && right {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
        let first_of_vxlan = packet[9] == 17 && place == 0x2000 && framed(packet).is_some();
        if let Some(udp) = packet.get_mut(20..28).filter(|_| first_of_vxlan) {
            udp[..2].fill(0);
            let there_is_none = udp[6..] == [0, 0];
            udp[6..].fill(if there_is_none { 0 } else { 0xff });
        }
    }
}

/// Whether a frame is chatter, or is that in a tunnel: of devices that are tunnels, too, routers tell groups.
fn is_chatter_anywhere(frame: &[u8]) -> bool {
    let (_, bare) = untagged(frame);
    let inner = bare.get(14..).and_then(opened);
    let frame_inside = bare.get(14..).and_then(framed);
    is_chatter(frame)
        || frame_inside.is_some_and(is_chatter)
        || inner.is_some_and(|(_, inner)| {
            let kind = if inner[0] >> 4 == 6 {
                [0x86, 0xdd]
            } else {
                [8, 0]
            };
            is_chatter(&[&bare[..12], &kind, &inner].concat())
        })
}

/// Flows of which one router sent the packets in another order.
fn reordered(plain: &[Sent], lane: &[Sent]) -> Vec<Mismatch> {
    let (a, b) = (by_flow(plain), by_flow(lane));
    let mut found = Vec::new();
    for (flow, plain) in a {
        let lane = b.get(&flow).cloned().unwrap_or_default();
        if plain != lane {
            let late = plain.iter().zip(&lane).find(|(p, l)| p != l);
            found.push(Mismatch {
                number: late.and_then(|(p, _)| number_in(&p.frame)),
                reordered: true,
                plain,
                lane,
                ..Mismatch::default()
            });
        }
    }
    found
}

/// By port, addresses, protocol and ports: what stays together for every host.
fn by_flow(sent: &[Sent]) -> BTreeMap<(usize, Vec<u8>), Vec<Sent>> {
    let mut flows: BTreeMap<_, Vec<Sent>> = BTreeMap::new();
    for one in sent.iter().filter(|s| number_in(&s.frame).is_some()) {
        let (_, f) = untagged(&one.frame);
        // In a tunnel, by what is inside as well.
        let inner = f.get(14..).and_then(opened);
        let key = [
            flow_of(f.get(14..)),
            flow_of(inner.as_ref().map(|(_, i)| &i[..])),
        ]
        .concat();
        flows.entry((one.port, key)).or_default().push(one.clone());
    }
    flows
}

fn flow_of(packet: Option<&[u8]>) -> Vec<u8> {
    let p = packet.unwrap_or_default();
    match p.first().map(|b| b >> 4) {
        Some(4) => [p.get(9..10), p.get(12..24)].concat_some(),
        _ => [p.get(6..7), p.get(8..44)].concat_some(),
    }
}

/// Parts of a frame that may be too short for them.
trait ConcatSome {
    fn concat_some(self) -> Vec<u8>;
}

impl ConcatSome for [Option<&[u8]>; 2] {
    fn concat_some(self) -> Vec<u8> {
        self.into_iter().flatten().flatten().copied().collect()
    }
}

mod as_hex {
    use super::hex;
    use crate::packets::unhex;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(frame: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hex(frame))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        Ok(unhex(&String::deserialize(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packets::{Around, Spec, Transport, into_tunnel, unhex};

    fn frame(number: u32, transport: Transport) -> Vec<u8> {
        Spec {
            to_mac: [2; 6],
            from_mac: [4; 6],
            src: [10, 2, 0, 10].into(),
            dst: [10, 1, 0, 10].into(),
            dscp: 46,
            ttl: 63,
            transport,
            number,
            payload_bytes: 24,
            quirks: Vec::new(),
        }
        .frame()
    }

    fn udp(number: u32) -> Sent {
        let frame = frame(number, Transport::Udp(1000, 53));
        Sent { port: 0, frame }
    }

    #[test]
    fn equal_routers_have_no_mismatch_whatever_they_say_about_neighbours() {
        let mut arp = udp(7);
        arp.frame[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(compare(&[udp(1), udp(2)], &[udp(1), arp, udp(2)]), []);
    }

    #[test]
    fn a_lost_a_changed_a_doubled_and_a_misdirected_packet_are_mismatches() {
        let mut changed = udp(1);
        changed.frame[22] = 62;
        let elsewhere = Sent { port: 1, ..udp(1) };
        for lane in [vec![], vec![changed], vec![elsewhere], vec![udp(1), udp(1)]] {
            let found = compare(&[udp(1)], &lane);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].number, Some(1));
            assert!(!found[0].reordered);
        }
    }

    #[test]
    fn the_order_matters_within_a_flow_only() {
        let found = compare(&[udp(1), udp(2)], &[udp(2), udp(1)]);
        assert!(found.len() == 1 && found[0].reordered);
        let other = Sent {
            port: 0,
            frame: frame(2, Transport::Udp(1001, 53)),
        };
        assert_eq!(compare(&[udp(1), other.clone()], &[other, udp(1)]), []);
    }

    #[test]
    fn the_identification_of_an_error_is_arbitrary_but_not_that_of_a_forwarded_packet() {
        let with_id = |mut s: Sent, id: u8| {
            s.frame[18] = id;
            s.frame[24..26].fill(0);
            let sum = checksum(&s.frame[14..34]);
            s.frame[24..26].copy_from_slice(&sum.to_be_bytes());
            s
        };
        let error = Sent {
            port: 0,
            frame: frame(1, Transport::Unreachable(vec![0; 28])),
        };
        assert_eq!(
            compare(&[with_id(error.clone(), 9)], &[with_id(error, 8)]),
            []
        );
        assert_eq!(
            compare(&[with_id(udp(1), 9)], &[with_id(udp(1), 8)]).len(),
            1
        );
    }

    /// A frame in a tunnel whose outer header has this identification and TTL.
    fn in_tunnel(inner: &Sent, id: u16, ttl: u8) -> Sent {
        let around = Around {
            src: [10, 1, 0, 1],
            dst: [10, 1, 0, 10],
            protocol: 47,
            tos: 0,
            ttl,
            id,
            fragment: 0x4000,
            options: Vec::new(),
            longer: 0,
            wrong_sum: false,
            gre_flags: 0,
            key: Some(7),
            inside: None,
            framed: None,
        };
        let frame = unhex(&into_tunnel(&hex(&inner.frame), &around));
        Sent { port: 0, frame }
    }

    #[test]
    fn zeros_that_make_a_frame_long_enough_are_no_difference() {
        let mut short = udp(1);
        short.frame.truncate(50);
        short.frame[16..18].copy_from_slice(&36u16.to_be_bytes());
        let padded = |with: u8, length: usize| {
            let mut frame = short.frame.clone();
            frame.resize(length, with);
            [Sent {
                port: short.port,
                frame,
            }]
        };
        let plain = [short.clone()];
        assert!(compare(&plain, &padded(0, 60)).is_empty());
        for (with, length) in [(1, 60), (0, 61)] {
            assert_eq!(
                compare(&plain, &padded(with, length)).len(),
                1,
                "{with} {length}"
            );
        }
    }

    #[test]
    fn of_an_outer_header_only_the_identification_is_arbitrary() {
        let sent = |id, ttl| [in_tunnel(&udp(1), id, ttl)];
        assert_eq!(compare(&sent(900, 64), &sent(901, 64)), []);
        assert_eq!(compare(&sent(900, 64), &sent(901, 63)).len(), 1);
        let mut inner = udp(1);
        inner.frame[18] ^= 0x40;
        let other = [in_tunnel(&inner, 901, 64)];
        assert_eq!(compare(&sent(900, 64), &other).len(), 1);
        let error = |id: u8| {
            let mut error = Sent {
                port: 0,
                frame: frame(5, Transport::Unreachable(vec![0; 28])),
            };
            error.frame[18] = id;
            error.frame[24..26].fill(0);
            let sum = checksum(&error.frame[14..34]);
            error.frame[24..26].copy_from_slice(&sum.to_be_bytes());
            [in_tunnel(&error, 900, 64)]
        };
        assert_eq!(compare(&error(8), &error(9)), []);
    }

    #[test]
    fn what_a_router_says_into_a_tunnel_about_groups_is_not_compared() {
        let mut mld = udp(1);
        mld.frame.truncate(14);
        mld.frame[12..14].copy_from_slice(&[0x86, 0xdd]);
        mld.frame.extend([0x60, 0, 0, 0, 0, 16, 0, 1]);
        mld.frame.extend([0; 32]);
        mld.frame
            .extend([58, 0, 5, 2, 0, 0, 1, 0, 143, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(compare(&[in_tunnel(&mld, 900, 64)], &[]), []);
    }
}
