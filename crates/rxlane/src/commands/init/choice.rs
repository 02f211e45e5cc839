//! Which devices look like ports of a router.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_system::links::{Link, Links};
use rxlane_topology::attachment;

/// Devices that are no ports, by index, with why. `addressed`: those with addresses; `takes_ipv6`: whether a device may get one of IPv6.
pub(super) fn ports(
    devices: &Links,
    addressed: &BTreeSet<u32>,
    takes_ipv6: impl Fn(&Link) -> bool,
) -> BTreeMap<u32, String> {
    let mut why_not = BTreeMap::new();
    let of_vlan = |d: &&Link| d.vlan.is_some();
    for device in devices.iter().filter(|d| !of_vlan(d)) {
        let has_address = addressed.contains(&device.ifindex) || takes_ipv6(device);
        if let Some(why) = unfit(device, devices, addressed, has_address) {
            why_not.insert(device.ifindex, why);
        }
    }
    // Where VLAN devices have the addresses, the rest of what a port carries is left alone.
    let mut vlans: Vec<&Link> = devices.iter().filter(of_vlan).collect();
    vlans.sort_by_key(|vlan| under(vlan, devices).count());
    for vlan in &vlans {
        match unfit_as_vlan(vlan, devices, addressed) {
            Some(why) => {
                why_not.insert(vlan.ifindex, why);
            }
            None => {
                let port = under(vlan, devices).last();
                let port = port.filter(|p| !addressed.contains(&p.ifindex) && p.master.is_none());
                if let Some(port) = port {
                    let why = "its VLAN devices are named, which have the addresses";
                    why_not.entry(port.ifindex).or_insert_with(|| why.into());
                }
            }
        }
    }
    for vlan in vlans {
        let named = |d: &&Link| !why_not.contains_key(&d.ifindex);
        if named(&vlan)
            && let Some(over) = under(vlan, devices).find(named)
        {
            why_not.insert(
                vlan.ifindex,
                format!("served with `{}`, over which it lies", over.name),
            );
        }
    }
    for device in devices {
        let is_of =
            |d: &Link| d.master == Some(device.ifindex) && !why_not.contains_key(&d.ifindex);
        if device.kind.as_deref() == Some("bridge") && devices.iter().any(is_of) {
            let why = "a bridge, whose ports are named: what it routes is express";
            why_not.insert(device.ifindex, why.into());
        }
    }
    why_not
}

/// The devices under a VLAN device, the port under all of them last.
fn under<'a>(vlan: &'a Link, devices: &'a [Link]) -> impl Iterator<Item = &'a Link> {
    let below = |d: &&'a Link| {
        let index = d.vlan.as_ref().and(d.under);
        devices.iter().find(|other| Some(other.ifindex) == index)
    };
    std::iter::successors(below(&vlan), move |d| below(d))
}

/// Why a device is no port of a router.
fn unfit(
    device: &Link,
    devices: &Links,
    addressed: &BTreeSet<u32>,
    has_address: bool,
) -> Option<String> {
    const PORTS: [&str; 2] = ["veth", "bond"];
    if let Some(kind) = device.kind.as_deref().filter(|k| !PORTS.contains(k)) {
        return Some(format!(
            "a {kind} device, whose packets stay with the kernel"
        ));
    }
    let master = devices.iter().find(|d| Some(d.ifindex) == device.master);
    let bridge = master.filter(|d| d.kind.as_deref() == Some("bridge"));
    match bridge {
        None if device.master.is_some() => return Some("a part of a bond, team or VRF".into()),
        Some(bridge) if !addressed.contains(&bridge.ifindex) => {
            return Some(format!(
                "a part of `{}`, which routes nothing: it has no address",
                bridge.name
            ));
        }
        Some(bridge) if bridge.filters_vlans => {
            return Some(format!(
                "a part of `{}`, which tells VLANs apart (vlan_filtering): its packets stay with the kernel",
                bridge.name
            ));
        }
        Some(_) if device.kind.as_deref() == Some("veth") && is_of_a_container(&device.name) => {
            return Some("a container's, with which it comes and goes by its name".into());
        }
        _ => {}
    }
    if !device.up {
        return Some("down".into());
    }
    (bridge.is_none() && !has_address).then(|| "without an address".into())
}

