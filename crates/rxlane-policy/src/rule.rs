//! Matching rules: a conjunction of sets over packet fields.
//!
//! A field that a rule leaves out matches everything. The fields are those of a NIC classifier such as
//! Intel's Flow Director (low-latency-router III.A): header fields, ports, VLAN, and a 2-byte value
//! within the first 64 bytes.

use std::net::IpAddr;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::headers::Headers;

/// A masked 2-byte value at a byte offset of the Ethernet frame, network byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Flex {
    /// Offset from the start of the frame, 0 to 62.
    pub offset: u8,
    /// Value to find after masking.
    pub value: u16,
    /// Bits of the value that count.
    pub mask: u16,
}

impl Flex {
    /// Highest offset: both bytes lie within the first 64.
    pub const MAX_OFFSET: u8 = 62;

    /// Whether `word`, read at the offset, matches.
    pub fn matches(&self, word: u16) -> bool {
        word & self.mask == self.value & self.mask
    }
}

/// One rule. `None` or an empty list means that the field does not matter.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rule {
    /// Ingress ports, by index into the configured ports.
    pub ports: Option<Vec<u8>>,
    /// DSCP values, one bit each.
    pub dscp: Option<u64>,
    /// IP protocol numbers (for IPv6: the protocol in the first next-header field).
    pub protocols: Option<Vec<u8>>,
    /// Source prefixes, v4 and v6.
    pub src: Vec<IpNet>,
    /// Destination prefixes, v4 and v6.
    pub dst: Vec<IpNet>,
    /// Source ports of TCP, UDP, UDP-Lite, DCCP and SCTP.
    pub src_ports: Vec<RangeInclusive<u16>>,
    /// Destination ports.
    pub dst_ports: Vec<RangeInclusive<u16>>,
    /// VLAN ids of the outer tag; an untagged frame matches none.
    pub vlans: Option<Vec<u16>>,
    /// Priority code points of the outer tag, one bit each; an untagged frame matches none.
    pub pcp: Option<u8>,
    /// A masked value in the first 64 bytes.
    pub flex: Option<Flex>,
}

/// Packets of a protocol that have a port at one end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AtPort {
    /// Number of the protocol.
    pub protocol: u8,
    /// The port.
    pub port: u16,
    /// The destination's, else the source's.
    pub destination: bool,
}

/// Protocols whose ports hardware knows: TCP, UDP, SCTP.
const FILTERED: [u8; 3] = [6, 17, 132];
/// Hardware has room for few filters, and most of it matches one port, not a range.
const MOST_PORTS: usize = 16;

impl Rule {
    /// The ports of which the rule takes every packet, at either end; empty when it looks at another field, too, or at both ends, names no
    /// protocol, or more ports than a device would have filters for.
    pub fn ports_alone(&self) -> Vec<AtPort> {
        let (ports, destination) = match (&self.src_ports[..], &self.dst_ports[..]) {
            (ports, []) => (ports, false),
            ([], ports) => (ports, true),
            _ => return Vec::new(),
        };
        let protocols = self.protocols.as_deref().unwrap_or_default();
        let alone = Self {
            protocols: self.protocols.clone(),
            src_ports: self.src_ports.clone(),
            dst_ports: self.dst_ports.clone(),
            ..Self::default()
        };
        let known = protocols.iter().all(|p| FILTERED.contains(p));
        let count: usize = ports.iter().map(|range| range.clone().count()).sum();
        if *self != alone || !known || count * protocols.len() > MOST_PORTS {
            return Vec::new();
        }
        let at = |protocol| {
            move |port| AtPort {
                protocol,
                port,
                destination,
            }
        };
        let of = |protocol: &u8| ports.iter().cloned().flatten().map(at(*protocol));
        protocols.iter().flat_map(of).collect()
    }

