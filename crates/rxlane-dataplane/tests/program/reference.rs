//! What must become of a frame, by the reference parser and classifier of rxlane-policy.

use std::net::{IpAddr, Ipv6Addr};

use rxlane_bpf::layout::REASONS;
use rxlane_dataplane::testing::{self, Counts};
use rxlane_policy::checksum::is_unfinished;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::headers::{Headers, Obstacle, Parsed, ipv4_checksum, parse, parse_session};
use rxlane_policy::rule::{Rule, first_match};
use rxlane_policy::tunneled::parse_tunneled;

use crate::world::{
    END, IN_MAC, NEXT_HOP, OUT_MAC, PASS, PEER, REDIRECT, SESSION, STATION, VXLAN, tunnels,
};

/// What a frame is on a port with one session and the tunnels of [`tunnels`].
pub(crate) struct Known {
    pub(crate) parsed: Parsed,
    /// Where its packet begins, the innermost that is looked into.
    pub(crate) at: usize,
    pub(crate) in_session: bool,
    /// Protocol of the outer packet; 0: there is none.
    pub(crate) in_tunnel: u8,
    /// Whether that has a checksum which is wrong.
    pub(crate) is_wrong: bool,
    /// Whether that does not come from where the tunnel's other end is.
    pub(crate) is_foreign: bool,
}

impl Known {
    /// Whether its checksum may be missing: both ports are veths.
    pub(crate) fn unfinished(&self, frame: &[u8]) -> bool {
        frame.get(self.at..).is_some_and(is_unfinished)
    }
}

/// The reference's answer: of tags only those without an id are the port's.
pub(crate) fn parse_known(frame: &[u8]) -> Known {
    let id_of = |at: usize| {
        frame
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let mut at = 12;
    let mut ours = true;
    while at < 20 && matches!(id_of(at), Some(0x8100 | 0x88a8)) {
        ours &= at == 12 && id_of(at + 2).is_some_and(|tci| tci & 0xfff == 0);
        at += 4;
    }
    let served = frame.get(6..12) == Some(&PEER) && id_of(at + 4) == Some(SESSION);
    let mut known = match parse_session(frame, 0, IN_MAC) {
        Parsed::Ip(headers) if served && ours => Known {
            parsed: Parsed::Ip(headers),
            at: at + 10,
            in_session: true,
            in_tunnel: 0,
            is_wrong: false,
            is_foreign: false,
        },
        _ => Known {
            parsed: parse(frame, 0, IN_MAC),
            at: at + 2,
            in_session: false,
            in_tunnel: 0,
            is_wrong: false,
            is_foreign: false,
        },
    };
    let is_whole = matches!(&known.parsed, Parsed::Ip(outer) if outer.obstacle.is_none());
    if let Some(found) = parse_tunneled(frame, 0, IN_MAC).filter(|_| is_whole) {
        let ends = (found.local, found.remote, found.protocol, found.key);
        let is_served = match found.framed {
            // From the station that is known, where it is known to be, to the device.
            Some(framed) => {
                (framed.from, framed.to, framed.port) == (STATION, IN_MAC, VXLAN.1)
                    && ends == ([10, 1, 0, 1].into(), END.into(), 17, Some(VXLAN.0))
            }
            None => tunnels()
                .iter()
                .any(|t| (t.local, t.remote, t.protocol, t.key) == ends),
        };
        if is_served {
            // Of the ends that tunnels have one is behind the other port.
            known.is_foreign = found.remote.octets()[1] != 1;
            known.at += found.room;
            known.parsed = Parsed::Ip(Box::new(found.inner));
            known.in_tunnel = found.protocol;
            known.is_wrong = found.framed.is_some_and(|framed| !framed.sum_holds);
        }
    }
    known
}

pub(crate) fn reason_of(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Vlan => "vlan",
        Obstacle::Options => "options",
        Obstacle::IcmpError => "icmp_error",
        Obstacle::Checksum => "malformed",
        Obstacle::SpecialAddress => "special_address",
        Obstacle::Ttl => "ttl",
        Obstacle::Fragment => "fragment",
    }
}

