//! What netfilter does to forwarded packets: which hooks there are, and what their rules can do.
//!
//! Not what they will do to a packet: that is not decidable from outside. A chain whose rules only look and accept does
//! nothing; any other may drop, mark, rewrite or translate.

use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::SystemError;
use crate::dump::{attributes, be32, dump, text};

/// include/uapi/linux/netfilter/nf_tables.h
mod nft {
    pub(super) const SUBSYSTEM: u16 = 10;
    pub(super) const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
    pub(super) const GET_RULE: u16 = SUBSYSTEM << 8 | 7;
    pub(super) const CHAIN_TABLE: u16 = 1;
    pub(super) const CHAIN_NAME: u16 = 3;
    pub(super) const CHAIN_HOOK: u16 = 4;
    pub(super) const CHAIN_POLICY: u16 = 5;
    pub(super) const CHAIN_TYPE: u16 = 7;
    pub(super) const HOOK_NUMBER: u16 = 1;
    pub(super) const HOOK_DEVICE: u16 = 3;
    pub(super) const RULE_TABLE: u16 = 1;
    pub(super) const RULE_CHAIN: u16 = 2;
    pub(super) const RULE_EXPRESSIONS: u16 = 4;
    pub(super) const EXPRESSION_NAME: u16 = 1;
    pub(super) const EXPRESSION_DATA: u16 = 2;
    pub(super) const IMMEDIATE_DATA: u16 = 2;
    pub(super) const DATA_VERDICT: u16 = 2;
    pub(super) const VERDICT_CODE: u16 = 1;
    pub(super) const ACCEPT: u32 = 1;
    /// `meta`, `ct`: the register that something is set from; without it they only read.
    pub(super) const SOURCE_REGISTER: [(&str, u16); 2] = [("meta", 3), ("ct", 4)];
    /// `payload`, `exthdr`: likewise.
    pub(super) const REWRITES: [(&str, u16); 2] = [("payload", 5), ("exthdr", 7)];
}

/// Protocol families of netfilter (`NFPROTO_`), as far as they see forwarded packets.
const FAMILIES: [(u8, &str); 4] = [(1, "inet"), (2, "ip"), (5, "netdev"), (10, "ip6")];

/// The family of bridges (`NFPROTO_BRIDGE`).
const BRIDGE: u8 = 7;

/// Where on the way of a forwarded packet a hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before anything else.
    Ingress,
    /// Before routing.
    Prerouting,
    /// Of what is for this machine: the outer packets of its tunnels.
    Input,
    /// Between routing and sending.
    Forward,
    /// Of what this machine sends.
    Output,
    /// Before sending.
    Postrouting,
    /// As the last, at the egress device.
    Egress,
}

impl Place {
    /// Its name in nftables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        }
    }

    /// Whether forwarded packets do not come by.
    fn is_local(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }

    fn of(family: &str, number: u32) -> Option<Self> {
        Some(match (family, number) {
            ("netdev", 0) | ("inet", 5) => Self::Ingress,
            ("netdev", 1) => Self::Egress,
            ("netdev", _) => return None,
            (_, 0) => Self::Prerouting,
            (_, 1) => Self::Input,
            (_, 2) => Self::Forward,
            (_, 3) => Self::Output,
            (_, 4) => Self::Postrouting,
            _ => return None,
        })
    }
}

/// What rules can do to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Drop it, send it elsewhere, or anything that is not known here.
    pub filters: bool,
    /// Give it a mark, or its flow a zone, or none at all.
    pub marks: bool,
    /// Change its bytes.
    pub rewrites: bool,
    /// Translate its addresses.
    pub translates: bool,
}

impl Effects {
    /// Whether there are any.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    fn add(&mut self, o: Self) {
        self.filters |= o.filters;
        self.marks |= o.marks;
        self.rewrites |= o.rewrites;
        self.translates |= o.translates;
    }
}

/// A base chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Family and table, such as `inet filter`.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Where it is.
    pub place: Place,
    /// The device that it is for, where it names one.
    pub device: Option<String>,
    /// What its rules can do, and its policy.
    pub effects: Effects,
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} at {}", self.table, self.chain, self.place.name())?;
        self.device
            .as_ref()
            .map_or(Ok(()), |d| write!(f, " of {d}"))
    }
}

/// All hooks on the way of forwarded packets. Tables of legacy iptables are there as what their names stand for: their rules
/// cannot be listed over netlink.
///
/// # Errors
/// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
pub fn hooks() -> Result<Vec<Hook>, SystemError> {
    let mut hooks = nftables_hooks()?;
    hooks.retain(|hook| !hook.place.is_local());
    for family in ["ip", "ip6"] {
        let names =
            std::fs::read_to_string(format!("/proc/net/{family}_tables_names")).unwrap_or_default();
        hooks.extend(names.lines().filter_map(|name| legacy(family, name)));
    }
    Ok(hooks)
}

