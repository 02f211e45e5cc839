//! Messages of IPFIX (RFC 7011) with the information elements of RFC 7012 and, for addresses and ports as packets leave, RFC 8158.

use crate::lanes::flows::{FlowId, FlowTotal, Translation};

/// Bytes of a message: what fits into a datagram on any link.
const MOST_BYTES: usize = 1400;
const VERSION: u16 = 10;
const HEADER: usize = 16;
const TEMPLATES: u16 = 2;
/// Number of the template of IPv4, and of IPv6.
const V4: u16 = 256;
const V6: u16 = 257;

/// Elements by number and bytes, behind the addresses.
const BEHIND_ADDRESSES: [(u16, u16); 13] = [
    (7, 2),   // sourceTransportPort
    (11, 2),  // destinationTransportPort
    (4, 1),   // protocolIdentifier
    (5, 1),   // ipClassOfService
    (10, 4),  // ingressInterface
    (14, 4),  // egressInterface
    (2, 8),   // packetDeltaCount
    (1, 8),   // octetDeltaCount
    (152, 8), // flowStartMilliseconds
    (153, 8), // flowEndMilliseconds
    (136, 1), // flowEndReason
    (227, 2), // postNAPTSourceTransportPort
    (228, 2), // postNAPTDestinationTransportPort
];
/// Source and destination as packets come in, and as they leave.
const ADDRESSES_V4: [(u16, u16); 4] = [(8, 4), (12, 4), (225, 4), (226, 4)];
const ADDRESSES_V6: [(u16, u16); 4] = [(27, 16), (28, 16), (281, 16), (282, 16)];

/// Why a flow is told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It had no packet for long.
    Idle = 1,
    /// It goes on.
    Active = 2,
    /// Nobody counts any more.
    Ended = 4,
}

/// What is told of a flow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub(crate) id: FlowId,
    /// Its packets and bytes since it was told of last; the rest as it is.
    pub(crate) told: FlowTotal,
    pub(crate) reason: Reason,
}

/// What times are relative to, and who tells.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    /// Of the epoch, ms.
    pub(crate) now_ms: u64,
    /// CLOCK_MONOTONIC of the same moment, ns.
    pub(crate) monotonic_ns: u64,
}

impl Clock {
    fn ms(self, monotonic_ns: u64) -> u64 {
        let ago = self.monotonic_ns.saturating_sub(monotonic_ns) / 1_000_000;
        self.now_ms.saturating_sub(ago)
    }
}

/// The templates, for whoever may have missed them.
pub(crate) fn templates(clock: Clock, sequence: u32) -> Vec<u8> {
    let mut sets = Vec::new();
    for (number, addresses) in [(V4, ADDRESSES_V4), (V6, ADDRESSES_V6)] {
        let fields = addresses.len() + BEHIND_ADDRESSES.len();
        sets.extend(number.to_be_bytes());
        sets.extend((fields as u16).to_be_bytes());
        for (element, bytes) in addresses.into_iter().chain(BEHIND_ADDRESSES) {
            sets.extend(element.to_be_bytes());
            sets.extend(bytes.to_be_bytes());
        }
    }
    message(TEMPLATES, &sets, clock, sequence)
}

