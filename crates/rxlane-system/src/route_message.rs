//! Messages about routes, read as bytes (`struct rtmsg` and `RTA_*` of include/uapi/linux/rtnetlink.h).
//!
//! Guarantee: a route of which anything is not understood is one of [`Kind::Kernel`] for the same prefix, so that packets
//! that match it are never sent by a less specific route. This is why unknown attributes and flags are looked for here,
//! which a reader that picks what it knows would pass over.

use std::net::IpAddr;

use ipnet::IpNet;

use crate::datagram::{Garbled, attributes, number};
use crate::route::{Kind, NextHop, Route};

/// `struct rtmsg` and `struct rtnexthop`.
const HEADER: usize = 12;
const HOP_HEADER: usize = 8;

const UNICAST: u8 = 1;

/// `RTM_F_CLONED`: what a host has learned about one destination, such as an MTU, and no route.
const CLONED: u32 = 0x200;
/// Flags of routes that change nothing here or are dealt with: `RTNH_F_DEAD`, `_ONLINK`, `_OFFLOAD`, `_LINKDOWN`, `_TRAP`;
/// `RTM_F_NOTIFY`, `_EQUALIZE`, `_PREFIX`, `_LOOKUP_TABLE`, `_FIB_MATCH`, `_OFFLOAD`, `_TRAP`, `_OFFLOAD_FAILED`.
const KNOWN_FLAGS: u32 = KNOWN_HOP_FLAGS as u32 | 0x2000_fd00;
const KNOWN_HOP_FLAGS: u8 = 0x01 | 0x04 | 0x08 | 0x10 | 0x40;
const DEAD: u8 = 0x01;

const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const DEVICE: u16 = 4;
const GATEWAY: u16 = 5;
const PRIORITY: u16 = 6;
const PREFERRED_SOURCE: u16 = 7;
const METRICS: u16 = 8;
const MULTIPATH: u16 = 9;
const REALM: u16 = 11;
const CACHE_INFO: u16 = 12;
const TABLE: u16 = 15;
const VIA: u16 = 18;
const PREFERENCE: u16 = 20;
const NEXTHOP_ID: u16 = 30;

/// `RTAX_MTU`, and the last metric that is known; all others are about connections that end here.
const MTU: u16 = 2;
const LAST_METRIC: u16 = 17;

/// A route; `None` for what is none of the forwarding tables of IPv4 and IPv6.
///
/// # Errors
/// When not even its prefix can be read.
pub(crate) fn route(body: &[u8]) -> Result<Option<Route>, Garbled> {
    let header: &[u8; HEADER] = body.first_chunk().ok_or(Garbled)?;
    let [family, prefix_len, source_len, tos, table, _, _, kind, ..] = *header;
    let flags = u32::from_ne_bytes([header[8], header[9], header[10], header[11]]);
    let Some(any) = any_address(family) else {
        return Ok(None);
    };
    if flags & CLONED != 0 {
        return Ok(None);
    }
    let mut route = Route {
        prefix: IpNet::new(any, 0).map_err(|_| Garbled)?,
        source: None,
        table: u32::from(table),
        metric: 0,
        tos,
        kind: Kind::Unicast,
        hops: Vec::new(),
        nexthop: None,
        mtu: None,
    };
    let (mut destination, mut source) = (any, any);
    let mut only = NextHop {
        ifindex: 0,
        gateway: None,
        weight: 1,
        dead: flags as u8 & DEAD != 0,
    };
    let mut understood = kind == UNICAST && flags & !KNOWN_FLAGS == 0;
    for attribute in attributes(&body[HEADER..]) {
        let (attribute, value) = attribute?;
        understood &= match attribute {
            DESTINATION => {
                destination = address(family, value).ok_or(Garbled)?;
                true
            }
            SOURCE => {
                source = address(family, value).ok_or(Garbled)?;
                true
            }
            PRIORITY => {
                route.metric = number(value).ok_or(Garbled)?;
                true
            }
            TABLE => {
                route.table = number(value).ok_or(Garbled)?;
                true
            }
            NEXTHOP_ID => {
                route.nexthop = Some(number(value).ok_or(Garbled)?);
                true
            }
            DEVICE => number(value).map(|i| only.ifindex = i).is_some(),
            GATEWAY | VIA => hop_attribute(family, attribute, value, &mut only),
            MULTIPATH => hops(family, value).map(|h| route.hops = h).is_some(),
            METRICS => metrics(value).map(|mtu| route.mtu = mtu).is_some(),
            CACHE_INFO => stays(value),
            PREFERRED_SOURCE | REALM | PREFERENCE => true,
            _ => false,
        };
    }
    route.prefix = IpNet::new(destination, prefix_len).map_err(|_| Garbled)?;
    if source_len > 0 {
        route.source = Some(IpNet::new(source, source_len).map_err(|_| Garbled)?);
    }
    if route.hops.is_empty() && only.ifindex != 0 {
        route.hops.push(only);
    }
    // By source, only the kernel routes. Without any way on there must be one that is not understood.
    let by_source = route.source.is_some();
    if !understood || by_source || (route.hops.is_empty() && route.nexthop.is_none()) {
        route.kind = Kind::Kernel(kind);
        route.hops.clear();
    }
    Ok(Some(route))
}

