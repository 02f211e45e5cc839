//! The tables of nftables, as chains of steps (include/uapi/linux/netfilter/nf_tables.h).

use std::collections::BTreeMap;

use crate::attribute::{attribute, attributes, be32, text};
use crate::decode::verdict_of;
use crate::expression::Expression;
use crate::hook::Place;
use crate::program::{BaseChain, Element, Rule, Set, Table};
use crate::reader::{Context, Reader};
use crate::test::Tracked;
use crate::xt;

/// Protocol families of netfilter (`NFPROTO_`), as far as they see forwarded packets.
const FAMILIES: [(u8, &str, Option<bool>); 4] = [
    (1, "inet", None),
    (2, "ip", Some(false)),
    (5, "netdev", None),
    (10, "ip6", Some(true)),
];

/// Family and table, and name.
type Key = (String, String);

pub(crate) fn sets_key(table: &str, name: &str) -> Key {
    (table.to_owned(), name.to_owned())
}

/// The tables that bodies of messages amount to.
pub fn tables(
    rules: &[impl AsRef<[u8]>],
    chains: &[impl AsRef<[u8]>],
    sets: &[impl AsRef<[u8]>],
    elements: &[impl AsRef<[u8]>],
    devices: &BTreeMap<u32, String>,
) -> Vec<Table> {
    let mut all: BTreeMap<Key, Set> = BTreeMap::new();
    all.extend(sets.iter().filter_map(|body| set(body.as_ref())));
    for (key, mut of) in elements.iter().filter_map(|b| elements_of(b.as_ref())) {
        if let Some(set) = all.get_mut(&key) {
            let elements = set.elements.get_or_insert_default();
            elements.append(&mut of);
        }
    }
    // An interval ends before the next one begins; what all others have comes last.
    for elements in all.values_mut().filter_map(|set| set.elements.as_mut()) {
        elements.sort_by(|a, b| {
            let of = |e: &Element| (e.key.is_none(), !e.is_end);
            (of(a).0, &a.key, of(a).1).cmp(&(of(b).0, &b.key, of(b).1))
        });
    }
    let mut tables: BTreeMap<String, Table> = BTreeMap::new();
    for (name, v6, key, base) in chains.iter().filter_map(|b| chain(b.as_ref())) {
        let table = tables.entry(name.clone()).or_default();
        (table.name, table.v6) = (name, v6);
        table.chains.entry(key).or_default().bases.extend(base);
    }
    for body in rules {
        if let Some((table, chain, rule)) = rule(body.as_ref(), &all, devices) {
            let table = tables.get_mut(&table).map(|table| &mut table.chains);
            if let Some(chain) = table.and_then(|chains| chains.get_mut(&chain)) {
                chain.rules.push(rule);
            }
        }
    }
    for ((table, name), set) in all {
        if let Some(table) = tables.get_mut(&table) {
            table.sets.insert(name, set);
        }
    }
    tables.into_values().collect()
}

/// Family of a message (`struct nfgenmsg`), and what follows.
fn family(body: &[u8]) -> Option<(&'static str, Option<bool>, &[u8])> {
    let (_, name, v6) = FAMILIES.iter().find(|(n, _, _)| Some(n) == body.first())?;
    Some((name, *v6, body.get(4..)?))
}

fn chain(body: &[u8]) -> Option<(String, Option<bool>, String, Option<BaseChain>)> {
    let (family, v6, body) = family(body)?;
    let (mut table, mut chain, mut hook) = (String::new(), String::new(), None);
    let (mut drops, mut is_nat, mut handle) = (false, false, 0);
    for (kind, value) in attributes(body) {
        match kind {
            1 => table = format!("{family} {}", text(value)),
            2 => handle = value.try_into().map_or(0, u64::from_be_bytes),
            3 => chain = text(value),
            4 => hook = Some(value),
            5 => drops = be32(value) != Some(1),
            7 => is_nat = text(value) == "nat",
            _ => {}
        }
    }
    let base = hook.and_then(|hook| {
        let (mut place, mut priority, mut devices) = (None, 0, Vec::new());
        for (kind, value) in attributes(hook) {
            match kind {
                1 => place = be32(value).and_then(|n| Place::of(family, n)),
                2 => priority = be32(value).map_or(0, |n| n as i32),
                3 => devices.push(text(value)),
                4 => devices.extend(names(value)),
                _ => {}
            }
        }
        // One that is named by its beginning may be any.
        if devices.iter().any(|name| name.ends_with('*')) {
            devices.clear();
        }
        devices.dedup();
        let place = place?;
        Some(BaseChain {
            place,
            priority,
            handle,
            tracked: tracked(place, priority),
            devices,
            is_nat,
            drops,
        })
    });
    Some((table, v6, chain, base))
}