/// Hooks on the way of packets that are for this machine or from it, which those of tunnels are, too. Legacy iptables have none
/// here: [`hooks`] has them.
///
/// # Errors
/// When netfilter cannot be asked.
pub fn local_hooks() -> Result<Vec<Hook>, SystemError> {
    let mut hooks = nftables_hooks()?;
    hooks.retain(|hook| hook.place.is_local());
    Ok(hooks)
}

/// A base chain of nftables for bridges, by its name, which sees what a bridge takes for this machine or sends for it; all but those
/// for what is only bridged.
///
/// # Errors
/// When netfilter cannot be asked.
pub fn chain_of_bridges() -> Result<Option<String>, SystemError> {
    let what = "list firewall chains of bridges";
    let chains = dump(NETLINK_NETFILTER, nft::GET_CHAIN, &[BRIDGE, 0, 0, 0], what)?;
    Ok(chains.iter().find_map(|body| chain_of_a_bridge(body)))
}

fn chain_of_a_bridge(body: &[u8]) -> Option<String> {
    const FORWARD: u32 = 2;
    let all = body.get(4..).filter(|_| body.first() == Some(&BRIDGE))?;
    let (mut table, mut chain, mut number) = (String::new(), String::new(), None);
    for (kind, value) in attributes(all) {
        match kind {
            nft::CHAIN_TABLE => table = text(value),
            nft::CHAIN_NAME => chain = text(value),
            nft::CHAIN_HOOK => {
                number = attributes(value)
                    .find(|(kind, _)| *kind == nft::HOOK_NUMBER)
                    .and_then(|(_, value)| be32(value));
            }
            _ => {}
        }
    }
    number
        .filter(|n| *n != FORWARD)
        .map(|_| format!("bridge {table} {chain}"))
}

/// Whether ebtables of old may filter what bridges take and send: their rules cannot be listed over netlink.
pub fn has_legacy_ebtables() -> bool {
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let tables = ["ebtable_broute ", "ebtable_filter ", "ebtable_nat "];
    modules
        .lines()
        .any(|line| tables.iter().any(|table| line.starts_with(table)))
}

fn legacy(family: &str, name: &str) -> Option<Hook> {
    let (place, effects) = match name {
        "filter" => (
            Place::Forward,
            Effects {
                filters: true,
                ..Effects::default()
            },
        ),
        "nat" => (
            Place::Postrouting,
            Effects {
                translates: true,
                ..Effects::default()
            },
        ),
        "raw" | "mangle" => (
            Place::Prerouting,
            Effects {
                filters: true,
                marks: true,
                rewrites: true,
                translates: false,
            },
        ),
        _ => return None,
    };
    Some(Hook {
        table: format!("{family}tables {name}"),
        chain: "(any chain)".into(),
        place,
        device: None,
        effects,
    })
}

fn nftables_hooks() -> Result<Vec<Hook>, SystemError> {
    let rules = dump(
        NETLINK_NETFILTER,
        nft::GET_RULE,
        &[0; 4],
        "list firewall rules",
    )?;
    let chains = dump(
        NETLINK_NETFILTER,
        nft::GET_CHAIN,
        &[0; 4],
        "list firewall chains",
    )?;
    Ok(hooks_of(&rules, &chains))
}

/// The hooks that bodies of rules and chains amount to.
pub(crate) fn hooks_of(rules: &[impl AsRef<[u8]>], chains: &[impl AsRef<[u8]>]) -> Vec<Hook> {
    let rules: Vec<Rule> = rules
        .iter()
        .filter_map(|body| rule(body.as_ref()))
        .collect();
    let mut hooks = Vec::new();
    let mut base = Vec::new();
    for body in chains {
        if let Some((hook, is_nat)) = hook(body.as_ref()) {
            base.push((hook.table.clone(), hook.chain.clone()));
            hooks.push((hook, is_nat));
        }
    }
    // What a chain jumps to belongs to it; which of a table's chains it reaches is not followed.
    let is_base = |r: &Rule| base.iter().any(|(t, c)| *t == r.table && *c == r.chain);
    for (hook, is_nat) in &mut hooks {
        let own = |r: &&Rule| r.table == hook.table && r.chain == hook.chain;
        let jumps = rules.iter().filter(own).any(|r| r.jumps);
        let reached = |r: &&Rule| own(r) || (jumps && r.table == hook.table && !is_base(r));
        for rule in rules.iter().filter(reached) {
            hook.effects.add(rule.effects);
            hook.effects.translates |= *is_nat;
        }
    }
    hooks
        .into_iter()
        .map(|(hook, _)| hook)
        .filter(|hook| hook.effects.any())
        .collect()
}

