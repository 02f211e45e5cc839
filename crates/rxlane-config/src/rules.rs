//! Rules: what is written about packets, as sets over their fields.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use ipnet::IpNet;
use rxlane_policy::dscp;
use rxlane_policy::headers::PORT_PROTOCOLS;
use rxlane_policy::rule::{Flex, Rule};

use crate::file::{self, OneOrMore, Word};
use crate::place::{Mistakes, Place};
use crate::shape::nearest;

/// Protocols that may be called by name; a number has the first of its names.
const NAMES: [(&str, u8); 12] = [
    ("tcp", 6),
    ("udp", 17),
    ("icmp", 1),
    ("icmpv6", 58),
    ("ipv6-icmp", 58),
    ("sctp", 132),
    ("dccp", 33),
    ("udplite", 136),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("ospf", 89),
];

/// What a rule means; nothing, and at least one mistake more, where it means nothing.
pub(crate) fn rule(
    raw: &file::Rule,
    at: &Place,
    ports: &[String],
    mistakes: &mut Mistakes,
) -> Option<Rule> {
    let before = mistakes.0.len();
    if *raw == file::Rule::default() {
        mistakes.add(at, "an empty rule matches everything: the last class is the default anyway; remove the rule");
    }
    let dscps = |w: &Word| dscp::parse(&w.to_string()).map_err(|e| e.to_string());
    let flex = raw.bytes.as_ref().map(flex);
    let mut list = Lists { at, mistakes };
    let rule = Rule {
        ports: list
            .of("port", raw.port.as_ref(), |name| port_index(name, ports))
            .map(distinct),
        dscp: list.of("dscp", raw.dscp.as_ref(), dscps).map(|v| bits(&v)),
        protocols: list
            .of("protocol", raw.protocol.as_ref(), protocol)
            .map(distinct),
        src: list
            .of("src", raw.src.as_ref(), |t| net(t))
            .unwrap_or_default(),
        dst: list
            .of("dst", raw.dst.as_ref(), |t| net(t))
            .unwrap_or_default(),
        src_ports: list
            .of("src_port", raw.src_port.as_ref(), port_range)
            .unwrap_or_default(),
        dst_ports: list
            .of("dst_port", raw.dst_port.as_ref(), port_range)
            .unwrap_or_default(),
        vlans: list
            .of("vlan", raw.vlan.as_ref(), |w| number(w, "vlan", 4095))
            .map(distinct),
        pcp: list
            .of("pcp", raw.pcp.as_ref(), |w| number(w, "pcp", 7))
            .map(|v: Vec<u8>| bits(&v) as u8),
        flex: flex.and_then(|f| list.mistakes.keep(&at.key("bytes"), f)),
    };
    ports_of_portless(&rule, at, mistakes);
    ends_of_two_families(&rule, at, mistakes);
    (mistakes.0.len() == before).then_some(rule)
}

/// Reads keys that take a value or several.
struct Lists<'a> {
    at: &'a Place,
    mistakes: &'a mut Mistakes,
}

impl Lists<'_> {
    /// `None` where the key is left out, or a value makes no sense.
    fn of<T, U>(
        &mut self,
        key: &str,
        raw: Option<&OneOrMore<T>>,
        convert: impl Fn(&T) -> Result<U, String>,
    ) -> Option<Vec<U>> {
        let at = self.at.key(key);
        let values = raw?.as_slice();
        if values.is_empty() {
            self.mistakes.add(
                &at,
                "an empty list matches nothing: name values or leave the key out",
            );
        }
        let read = values.iter().enumerate();
        read.map(|(i, value)| self.mistakes.keep(&at.index(i), convert(value)))
            .collect()
    }
}

/// A protocol whose packets have no ports never matches a rule about ports.
fn ports_of_portless(rule: &Rule, at: &Place, mistakes: &mut Mistakes) {
    let key = match (rule.src_ports.is_empty(), rule.dst_ports.is_empty()) {
        (true, true) => return,
        (false, _) => "src_port",
        (true, false) => "dst_port",
    };
    let named = rule.protocols.iter().flatten();
    for protocol in named.filter(|p| !PORT_PROTOCOLS.contains(p)) {
        let name = NAMES.iter().find(|(_, p)| p == protocol);
        let name = name.map_or_else(|| protocol.to_string(), |(name, _)| (*name).to_owned());
        mistakes.add(
            &at.key("protocol"),
            format!("protocol {name} has no ports, so that `{key}` never matches: remove `{key}`, or give {name} a rule of its own"),
        );
    }
}

