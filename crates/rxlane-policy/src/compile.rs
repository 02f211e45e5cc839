//! Compiles classes into bit-vector tables: one set of rules per value of each field.
//!
//! A lookup reads one [`RuleSet`] per field, intersects them and takes the lowest bit. The number of
//! steps depends on which fields the rules use and not on how many rules there are. The tables are
//! laid out as the BPF maps hold them; [`Classifier::classify`] walks them as the XDP program does.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use crate::PolicyError;
use crate::bits::{MAX_RULES, RuleSet};
use crate::class::{Class, MAX_CLASSES};
use crate::headers::Headers;
use crate::port_ranges;
use crate::prefixes::{MAX_PREFIXES, nested};
use crate::rule::{Flex, Rule};

/// Distinct offsets that `bytes` matches may use.
pub const MAX_FLEX_OFFSETS: usize = 4;
/// Index of the entry for frames without a tag in the VLAN table.
pub const NO_VLAN: usize = 4096;
/// Index of the entry for packets without ports.
pub const NO_PORT: usize = 65536;

/// The set of rules that match each 16-bit value of a field. Equal sets are stored once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordTable {
    /// For each value, an index into `sets`. The last entry is for packets without the field.
    pub index: Vec<u16>,
    /// The distinct sets.
    pub sets: Vec<RuleSet>,
}

/// Sets of rules by address prefix. The longest prefix that matches decides; where nothing matches, `none`
/// does.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PrefixTable {
    /// IPv4 prefixes.
    pub v4: Vec<(Ipv4Net, RuleSet)>,
    /// IPv6 prefixes.
    pub v6: Vec<(Ipv6Net, RuleSet)>,
    /// Rules that do not look at the address.
    pub none: RuleSet,
}

/// The tables, one for each field; `None` where no rule looks at the field.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Classifier {
    /// By ingress port index, 256 entries.
    pub ports: Option<Vec<RuleSet>>,
    /// By DSCP, 64 entries.
    pub dscp: Option<Vec<RuleSet>>,
    /// By protocol, 256 entries.
    pub protocol: Option<Vec<RuleSet>>,
    /// By VLAN id, 4097 entries, the last for untagged frames.
    pub vlan: Option<Vec<RuleSet>>,
    /// By PCP, 9 entries, the last for untagged frames.
    pub pcp: Option<Vec<RuleSet>>,
    /// By source address.
    pub src: Option<PrefixTable>,
    /// By destination address.
    pub dst: Option<PrefixTable>,
    /// By source port.
    pub src_port: Option<WordTable>,
    /// By destination port.
    pub dst_port: Option<WordTable>,
    /// For each offset of a `bytes` match, the table by the two bytes there.
    pub flex: Vec<(u8, WordTable)>,
    /// Class of each rule.
    pub rule_class: Vec<u8>,
    /// Class of packets that no rule takes.
    pub default_class: u8,
}

impl Classifier {
    /// Compiles the rules of `classes`, in order.
    ///
    /// # Errors
    /// Too many classes, rules, prefixes or `bytes` offsets.
    pub fn compile(classes: &[Class]) -> Result<Self, PolicyError> {
        if classes.is_empty() {
            return Err(PolicyError::NoClass);
        }
        if classes.len() > MAX_CLASSES {
            return Err(PolicyError::TooManyClasses(classes.len()));
        }
        let numbered: Vec<(u8, &Rule)> = (0u8..)
            .zip(classes)
            .flat_map(|(class, c)| c.rules.iter().map(move |r| (class, r)))
            .collect();
        if numbered.len() > MAX_RULES {
            return Err(PolicyError::TooManyRules(numbered.len()));
        }
        let prefixes_named: usize = classes.iter().map(Class::prefixes).sum();
        if prefixes_named > MAX_PREFIXES {
            return Err(PolicyError::TooManyPrefixes(prefixes_named));
        }
        let rules: Vec<&Rule> = numbered.iter().map(|(_, r)| *r).collect();
        let tagged = |v: usize, none: usize| (v != none).then_some(v);
        Ok(Self {
            ports: by_value(
                &rules,
                256,
                |r| r.ports.is_some(),
                |r, v| {
                    r.ports
                        .as_ref()
                        .is_none_or(|s| s.iter().any(|p| usize::from(*p) == v))
                },
            ),
            dscp: by_value(
                &rules,
                64,
                |r| r.dscp.is_some(),
                |r, v| r.dscp.is_none_or(|s| s & (1 << v) != 0),
            ),
            protocol: by_value(
                &rules,
                256,
                |r| r.protocols.is_some(),
                |r, v| {
                    r.protocols
                        .as_ref()
                        .is_none_or(|s| s.iter().any(|p| usize::from(*p) == v))
                },
            ),
            vlan: by_value(
                &rules,
                NO_VLAN + 1,
                |r| r.vlans.is_some(),
                |r, v| {
                    r.vlans.as_ref().is_none_or(|s| {
                        tagged(v, NO_VLAN).is_some_and(|v| s.iter().any(|id| usize::from(*id) == v))
                    })
                },
            ),
            pcp: by_value(
                &rules,
                9,
                |r| r.pcp.is_some(),
                |r, v| {
                    r.pcp
                        .is_none_or(|s| tagged(v, 8).is_some_and(|v| s & (1 << v) != 0))
                },
            ),
            src: prefixes(&rules, |r| &r.src),
            dst: prefixes(&rules, |r| &r.dst),
            src_port: port_table(&rules, |r| &r.src_ports),
            dst_port: port_table(&rules, |r| &r.dst_ports),
            flex: flex_tables(&rules)?,
            rule_class: numbered.iter().map(|(class, _)| *class).collect(),
            default_class: (classes.len() - 1) as u8,
        })
    }

