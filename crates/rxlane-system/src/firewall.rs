//! What netfilter does to forwarded packets: which hooks there are, and what their rules can do.
//!
//! Not what they will do to a packet: that is not decidable from outside. A chain whose rules only look and accept does
//! nothing; any other may drop, mark, rewrite or translate.

use netlink_sys::protocols::NETLINK_NETFILTER;

use crate::SystemError;
use crate::dump::{attributes, be32, dump, text};
use crate::links::Link;
use crate::ruleset::Ruleset;

/// `NFT_MSG_GETCHAIN` of the subsystem nf_tables, and the number in what it says of a hook.
const GET_CHAIN: u16 = 10 << 8 | 4;
const HOOK_NUMBER: u16 = 1;

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
    pub fn is_local(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }

    pub(crate) fn of(family: &str, number: u32) -> Option<Self> {
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

    pub(crate) fn add(&mut self, o: Self) {
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

/// All hooks on the way of packets that are forwarded between these devices.
///
/// # Errors
/// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
pub fn hooks(links: &[Link]) -> Result<Vec<Hook>, SystemError> {
    let mut hooks = Ruleset::read(links)?.hooks;
    hooks.retain(|hook| !hook.place.is_local());
    Ok(hooks)
}

/// A base chain of nftables for bridges, by its name, which sees what a bridge takes for this machine or sends for it; all but those
/// for what is only bridged.
///
/// # Errors
/// When netfilter cannot be asked.
pub fn chain_of_bridges() -> Result<Option<String>, SystemError> {
    let what = "list firewall chains of bridges";
    let chains = dump(NETLINK_NETFILTER, GET_CHAIN, &[BRIDGE, 0, 0, 0], what)?;
    Ok(chains.iter().find_map(|body| chain_of_a_bridge(body)))
}

fn chain_of_a_bridge(body: &[u8]) -> Option<String> {
    const FORWARD: u32 = 2;
    let all = body.get(4..).filter(|_| body.first() == Some(&BRIDGE))?;
    let (mut table, mut chain, mut number) = (String::new(), String::new(), None);
    for (kind, value) in attributes(all) {
        match kind {
            1 => table = text(value),
            3 => chain = text(value),
            4 => {
                number = attributes(value)
                    .find(|(kind, _)| *kind == HOOK_NUMBER)
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

/// What the name of a table of legacy iptables stands for whose rules cannot be read.
pub(crate) fn legacy(family: &str, name: &str) -> Hook {
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
        },
    }
}
