//! Rules as they are evaluated: tables of chains, and the sets that they ask.

use std::collections::BTreeMap;

use crate::expression::{Expression, Verdict};
use crate::hook::{Effects, Place};
use crate::test::{Test, Tracked};

/// A rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Rule {
    /// Of nftables; the number of the rule in its chain of iptables, from 1.
    pub(crate) handle: u64,
    /// Empty where there is none.
    pub(crate) comment: String,
    pub(crate) steps: Vec<Step>,
    /// As nftables has them; none of iptables.
    pub(crate) expressions: Vec<Expression>,
}

/// A part of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    If(Test),
    /// Something that must see every packet, such as `logs packets`.
    PerPacket(String),
    /// Asks for the source MAC address.
    SourceMac,
    /// Asks a set of nftables.
    Asks(String),
    /// Asks a set of ipset, by its index.
    AsksIpset(u16),
    Acts(Effects),
    Then(Verdict),
    /// The first that holds; without one the rule ends.
    Map(Vec<(Test, Verdict)>),
}

/// Where a base chain is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaseChain {
    pub(crate) place: Place,
    /// The lower, the earlier.
    pub(crate) priority: i32,
    /// Of chains of a table with the same priority the one that was made last comes first.
    pub(crate) handle: u64,
    /// Whether connection tracking has packets already.
    pub(crate) tracked: Tracked,
    /// Devices that it is for; none: all.
    pub(crate) devices: Vec<String>,
    /// Only the first packet of a flow comes by.
    pub(crate) is_nat: bool,
    /// What its policy does.
    pub(crate) drops: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Chain {
    pub(crate) bases: Vec<BaseChain>,
    pub(crate) rules: Vec<Rule>,
    /// What it is called; its key where this is empty.
    pub(crate) name: String,
}

/// Chains that can jump to each other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Table {
    /// Such as `inet filter` or `iptables mangle`.
    pub(crate) name: String,
    /// IP version of its packets, where it has one.
    pub(crate) v6: Option<bool>,
    pub(crate) chains: BTreeMap<String, Chain>,
    /// By name.
    pub(crate) sets: BTreeMap<String, Set>,
}

/// A set or map.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Set {
    pub(crate) key_len: usize,
    pub(crate) is_interval: bool,
    pub(crate) is_concatenated: bool,
    /// Lengths of the parts of a concatenation in bytes; each begins at a word.
    pub(crate) parts: Vec<usize>,
    /// Elements come and go without a word.
    pub(crate) changes: bool,
    /// Packets add elements.
    pub(crate) is_dynamic: bool,
    /// Elements have limits, quotas or the like.
    pub(crate) counts: bool,
    /// Kind of the objects that it maps to.
    pub(crate) objects: u32,
    /// What it holds, where that was asked for.
    pub(crate) elements: Option<Vec<Element>>,
}

/// An element; what has no key is what all others have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Element {
    pub(crate) key: Option<Vec<u8>>,
    /// The last key of an interval, where the element says it.
    pub(crate) last: Option<Vec<u8>>,
    /// The interval that began before ends before this one.
    pub(crate) is_end: bool,
    pub(crate) verdict: Option<Verdict>,
    /// What a map gives.
    pub(crate) data: Option<Vec<u8>>,
}

impl Step {
    pub(crate) fn verdicts(&self) -> impl Iterator<Item = &Verdict> {
        let one = match self {
            Self::Then(verdict) => Some(verdict),
            _ => None,
        };
        let all = match self {
            Self::Map(all) => &all[..],
            _ => &[],
        };
        one.into_iter()
            .chain(all.iter().map(|(_, verdict)| verdict))
    }
}
