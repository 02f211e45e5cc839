//! Whether a filter of traffic control looks at what differs among packets of one flow: then what it does with one says
//! nothing of the next (include/uapi/linux/pkt_cls.h).

use crate::dump::attributes;

/// What a flow has in common, as the express lane tells flows apart: addresses, ports, protocol, type of service, VLAN.
pub(super) fn differs_within_a_flow(kind: &str, options: &[u8], v6: Option<bool>) -> bool {
    match kind {
        "u32" => of_u32(options, v6),
        "flower" => of_flower(options),
        // `TCA_BASIC_EMATCHES`: expressions about anything.
        "basic" => attributes(options).any(|(kind, _)| kind == 2),
        _ => false,
    }
}

/// `struct tc_u32_key`.
struct Key {
    mask: u32,
    value: u32,
    offset: i32,
    /// Not 0 where the offset is that of the next header.
    moves: bool,
}

fn keys(options: &[u8]) -> impl Iterator<Item = Key> {
    /// `TCA_U32_SEL`, a `struct tc_u32_sel`.
    const SELECTOR: u16 = 5;
    let selector = attributes(options).find(|(kind, _)| *kind == SELECTOR);
    let selector = selector.map(|(_, value)| value).unwrap_or_default();
    let count = usize::from(selector.get(2).copied().unwrap_or(0));
    let keys = selector.get(16..).unwrap_or_default();
    let word = |key: &[u8; 16], at: usize| [key[at], key[at + 1], key[at + 2], key[at + 3]];
    let keys = keys.as_chunks::<16>().0.iter().take(count);
    keys.map(move |key| Key {
        mask: u32::from_be_bytes(word(key, 0)),
        value: u32::from_be_bytes(word(key, 4)),
        offset: i32::from_ne_bytes(word(key, 8)),
        moves: word(key, 12) != [0; 4],
    })
}

fn of_u32(options: &[u8], v6: Option<bool>) -> bool {
    keys(options).any(|key| {
        let of_flow = match v6 {
            _ if key.moves => of_ports(key.offset),
            Some(false) => of_ipv4(key.offset),
            Some(true) => of_ipv6(key.offset),
            None => of_ipv4(key.offset) & of_ipv6(key.offset),
        };
        key.mask & !of_flow != 0
    })
}

/// Bits that packets of a flow have in common, of the word at an offset in the IP header.
fn of_ipv4(offset: i32) -> u32 {
    match offset {
        // Version, length of the header, type of service; protocol.
        0 => 0xffff_0000,
        8 => 0x00ff_0000,
        12 | 16 => u32::MAX,
        at => of_ports(at - 20),
    }
}

fn of_ipv6(offset: i32) -> u32 {
    match offset {
        // Version and traffic class; the next header.
        0 => 0xfff0_0000,
        4 => 0x0000_ff00,
        8..=36 if offset % 4 == 0 => u32::MAX,
        at => of_ports(at - 40),
    }
}

fn of_ports(offset: i32) -> u32 {
    if offset == 0 { u32::MAX } else { 0 }
}

/// The kernel lists no key that is not compared. A flow has in common (`TCA_FLOWER_KEY_*`): addresses, ports, protocol, type of
/// service, VLAN tags, being no fragment, what connection tracking says.
fn of_flower(options: &[u8]) -> bool {
    attributes(options).any(|(kind, _)| {
        !matches!(kind, 1..=5 | 8..=25 | 35..=42 | 47 | 48 | 73 | 74 | 77..=79 | 86..=98 | 102)
    })
}

/// Whether it is for another protocol than those that flows are express of.
pub(super) fn is_for_others(kind: &str, options: &[u8], v6: Option<bool>) -> bool {
    /// `TCA_FLOWER_KEY_IP_PROTO`.
    const PROTOCOL: u16 = 9;
    let other = |protocol| !matches!(i32::from(protocol), libc::IPPROTO_TCP | libc::IPPROTO_UDP);
    match kind {
        "flower" => attributes(options)
            .any(|(kind, value)| kind == PROTOCOL && value.first().is_some_and(|p| other(*p))),
        "u32" => keys(options).any(|key| {
            let (at, shift) = match v6 {
                Some(false) => (8, 16),
                Some(true) => (4, 8),
                None => return false,
            };
            !key.moves
                && key.offset == at
                && key.mask >> shift & 0xff == 0xff
                && other((key.value >> shift) as u8)
        }),
        _ => false,
    }
}
