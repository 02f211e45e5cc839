//! Which ports packets leave through their queueing discipline. What XDP sends passes by it, which is wrong where it holds a link to a
//! rate: the rate would be exceeded, or the queue be somewhere else.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::Egress;
use rxlane_system::links::Link;
use rxlane_system::{SystemError, tc};

/// The ports' devices whose packets the stack sends, with the qdiscs that say so; none of ports that the configuration wants to be
/// sent to directly, and those that it wants to be sent to by the stack whatever they have.
///
/// # Errors
/// When netlink fails.
pub(crate) fn in_the_way(
    ways: &BTreeMap<String, Egress>,
    devices: &[Link],
) -> Result<BTreeMap<u32, BTreeSet<String>>, SystemError> {
    let mut found: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    let way = |device: &Link| ways.get(&device.name).copied().unwrap_or_default();
    for device in devices.iter().filter(|d| way(d) == Egress::Qdisc) {
        found.entry(device.ifindex).or_default();
    }
    for (ifindex, kind) in tc::shapers()? {
        let device = devices.iter().find(|d| d.ifindex == ifindex);
        if device.is_some_and(|d| way(d) != Egress::Direct) {
            found.entry(ifindex).or_default().insert(kind);
        }
    }
    // What a bond sends leaves by a member, and waits where that holds its link to a rate.
    let bonds = devices.iter().filter(|d| d.kind.as_deref() == Some("bond"));
    for bond in bonds.filter(|d| way(d) != Egress::Direct) {
        let members = devices.iter().filter(|d| d.master == Some(bond.ifindex));
        let kinds: Vec<BTreeSet<String>> = members
            .filter_map(|member| found.get(&member.ifindex).cloned())
            .collect();
        if !kinds.is_empty() {
            let of_bond = found.entry(bond.ifindex).or_default();
            of_bond.extend(kinds.into_iter().flatten());
        }
    }
    Ok(found)
}