fn any_address(family: u8) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(IpAddr::from([0u8; 4])),
        libc::AF_INET6 => Some(IpAddr::from([0u8; 16])),
        _ => None,
    }
}

fn address(family: u8, value: &[u8]) -> Option<IpAddr> {
    match i32::from(family) {
        libc::AF_INET => Some(<[u8; 4]>::try_from(value).ok()?.into()),
        libc::AF_INET6 => Some(<[u8; 16]>::try_from(value).ok()?.into()),
        _ => None,
    }
}

/// Reads an attribute of a hop; false when it is not understood.
pub(crate) fn hop_attribute(family: u8, kind: u16, value: &[u8], hop: &mut NextHop) -> bool {
    let gateway = match kind {
        GATEWAY => address(family, value),
        // `struct rtvia`: the family of the address, then the address.
        VIA => value.split_first_chunk().and_then(|(family, value)| {
            let family = u8::try_from(u16::from_ne_bytes(*family)).ok()?;
            address(family, value)
        }),
        REALM => return true,
        _ => None,
    };
    hop.gateway = gateway.or(hop.gateway);
    gateway.is_some()
}

/// The hops of a route that has several; `None` when one is not understood.
fn hops(family: u8, value: &[u8]) -> Option<Vec<NextHop>> {
    let mut all = Vec::new();
    let mut rest = value;
    while !rest.is_empty() {
        let header: &[u8; HOP_HEADER] = rest.first_chunk()?;
        let [l0, l1, flags, less_one, i0, i1, i2, i3] = *header;
        let len = usize::from(u16::from_ne_bytes([l0, l1]));
        let mut hop = NextHop {
            ifindex: u32::from_ne_bytes([i0, i1, i2, i3]),
            gateway: None,
            weight: u16::from(less_one) + 1,
            dead: flags & DEAD != 0,
        };
        for attribute in attributes(rest.get(HOP_HEADER..len)?) {
            let (kind, value) = attribute.ok()?;
            if !hop_attribute(family, kind, value, &mut hop) {
                return None;
            }
        }
        if flags & !KNOWN_HOP_FLAGS != 0 {
            return None;
        }
        all.push(hop);
        rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
    }
    Some(all)
}

/// The MTU that a route asks for, if it does; `None` when a metric is not understood.
fn metrics(value: &[u8]) -> Option<Option<u32>> {
    let mut mtu = None;
    for metric in attributes(value) {
        match metric.ok()? {
            (MTU, value) => mtu = Some(number(value)?).filter(|mtu| *mtu > 0),
            (1..=LAST_METRIC, _) => {}
            _ => return None,
        }
    }
    Some(mtu)
}