/// Messages with so many records each, of one family: what the first of `records` have in common.
pub(crate) fn messages<'a>(
    records: &'a [Record],
    clock: Clock,
    sequence: &'a mut u32,
) -> impl Iterator<Item = (Vec<u8>, &'a [Record])> + 'a {
    let mut rest = records;
    std::iter::from_fn(move || {
        let v6 = rest.first()?.id.v6;
        let mut body = Vec::new();
        let mut n = 0;
        for record in rest.iter().take_while(|record| record.id.v6 == v6) {
            let bytes = data(record, clock);
            if HEADER + 4 + body.len() + bytes.len() > MOST_BYTES {
                break;
            }
            body.extend(bytes);
            n += 1;
        }
        let (told, left) = rest.split_at(n);
        rest = left;
        let template = if v6 == 0 { V4 } else { V6 };
        let bytes = message(template, &body, clock, *sequence);
        // Records, not messages (RFC 7011 3.1).
        *sequence = sequence.wrapping_add(n as u32);
        Some((bytes, told))
    })
}

fn data(record: &Record, clock: Clock) -> Vec<u8> {
    let (id, told) = (&record.id, &record.told);
    let nat = match told.translation.translated {
        0 => Translation {
            source: id.source,
            destination: id.destination,
            src_port: id.src_port,
            dst_port: id.dst_port,
            ..Translation::default()
        },
        _ => told.translation,
    };
    let mut bytes = Vec::with_capacity(128);
    for address in [&id.source, &id.destination, &nat.source, &nat.destination] {
        let words = if id.v6 == 0 { 1 } else { 4 };
        bytes.extend(address[..words].concat());
    }
    bytes.extend(id.src_port);
    bytes.extend(id.dst_port);
    bytes.push(id.protocol);
    bytes.push(told.dscp << 2);
    bytes.extend(told.ingress.to_be_bytes());
    bytes.extend(told.egress.to_be_bytes());
    bytes.extend(told.packets.to_be_bytes());
    bytes.extend(told.bytes.to_be_bytes());
    bytes.extend(clock.ms(told.first_ns).to_be_bytes());
    bytes.extend(clock.ms(told.last_ns).to_be_bytes());
    bytes.push(record.reason as u8);
    bytes.extend(nat.src_port);
    bytes.extend(nat.dst_port);
    bytes
}

/// One set behind the header of a message.
fn message(set: u16, body: &[u8], clock: Clock, sequence: u32) -> Vec<u8> {
    let set_bytes = 4 + body.len();
    let mut bytes = Vec::with_capacity(HEADER + set_bytes);
    bytes.extend(VERSION.to_be_bytes());
    bytes.extend(((HEADER + set_bytes) as u16).to_be_bytes());
    bytes.extend(((clock.now_ms / 1000) as u32).to_be_bytes());
    bytes.extend(sequence.to_be_bytes());
    // One observation domain: the router.
    bytes.extend(1u32.to_be_bytes());
    bytes.extend(set.to_be_bytes());
    bytes.extend((set_bytes as u16).to_be_bytes());
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock {
        now_ms: 1_800_000_000_500,
        monotonic_ns: 60_000_000_000,
    };

    fn record(n: u16, v6: u8) -> Record {
        Record {
            id: FlowId {
                source: [[10, 0, 0, 1]; 4],
                destination: [[192, 0, 2, 9]; 4],
                src_port: n.to_be_bytes(),
                dst_port: [0, 53],
                protocol: 17,
                v6,
                load: 0,
            },
            told: FlowTotal {
                packets: u64::from(n),
                bytes: 100,
                first_ns: 58_000_000_000,
                last_ns: 59_000_000_000,
                dscp: 46,
                ..FlowTotal::default()
            },
            reason: Reason::Active,
        }
    }

    fn number(bytes: &[u8]) -> u64 {
        bytes.iter().fold(0, |n, byte| n << 8 | u64::from(*byte))
    }

    #[test]
    fn a_record_is_as_long_as_its_template_says() {
        for (v6, addresses) in [(0, ADDRESSES_V4), (1, ADDRESSES_V6)] {
            let fields = addresses.into_iter().chain(BEHIND_ADDRESSES);
            let bytes: u16 = fields.map(|(_, bytes)| bytes).sum();
            assert_eq!(data(&record(1, v6), CLOCK).len(), usize::from(bytes));
        }
        let templates = templates(CLOCK, 7);
        assert_eq!(number(&templates[2..4]), templates.len() as u64);
        assert_eq!(number(&templates[8..12]), 7);
    }

    #[test]
    fn all_records_are_in_messages_that_fit_into_a_datagram_and_count_themselves() {
        let records: Vec<Record> = (0..100).map(|n| record(n, u8::from(n >= 60))).collect();
        let (mut sequence, mut seen) = (5, 0);
        let all: Vec<_> = messages(&records, CLOCK, &mut sequence)
            .map(|(bytes, told)| (bytes, told.len()))
            .collect();
        for (bytes, told) in &all {
            assert!(bytes.len() <= MOST_BYTES);
            assert_eq!(number(&bytes[..2]), 10);
            assert_eq!(number(&bytes[2..4]), bytes.len() as u64);
            assert_eq!(number(&bytes[8..12]), 5 + seen);
            assert_eq!(number(&bytes[18..20]), bytes.len() as u64 - 16);
            seen += *told as u64;
        }
        assert_eq!((seen, sequence), (100, 105));
    }

    #[test]
    fn times_are_of_the_epoch_and_a_flow_without_translation_leaves_as_it_came() {
        let bytes = data(&record(9, 0), CLOCK);
        assert_eq!(number(&bytes[46..54]), CLOCK.now_ms - 2000);
        assert_eq!(number(&bytes[54..62]), CLOCK.now_ms - 1000);
        assert_eq!(bytes[..8], bytes[8..16]);
        assert_eq!(bytes[16..20], bytes[63..67]);
    }
}
