//! Where programs are attached: at the ports that are named, and for VLAN devices that are named at the port under them, of which only
//! their frames are served then (bpf/devices/vlan.h, `enter_named`).

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links};

use crate::device::{MAX_TAGS, chain, hides_tags, with_members};

/// Ethernet in packets of other ports, as `ip link` and the kernel's messages name the kinds.
const TUNNELS: [&str; 8] = [
    "vxlan",
    "geneve",
    "gretap",
    "gretap6",
    "ip6gretap",
    "erspan",
    "ip6erspan",
    "bareudp",
];

/// A VLAN device that cannot be named.
#[derive(Debug, thiserror::Error)]
#[error("port `{port}`: {why}")]
pub struct UnfitVlan {
    /// Name of the VLAN device.
    pub port: String,
    /// Why, with the cure.
    pub why: String,
}

/// Ports under VLAN devices that are named, where programs are attached for these; each with their names.
pub fn by_vlan<'a>(ports: &[String], devices: &'a Links) -> BTreeMap<&'a str, BTreeSet<String>> {
    let mut found: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for device in named(ports, devices) {
        let (_, Some(port)) = chain(device, devices) else {
            continue;
        };
        if unfit(device, devices).is_none() && !ports.contains(&port.name) {
            let vlans = found.entry(port.name.as_str()).or_default();
            vlans.insert(device.name.clone());
        }
    }
    found
}

/// VLAN devices that are named.
fn named<'a>(ports: &[String], devices: &'a Links) -> impl Iterator<Item = &'a NetDevice> {
    found(ports, devices).filter(|d| d.vlan.is_some())
}

/// Devices of these names, in the order of their indices.
fn found<'a>(ports: &[String], devices: &'a Links) -> impl Iterator<Item = &'a NetDevice> {
    let found = ports.iter().filter_map(|name| devices.named(name));
    let found: BTreeMap<u32, &NetDevice> = found.map(|d| (d.ifindex, d)).collect();
    found.into_values()
}

/// Ports that are named themselves.
pub fn whole<'a>(ports: &[String], devices: &'a Links) -> impl Iterator<Item = &'a NetDevice> {
    found(ports, devices).filter(|d| d.vlan.is_none())
}

/// The devices that programs are attached to: ports that are named, and those under VLAN devices that are.
pub fn points<'a>(ports: &[String], devices: &'a Links) -> impl Iterator<Item = &'a NetDevice> {
    let under = by_vlan(ports, devices).into_keys();
    whole(ports, devices).chain(under.filter_map(|name| devices.named(name)))
}

/// Whether frames of a VLAN device are served: it is named, or something under it is.
pub fn covers(ports: &[String], chain: &[&NetDevice], port: &NetDevice) -> bool {
    let mut all = chain.iter().copied().chain([port]);
    all.any(|device| ports.contains(&device.name))
}

/// Refuses VLAN devices that cannot be served, whatever happens to them while a router runs.
///
/// # Errors
/// The first, with cause and cure.
pub fn check(config: &RouterConfig, devices: &Links) -> Result<(), UnfitVlan> {
    for device in named(&config.ports, devices) {
        let (under, port) = chain(device, devices);
        let others = under.iter().copied().chain(port);
        let mut others = others.filter(|d| d.name != device.name);
        let covered = others.find(|d| config.ports.contains(&d.name));
        let why = if matches!(config.datapath, Datapath::Afxdp(_)) {
            Some("the AF_XDP engine leaves tagged packets to the kernel, and serves whole ports: name the port under it, or use datapath = \"express\"".to_owned())
        } else if let Some(by) = covered {
            Some(format!(
                "it lies over `{}`, which is named, too, and whose packets all are served, also those of its VLANs: remove one of both",
                by.name
            ))
        } else {
            unfit(device, devices)
        };
        if let Some(why) = why {
            let port = device.name.clone();
            return Err(UnfitVlan { port, why });
        }
    }
    Ok(())
}

/// Why a VLAN device cannot be named, with the cure.
pub fn unfit(device: &NetDevice, devices: &Links) -> Option<String> {
    let (chain, port) = chain(device, devices);
    let Some(port) = port else {
        return Some("the device under it is in another network namespace, where its frames come in: run a router there, or leave it out".into());
    };
    let (name, kind) = (&port.name, port.kind.as_deref().unwrap_or_default());
    if kind == "bridge" {
        return Some(format!(
            "it lies over `{name}`, a bridge, which hides VLAN tags from XDP and tells them apart in ways of its own: name VLAN devices over the ports of `{name}`, or leave it out"
        ));
    }
    if TUNNELS.contains(&kind) {
        return Some(format!(
            "it lies over `{name}`, a tunnel ({kind}), whose frames come in by other ports, as packets to the router: name those ports, or leave it out"
        ));
    }
    if hides_tags(Some(kind), Some("native")) {
        return Some(format!(
            "it lies over `{name}`, a device of the kind {kind}, which gets its frames from another one in the kernel, where VLAN tags are hidden from XDP: put it over the device under `{name}`, or leave it out"
        ));
    }
    (chain.len() > MAX_TAGS).then(|| {
        format!(
            "its frames have {} tags, and the lane reads {MAX_TAGS}: leave it out",
            chain.len()
        )
    })
}