/// As container engines name the ends of links that they leave outside: at random.
fn is_of_a_container(name: &str) -> bool {
    name.strip_prefix("veth")
        .is_some_and(|id| id.len() >= 6 && id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
}

fn unfit_as_vlan(vlan: &Link, devices: &Links, addressed: &BTreeSet<u32>) -> Option<String> {
    if vlan.master.is_some() {
        return Some(
            "a VLAN device in a bridge, bond or VRF, whose packets stay with the kernel".into(),
        );
    }
    if !vlan.up {
        return Some("down".into());
    }
    if !addressed.contains(&vlan.ifindex) {
        return Some("a VLAN device without an address".into());
    }
    attachment::unfit(vlan, devices)
}

#[cfg(test)]
mod tests {
    use rxlane_system::links::Vlan;

    use super::*;

    fn device(ifindex: u32, name: &str, kind: Option<&str>) -> Link {
        Link {
            ifindex,
            name: name.into(),
            kind: kind.map(Into::into),
            up: true,
            ..Link::default()
        }
    }

    fn member(ifindex: u32, name: &str, kind: Option<&str>, master: u32) -> Link {
        Link {
            master: Some(master),
            ..device(ifindex, name, kind)
        }
    }

    fn vlan(ifindex: u32, name: &str, under: u32) -> Link {
        Link {
            under: Some(under),
            vlan: Some(Vlan::default()),
            ..device(ifindex, name, Some("vlan"))
        }
    }

    /// Names of those that are ports; all devices may get addresses of IPv6.
    fn named(devices: &[Link], addressed: &[u32]) -> Vec<String> {
        let devices = &Links::from(devices.to_vec());
        let addressed = addressed.iter().copied().collect();
        let why_not = ports(devices, &addressed, |_| true);
        let ports = devices.iter();
        let ports = ports.filter(|d| !why_not.contains_key(&d.ifindex));
        ports.map(|d| d.name.clone()).collect()
    }

    #[test]
    fn the_ports_of_a_bridge_that_has_an_address_are_ports() {
        let mut devices = [
            device(1, "wan0", None),
            device(2, "br0", Some("bridge")),
            member(3, "lan1", None, 2),
            member(4, "lan2", Some("veth"), 2),
            member(5, "veth1a2b3c4", Some("veth"), 2),
            member(6, "vnet0", Some("tun"), 2),
            Link {
                up: false,
                ..member(7, "lan3", None, 2)
            },
        ];
        assert_eq!(named(&devices, &[1, 2]), ["wan0", "lan1", "lan2"]);
        // Of one that only switches nothing is routed.
        assert_eq!(named(&devices, &[1]), ["wan0"]);
        devices[1].filters_vlans = true;
        assert_eq!(named(&devices, &[1, 2]), ["wan0"]);
    }

    #[test]
    fn vlan_devices_with_addresses_are_ports_unless_what_is_under_them_has_some() {
        let devices = [
            device(1, "eth0", None),
            vlan(2, "eth0.10", 1),
            vlan(3, "eth0.20", 1),
            vlan(4, "eth0.30", 1),
            vlan(5, "eth0.20.5", 3),
            device(6, "br0", Some("bridge")),
            vlan(7, "br0.7", 6),
        ];
        assert_eq!(named(&devices, &[2, 3, 7]), ["eth0.10", "eth0.20"]);
        assert_eq!(named(&devices, &[2, 3, 5]), ["eth0.10", "eth0.20"]);
        assert_eq!(named(&devices, &[2, 5]), ["eth0.10", "eth0.20.5"]);
        assert_eq!(named(&devices, &[1, 2, 3]), ["eth0"]);
        // Nobody has one: the port may get one of IPv6.
        assert_eq!(named(&devices, &[]), ["eth0"]);
    }

    #[test]
    fn members_of_other_devices_and_what_is_down_are_no_ports() {
        let devices = [
            device(1, "bond0", Some("bond")),
            member(2, "eth0", None, 1),
            Link {
                up: false,
                ..device(3, "eth1", None)
            },
            device(4, "wg0", Some("wireguard")),
        ];
        assert_eq!(named(&devices, &[1, 3, 4]), ["bond0"]);
    }
}
