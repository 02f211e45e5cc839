//! The fields of headers, and what comparing their bytes asks.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::meets::Meets;
use crate::test::{Header, Test};

/// What a field of a header is.
#[derive(Clone, Copy)]
enum Field {
    /// The same in all packets of a flow, or in all that count.
    Fixed,
    /// The flags of fragmentation and the offset, IPv4.
    Fragment,
    Varies(&'static str),
    Protocol,
    Source,
    Destination,
    SourcePort,
    DestinationPort,
    Flags,
}

type Layout = &'static [(usize, usize, Field)];

const IPV4: Layout = &[
    (0, 2, Field::Fixed),
    (2, 2, Field::Varies("asks for the length of packets")),
    (
        4,
        2,
        Field::Varies("asks for the identification of packets"),
    ),
    (6, 2, Field::Fragment),
    (8, 1, Field::Fixed),
    (9, 1, Field::Protocol),
    (10, 2, Field::Varies("asks for the checksum of packets")),
    (12, 4, Field::Source),
    (16, 4, Field::Destination),
    (20, usize::MAX - 20, Field::Varies("looks into packets")),
];
const IPV6: Layout = &[
    (0, 2, Field::Fixed),
    (2, 2, Field::Varies("asks for the flow label of packets")),
    (4, 2, Field::Varies("asks for the length of packets")),
    (6, 1, Field::Protocol),
    (7, 1, Field::Fixed),
    (8, 16, Field::Source),
    (24, 16, Field::Destination),
    (40, usize::MAX - 40, Field::Varies("looks into packets")),
];
const TCP: Layout = &[
    (0, 2, Field::SourcePort),
    (2, 2, Field::DestinationPort),
    (4, 8, Field::Varies("asks for sequence numbers")),
    (12, 1, Field::Varies("asks for the length of headers")),
    (13, 1, Field::Flags),
    (14, usize::MAX - 14, Field::Varies("looks into packets")),
];
const OTHER: Layout = &[
    (0, 2, Field::SourcePort),
    (2, 2, Field::DestinationPort),
    (4, usize::MAX - 4, Field::Varies("looks into packets")),
];
const UNKNOWN: Layout = &[(0, usize::MAX, Field::Varies("asks for bytes of headers"))];

/// What the comparison of bytes of a header asks of its fields.
pub(crate) fn fields(
    header: Header,
    offset: usize,
    mask: &[u8],
    are: Option<&[u8]>,
    meets: &Meets,
) -> Vec<Test> {
    let layout = match (header, meets.v6, meets.protocol) {
        (Header::Network, Some(false), _) => IPV4,
        (Header::Network, Some(true), _) => IPV6,
        (Header::Network, None, _) => UNKNOWN,
        (Header::Transport, _, Some(6)) => TCP,
        (Header::Transport, _, _) => OTHER,
    };
    let end = offset.saturating_add(mask.len());
    let mut all = Vec::new();
    for (start, len, field) in layout {
        let (first, last) = (offset.max(*start), end.min(start + len));
        if first >= last {
            continue;
        }
        let part = |bytes: &[u8]| {
            let mut whole = vec![0; (*len).min(16)];
            let at = first - start;
            for (to, from) in whole
                .iter_mut()
                .skip(at)
                .zip(&bytes[first - offset..last - offset])
            {
                *to = *from;
            }
            whole
        };
        if mask[first - offset..last - offset].iter().all(|m| *m == 0) {
            continue;
        }
        all.push(of_field(*field, &part(mask), are.map(part).as_deref()));
    }
    all
}

fn of_field(field: Field, mask: &[u8], is: Option<&[u8]>) -> Test {
    // Leading ones.
    let ones = |bytes: &[u8]| {
        let mut n = 0;
        for byte in bytes {
            n += byte.leading_ones();
            if *byte != u8::MAX {
                break;
            }
        }
        n as u8
    };
    let set: u32 = mask.iter().map(|byte| byte.count_ones()).sum();
    let len = ones(mask);
    let exact = u32::from(len) == set;
    let also_unknown = |test| {
        if exact {
            test
        } else {
            Test::All(vec![test, Test::Fixed])
        }
    };
    match (field, is) {
        (Field::Varies(what), _) => Test::Varies(what),
        // Pieces are never express; whether a packet may be cut differs from one to the next.
        (Field::Fragment, _) if mask[0] & 0x40 != 0 => Test::Varies("asks for the flag DF"),
        (Field::Flags, Some(is)) => Test::Flags {
            mask: mask[0],
            is: is[0],
        },
        (Field::Flags, None) => Test::Varies("asks for flags of TCP"),
        (Field::Protocol, Some(is)) if mask[0] == u8::MAX => Test::Protocol(is[0]),
        (Field::Source | Field::Destination, Some(is)) => also_unknown(Test::Address {
            source: matches!(field, Field::Source),
            prefix: (address(is), len),
        }),
        (Field::SourcePort | Field::DestinationPort, Some(is)) => {
            let number = |b: &[u8]| u16::from_be_bytes([b[0], b[1]]);
            let first = number(is) & u16::MAX.checked_shl(16 - u32::from(len)).unwrap_or(0);
            let last = first | u16::MAX.checked_shr(u32::from(len)).unwrap_or(0);
            also_unknown(Test::Ports {
                source: matches!(field, Field::SourcePort),
                range: (first, last),
            })
        }
        _ => Test::Fixed,
    }
}

/// An address of 4 or 16 bytes.
pub(crate) fn address(bytes: &[u8]) -> IpAddr {
    if let Ok(v6) = <[u8; 16]>::try_from(bytes) {
        return Ipv6Addr::from(v6).into();
    }
    Ipv4Addr::from(<[u8; 4]>::try_from(bytes).unwrap_or_default()).into()
}
