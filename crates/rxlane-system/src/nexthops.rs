//! Nexthop objects (`ip nexthop`): ways on that routes name by a number.
//!
//! With `net.ipv4.nexthop_compat_mode = 0` the number is all that a route tells of its way.

use crate::SystemError;
use crate::datagram::{Garbled, Raw, attributes, number};
use crate::netlink;
use crate::route::NextHop;
use crate::route_message::hop_attribute;

/// `RTM_NEWNEXTHOP`, `RTM_DELNEXTHOP`, `RTM_GETNEXTHOP`.
pub(crate) const NEW: u16 = 104;
pub(crate) const DELETE: u16 = 105;
const GET: u16 = 106;

/// `struct nhmsg` and `NHA_*` of include/uapi/linux/nexthop.h.
const HEADER: usize = 8;
const ID: u16 = 1;
const GROUP: u16 = 2;
const GROUP_TYPE: u16 = 3;
const DEVICE: u16 = 5;
const GATEWAY: u16 = 6;
const OP_FLAGS: u16 = 14;
const COUNTS_IN_HARDWARE: u16 = 16;
/// The attribute of a route that says the same as [`GATEWAY`].
const GATEWAY_OF_ROUTE: u16 = 5;
/// `RTNH_F_DEAD`, `_ONLINK`, `_OFFLOAD`, `_LINKDOWN`, `_TRAP`.
const KNOWN_FLAGS: u32 = 0x01 | 0x04 | 0x08 | 0x10 | 0x40;
const DEAD: u32 = 0x01;

/// What is behind a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nexthop {
    /// One way on.
    Hop(NextHop),
    /// Others, by number and share of the flows.
    Group(Vec<(u32, u16)>),
    /// The kernel's business: blackholes, tunnels, what is not understood.
    Kernel,
}

/// A nexthop object by its number.
pub(crate) fn nexthop(body: &[u8]) -> Result<(u32, Nexthop), Garbled> {
    let header: &[u8; HEADER] = body.first_chunk().ok_or(Garbled)?;
    let [family, _, _, _, f0, f1, f2, f3] = *header;
    let flags = u32::from_ne_bytes([f0, f1, f2, f3]);
    let mut hop = NextHop {
        ifindex: 0,
        gateway: None,
        weight: 1,
        dead: flags & DEAD != 0,
    };
    let (mut id, mut group) = (None, None);
    let mut understood = flags & !KNOWN_FLAGS == 0;
    for attribute in attributes(&body[HEADER..]) {
        let (kind, value) = attribute?;
        understood &= match kind {
            ID => {
                id = number(value);
                true
            }
            DEVICE => number(value).map(|i| hop.ifindex = i).is_some(),
            GATEWAY => hop_attribute(family, GATEWAY_OF_ROUTE, value, &mut hop),
            GROUP => members(value).map(|m| group = Some(m)).is_some(),
            // Flows of a resilient group stay where they were, which only the kernel knows.
            GROUP_TYPE => value == 0u16.to_ne_bytes(),
            OP_FLAGS | COUNTS_IN_HARDWARE => true,
            _ => false,
        };
    }
    let nexthop = match group {
        _ if !understood => Nexthop::Kernel,
        Some(members) => Nexthop::Group(members),
        None if hop.ifindex != 0 => Nexthop::Hop(hop),
        None => Nexthop::Kernel,
    };
    Ok((id.ok_or(Garbled)?, nexthop))
}

/// `struct nexthop_grp`: a number, and a weight less one in two parts.
fn members(value: &[u8]) -> Option<Vec<(u32, u16)>> {
    const MEMBER: usize = 8;
    if value.is_empty() || !value.len().is_multiple_of(MEMBER) {
        return None;
    }
    let member = |m: &[u8]| {
        let less_one = u16::from_be_bytes([m[5], m[4]]);
        Some((number(&m[..4])?, less_one.saturating_add(1)))
    };
    value.chunks(MEMBER).map(member).collect()
}

/// Hands over all nexthop objects of the current network namespace, members before their groups or after.
pub(crate) fn all(mut found: impl FnMut(u32, Nexthop)) -> Result<(), SystemError> {
    let what = "list nexthop objects";
    let mut unread = false;
    let mut seen = |message: Raw<'_>| match (message.kind, nexthop(message.body)) {
        (NEW, Ok((id, nexthop))) => found(id, nexthop),
        (NEW, Err(Garbled)) => unread = true,
        _ => {}
    };
    match netlink::dump_raw(GET, &[0; HEADER], what, &mut seen) {
        // Before Linux 5.3 there are none.
        Err(SystemError::Refused { source, .. })
            if source.raw_os_error() == Some(libc::EOPNOTSUPP) =>
        {
            Ok(())
        }
        Ok(()) if unread => Err(SystemError::Unsteady { what: what.into() }),
        outcome => outcome,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::bytes;

    /// As the kernel writes it on a little-endian machine: id 10 via 10.1.0.10 dev 2.
    const HOP: &str = "0200030000000000 080001000a000000 0800050002000000 080006000a01000a";
    /// Id 12, group 10/11,4.
    const PAIR: &str = "0000030000000000 080001000c000000 06000300 00000000
        14000200 0a00000000000000 0b00000003000000 0800100000000000";

    fn read(text: &str) -> (u32, Nexthop) {
        nexthop(&bytes(text)).expect("readable")
    }

    #[test]
    fn hops_and_groups_are_read() {
        let hop = NextHop {
            ifindex: 2,
            gateway: Some("10.1.0.10".parse().unwrap()),
            weight: 1,
            dead: false,
        };
        assert_eq!(read(HOP), (10, Nexthop::Hop(hop)));
        assert_eq!(read(PAIR), (12, Nexthop::Group(vec![(10, 1), (11, 4)])));
    }

    #[test]
    fn blackholes_tunnels_resilient_groups_and_the_unknown_are_the_kernel_s() {
        for (what, text) in [
            ("blackhole", format!("{HOP} 04000400")),
            ("an encapsulation", format!("{HOP} 0600070001000000")),
            ("a forwarding database", format!("{HOP} 04000b00")),
            ("an attribute", format!("{HOP} 0800630000000000")),
            ("a flag", HOP.replacen("0000000 ", "0000080 ", 1)),
            ("no device", HOP.replace("0800050002000000", "")),
            ("resilient", PAIR.replace("06000300 0000", "06000300 0100")),
            (
                "half a member",
                PAIR.replace(
                    "14000200 0a00000000000000 0b00000003000000",
                    "08000200 0a000000",
                ),
            ),
        ] {
            let (_, found) = read(&text);
            assert_eq!(found, Nexthop::Kernel, "{what}");
        }
        let nameless = HOP.replace("080001000a000000", "");
        assert_eq!(nexthop(&bytes(&nameless)), Err(Garbled));
    }
}
