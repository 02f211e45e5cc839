//! What happens on the way of a forwarded packet, in its order.

use std::collections::BTreeMap;

use crate::hook::Place;
use crate::program::{BaseChain, Table};

pub(super) enum Station<'a> {
    Chains(Chains<'a>),
    /// Connection tracking finds the connection.
    Tracks,
    /// Addresses are translated as they were for the first packet.
    Translates(Place),
    /// Between the places.
    Routes,
}

/// Base chains of one priority.
#[derive(Default)]
pub(super) struct Chains<'a> {
    pub(super) all: Vec<(&'a Table, &'a str, &'a BaseChain)>,
    /// Whether connections may be tracked before, or after; and whether addresses may be translated.
    pub(super) as_tracking: bool,
    pub(super) as_translation: bool,
}

/// Priorities of netfilter's own (include/uapi/linux/netfilter_ipv4.h).
const TRACKS: i32 = -200;
const DESTINATION: i32 = -100;
const SOURCE: i32 = 100;

/// Rules of nat run at the priority of nat, whatever theirs is, which orders them among each other.
fn priority_of_nat(place: Place) -> i32 {
    match place {
        Place::Prerouting => DESTINATION,
        _ => SOURCE,
    }
}

impl Chains<'_> {
    /// Of equal priority the chain that was made last comes first; among chains of several tables that is not known.
    pub(super) fn is_unordered(&self) -> bool {
        self.all
            .windows(2)
            .any(|two| two[0].0.name != two[1].0.name)
    }
}

/// All of them, for packets of a version of IP.
pub(super) fn stations(tables: &[Table], v6: bool) -> Vec<Station<'_>> {
    type At = (Place, i32, bool, i32);
    let mut groups: BTreeMap<At, Chains<'_>> = BTreeMap::new();
    for table in tables {
        if table.v6.is_some_and(|of| of != v6) {
            continue;
        }
        for (key, chain) in &table.chains {
            for base in chain.bases.iter().filter(|base| !base.place.is_local()) {
                let of_nat = priority_of_nat(base.place);
                let at = match base.is_nat {
                    true => (base.place, of_nat, false, base.priority),
                    false => (base.place, base.priority, true, 0),
                };
                let group = groups.entry(at).or_default();
                group.as_tracking = (base.place, base.priority) == (Place::Prerouting, TRACKS);
                let is_translated = matches!(base.place, Place::Prerouting | Place::Postrouting);
                group.as_translation = !base.is_nat && is_translated && base.priority == of_nat;
                group.all.push((table, key.as_str(), base));
            }
        }
    }
    let mut all: Vec<(At, Station<'_>)> = vec![
        ((Place::Prerouting, TRACKS, true, 1), Station::Tracks),
        (
            (Place::Prerouting, DESTINATION, false, i32::MIN),
            Station::Translates(Place::Prerouting),
        ),
        ((Place::Forward, i32::MIN, false, 0), Station::Routes),
        (
            (Place::Postrouting, SOURCE, false, i32::MIN),
            Station::Translates(Place::Postrouting),
        ),
    ];
    for (at, mut group) in groups {
        group
            .all
            .sort_by_key(|(_, _, base)| std::cmp::Reverse(base.handle));
        all.push((at, Station::Chains(group)));
    }
    all.sort_by_key(|(at, _)| *at);
    all.into_iter().map(|(_, station)| station).collect()
}
