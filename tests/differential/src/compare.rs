//! What left two routers, compared packet by packet.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::neighbours::is_chatter;
use crate::packets::{checksum, hex, id_of, number_in, tagged, untagged};

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mismatch {
    /// The packet that it is about; none for frames without a number, such as TCP resets.
    pub number: Option<u32>,
    /// Whether only the order differs.
    pub reordered: bool,
    /// What plain Linux sent.
    pub plain: Vec<Sent>,
    /// What the other router sent.
    pub lane: Vec<Sent>,
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
    let ours = sent.iter().filter(|s| !is_chatter(&s.frame));
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

/// The identification of an IPv4 packet that the router itself makes is arbitrary, and with it the checksum.
fn normalised(frame: &[u8]) -> Vec<u8> {
    let (tags, mut frame) = untagged(frame);
    if frame.len() < 34 || frame[12..14] != [8, 0] {
        return tagged(&frame, &tags);
    }
    let number = number_in(&frame);
    let id = u16::from_be_bytes([frame[18], frame[19]]);
    let made_here = match frame[23] {
        1 => number.is_none_or(|n| id != id_of(n)),
        6 => number.is_none(),
        // The outer header of a tunnel; what is merely forwarded has the number's own.
        4 | 41 | 47 | 50 => number.is_none_or(|n| id != id_of(n)),
        _ => false,
    };
    let header = usize::from(frame[14] & 15) * 4;
    // A wrong checksum stays one.
    let right = frame.get(14..14 + header).is_some_and(|h| checksum(h) == 0);
    if made_here && right {
        frame[18..20].fill(0);
        frame[24..26].fill(0);
    }
    tagged(&frame, &tags)
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
        let key = match f.get(12..14) {
            Some([8, 0]) => [f.get(23..24), f.get(26..38)].concat_some(),
            _ => [f.get(20..21), f.get(22..58)].concat_some(),
        };
        flows.entry((one.port, key)).or_default().push(one.clone());
    }
    flows
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
    use crate::packets::{Spec, Transport};

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
}
