//! Tables of legacy iptables, read as iptables reads them (include/uapi/linux/netfilter_ipv4/ip_tables.h and
//! netfilter_ipv6/ip6_tables.h), and as chains of steps.

use std::collections::BTreeMap;

use crate::expression::Verdict;
use crate::hook::{Effects, Hook, Place};
use crate::nft;
use crate::program::{BaseChain, Chain, Rule, Step, Table};
use crate::test::Test;
use crate::xt;

/// IPv4 or IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// IPv6 and not IPv4.
    pub v6: bool,
}

/// How entries are laid out: `struct ipt_entry`, `struct ip6t_entry`.
struct Layout {
    address: usize,
    protocol: usize,
    flags: usize,
    inverted: usize,
    /// Offset of the target; of the next entry two bytes on.
    offsets: usize,
    counters: usize,
    matches: usize,
}

impl Version {
    /// Both.
    pub const BOTH: [Self; 2] = [Self { v6: false }, Self { v6: true }];

    /// As names of tools and files begin.
    pub fn name(self) -> &'static str {
        if self.v6 { "ip6" } else { "ip" }
    }

    fn layout(self) -> Layout {
        if self.v6 {
            return Layout {
                address: 16,
                protocol: 128,
                flags: 131,
                inverted: 132,
                offsets: 140,
                counters: 152,
                matches: 168,
            };
        }
        Layout {
            address: 4,
            protocol: 80,
            flags: 82,
            inverted: 83,
            offsets: 88,
            counters: 96,
            matches: 112,
        }
    }
}

/// `struct ipt_getinfo`.
pub const INFO: usize = 84;
/// Of `struct ipt_get_entries`, before the entries.
pub const HEAD: usize = 40;
/// `struct xt_entry_match` and `struct xt_entry_target` before their data.
const EXTENSION: usize = 32;
/// Hooks in their order, and the priority of each table.
const PLACES: [Place; 5] = [
    Place::Prerouting,
    Place::Input,
    Place::Forward,
    Place::Output,
    Place::Postrouting,
];

fn priority(table: &str) -> i32 {
    match table {
        "raw" => -300,
        "mangle" => -150,
        "nat" => -100,
        "security" => 50,
        _ => 0,
    }
}