/// Devices of a chain that has several: their names, or how they begin.
fn names(list: &[u8]) -> impl Iterator<Item = String> {
    attributes(list).map(|(kind, value)| match kind {
        1 => text(value),
        _ => format!("{}*", text(value)),
    })
}

/// Number of a family (`NFPROTO_`) by its name.
pub fn family_number(name: &str) -> Option<u8> {
    let found = FAMILIES.iter().find(|(_, n, _)| *n == name);
    found.map(|(number, _, _)| *number)
}

/// Whether connection tracking comes before.
pub(crate) fn tracked(place: Place, priority: i32) -> Tracked {
    /// `NF_IP_PRI_CONNTRACK`.
    const CONNTRACK: i32 = -200;
    match place {
        Place::Ingress => Tracked::Nowhere,
        Place::Prerouting if priority < CONNTRACK => Tracked::Nowhere,
        Place::Prerouting if priority == CONNTRACK => Tracked::Unknown,
        _ => Tracked::Established,
    }
}

fn rule(
    body: &[u8],
    sets: &BTreeMap<Key, Set>,
    devices: &BTreeMap<u32, String>,
) -> Option<(String, String, Rule)> {
    let (family, _, body) = family(body)?;
    let (mut table, mut chain, mut expressions) = (String::new(), String::new(), &[][..]);
    let (mut handle, mut comment) = (0, String::new());
    for (kind, value) in attributes(body) {
        match kind {
            1 => table = format!("{family} {}", text(value)),
            2 => chain = text(value),
            3 => handle = value.try_into().map_or(0, u64::from_be_bytes),
            4 => expressions = value,
            7 => comment = comment_in(value).unwrap_or_default(),
            _ => {}
        }
    }
    let context = Context {
        table: &table,
        sets,
        devices,
    };
    let expressions: Vec<Expression> = named(expressions)
        .map(|(name, data)| Expression::of(&name, data))
        .collect();
    let mut reader = Reader::new(&context);
    expressions.iter().for_each(|one| reader.read(one));
    let comment = Some(comment).filter(|comment| !comment.is_empty());
    let comment = comment.or_else(|| expressions.iter().find_map(xt::comment));
    let rule = Rule {
        handle,
        comment: comment.unwrap_or_default(),
        steps: reader.steps,
        expressions,
    };
    Some((table, chain, rule))
}

/// The comment among what `nft` notes for itself: kind, length, bytes (`NFTNL_UDATA_RULE_COMMENT`).
fn comment_in(mut notes: &[u8]) -> Option<String> {
    const COMMENT: u8 = 0;
    while let [kind, len, rest @ ..] = notes {
        let value = rest.get(..usize::from(*len))?;
        if *kind == COMMENT {
            return Some(text(value));
        }
        notes = &rest[value.len()..];
    }
    None
}

/// Expressions of a list: name and data.
fn named(list: &[u8]) -> impl Iterator<Item = (String, &[u8])> {
    attributes(list).map(|(_, expression)| {
        let of = |wanted| attributes(expression).find(|(k, _)| *k == wanted);
        let name = of(1).map(|(_, v)| text(v)).unwrap_or_default();
        (name, of(2).map_or(&[][..], |(_, v)| v))
    })
}

/// Flags of sets (`enum nft_set_flags`).
const ANONYMOUS: u32 = 0x1;
const INTERVAL: u32 = 0x4;
const TIMEOUT: u32 = 0x10;
const EVAL: u32 = 0x20;
const CONCAT: u32 = 0x80;
/// `NFT_SET_ELEM_INTERVAL_END`.
const INTERVAL_END: u32 = 0x1;
/// `NFT_DATA_VERDICT`.
const VERDICTS: u32 = 0xffff_ff00;

struct Head<'a> {
    family: u8,
    key: Key,
    name: &'a [u8],
    table: &'a [u8],
    flags: u32,
    data_type: u32,
    set: Set,
}

