//! Rules about forwarded packets: what they can do, and which of them must see every packet of a flow.
//!
//! A flow follows what Linux was seen to do with it. That says nothing of what must see each packet: a queue to user space, a copy,
//! a limit, a counter that is asked. [`Ruleset::per_packet`] has these, with the flows that can meet them: established ones, and
//! those that connection tracking does not see.

use std::collections::BTreeSet;

use crate::SystemError;
use crate::hook::Hook;
use crate::links::Link;

mod acts;
mod expression;
mod fields;
mod legacy;
mod lookup;
mod meets;
mod nft;
mod programs;
mod sockopt;
mod tc_match;
mod test;
mod traffic_control;
mod unannounced;
mod value;
mod walk;
mod xt;

pub use meets::Meets;
pub use traffic_control::per_packet_at;
pub use unannounced::Unannounced;
pub(crate) use walk::{Found, Table};
#[cfg(feature = "testing")]
pub(crate) use {
    legacy::{Version, table as legacy_table, without_counters},
    nft::tables as nft_tables,
    traffic_control::of_filter,
    unannounced::{of_ipset, of_nftables},
};

/// Something that must see every packet of the flows that meet it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PerPacket {
    /// What it does, such as `queues packets to user space (queue 3)`.
    pub what: String,
    /// Where: ``the chain inet fw perpacket at forward``, ``port `lan0` (tc, ingress)``.
    pub place: String,
    /// Which flows can meet it.
    pub meets: Meets,
}

/// What a rule does that asks for packets or bytes of connections, those of the other direction, too.
pub(crate) const COUNTERS: &str = "asks for counters of connections";

/// What a rule does that gives packets another type of service or TTL.
pub(crate) const MARKS_ANEW: &str = "gives packets other types of service or TTLs";

impl PerPacket {
    /// Whether it must also see what answers the flows that meet it.
    pub fn sees_both_directions(&self) -> bool {
        self.what == COUNTERS
    }
}

impl std::fmt::Display for PerPacket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} ({})", self.place, self.what, self.meets)
    }
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

/// What all rules of netfilter amount to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Base chains whose rules can do something, those for packets of this machine, too.
    pub hooks: Vec<Hook>,
    /// What must see every packet of flows that are forwarded.
    pub per_packet: Vec<PerPacket>,
    /// What rules ask about established packets.
    pub uses: Uses,
    /// What they ask about packets that connection tracking does not see.
    pub untracked_uses: Uses,
}

impl Ruleset {
    /// Reads all rules of the current network namespace, which has these devices.
    ///
    /// # Errors
    /// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
    pub fn read(links: &[Link]) -> Result<Self, SystemError> {
        let (legacy, unread) = legacy::read()?;
        let tables = nft::read(links)?.into_iter().chain(legacy);
        let mut all = Self::of(&tables.collect::<Vec<Table>>());
        all.hooks.extend(unread);
        for (hook, per_packet) in programs::netfilter()? {
            all.hooks.push(hook);
            all.per_packet.push(per_packet);
        }
        Ok(all)
    }

    pub(crate) fn of(tables: &[Table]) -> Self {
        let found = |are_tracked| {
            let mut found = Found::default();
            tables
                .iter()
                .for_each(|table| table.met(are_tracked, &mut found));
            found
        };
        let (tracked, untracked) = (found(true), found(false));
        Self {
            hooks: tables.iter().flat_map(Table::hooks).collect(),
            per_packet: joined(tracked.per_packet, untracked.per_packet),
            uses: tracked.uses,
            untracked_uses: untracked.uses,
        }
    }
}

/// What flows of both kinds meet in the same way is one.
fn joined(mut all: Vec<PerPacket>, untracked: Vec<PerPacket>) -> Vec<PerPacket> {
    for mut one in untracked {
        let of = |tracked| Meets {
            tracked,
            ..one.meets.clone()
        };
        let (same, both) = (of(Some(true)), of(None));
        let is_same =
            |p: &&mut PerPacket| p.what == one.what && p.place == one.place && p.meets == same;
        match all.iter_mut().find(is_same) {
            Some(found) => found.meets = both,
            None => {
                one.meets.tracked = Some(false);
                all.push(one);
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