    /// How many 64-bit words of a set can be non-zero.
    pub fn words(&self) -> usize {
        self.rule_class.len().div_ceil(64)
    }

    /// The class of a packet, found as the XDP program finds it.
    pub fn classify(&self, packet: &Headers) -> u8 {
        let mut set: RuleSet = (0..self.rule_class.len()).collect();
        let mut narrow = |s: &RuleSet| set = set.and(s);
        let at = |table: &Option<Vec<RuleSet>>, v: usize| table.as_ref().map(|t| t[v]);
        for found in [
            at(&self.ports, usize::from(packet.port)),
            at(&self.dscp, usize::from(packet.dscp)),
            at(&self.protocol, usize::from(packet.protocol)),
            at(
                &self.vlan,
                packet.vlan.map_or(NO_VLAN, |t| usize::from(t.id)),
            ),
            at(&self.pcp, packet.vlan.map_or(8, |t| usize::from(t.pcp))),
            self.src.as_ref().map(|t| t.lookup(packet.src)),
            self.dst.as_ref().map(|t| t.lookup(packet.dst)),
            self.src_port.as_ref().map(|t| t.lookup(packet.src_port)),
            self.dst_port.as_ref().map(|t| t.lookup(packet.dst_port)),
        ]
        .into_iter()
        .flatten()
        {
            narrow(&found);
        }
        for (offset, table) in &self.flex {
            narrow(&table.lookup(packet.word(*offset)));
        }
        set.first()
            .map_or(self.default_class, |rule| self.rule_class[rule])
    }
}

impl WordTable {
    fn lookup(&self, value: Option<u16>) -> RuleSet {
        let entry = value.map_or(NO_PORT, usize::from);
        self.sets[usize::from(self.index[entry])]
    }

    /// Builds the table from what each value matches, storing equal sets once.
    fn build(set_of: impl Fn(Option<u16>) -> RuleSet) -> Self {
        let mut known: BTreeMap<[u64; 4], u16> = BTreeMap::new();
        let mut sets = Vec::new();
        let index = (0..=u16::MAX)
            .map(Some)
            .chain([None])
            .map(|value| {
                let set = set_of(value);
                *known.entry(set.0).or_insert_with(|| {
                    sets.push(set);
                    (sets.len() - 1) as u16
                })
            })
            .collect();
        Self { index, sets }
    }
}

impl PrefixTable {
    fn lookup(&self, address: IpAddr) -> RuleSet {
        fn longest<'a, N>(
            found: impl Iterator<Item = &'a (N, RuleSet)>,
            len: impl Fn(&N) -> u8,
        ) -> Option<RuleSet>
        where
            N: 'a,
        {
            found.max_by_key(|(net, _)| len(net)).map(|(_, set)| *set)
        }
        match address {
            IpAddr::V4(a) => longest(
                self.v4.iter().filter(|(n, _)| n.contains(&a)),
                Ipv4Net::prefix_len,
            ),
            IpAddr::V6(a) => longest(
                self.v6.iter().filter(|(n, _)| n.contains(&a)),
                Ipv6Net::prefix_len,
            ),
        }
        .unwrap_or(self.none)
    }
}

