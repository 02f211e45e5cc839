//! What a router must hear itself to stay a router: routing protocols, neighbours, redundancy, addresses, and its operator.
//!
//! Without these packets sessions end, neighbours are forgotten and a second router takes over, while all that was wrong was too much
//! traffic. So they come first when a core is overloaded, each sender up to a rate. Who they are from says how far they
//! are believed: no router passes on what is sent to a link only, nor is a hop limit of 255 left of what it has passed on
//! (RFC 5082), so those can only come from a neighbour.
//!
//! The BPF program (bpf/classify/control.h) holds to this module; a test compares them on generated frames.

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::PolicyError;
use crate::headers::{self, Headers, Parsed};
use crate::police::{Gcra, Police, Rate};

/// Where a control packet can have come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Sender {
    /// A neighbour on the link.
    Link,
    /// Anybody who can send to the router.
    Anybody,
}

/// What a control packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Control {
    /// Where it can have come from.
    pub sender: Sender,
    /// It counts only if its destination is an address of the router; otherwise it is addressed to all on the link.
    pub to_one_address: bool,
}

/// Rates up to which control packets come first. Above them they are what they would be otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub struct ControlRates {
    /// Of each sender, packets a second.
    pub source_pps: u64,
    /// Of all neighbours on links together, and of all others together, packets a second.
    pub all_pps: u64,
}

impl Default for ControlRates {
    /// Enough for BFD each 50 ms with hundreds of neighbours. Both together take some per cent of a core, twelve at 6 us a packet.
    fn default() -> Self {
        Self {
            source_pps: 1000,
            all_pps: 10_000,
        }
    }
}

impl ControlRates {
    /// The rates in the integers of the packet path: of a sender, and of all. Bursts are worth 100 ms of a sender, and 5 ms of all,
    /// because for as long as a burst lasts everybody waits.
    ///
    /// # Errors
    /// [`PolicyError::Police`] for a rate of 0 or one that no core can reach.
    pub fn compile(&self) -> Result<[Gcra; 2], PolicyError> {
        let gcra = |pps: u64, part: u64| {
            Police {
                rate: Rate::Pps(pps),
                burst: (pps / part).max(1),
            }
            .compile()
        };
        Ok([gcra(self.source_pps, 10)?, gcra(self.all_pps, 200)?])
    }
}

/// Ports of TCP at either end: BGP (RFC 4271), LDP (RFC 5036).
const TCP_PORTS: [u16; 2] = [179, 646];
/// Port of ssh, which is the destination's.
const SSH: u16 = 22;
/// Ports of UDP that are the destination's: DHCP and DHCPv6, IKE, RIP and RIPng, LDP, HSRP, BFD of one hop, echo, of several hops and of
/// link aggregates (RFC 5881, 5883, 7130).
const UDP_PORTS: [u16; 13] = [
    67, 68, 500, 520, 521, 546, 547, 646, 1985, 3784, 3785, 4784, 6784,
];
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// IGMP, OSPF, PIM, VRRP.
const PROTOCOLS: [u8; 4] = [2, 89, 103, 112];
/// Router and neighbour solicitation and advertisement, redirect (RFC 4861).
const NEIGHBOUR_DISCOVERY: std::ops::RangeInclusive<u8> = 133..=137;
/// ARP, slow protocols (LACP), LLDP, discovery of PPPoE (RFC 2516).
const ETHERTYPES: [u16; 4] = [0x0806, 0x8809, 0x88cc, 0x8863];
/// Protocols of PPP from here on keep its link and others (RFC 1661 section 2).
const CONTROL_OF_PPP: u16 = 0x8000;
/// Below this an EtherType is a length: IS-IS, spanning trees (IEEE 802.3).
const LONGEST_LENGTH: u16 = 1536;

/// What control packet a frame is; `None`: it is none.
pub fn control(frame: &[u8]) -> Option<Control> {
    let destination: [u8; 6] = frame.get(..6)?.try_into().ok()?;
    match headers::parse(frame, 0, destination) {
        Parsed::Ip(h) => of_packet(&h, frame, headers::l3_of(frame)),
        Parsed::NotIp => {
            // Behind tags, if there are some: the link may be a VLAN.
            let kind = headers::be16(frame, headers::l3_of(frame) - 2)?;
            if kind == headers::SESSION {
                return in_session(frame, destination);
            }
            let to_a_group = destination[0] & 1 == 1;
            let is = ETHERTYPES.contains(&kind) || kind < LONGEST_LENGTH && to_a_group;
            is.then_some(Control {
                sender: Sender::Link,
                to_one_address: false,
            })
        }
        Parsed::NotToUs | Parsed::Malformed => None,
    }
}

/// Of a session of PPPoE: what keeps it, and control packets in it.
fn in_session(frame: &[u8], destination: [u8; 6]) -> Option<Control> {
    let (protocol, l3) = headers::session_of(frame)?;
    match headers::parse_session(frame, 0, destination) {
        Parsed::Ip(h) => of_packet(&h, frame, l3),
        Parsed::NotIp => (protocol >= CONTROL_OF_PPP).then_some(Control {
            sender: Sender::Link,
            to_one_address: false,
        }),
        Parsed::NotToUs | Parsed::Malformed => None,
    }
}

