//! Which ports packets leave through their queueing discipline. What XDP sends passes by it, which is wrong where it holds a link to a
//! rate: the rate would be exceeded, or the queue be somewhere else.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::Egress;
use rxlane_system::links::Link;
use rxlane_system::snapshot::Snapshot;

use crate::device::is;

/// The ports' devices whose packets the stack sends, with the qdiscs that say so; none of ports that the configuration wants to be
/// sent to directly, and those that it wants to be sent to by the stack whatever they have.
pub fn in_the_way(
    ways: &BTreeMap<String, Egress>,
    snapshot: &Snapshot,
) -> BTreeMap<u32, BTreeSet<String>> {
    let devices = &snapshot.links;
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let way = |device: &Link| ways.get(&device.name).copied().unwrap_or_default();
    for device in devices.iter().filter(|d| way(d) == Egress::Qdisc) {
        found.entry(device.ifindex).or_default();
    }
    for (ifindex, kinds) in &snapshot.shapers {
        if devices
            .at(*ifindex)
            .is_some_and(|d| way(d) != Egress::Direct)
        {
            let of_device = found.entry(*ifindex).or_default();
            of_device.extend(kinds.iter().cloned());
        }
    }
    // What a bond sends leaves by a member, and waits where that holds its link to a rate.
    let bonds = devices.iter().filter(|d| is(d, "bond"));
    for bond in bonds.filter(|d| way(d) != Egress::Direct) {
        let kinds: Vec<BTreeSet<String>> = devices
            .members(bond.ifindex)
            .filter_map(|member| found.get(&member.ifindex).cloned())
            .collect();
        if !kinds.is_empty() {
            let of_bond = found.entry(bond.ifindex).or_default();
            of_bond.extend(kinds.into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_rate_leaves_by_the_stack_unless_the_configuration_knows_better() {
        let device = |ifindex, name: &str, kind: Option<&str>, master| Link {
            ifindex,
            name: name.into(),
            kind: kind.map(Into::into),
            master,
            ..Link::default()
        };
        let htb = BTreeSet::from(["htb".to_owned()]);
        let snapshot = Snapshot {
            shapers: [
                (1, htb.clone()),
                (2, htb.clone()),
                (4, htb.clone()),
                (9, htb.clone()),
            ]
            .into(),
            ..Snapshot::of([
                device(1, "shaped0", None, None),
                device(2, "direct0", None, None),
                device(3, "asked0", None, None),
                device(4, "eth0", None, Some(5)),
                device(5, "bond0", Some("bond"), None),
                device(6, "free0", None, None),
            ])
        };
        let ways = [("direct0", Egress::Direct), ("asked0", Egress::Qdisc)];
        let ways = ways.map(|(name, way)| (name.to_owned(), way)).into();
        let nothing = BTreeSet::new();
        let wanted = [(1, htb.clone()), (3, nothing), (4, htb.clone()), (5, htb)];
        assert_eq!(in_the_way(&ways, &snapshot), wanted.into());
    }
}
