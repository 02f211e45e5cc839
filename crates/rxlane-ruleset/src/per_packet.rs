//! What must see every packet of the flows that meet it.

use std::collections::BTreeSet;

use crate::meets::Meets;

/// Something that must see every packet of the flows that meet it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PerPacket {
    /// What it does, such as `queues packets to user space (queue 3)`.
    pub what: String,
    /// Where: ``the chain inet fw perpacket at forward``, ``port `lan0` (tc, ingress)``.
    pub place: String,
    /// Which flows can meet it.
    pub meets: Meets,
    /// Which rules there: handles of nftables, of iptables their numbers in the chain.
    pub rules: Vec<u64>,
}

/// What a rule does that asks for packets or bytes of connections, those of the other direction, too.
pub(crate) const COUNTERS: &str = "asks for counters of connections";

/// What a rule does that gives packets another type of service or TTL.
pub(crate) const MARKS_ANEW: &str = "gives packets other types of service or TTLs";

/// The comment with which an operator says of a rule that it need not record express packets.
const EXCEPTED: &str = "rxlane: express";

/// Whether the comment of a rule says so.
pub(crate) fn is_excepted(comment: &str) -> bool {
    comment.trim() == EXCEPTED
}

impl PerPacket {
    /// Whether it does no more than record packets, which changes nothing for them.
    pub(crate) fn records(&self) -> bool {
        let what = &self.what;
        what.starts_with("logs packets") || what.starts_with("counts packets in the set")
    }

    /// Whether it must also see what answers the flows that meet it.
    pub fn sees_both_directions(&self) -> bool {
        self.what == COUNTERS
    }
}

impl std::fmt::Display for PerPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} ({})", self.place, self.what, self.meets)?;
        match &self.rules[..] {
            [] => Ok(()),
            [one] => write!(f, ", rule {one}"),
            [first, .., last] => write!(f, ", rules {first} to {last}"),
        }
    }
}

/// What a [`PerPacket`] says of itself, without the numbers of its rules.
pub fn without_rules(said: &str) -> &str {
    said.rsplit_once("), rule")
        .map_or(said, |(rest, _)| &said[..=rest.len()])
}

/// What rules ask about packets of flows beside what the witness compares.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Uses {
    /// The source MAC address.
    pub source_mac: bool,
    /// Of nftables: family and table, and name.
    pub sets: BTreeSet<(String, String)>,
    /// Of ipset, by index.
    pub ipsets: BTreeSet<u16>,
}