/// What the program must do, by the reference.
#[derive(Debug, PartialEq)]
pub(crate) enum Expected {
    ToKernel(&'static str),
    Stack(usize),
    Forward(usize),
    /// Express, but the kernel has no complete route.
    Unrouted(usize),
    /// Express, but the source belongs elsewhere.
    Foreign(usize),
    /// Express, but for the checksum of what it came in.
    Wrong(usize),
}

impl Expected {
    /// Of a packet that came in one from elsewhere than the tunnel's other end.
    pub(crate) fn in_foreign(self) -> Self {
        match self {
            Self::Forward(class) | Self::Unrouted(class) => Self::Foreign(class),
            other => other,
        }
    }

    /// Of a packet that came in one whose checksum is wrong.
    pub(crate) fn in_wrong(self) -> Self {
        match self {
            Self::Forward(class) | Self::Unrouted(class) => Self::Wrong(class),
            other => other,
        }
    }
}

/// Rules in the order in which they are asked, with the class of each.
pub(crate) fn in_order(classes: &[Class]) -> Vec<(usize, &Rule)> {
    let classes = classes.iter().enumerate();
    classes
        .flat_map(|(c, class)| class.rules.iter().map(move |r| (c, r)))
        .collect()
}

pub(crate) fn expected(
    classes: &[Class],
    rules: &[(usize, &Rule)],
    parsed: &Parsed,
    unfinished: bool,
) -> (Expected, Option<usize>) {
    let headers: &Headers = match parsed {
        Parsed::Ip(h) => h,
        Parsed::NotToUs => return (Expected::ToKernel("not_to_us"), None),
        Parsed::NotIp => return (Expected::ToKernel("not_ip"), None),
        Parsed::Malformed => return (Expected::ToKernel("malformed"), None),
    };
    let first = first_match(rules.iter().map(|(_, r)| *r), headers)
        .map_or(classes.len() - 1, |i| rules[i].0);
    let mut untrusted = None;
    for (i, class) in classes.iter().enumerate().skip(first) {
        match &class.lane {
            Lane::Stack { .. } => return (Expected::Stack(i), untrusted),
            Lane::Express { .. } if untrusted.is_some() => {}
            Lane::Express { trust, .. } => {
                if unfinished {
                    return (Expected::ToKernel("checksum"), untrusted);
                }
                if let Some(obstacle) = headers.obstacle {
                    return (Expected::ToKernel(reason_of(obstacle)), untrusted);
                }
                let trusted = match trust {
                    Trust::Prefixes(nets) => nets.iter().any(|n| n.contains(&headers.src)),
                    _ => true,
                };
                if !trusted {
                    untrusted = Some(i);
                    continue;
                }
                if !source_holds(trust, headers.src) {
                    return (Expected::Foreign(i), untrusted);
                }
                // Behind the neighbours, or the neighbours themselves, which a mutation hits once in a million frames.
                let routed = match headers.dst {
                    IpAddr::V4(a) => a.octets()[..2] == [10, 20] || a.octets() == [10, 2, 0, 9],
                    IpAddr::V6(a) => {
                        let [first, second, third, ..] = a.segments();
                        let beyond = [first, second] == [0x2001, 0xdb8] && third != 1;
                        beyond || a == Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 9)
                    }
                };
                return (
                    if routed {
                        Expected::Forward(i)
                    } else {
                        Expected::Unrouted(i)
                    },
                    untrusted,
                );
            }
        }
    }
    (Expected::ToKernel("untrusted"), untrusted)
}