/// The rules for which `takes` holds.
fn rules_where(rules: &[&Rule], takes: impl Fn(&Rule) -> bool) -> RuleSet {
    rules
        .iter()
        .enumerate()
        .filter(|(_, r)| takes(r))
        .map(|(i, _)| i)
        .collect()
}

fn by_value(
    rules: &[&Rule],
    values: usize,
    used: impl Fn(&Rule) -> bool,
    takes: impl Fn(&Rule, usize) -> bool,
) -> Option<Vec<RuleSet>> {
    rules.iter().any(|r| used(r)).then(|| {
        (0..values)
            .map(|v| rules_where(rules, |r| takes(r, v)))
            .collect()
    })
}

/// One entry for each prefix that any rule names, with the rules that take its addresses ([`crate::prefixes::nested`]).
fn prefixes(rules: &[&Rule], field: impl Fn(&Rule) -> &Vec<IpNet>) -> Option<PrefixTable> {
    if rules.iter().all(|r| field(r).is_empty()) {
        return None;
    }
    let mut table = PrefixTable {
        none: rules_where(rules, |r| field(r).is_empty()),
        ..PrefixTable::default()
    };
    let named = rules
        .iter()
        .enumerate()
        .flat_map(|(i, r)| field(r).iter().map(move |net| (*net, i)));
    for (net, set) in nested(named, table.none) {
        match net {
            IpNet::V4(n) => table.v4.push((n, set)),
            IpNet::V6(n) => table.v6.push((n, set)),
        }
    }
    Some(table)
}

fn port_table(
    rules: &[&Rule],
    field: impl Fn(&Rule) -> &Vec<RangeInclusive<u16>>,
) -> Option<WordTable> {
    rules.iter().any(|r| !field(r).is_empty()).then(|| {
        let none = rules_where(rules, |r| field(r).is_empty());
        let merged: Vec<_> = rules
            .iter()
            .map(|r| port_ranges::merged(field(r)))
            .collect();
        // The set changes only where a range begins or has just ended, so it is made once for each such edge and not
        // for 65,536 ports.
        let mut edges: Vec<u16> = merged
            .iter()
            .flatten()
            .flat_map(|x| [Some(*x.start()), x.end().checked_add(1)])
            .flatten()
            .chain([0])
            .collect();
        edges.sort_unstable();
        edges.dedup();
        let mut sets = vec![none; edges.len()];
        for (rule, ranges) in merged.iter().enumerate() {
            for range in ranges {
                let first = edges.partition_point(|edge| edge < range.start());
                let behind = edges.partition_point(|edge| edge <= range.end());
                sets[first..behind]
                    .iter_mut()
                    .for_each(|set| set.insert(rule));
            }
        }
        WordTable::build(|port| match port {
            Some(port) => sets[edges.partition_point(|edge| *edge <= port) - 1],
            None => none,
        })
    })
}

fn flex_tables(rules: &[&Rule]) -> Result<Vec<(u8, WordTable)>, PolicyError> {
    let mut offsets: Vec<u8> = rules
        .iter()
        .filter_map(|r| r.flex)
        .map(|f: Flex| f.offset)
        .collect();
    offsets.sort_unstable();
    offsets.dedup();
    if offsets.len() > MAX_FLEX_OFFSETS {
        return Err(PolicyError::TooManyFlexOffsets(offsets.len()));
    }
    Ok(offsets
        .into_iter()
        .map(|offset| {
            let table = WordTable::build(|word| {
                rules_where(rules, |r| match r.flex {
                    Some(f) if f.offset == offset => word.is_some_and(|w| f.matches(w)),
                    _ => true,
                })
            });
            (offset, table)
        })
        .collect())
}

/// Address families as LPM trie keys: prefix length and address bytes in network order.
pub trait LpmKey {
    /// Prefix length in host byte order followed by the address.
    fn lpm_key(&self) -> Vec<u8>;
}

impl LpmKey for Ipv4Net {
    fn lpm_key(&self) -> Vec<u8> {
        lpm_key(self.prefix_len(), &Ipv4Addr::octets(&self.network()))
    }
}

impl LpmKey for Ipv6Net {
    fn lpm_key(&self) -> Vec<u8> {
        lpm_key(self.prefix_len(), &Ipv6Addr::octets(&self.network()))
    }
}

fn lpm_key(prefix_len: u8, address: &[u8]) -> Vec<u8> {
    let mut key = u32::from(prefix_len).to_ne_bytes().to_vec();
    key.extend_from_slice(address);
    key
}