    /// The DSCPs of which the rule takes every packet; empty when the rule looks at another field, too.
    pub fn dscps_alone(&self) -> Vec<u8> {
        let alone = Self {
            dscp: self.dscp,
            ..Self::default()
        };
        match self.dscp {
            Some(set) if *self == alone => (0..64).filter(|d| set >> d & 1 == 1).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether the rule takes this packet. This is the reference the compiled classifier is held to.
    pub fn matches(&self, packet: &Headers) -> bool {
        self.refused_by(packet).next().is_none()
    }

    /// The fields of this packet, by the keys of a configuration file, of which the rule wants other values.
    pub fn refused_by(&self, packet: &Headers) -> impl Iterator<Item = &'static str> {
        let id = packet.vlan.map(|tag| tag.id);
        let pcp = packet.vlan.map(|tag| tag.pcp);
        let fields = [
            ("port", in_list(self.ports.as_deref(), Some(packet.port))),
            (
                "dscp",
                self.dscp.is_none_or(|set| set & (1 << packet.dscp) != 0),
            ),
            (
                "protocol",
                in_list(self.protocols.as_deref(), Some(packet.protocol)),
            ),
            ("src", in_prefixes(&self.src, packet.src)),
            ("dst", in_prefixes(&self.dst, packet.dst)),
            ("src_port", in_ranges(&self.src_ports, packet.src_port)),
            ("dst_port", in_ranges(&self.dst_ports, packet.dst_port)),
            ("vlan", in_list(self.vlans.as_deref(), id)),
            (
                "pcp",
                self.pcp
                    .is_none_or(|set| pcp.is_some_and(|pcp| set & (1 << pcp) != 0)),
            ),
            (
                "bytes",
                self.flex
                    .is_none_or(|flex| packet.word(flex.offset).is_some_and(|w| flex.matches(w))),
            ),
        ];
        fields
            .into_iter()
            .filter(|(_, holds)| !holds)
            .map(|(key, _)| key)
    }
}

fn in_list<T: PartialEq>(list: Option<&[T]>, value: Option<T>) -> bool {
    list.is_none_or(|list| value.is_some_and(|value| list.contains(&value)))
}

fn in_prefixes(prefixes: &[IpNet], address: IpAddr) -> bool {
    prefixes.is_empty() || prefixes.iter().any(|p| p.contains(&address))
}

fn in_ranges(ranges: &[RangeInclusive<u16>], port: Option<u16>) -> bool {
    ranges.is_empty() || port.is_some_and(|p| ranges.iter().any(|r| r.contains(&p)))
}

/// The first rule that matches, as an index.
pub fn first_match<'a>(
    rules: impl IntoIterator<Item = &'a Rule>,
    packet: &Headers,
) -> Option<usize> {
    rules.into_iter().position(|rule| rule.matches(packet))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp(dst_ports: Vec<RangeInclusive<u16>>) -> Rule {
        Rule {
            protocols: Some(vec![17]),
            dst_ports,
            ..Rule::default()
        }
    }

    #[test]
    fn hardware_gets_ports_of_rules_that_look_at_nothing_else() {
        let at = |protocol, port, destination| AtPort {
            protocol,
            port,
            destination,
        };
        let both = Rule {
            protocols: Some(vec![6, 17]),
            src_ports: vec![5060..=5061],
            ..Rule::default()
        };
        assert_eq!(
            both.ports_alone(),
            [
                at(6, 5060, false),
                at(6, 5061, false),
                at(17, 5060, false),
                at(17, 5061, false)
            ]
        );
        assert_eq!(udp(vec![5060..=5060]).ports_alone(), [at(17, 5060, true)]);
    }

    #[test]
    fn hardware_gets_no_ports_of_other_rules() {
        let sip = udp(vec![5060..=5060]);
        for rule in [
            Rule::default(),
            udp(Vec::new()),
            udp(vec![0..=16]),
            udp(vec![0..=u16::MAX]),
            Rule {
                src_ports: vec![1..=1],
                ..sip.clone()
            },
            Rule {
                protocols: None,
                ..sip.clone()
            },
            Rule {
                protocols: Some(vec![33]),
                ..sip.clone()
            },
            Rule {
                dscp: Some(1),
                ..sip.clone()
            },
            Rule {
                vlans: Some(vec![7]),
                ..sip
            },
        ] {
            assert_eq!(rule.ports_alone(), [], "{rule:?}");
        }
    }
}
