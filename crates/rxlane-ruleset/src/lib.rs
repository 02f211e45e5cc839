//! Rules about forwarded packets: what they can do, and which of them must see every packet of a flow.
//!
//! A flow follows what Linux was seen to do with it. That says nothing of what must see each packet: a queue to user space, a copy,
//! a limit, a counter that is asked. [`Ruleset::per_packet`] has these, with the flows that can meet them: established ones, and
//! those that connection tracking does not see.

mod acts;
pub mod attribute;
mod decode;
pub mod evaluate;
mod expression;
mod fields;
mod hook;
pub mod legacy;
mod lookup;
mod meets;
pub mod nft;
mod per_packet;
mod program;
mod reader;
mod test;
mod value;
mod walk;
mod xt;

pub use acts::WORST;
pub use hook::{Effects, Hook, Place};
pub use meets::Meets;
pub use per_packet::{PerPacket, Uses, without_rules};
pub use program::Table;
use walk::Found;

/// What all rules of netfilter amount to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ruleset {
    /// Base chains whose rules can do something, those for packets of this machine, too.
    pub hooks: Vec<Hook>,
    /// What must see every packet of flows that are forwarded.
    pub per_packet: Vec<PerPacket>,
    /// What rules record that express packets need not pass, because their comment says so (`rxlane: express`).
    pub excepted: Vec<PerPacket>,
    /// What rules ask about established packets.
    pub uses: Uses,
    /// Whether rules ask for connections, or translate them: then Linux tracks them.
    pub tracks: bool,
    /// What they ask about packets that connection tracking does not see.
    pub untracked_uses: Uses,
}

impl Ruleset {
    /// What tables amount to.
    pub fn of(tables: &[Table]) -> Self {
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
            excepted: joined(tracked.excepted, untracked.excepted),
            uses: tracked.uses,
            tracks: tables.iter().any(Table::tracks),
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
