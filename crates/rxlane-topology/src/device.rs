//! How devices lie over and belong to each other, and what speaks against any of them.

use std::collections::BTreeSet;

use rxlane_system::links::{Link, Links};
use rxlane_system::snapshot::Snapshot;

/// Tags that the program reads.
pub const MAX_TAGS: usize = 2;

/// Whether a device is of a kind, as `ip link` names it.
pub fn is(device: &Link, kind: &str) -> bool {
    device.kind.as_deref() == Some(kind)
}

/// The bridge, bond, team or VRF that a device belongs to.
pub fn master_of<'a>(device: &Link, links: &'a Links) -> Option<&'a Link> {
    links.at(device.master?)
}

/// The VRF that a device belongs to.
pub fn vrf_of<'a>(device: &Link, links: &'a Links) -> Option<&'a Link> {
    master_of(device, links).filter(|master| is(master, "vrf"))
}

/// The device that Linux notes for what comes in by another one (`skb_iif`): its VRF, if it belongs to one
/// (`vrf_ip_rcv` in drivers/net/vrf.c).
pub fn seen_as(device: &Link, links: &Links) -> u32 {
    vrf_of(device, links).map_or(device.ifindex, |vrf| vrf.ifindex)
}

/// A VLAN device and those under it: the outer tag's device first, the device itself last. With the port under all of them, unless that
/// is in another network namespace.
pub fn chain<'a>(device: &'a Link, links: &'a Links) -> (Vec<&'a Link>, Option<&'a Link>) {
    let mut chain = Vec::new();
    let mut at = Some(device);
    while let Some(vlan) = at.filter(|d| d.vlan.is_some()) {
        chain.insert(0, vlan);
        at = vlan.under.and_then(|under| links.at(under));
    }
    (chain, at)
}

/// Ports, and those under them whose frames are theirs: members of bonds.
pub fn with_members<'a>(ports: &BTreeSet<&'a str>, links: &'a Links) -> BTreeSet<&'a str> {
    let found = ports.iter().filter_map(|name| links.named(name));
    let bonds = found.filter(|d| is(d, "bond"));
    let members = bonds.flat_map(|bond| links.members(bond.ifindex));
    let members = members.map(|d| d.name.as_str());
    members.chain(ports.iter().copied()).collect()
}

/// Whether the device gets its packets from another one in the kernel, which has moved their VLAN tags out of the frames
/// (`skb_vlan_untag` in net/core/skbuff.c), where XDP does not see them. A bond is one unless XDP is native: then it runs on
/// the bond's members.
pub fn hides_tags(kind: Option<&str>, mode: Option<&str>) -> bool {
    const OVER_OTHERS: [&str; 8] = [
        "bridge", "macvlan", "macvtap", "ipvlan", "ipvtap", "vlan", "team", "macsec",
    ];
    kind.is_some_and(|kind| {
        OVER_OTHERS.contains(&kind) || (kind == "bond" && mode != Some("native"))
    })
}

/// What Linux asks of packets that come in by a device, before it routes them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checks {
    /// The way back must lead through the device (RFC 3704, 2.2).
    pub strict: bool,
    /// There must be a way back (RFC 3704, 2.4).
    pub loose: bool,
    /// IPv6 is off.
    pub no_ipv6: bool,
    /// XDP sees no VLAN tags of its frames ([`hides_tags`]).
    pub hides_tags: bool,
}

impl Checks {
    /// Those of a device; `mode` is that of XDP on it. Of `rp_filter` the greater of two values holds
    /// (Documentation/networking/ip-sysctl.rst), and a device without an IPv4 address is strict where others are loose
    /// (`__fib_validate_source` in net/ipv4/fib_frontend.c).
    pub fn of(device: &Link, mode: Option<&str>, snapshot: &Snapshot) -> Self {
        let filter = snapshot.rp_filter.max(device.rp_filter);
        let has_ipv4 = snapshot.with_ipv4.contains(&device.ifindex);
        Self {
            strict: filter == 1 || (filter == 2 && !has_ipv4),
            loose: filter == 2 && has_ipv4,
            no_ipv6: device.no_ipv6,
            hides_tags: hides_tags(device.kind.as_deref(), mode),
        }
    }
}

/// What speaks against a device over a port, whatever it is for.
pub fn why_not(device: &Link, links: &Links) -> Option<String> {
    if !device.up {
        return Some(format!("`{}` is down", device.name));
    }
    if let Some(vrf) = vrf_of(device, links) {
        if !vrf.up {
            return Some(format!("`{}` is down", vrf.name));
        }
    } else if let Some(master) = device.master {
        let found = links.at(master);
        let master = found.map_or_else(|| format!("device {master}"), |d| d.name.clone());
        return Some(format!("`{}` belongs to `{master}`", device.name));
    }
    let mut over = links.over(device.ifindex);
    if let Some(over) = over.find(|d| d.takes_from == Some(device.ifindex)) {
        return Some(format!(
            "`{}` takes or copies packets of `{}`",
            over.name, device.name
        ));
    }
    if device.xdp_program != 0 {
        return Some(format!("`{}` has an XDP program", device.name));
    }
    if device.vlan.as_ref().is_some_and(|vlan| !vlan.reorders) {
        return Some(format!("`{}` has reorder_hdr off", device.name));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bond_hides_tags_unless_xdp_runs_on_its_members() {
        assert!(!hides_tags(Some("bond"), Some("native")));
        for mode in [None, Some("generic")] {
            assert!(hides_tags(Some("bond"), mode));
        }
    }

    #[test]
    fn bridges_hide_tags_and_devices_of_their_own_do_not() {
        assert!(hides_tags(Some("bridge"), Some("generic")));
        for kind in [None, Some("veth")] {
            assert!(!hides_tags(kind, Some("generic")));
        }
    }

    #[test]
    fn the_greater_of_two_reverse_path_filters_holds_and_is_strict_without_an_address() {
        for (all, own, has_ipv4, strict, loose) in [
            (0, 0, true, false, false),
            (0, 1, true, true, false),
            (1, 0, true, true, false),
            (1, 2, true, false, true),
            (2, 1, true, false, true),
            (2, 0, false, true, false),
            (0, 1, false, true, false),
        ] {
            let device = Link {
                ifindex: 1,
                rp_filter: own,
                ..Link::default()
            };
            let snapshot = Snapshot {
                rp_filter: all,
                with_ipv4: has_ipv4.then_some(1).into_iter().collect(),
                ..Snapshot::default()
            };
            let checks = Checks::of(&device, None, &snapshot);
            assert_eq!(
                (checks.strict, checks.loose),
                (strict, loose),
                "{all} {own}"
            );
        }
    }
}