fn head(body: &[u8]) -> Option<Head<'_>> {
    let (family, _, attributes_of) = family(body)?;
    let mut head = Head {
        family: body[0],
        key: Key::default(),
        name: &[],
        table: &[],
        flags: 0,
        data_type: 0,
        set: Set::default(),
    };
    let counts = |name: &str| matches!(name, "limit" | "quota" | "connlimit");
    for (kind, value) in attributes(attributes_of) {
        let number = || be32(value).unwrap_or(0);
        match kind {
            1 => head.table = value,
            2 => head.name = value,
            3 => head.flags = number(),
            5 => head.set.key_len = number() as usize,
            6 => head.data_type = number(),
            9 => head.set.parts = parts(value),
            15 => head.set.objects = number(),
            17 => {
                let name = attributes(value).find(|(k, _)| *k == 1);
                head.set.counts |= name.is_some_and(|(_, v)| counts(&text(v)));
            }
            18 => head.set.counts |= named(value).any(|(name, _)| counts(&name)),
            _ => {}
        }
    }
    head.key = (format!("{family} {}", text(head.table)), text(head.name));
    head.set.is_interval = head.flags & INTERVAL != 0;
    head.set.is_concatenated = head.flags & CONCAT != 0;
    head.set.changes = head.flags & (TIMEOUT | EVAL) != 0;
    head.set.is_dynamic = head.flags & EVAL != 0;
    Some(head)
}

/// Lengths of the parts of a key (`NFTA_SET_DESC_CONCAT`).
fn parts(description: &[u8]) -> Vec<usize> {
    let of = |(kind, value)| (kind == 2).then(|| attributes(value));
    let fields = attributes(description).filter_map(of).flatten();
    let len = |(_, field)| attributes(field).find(|(kind, _)| *kind == 1);
    fields
        .filter_map(len)
        .filter_map(|(_, len)| be32(len))
        .map(|len| len as usize)
        .collect()
}

fn set(body: &[u8]) -> Option<(Key, Set)> {
    let head = head(body)?;
    let mut set = head.set;
    if head.flags & ANONYMOUS != 0 || head.data_type == VERDICTS {
        set.elements = Some(Vec::new());
    }
    Some((head.key, set))
}

/// Of which sets the elements are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    /// Of those that are part of a rule, and of maps of verdicts.
    ThatDecide,
    /// Of all.
    All,
}

/// The request for the elements of a set, where they are wanted.
pub fn asks_elements(body: &[u8], which: Elements) -> Option<Vec<u8>> {
    let head = head(body)?;
    let decides = head.flags & ANONYMOUS != 0 || head.data_type == VERDICTS;
    let asks = decides || which == Elements::All;
    asks.then(|| elements_request(head.family, head.table, head.name))
}

/// The body of a request for the elements of a set; names as they came.
pub fn elements_request(family: u8, table: &[u8], name: &[u8]) -> Vec<u8> {
    [
        vec![family, 0, 0, 0],
        attribute(1, table),
        attribute(2, name),
    ]
    .concat()
}

fn elements_of(body: &[u8]) -> Option<(Key, Vec<Element>)> {
    let (family, _, body) = family(body)?;
    let (mut table, mut name, mut all) = (String::new(), String::new(), Vec::new());
    for (kind, value) in attributes(body) {
        match kind {
            1 => table = format!("{family} {}", text(value)),
            2 => name = text(value),
            3 => all.extend(attributes(value).map(|(_, element)| element_of(element))),
            _ => {}
        }
    }
    Some(((table, name), all))
}

fn element_of(value: &[u8]) -> Element {
    let inside = |value, wanted| attributes(value).find(|(k, _)| *k == wanted);
    let mut element = Element::default();
    for (kind, value) in attributes(value) {
        match kind {
            1 => element.key = inside(value, 1).map(|(_, key)| key.to_vec()),
            2 => {
                element.verdict = inside(value, 2).map(|(_, verdict)| verdict_of(verdict));
                element.data = inside(value, 1).map(|(_, data)| data.to_vec());
            }
            3 => element.is_end = be32(value).is_some_and(|flags| flags & INTERVAL_END != 0),
            10 => element.last = inside(value, 1).map(|(_, key)| key.to_vec()),
            _ => {}
        }
    }
    element
}