/// A packet has addresses of one family at both ends.
fn ends_of_two_families(rule: &Rule, at: &Place, mistakes: &mut Mistakes) {
    if rule.src.is_empty() || rule.dst.is_empty() {
        return;
    }
    let v4 = |nets: &[IpNet]| nets.iter().all(|net| matches!(net, IpNet::V4(_)));
    let v6 = |nets: &[IpNet]| nets.iter().all(|net| matches!(net, IpNet::V6(_)));
    let message = match (&rule.src[..], &rule.dst[..]) {
        (src, dst) if v4(src) && v6(dst) => "`src` is of IPv4 and `dst` of IPv6",
        (src, dst) if v6(src) && v4(dst) => "`src` is of IPv6 and `dst` of IPv4",
        _ => return,
    };
    mistakes.add(
        &at.key("dst"),
        format!("{message}, so that no packet ever matches: give each family a rule of its own"),
    );
}

fn port_index(name: &str, ports: &[String]) -> Result<u8, String> {
    let index = ports.iter().position(|p| p == name);
    index.and_then(|i| u8::try_from(i).ok()).ok_or_else(|| {
        let meant = nearest(name, ports.iter().map(String::as_str));
        let meant = meant.map_or_else(String::new, |port| format!("; did you mean `{port}`?"));
        format!("port `{name}` is not among `ports`: add it there or correct the name{meant}")
    })
}

/// Each value once, where it comes first.
fn distinct<T: Copy + Ord>(mut values: Vec<T>) -> Vec<T> {
    let mut known = BTreeSet::new();
    values.retain(|value| known.insert(*value));
    values
}

fn bits(values: &[u8]) -> u64 {
    values.iter().fold(0, |bits, v| bits | 1 << v)
}

fn number<N: TryFrom<u64>>(word: &Word, key: &str, max: u64) -> Result<N, String> {
    let value = match word {
        Word::Number(n) => u64::try_from(*n).ok(),
        Word::Text(t) => t.trim().parse().ok(),
    };
    value
        .filter(|v| *v <= max)
        .and_then(|v| N::try_from(v).ok())
        .ok_or_else(|| format!("{key} = {word}: use a number from 0 to {max}"))
}

/// The number of a protocol: `udp`, `17`.
///
/// # Errors
/// What could be written instead.
pub fn protocol_number(text: &str) -> Result<u8, String> {
    protocol(&Word::Text(text.to_owned()))
}

/// The protocol as a file may name it: a word where there is one, else its number.
#[must_use]
pub fn protocol_name(number: u8) -> String {
    let named = NAMES.iter().find(|(_, n)| *n == number);
    named.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

fn protocol(word: &Word) -> Result<u8, String> {
    let text = word.to_string().to_ascii_lowercase();
    if let Some((_, number)) = NAMES.iter().find(|(name, _)| *name == text) {
        return Ok(*number);
    }
    number(word, "protocol", 255).map_err(|_| {
        let names: Vec<&str> = NAMES.iter().map(|(name, _)| *name).collect();
        let meant = nearest(&text, names.iter().copied());
        let meant = meant.map_or_else(String::new, |name| format!("; did you mean {name}?"));
        format!(
            "protocol = {word}: use a number from 0 to 255 or {}{meant}",
            names.join(", ")
        )
    })
}

pub(crate) fn net(text: &str) -> Result<IpNet, String> {
    let net: IpNet = text
        .parse()
        .or_else(|_| text.parse::<std::net::IpAddr>().map(IpNet::from))
        .map_err(|_| {
            format!("`{text}` is no address or prefix: write 10.0.0.0/8 or 2001:db8::/32")
        })?;
    if net != net.trunc() {
        return Err(format!(
            "`{text}` has bits set behind its first {}: write {} for all of these addresses, or {} for this one alone",
            net.prefix_len(),
            net.trunc(),
            net.addr()
        ));
    }
    Ok(net)
}

fn port_range(word: &Word) -> Result<RangeInclusive<u16>, String> {
    let text = word.to_string();
    let (low, high) = text.split_once('-').unwrap_or((&text, &text));
    match (low.trim().parse::<u16>(), high.trim().parse::<u16>()) {
        (Ok(low), Ok(high)) if low <= high => Ok(low..=high),
        _ => Err(format!(
            "`{text}` is no port or range: write 5060 or \"16384-32767\""
        )),
    }
}

fn flex(raw: &file::Bytes) -> Result<Flex, String> {
    let max = u32::from(Flex::MAX_OFFSET);
    if raw.offset > max {
        return Err(format!(
            "bytes.offset = {}: both bytes must lie in the first 64, so 0 to {max}",
            raw.offset
        ));
    }
    let word = |key: &str, v: u32| {
        u16::try_from(v).map_err(|_| format!("bytes.{key} = {v}: two bytes are at most 0xffff"))
    };
    let (value, mask) = (word("value", raw.value)?, word("mask", raw.mask)?);
    if mask == 0 {
        return Err("bytes.mask = 0 matches everything: set the bits that count".into());
    }
    if value & !mask != 0 {
        return Err(format!(
            "bytes.value = {value:#06x} has bits outside mask = {mask:#06x}: it could never match"
        ));
    }
    Ok(Flex {
        offset: raw.offset as u8,
        value,
        mask,
    })
}