/// Family of a message (`struct nfgenmsg`), and what follows.
fn family(body: &[u8]) -> Option<(&'static str, &[u8])> {
    let (_, name) = FAMILIES.iter().find(|(n, _)| Some(n) == body.first())?;
    Some((name, body.get(4..)?))
}

/// A base chain on the way of forwarded packets, and whether it is of type nat.
fn hook(body: &[u8]) -> Option<(Hook, bool)> {
    let (family, body) = family(body)?;
    let (mut table, mut chain, mut place, mut device) = (String::new(), String::new(), None, None);
    let (mut drops, mut is_nat) = (false, false);
    for (kind, value) in attributes(body) {
        match kind {
            nft::CHAIN_TABLE => table = format!("{family} {}", text(value)),
            nft::CHAIN_NAME => chain = text(value),
            nft::CHAIN_POLICY => drops = be32(value) != Some(nft::ACCEPT),
            nft::CHAIN_TYPE => is_nat = text(value) == "nat",
            nft::CHAIN_HOOK => {
                for (kind, value) in attributes(value) {
                    match kind {
                        nft::HOOK_NUMBER => place = be32(value).and_then(|n| Place::of(family, n)),
                        nft::HOOK_DEVICE => device = Some(text(value)),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    let hook = Hook {
        table,
        chain,
        place: place?,
        device,
        effects: Effects {
            filters: drops,
            ..Effects::default()
        },
    };
    Some((hook, is_nat))
}

struct Rule {
    table: String,
    chain: String,
    effects: Effects,
    jumps: bool,
}

fn rule(body: &[u8]) -> Option<Rule> {
    let (family, body) = family(body)?;
    let mut rule = Rule {
        table: String::new(),
        chain: String::new(),
        effects: Effects::default(),
        jumps: false,
    };
    for (kind, value) in attributes(body) {
        match kind {
            nft::RULE_TABLE => rule.table = format!("{family} {}", text(value)),
            nft::RULE_CHAIN => rule.chain = text(value),
            nft::RULE_EXPRESSIONS => {
                for (_, expression) in attributes(value) {
                    let of = |wanted| attributes(expression).find(|(k, _)| *k == wanted);
                    let name = of(nft::EXPRESSION_NAME).map(|(_, v)| text(v));
                    let data = of(nft::EXPRESSION_DATA).map_or(&[][..], |(_, v)| v);
                    act(&mut rule, &name.unwrap_or_default(), data);
                }
            }
            _ => {}
        }
    }
    Some(rule)
}

/// What an expression can do.
fn act(rule: &mut Rule, name: &str, data: &[u8]) {
    let has = |list: &[(&str, u16)]| {
        list.iter()
            .any(|(n, register)| *n == name && attributes(data).any(|(k, _)| k == *register))
    };
    match name {
        // What only looks, counts or writes a log; and the flowtable, which takes flows that Linux has accepted.
        "cmp" | "bitwise" | "byteorder" | "range" | "counter" | "log" | "lookup" | "fib"
        | "hash" | "rt" | "socket" | "osf" | "numgen" | "last" | "tunnel" | "inner"
        | "flow_offload" | "xfrm" | "limit" | "quota" | "connlimit" | "match" | "dynset"
        | "objref" => {}
        "meta" | "ct" => rule.effects.marks |= has(&nft::SOURCE_REGISTER),
        "payload" | "exthdr" => rule.effects.rewrites |= has(&nft::REWRITES),
        "notrack" | "tproxy" => rule.effects.marks = true,
        "nat" | "masq" | "redir" => rule.effects.translates = true,
        "immediate" => {
            let verdict = attributes(data)
                .filter(|(k, _)| *k == nft::IMMEDIATE_DATA)
                .flat_map(|(_, v)| attributes(v))
                .filter(|(k, _)| *k == nft::DATA_VERDICT)
                .flat_map(|(_, v)| attributes(v))
                .find(|(k, _)| *k == nft::VERDICT_CODE)
                .and_then(|(_, v)| be32(v))
                .map(|code| code as i32);
            match verdict {
                // A constant for a register: whoever reads it counts.
                None | Some(1) => {}
                // Jump, goto.
                Some(-3 | -4) => rule.jumps = true,
                // Continue, return.
                Some(-1 | -5) => {}
                Some(_) => rule.effects.filters = true,
            }
        }
        _ => rule.effects.filters = true,
    }
}