/// Whether a source may come in at p0, where everything in IPv4 but 10.2.0.0/24 and 10.20.0.0/16 lies.
pub(crate) fn source_holds(trust: &Trust, src: IpAddr) -> bool {
    match (trust, src) {
        (_, IpAddr::V4(a)) => {
            let [x, y, z, last] = a.octets();
            let subnet = [x, y, z] == [10, 1, 0] || [x, y, z] == [10, 2, 0];
            // The router's own address, and those of the subnet that mean all of it.
            !(subnet && [0, 1, 255].contains(&last))
        }
        (Trust::Prefixes(_), IpAddr::V6(a)) => a.segments()[..3] == [0x2001, 0xdb8, 1],
        // Linux has no such check in IPv6.
        (_, IpAddr::V6(_)) => true,
    }
}

pub(crate) fn judge(
    expected: &Expected,
    untrusted: Option<usize>,
    (frame, l2): (&[u8], usize),
    out: &testing::TestRun,
    d: &Counts,
) {
    let context = || format!("{expected:?}, frame {frame:02x?}, got {out:?}, {d:?}");
    let reason = |name: &str| d.reasons[REASONS.iter().position(|(r, _)| *r == name).unwrap()];
    let total_reasons: u64 = d.reasons.iter().sum();
    if let Some(class) = untrusted {
        assert_eq!(d.classes[class].untrusted, 1, "{}", context());
    }
    match expected {
        Expected::ToKernel(name) => {
            assert_eq!(
                (out.action, reason(name), total_reasons),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Stack(class) => {
            assert_eq!(
                (out.action, d.classes[*class].passed, total_reasons),
                (PASS, 1, 0),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Foreign(class) => {
            assert_eq!(
                (out.action, d.classes[*class].packets, reason("source")),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Wrong(class) => {
            assert_eq!(
                (out.action, d.classes[*class].packets, reason("checksum")),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Unrouted(class) => {
            let known: u64 = ["not_routed", "no_neighbour", "egress"]
                .iter()
                .map(|n| reason(n))
                .sum();
            assert_eq!(
                (out.action, d.classes[*class].packets, known),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Forward(class) => {
            assert_eq!(
                (out.action, d.classes[*class].express, total_reasons),
                (REDIRECT, 1, 0),
                "{}",
                context()
            );
            forwarded(frame, l2, &out.frame);
        }
    }
}

/// The bytes on the wire: MAC addresses, the packet that began at `l2` without what was in front of it, TTL less one, a checksum
/// that holds, and nothing else changed.
pub(crate) fn forwarded(before: &[u8], l2: usize, after: &[u8]) {
    let v4 = before[l2] >> 4 == 4;
    // What follows the IP packet is cut off, but for zeros that make the frame as long as Ethernet wants it.
    let field = |at: usize| usize::from(u16::from_be_bytes([before[l2 + at], before[l2 + at + 1]]));
    let len = if v4 { field(2) } else { 40 + field(4) };
    let mut packet = before[l2..].to_vec();
    if packet.len() > len || before.len() >= 60 {
        packet.truncate(len);
        packet.resize(len.max(46), 0);
    }
    if v4 {
        packet[8] -= 1;
        packet[10] = 0;
        packet[11] = 0;
        let check = ipv4_checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        packet[7] -= 1;
    }
    let kind: &[u8] = if v4 { &[0x08, 0x00] } else { &[0x86, 0xdd] };
    let wanted = [&NEXT_HOP, &OUT_MAC, kind, &packet].concat();
    assert_eq!(after, wanted, "{before:02x?}");
}

pub(crate) fn minus(after: &Counts, before: &Counts) -> Counts {
    let mut d = *after;
    for (c, b) in d.classes.iter_mut().zip(&before.classes) {
        c.packets -= b.packets;
        c.bytes -= b.bytes;
        c.express -= b.express;
        c.passed -= b.passed;
        c.queued -= b.queued;
        c.early_drops -= b.early_drops;
        c.policed -= b.policed;
        c.untrusted -= b.untrusted;
        c.looked_up -= b.looked_up;
    }
    for (r, b) in d.reasons.iter_mut().zip(&before.reasons) {
        *r -= b;
    }
    d
}