/// Ports under VLAN devices that are named, and what frames pass there before these have them: members of bonds.
pub fn under(ports: &[String], devices: &Links) -> BTreeSet<String> {
    let points = by_vlan(ports, devices);
    let all = with_members(&points.into_keys().collect(), devices);
    all.into_iter().map(Into::into).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rxlane_system::links::Vlan;

    fn device(ifindex: u32, name: &str, kind: Option<&str>) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            kind: kind.map(Into::into),
            up: true,
            ..NetDevice::default()
        }
    }

    fn vlan(ifindex: u32, name: &str, under: u32) -> NetDevice {
        NetDevice {
            under: Some(under),
            vlan: Some(Vlan::default()),
            ..device(ifindex, name, Some("vlan"))
        }
    }

    fn names(all: &[&str]) -> Vec<String> {
        all.iter().map(|name| (*name).into()).collect()
    }

    fn refused(ports: &[&str], engine: bool, devices: &Links) -> Option<String> {
        let ports: Vec<String> = ports.iter().map(|p| format!("\"{p}\"")).collect();
        let datapath = if engine { "datapath = \"afxdp\"\n" } else { "" };
        let text = format!(
            "ports = [{}]\n{datapath}[[class]]\nname = \"all\"\nlane = \"stack\"\n",
            ports.join(", ")
        );
        let config = rxlane_config::parse(&text).unwrap();
        check(&config, devices).err().map(|e| e.to_string())
    }

    #[test]
    fn programs_are_attached_at_the_port_under_all_tags_once_for_all_that_are_named() {
        let devices = Links::from([
            device(1, "lan0", None),
            vlan(2, "lan0.20", 1),
            vlan(3, "lan0.7", 1),
            vlan(4, "lan0.7.8", 3),
            device(5, "bond0", Some("bond")),
            vlan(6, "bond0.9", 5),
            device(7, "wan0", None),
            NetDevice {
                master: Some(5),
                ..device(8, "eth1", None)
            },
        ]);
        let ports = names(&["lan0.20", "lan0.7.8", "bond0.9", "wan0"]);
        let points = by_vlan(&ports, &devices);
        let of = |port: &str| points[port].iter().map(String::as_str).collect::<Vec<_>>();
        assert_eq!(points.len(), 2);
        assert_eq!(of("lan0"), ["lan0.20", "lan0.7.8"]);
        assert_eq!(of("bond0"), ["bond0.9"]);
        let all: Vec<_> = whole(&ports, &devices).map(|d| &d.name).collect();
        assert_eq!(all, ["wan0"]);
        let under: Vec<String> = under(&ports, &devices).into_iter().collect();
        assert_eq!(under, ["bond0", "eth1", "lan0"]);
        let served = |device: usize| {
            let (chain, port) = chain(&devices[device], &devices);
            covers(&ports, &chain, port.unwrap())
        };
        // Named, and over a port of which others are named.
        assert_eq!([1, 2, 3].map(served), [true, false, true]);
    }

    #[test]
    fn what_can_never_be_served_is_refused_by_name_with_cause_and_cure() {
        let over = |kind: &str| {
            let under = device(1, "under0", Some(kind).filter(|k| !k.is_empty()));
            let devices = Links::from([under, vlan(2, "v", 1), vlan(3, "w", 2), vlan(4, "x", 3)]);
            refused(&["v"], false, &devices).unwrap_or_default()
        };
        for kind in ["", "veth", "bond", "dummy"] {
            assert_eq!(over(kind), "");
        }
        assert!(over("bridge").contains("port `v`: it lies over `under0`, a bridge"));
        assert!(over("macvlan").contains("of the kind macvlan"));
        assert!(over("vxlan").contains("a tunnel (vxlan)"));
        let devices = Links::from([
            device(1, "lan0", None),
            vlan(2, "v", 1),
            vlan(3, "w", 2),
            vlan(4, "x", 3),
            vlan(5, "elsewhere", 99),
        ]);
        let said = |ports: &[&str], engine| refused(ports, engine, &devices).unwrap_or_default();
        assert_eq!(said(&["v"], false), "");
        assert_eq!(said(&["w"], false), "");
        assert!(said(&["x"], false).contains("its frames have 3 tags"));
        assert!(said(&["elsewhere"], false).contains("in another network namespace"));
        assert!(said(&["v"], true).contains("engine leaves tagged packets"));
        assert!(
            said(&["lan0", "v"], false)
                .contains("port `v`: it lies over `lan0`, which is named, too")
        );
        assert!(said(&["v", "w"], false).contains("port `w`: it lies over `v`"));
    }
}