fn of_packet(h: &Headers, frame: &[u8], l3: usize) -> Option<Control> {
    if h.fragment {
        return None;
    }
    let is_port = |ports: &[u16], port: Option<u16>| port.is_some_and(|p| ports.contains(&p));
    let known = match h.protocol {
        TCP => {
            h.dst_port == Some(SSH)
                || is_port(&TCP_PORTS, h.src_port)
                || is_port(&TCP_PORTS, h.dst_port)
        }
        UDP => is_port(&UDP_PORTS, h.dst_port),
        ICMPV6 if h.dst.is_ipv6() => {
            let kind = frame.get(l3 + 40);
            kind.is_some_and(|k| NEIGHBOUR_DISCOVERY.contains(k))
        }
        protocol => PROTOCOLS.contains(&protocol),
    };
    let (limit, group, own) = match (h.src, h.dst) {
        (_, IpAddr::V4(to)) => {
            let [a, b, c, _] = to.octets();
            let group = (a, b, c) == (224, 0, 0) || to.is_broadcast();
            (frame.get(l3 + 8), group, false)
        }
        (from, IpAddr::V6(to)) => {
            let of_link =
                |a: IpAddr| matches!(a, IpAddr::V6(a) if a.segments()[0] & 0xffc0 == 0xfe80);
            let own = of_link(to.into()) || of_link(from);
            (frame.get(l3 + 7), to.segments()[0] == 0xff02, own)
        }
    };
    known.then_some(Control {
        sender: match limit {
            Some(255) => Sender::Link,
            _ if group || own => Sender::Link,
            _ => Sender::Anybody,
        },
        to_one_address: !group,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: [u8; 6] = [1, 0, 0x5e, 0, 0, 5];
    const OURS: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn ipv4(mac: [u8; 6], protocol: u8, ttl: u8, to: [u8; 4], ports: [u16; 2]) -> Vec<u8> {
        let mut f = [&mac[..], &[2, 0, 0, 0, 0, 9], &[8, 0]].concat();
        f.extend([0x45, 0, 0, 28, 0, 0, 0, 0, ttl, protocol, 0, 0, 10, 0, 0, 9]);
        f.extend(to);
        f.extend(ports.iter().flat_map(|p| p.to_be_bytes()));
        f.extend([0; 4]);
        f
    }

    const NEIGHBOUR: Control = Control {
        sender: Sender::Link,
        to_one_address: true,
    };
    const TO_THE_LINK: Control = Control {
        sender: Sender::Link,
        to_one_address: false,
    };
    const STRANGER: Control = Control {
        sender: Sender::Anybody,
        to_one_address: true,
    };

    #[test]
    fn routing_protocols_are_control_and_believed_as_far_as_their_senders_can_be_told() {
        let ours = [10, 0, 0, 1];
        for (what, frame, wanted) in [
            (
                "OSPF hello",
                ipv4(GROUP, 89, 1, [224, 0, 0, 5], [0, 0]),
                Some(TO_THE_LINK),
            ),
            (
                "VRRP",
                ipv4(GROUP, 112, 255, [224, 0, 0, 18], [0, 0]),
                Some(TO_THE_LINK),
            ),
            (
                "BFD",
                ipv4(OURS, 17, 255, ours, [49152, 3784]),
                Some(NEIGHBOUR),
            ),
            (
                "BFD of strangers",
                ipv4(OURS, 17, 64, ours, [49152, 3784]),
                Some(STRANGER),
            ),
            (
                "a port of BFD the wrong way round",
                ipv4(OURS, 17, 255, ours, [3784, 9]),
                None,
            ),
            (
                "BGP to us",
                ipv4(OURS, 6, 64, ours, [40000, 179]),
                Some(STRANGER),
            ),
            (
                "BGP that we have opened",
                ipv4(OURS, 6, 1, ours, [179, 40000]),
                Some(STRANGER),
            ),
            ("ssh", ipv4(OURS, 6, 64, ours, [40000, 22]), Some(STRANGER)),
            (
                "DHCP",
                ipv4([0xff; 6], 17, 64, [255; 4], [68, 67]),
                Some(TO_THE_LINK),
            ),
            (
                "a multicast that is routed",
                ipv4(GROUP, 17, 64, [239, 1, 1, 1], [5000, 5000]),
                None,
            ),
            ("the web", ipv4(OURS, 6, 255, ours, [40000, 443]), None),
            ("ping", ipv4(OURS, 1, 255, ours, [0x800, 0]), None),
        ] {
            assert_eq!(control(&frame), wanted, "{what}");
        }
        let mut fragment = ipv4(OURS, 6, 64, ours, [40000, 179]);
        fragment[20] = 0x20;
        assert_eq!(control(&fragment), None, "its other parts have no ports");
    }

    #[test]
    fn what_is_not_ip_is_control_where_a_link_depends_on_it() {
        let frame = |to: [u8; 6], kind: u16| {
            let mut f = [&to[..], &[2, 0, 0, 0, 0, 9]].concat();
            f.extend(kind.to_be_bytes());
            f.extend([0; 46]);
            f
        };
        for (what, frame, is) in [
            ("ARP to all", frame([0xff; 6], 0x0806), true),
            ("ARP to us", frame(OURS, 0x0806), true),
            ("LACP", frame([1, 0x80, 0xc2, 0, 0, 2], 0x8809), true),
            ("IS-IS", frame([1, 0x80, 0xc2, 0, 0, 0x14], 200), true),
            ("an 802.3 frame to us", frame(OURS, 200), false),
            ("AppleTalk", frame([0xff; 6], 0x809b), false),
        ] {
            assert_eq!(control(&frame), is.then_some(TO_THE_LINK), "{what}");
        }
        assert_eq!(control(&[]), None);
    }

    #[test]
    fn rates_that_let_nothing_through_are_refused() {
        let rates = ControlRates {
            source_pps: 0,
            ..ControlRates::default()
        };
        assert!(rates.compile().is_err());
        let [source, all] = ControlRates::default().compile().unwrap();
        assert!(source.cost > all.cost && source.limit > all.limit);
    }
}