/// A number in the byte order of the machine.
pub fn number(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

fn half(bytes: &[u8], at: usize) -> Option<usize> {
    let half = bytes.get(at..at.checked_add(2)?)?;
    Some(usize::from(u16::from_ne_bytes(half.try_into().ok()?)))
}

/// Entries of a table, each with its offset; `None` where one is not whole.
fn entries(version: Version, all: &[u8]) -> Option<Vec<(usize, &[u8])>> {
    let layout = version.layout();
    let (mut at, mut found) = (0, Vec::new());
    while at < all.len() {
        let len = half(all, at + layout.offsets + 2)?;
        if len < layout.matches + EXTENSION {
            return None;
        }
        found.push((at, all.get(at..at + len)?));
        at += len;
    }
    Some(found)
}

/// Leaves out of a table what packets change: counters.
pub fn without_counters(version: Version, blob: &mut [u8]) {
    let layout = version.layout();
    let Some(all) = blob.get_mut(INFO + HEAD..) else {
        return;
    };
    let mut at = 0;
    while let Some(len) = half(all, at + layout.offsets + 2).filter(|len| *len >= layout.matches) {
        if let Some(counters) = all.get_mut(at + layout.counters..at + layout.counters + 16) {
            counters.fill(0);
        }
        at += len;
    }
}

/// A table from what the kernel says of it; `None` where that cannot be so.
pub fn table(version: Version, name: &str, blob: &[u8]) -> Option<Table> {
    let info = blob.get(..INFO)?;
    let all = blob.get(INFO + HEAD..)?;
    let valid = number(info, 32)?;
    let entries = entries(version, all)?;
    let mut starts: BTreeMap<usize, (Option<BaseChain>, String)> = BTreeMap::new();
    let mut policies = Vec::new();
    for (i, place) in PLACES.into_iter().enumerate() {
        if valid & 1 << i == 0 {
            continue;
        }
        let start = number(info, 36 + 4 * i)? as usize;
        let policy = number(info, 56 + 4 * i)? as usize;
        policies.push(policy);
        let (_, policy) = entries.iter().find(|(at, _)| *at == policy)?;
        let base = BaseChain {
            place,
            priority: priority(name),
            handle: 0,
            tracked: nft::tracked(place, priority(name)),
            devices: Vec::new(),
            is_nat: name == "nat",
            drops: standard(version, policy)? == DROP,
        };
        starts.insert(start, (Some(base), place.name().to_uppercase()));
    }
    // A chain of an operator begins after an entry that has its name.
    for (at, entry) in &entries {
        if let Some(called) = called(version, entry) {
            starts.insert(at + entry.len(), (None, called));
        }
    }
    let mut chains: BTreeMap<String, Chain> = BTreeMap::new();
    let mut of = None;
    for (at, entry) in &entries {
        if let Some((base, called)) = starts.remove(at) {
            let chain = Chain {
                bases: base.into_iter().collect(),
                rules: Vec::new(),
                name: called,
            };
            of = Some(at.to_string());
            chains.insert(at.to_string(), chain);
        }
        let chain = of.as_ref().and_then(|key| chains.get_mut(key));
        if called(version, entry).is_none() && !policies.contains(at) {
            let chain = chain?;
            let comment = comment(version, entry).unwrap_or_default();
            chain.rules.push(Rule {
                comment,
                handle: chain.rules.len() as u64 + 1,
                steps: steps(version, *at, entry)?,
                expressions: Vec::new(),
            });
        }
    }
    Some(Table {
        name: format!("{}tables {name}", version.name()),
        v6: Some(version.v6),
        chains,
        sets: BTreeMap::new(),
    })
}

/// Verdicts of the standard target: those of netfilter less one, negative.
const DROP: i32 = -1;
const ACCEPT: i32 = -2;
const QUEUE: i32 = -4;
const RETURN: i32 = -5;

fn target(version: Version, entry: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let at = half(entry, version.layout().offsets)?;
    extension(entry.get(at..)?)
}

/// Name, revision and data of a match or target.
fn extension(bytes: &[u8]) -> Option<(&[u8], u8, &[u8])> {
    let len = half(bytes, 0)?;
    Some((
        bytes.get(2..31)?,
        *bytes.get(31)?,
        bytes.get(EXTENSION..len)?,
    ))
}

/// What the standard target of an entry says, if it has that.
fn standard(version: Version, entry: &[u8]) -> Option<i32> {
    let (name, _, data) = target(version, entry)?;
    xt::name(name)
        .is_empty()
        .then(|| number(data, 0).map(|n| n as i32))?
}

/// The name of the chain that begins after an entry.
fn called(version: Version, entry: &[u8]) -> Option<String> {
    let (name, _, data) = target(version, entry)?;
    (xt::name(name) == "ERROR").then(|| xt::name(data))
}

/// The comment of an entry, if it has one.
fn comment(version: Version, entry: &[u8]) -> Option<String> {
    let layout = version.layout();
    let (mut next, end) = (layout.matches, half(entry, layout.offsets)?);
    while next < end {
        let (name, _, data) = extension(entry.get(next..end)?)?;
        if xt::name(name) == xt::COMMENT {
            return Some(xt::name(data));
        }
        next += half(entry, next)?.max(1);
    }
    None
}

fn steps(version: Version, at: usize, entry: &[u8]) -> Option<Vec<Step>> {
    const GOTO: [u8; 2] = [2, 4];
    let layout = version.layout();
    let mut steps = packet(version, entry)?;
    let mut next = layout.matches;
    let end = half(entry, layout.offsets)?;
    while next < end {
        let (name, revision, data) = extension(entry.get(next..end)?)?;
        steps.extend(xt::matches(&xt::name(name), revision.into(), data));
        next += half(entry, next)?;
    }
    let (name, revision, data) = target(version, entry)?;
    let name = xt::name(name);
    if !name.is_empty() {
        steps.extend(xt::target(&name, revision.into(), data));
        return Some(steps);
    }
    let goes = entry[layout.flags] & GOTO[usize::from(version.v6)] != 0;
    let verdict = match number(data, 0)? as i32 {
        ACCEPT => Verdict::Accept,
        RETURN => Verdict::Return,
        QUEUE => Verdict::Queue(None),
        // The next entry, as of a rule without a target.
        to if usize::try_from(to) == Ok(at + entry.len()) => Verdict::Continue,
        to if to >= 0 && goes => Verdict::Goto(to.to_string()),
        to if to >= 0 => Verdict::Jump(to.to_string()),
        _ => Verdict::Drop,
    };
    steps.push(Step::Then(verdict));
    Some(steps)
}

/// What an entry asks of addresses, interfaces and the protocol.
fn packet(version: Version, entry: &[u8]) -> Option<Vec<Step>> {
    const IN: u8 = 1;
    const OUT: u8 = 2;
    const SOURCE: u8 = 8;
    const DESTINATION: u8 = 0x10;
    const FRAGMENT: u8 = 0x20;
    const PROTOCOL: u8 = 0x40;
    const ASKS_FRAGMENT: u8 = 1;
    let layout = version.layout();
    let (flags, inverted) = (*entry.get(layout.flags)?, *entry.get(layout.inverted)?);
    let len = layout.address;
    let part = |at: usize, len: usize| entry.get(at..at + len);
    let mut steps = Vec::new();
    let mut when = |test: Test, bit: u8| {
        steps.push(Step::If(test.inverted(inverted & bit != 0)));
    };
    let ends = [(true, 0, SOURCE), (false, len, DESTINATION)];
    for (source, at, bit) in ends {
        let (is, mask) = (part(at, len)?, part(at + 2 * len, len)?);
        if mask.iter().any(|b| *b != 0) {
            when(xt::masked(source, is, mask), bit);
        }
    }
    let names = 4 * len;
    for (ingress, at, bit) in [(true, names, IN), (false, names + 16, OUT)] {
        let (name, mask) = (part(at, 16)?, part(at + 32, 16)?);
        let asked = mask.iter().take_while(|b| **b != 0).count();
        match name.iter().position(|b| *b == 0) {
            _ if asked == 0 => {}
            // With its zero it is the whole name.
            Some(end) if asked > end => when(
                Test::Device {
                    ingress,
                    name: xt::name(name),
                },
                bit,
            ),
            _ => when(Test::Fixed, bit),
        }
    }
    let protocol = u16::from_ne_bytes(part(layout.protocol, 2)?.try_into().ok()?);
    if protocol != 0 {
        let number = u8::try_from(protocol).unwrap_or(0);
        when(Test::Protocol(number), PROTOCOL);
    }
    if !version.v6 && flags & ASKS_FRAGMENT != 0 {
        when(Test::Fails, FRAGMENT);
    }
    Some(steps)
}

/// What the name of a table of legacy iptables stands for whose rules cannot be read.
pub fn unread(version: Version, name: &str) -> Hook {
    let family = version.name();
    let place = match name {
        "filter" | "security" => Place::Forward,
        "nat" => Place::Postrouting,
        _ => Place::Prerouting,
    };
    let all = place == Place::Prerouting;
    Hook {
        table: format!("{family}tables {name}"),
        chain: "(any chain)".into(),
        place,
        device: None,
        effects: Effects {
            filters: place != Place::Postrouting,
            marks: all || name == "security",
            rewrites: all,
            translates: name == "nat",
            untracks: false,
            disguises: all,
        },
    }
}