/// Whether a route stays until somebody takes it away. The kernel passes over one whose time is up without telling, and
/// prolongs its time without telling.
fn stays(value: &[u8]) -> bool {
    /// `rta_expires` in `struct rta_cacheinfo`.
    const EXPIRES: std::ops::Range<usize> = 8..12;
    value.get(EXPIRES).and_then(number) == Some(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datagram::bytes;
    use crate::route::{TABLE_LOCAL, TABLE_MAIN};

    /// As the kernel writes them on a little-endian machine: 198.51.100.0/24 via 10.1.0.10 dev 2 metric 10.
    const V4: &str = "02180000fe030001 00000000 08000f00fe000000 08000100c6336400 080006000a000000
        080005000a01000a 0800040002000000";

    fn read(text: &str) -> Route {
        route(&bytes(text)).expect("readable").expect("a route")
    }

    fn hop(ifindex: u32, gateway: &str) -> NextHop {
        NextHop {
            ifindex,
            gateway: Some(gateway.parse().unwrap()),
            weight: 1,
            dead: false,
        }
    }

    #[test]
    fn a_plain_route_is_read_whole() {
        let route = read(V4);
        assert_eq!(route.prefix, "198.51.100.0/24".parse().unwrap());
        assert_eq!((route.table, route.metric, route.tos), (TABLE_MAIN, 10, 0));
        assert_eq!(route.kind, Kind::Unicast);
        assert_eq!(route.hops, [hop(2, "10.1.0.10")]);
        assert_eq!((route.source, route.nexthop, route.mtu), (None, None, None));
    }

    #[test]
    fn anything_that_is_not_understood_makes_a_route_the_kernel_s_for_the_same_prefix() {
        let header = |from: &str, to: &str| V4.replacen(from, to, 1);
        for (what, text) in [
            ("an attribute", V4.to_owned() + "0800630001000000"),
            ("an encapsulation", V4.to_owned() + "0600150001000000"),
            ("MPLS' TTL", V4.to_owned() + "05001a0001000000"),
            ("a metric", V4.to_owned() + "0c000800 0800630001000000"),
            ("a gateway's length", V4.to_owned() + "060005000a010000"),
            (
                "a via of another family",
                V4.to_owned() + "080012001c000a01",
            ),
            ("a flag", header("00000000", "00000080")),
            ("a resolved later one", header("00000000", "20000000")),
            ("blackhole", header("0001 0", "0006 0")),
            ("unreachable", header("0001 0", "0007 0")),
            ("prohibit", header("0001 0", "0008 0")),
            ("throw", header("0001 0", "0009 0")),
            ("a type of tomorrow", header("0001 0", "00c8 0")),
            ("no way on", V4.replace("0800040002000000", "")),
        ] {
            let route = read(&text);
            assert!(matches!(route.kind, Kind::Kernel(_)), "{what}: {route:?}");
            assert_eq!(route.hops, [], "{what}");
            let prefix = "198.51.100.0/24".parse().unwrap();
            assert_eq!((route.prefix, route.metric), (prefix, 10), "{what}");
        }
    }

    #[test]
    fn what_has_no_prefix_or_ends_early_cannot_be_read() {
        let good = bytes(V4);
        for len in 0..good.len() {
            let short = route(&good[..len]);
            // Between two attributes an end is one: then a gateway or a device is missing.
            let whole = len >= HEADER && (len - HEADER).is_multiple_of(8);
            assert_eq!(short.is_ok(), whole, "{len}: {short:?}");
        }
        let long = V4.replacen("0218", "0221", 1);
        assert_eq!(route(&bytes(&long)), Err(Garbled), "33 bits");
        // Multicast routes and cached MTUs are none of the forwarding tables.
        for none in [
            V4.replacen("02", "80", 1),
            V4.replacen("00000000", "00020000", 1),
        ] {
            assert_eq!(route(&bytes(&none)), Ok(None));
        }
    }

    #[test]
    fn an_ipv6_route_by_source_is_the_kernel_s_and_keeps_its_source() {
        // 2001:db8:1::/48 from fd02::/64 via fd01::10 dev 2, metric 1024.
        let text = "0a304000fe030001 00000000 08000f00fe000000
            14000100 20010db8000100000000000000000000 14000200 fd020000000000000000000000000000
            0800060000040000 14000500 fd010000000000000000000000000010 0800040002000000
            24000c00 000000000000000000000000000000000000000000000000000000000000000005001400 00000000";
        let route = read(text);
        assert_eq!(route.prefix, "2001:db8:1::/48".parse().unwrap());
        assert_eq!(route.source, Some("fd02::/64".parse().unwrap()));
        assert_eq!(route.kind, Kind::Kernel(1));
        let plain = text.replacen("0a3040", "0a3000", 1);
        let plain = read(&plain.replace("14000200 fd020000000000000000000000000000", ""));
        assert_eq!(plain.hops, [hop(2, "fd01::10")]);
        assert_eq!(plain.kind, Kind::Unicast);
    }

    #[test]
    fn a_route_with_a_lifetime_is_the_kernel_s() {
        let info = |expires: &str| {
            format!(
                "{V4} 24000c00 0000000000000000{expires}0000000000000000000000000000000000000000"
            )
        };
        assert_eq!(read(&info("00000000")).kind, Kind::Unicast);
        assert_eq!(read(&info("10270000")).kind, Kind::Kernel(1));
    }

    #[test]
    fn a_route_of_a_nexthop_object_carries_its_number_with_hops_or_without() {
        let id = "08001e000c000000";
        let alone = "02180000fe030001 00000000 08000f00fe000000 08000100c6336400 ";
        let route = read(&(alone.to_owned() + id));
        assert_eq!((route.kind, route.nexthop), (Kind::Unicast, Some(12)));
        assert_eq!(route.hops, []);
        let route = read(&(V4.to_owned() + id));
        assert_eq!(route.nexthop, Some(12));
        assert_eq!(route.hops, [hop(2, "10.1.0.10")]);
    }

    #[test]
    fn several_hops_are_read_with_weight_and_state_and_one_that_is_tunnelled_spoils_all() {
        let start = "02180000fe030001 00000000 08000f00fe000000 08000100c6336400 ";
        let hops = "24000900 1000000002000000 080005000a01000a 1000110203000000 080005000a02000b";
        let route = read(&(start.to_owned() + hops));
        let second = NextHop {
            weight: 3,
            dead: true,
            ..hop(3, "10.2.0.11")
        };
        assert_eq!(route.hops, [hop(2, "10.1.0.10"), second]);
        let tunnelled = hops
            .replacen("24", "2c", 1)
            .replacen("10001102", "18001102", 1)
            + "06001500 01000000";
        let route = read(&(start.to_owned() + &tunnelled));
        assert_eq!(route.kind, Kind::Kernel(1));
        for len in ["00", "07", "30"] {
            let bad = hops.replacen("1000110", &format!("{len}00110"), 1);
            let route = read(&(start.to_owned() + &bad));
            assert_eq!(route.kind, Kind::Kernel(1), "a hop of 0x{len} bytes");
        }
    }

    #[test]
    fn an_mtu_is_kept_and_metrics_of_connections_are_harmless() {
        // mtu lock 1300, advmss 1200, hoplimit 9.
        let metrics =
            "24000800 0800010004000000 0800020014050000 08000800b0040000 08000a0009000000";
        let route = read(&(V4.to_owned() + metrics));
        assert_eq!((route.kind, route.mtu), (Kind::Unicast, Some(1300)));
    }

    #[test]
    fn a_gateway_of_the_other_family_and_a_local_address_are_read() {
        let via = "16001200 0a00 fd010000000000000000000000000010 0000";
        let route = read(&V4.replace("080005000a01000a", via));
        assert_eq!(route.hops, [hop(2, "fd01::10")]);
        let local = read(
            &V4.replacen("fe030001", "ff000002", 1)
                .replace("fe000000", "ff000000"),
        );
        assert_eq!((local.kind, local.table), (Kind::Kernel(2), TABLE_LOCAL));
    }
}
