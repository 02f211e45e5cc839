//! Devices that ports belong to, and those that consist of ports: bridges, bonds, VRFs (bpf/bridge.h, `struct port` of bpf/shared.h).
//!
//! A bond is a port of its own: its XDP program runs on its members, and the kernel chooses among them where packets leave. A VRF's members
//! are ports as others, whose routes the kernel finds by the VRF. Of a bridge's member all that is to the router came in by the bridge.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::firewall::{Hook, Place};
use rxlane_system::links::Link as NetDevice;
use rxlane_system::{SystemError, firewall, sysctl, tc};
use schemars::JsonSchema;
use serde::Serialize;

use crate::{attach_points, port_links, vlans};

/// A device that a port belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MasterStatus {
    /// Name of the device.
    pub name: String,
    /// `bridge`, `bond`, `team`, `vrf` …
    pub kind: String,
    /// The port.
    pub port: String,
    /// Why the port's packets stay with the kernel; missing if they may be express.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// What a router does about the devices that its ports belong to.
pub(crate) fn status(config: &RouterConfig, devices: &[NetDevice]) -> Vec<MasterStatus> {
    let filtered = filtered(config, devices).unwrap_or_default();
    let ports = attach_points::whole(&config.ports, devices);
    let status = |port: &NetDevice| {
        let master = master_of(port, devices)?;
        Some(MasterStatus {
            name: master.name.clone(),
            kind: master.kind.clone().unwrap_or_default(),
            port: port.name.clone(),
            declined: why_not(port, master, config, devices)
                .or_else(|| filtered.get(&port.ifindex).cloned()),
        })
    };
    ports.filter_map(status).collect()
}

fn master_of<'a>(device: &NetDevice, devices: &'a [NetDevice]) -> Option<&'a NetDevice> {
    let master = device.master?;
    devices.iter().find(|d| d.ifindex == master)
}

/// The VRF that a device belongs to.
pub(crate) fn vrf_of<'a>(device: &NetDevice, devices: &'a [NetDevice]) -> Option<&'a NetDevice> {
    master_of(device, devices).filter(|master| is(master, "vrf"))
}

fn is(device: &NetDevice, kind: &str) -> bool {
    device.kind.as_deref() == Some(kind)
}

/// The device that Linux notes for what comes in by another one (`skb_iif`): its VRF, if it belongs to one
/// (`vrf_ip_rcv` in drivers/net/vrf.c).
pub(crate) fn seen_as(device: &NetDevice, devices: &[NetDevice]) -> u32 {
    vrf_of(device, devices).map_or(device.ifindex, |vrf| vrf.ifindex)
}

/// The master by which a port's packets come in, and not by the port: a bridge, or one that is not served at all.
pub(crate) fn taken_by<'a>(
    port: &NetDevice,
    config: &RouterConfig,
    devices: &'a [NetDevice],
) -> Option<&'a NetDevice> {
    let master = master_of(port, devices)?;
    let served_vrf = is(master, "vrf") && why_not(port, master, config, devices).is_none();
    (!served_vrf).then_some(master)
}

/// The bridge that routes what comes in by a port, if that may be express.
pub(crate) fn bridge_of<'a>(
    port: &NetDevice,
    config: &RouterConfig,
    devices: &'a [NetDevice],
) -> Option<&'a NetDevice> {
    let master = master_of(port, devices).filter(|master| is(master, "bridge"))?;
    let declined = why_not(port, master, config, devices).is_some();
    (!declined).then_some(master)
}

/// Ports of bridges whose packets are filtered before the bridge has them or after it has sent them, with what does so. The witness of
/// `established` sees a flow at the bridge, and not by which of its ports it came in.
///
/// # Errors
/// When the kernel cannot be asked.
pub(crate) fn filtered(
    config: &RouterConfig,
    devices: &[NetDevice],
) -> Result<BTreeMap<u32, String>, SystemError> {
    let bridged = |port: &&NetDevice| bridge_of(port, config, devices).is_some();
    let ports = attach_points::whole(&config.ports, devices);
    let ports: Vec<&NetDevice> = ports.filter(bridged).collect();
    if ports.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Rules of IP that a bridge asks may tell its ports apart (`physdev`).
    let hooks = firewall::hooks()?;
    let early = hooks.iter().find(|hook| hook.place == Place::Prerouting);
    let calls = ["iptables", "ip6tables"].map(|name| format!("net.bridge.bridge-nf-call-{name}"));
    let calls = calls.into_iter().find(|name| sysctl::read(name) == Some(1));
    let all = match (early, calls) {
        _ if firewall::has_legacy_ebtables() => {
            Some("ebtables may filter what bridges take, by rules that cannot be read".to_owned())
        }
        (Some(hook), Some(name)) if ports.len() > 1 => Some(format!(
            "the chain {hook} may tell ports of bridges apart ({name})"
        )),
        _ => {
            let chain = firewall::chain_of_bridges()?;
            chain.map(|chain| format!("the chain {chain} sees what bridges take and send"))
        }
    };
    let (mut found, ours) = (BTreeMap::new(), port_links::ours());
    for port in ports {
        let own = seen_at(port, &hooks, &ours)?;
        if let Some(why) = all.clone().or(own) {
            found.insert(port.ifindex, why);
        }
    }
    Ok(found)
}

/// What sees packets of a device itself: a hook of it, or a filter of traffic control, but programs that links of `ours` hold.
///
/// # Errors
/// When the kernel cannot be asked.
pub(crate) fn seen_at(
    device: &NetDevice,
    hooks: &[Hook],
    ours: &[u32],
) -> Result<Option<String>, SystemError> {
    let name = &device.name;
    let hook = hooks.iter().find(|h| h.device.as_ref() == Some(name));
    let filters = tc::filters(device.ifindex, ours)?;
    Ok(match (hook, filters.first()) {
        (Some(hook), _) => Some(format!("the chain {hook} sees packets of `{name}`")),
        (_, Some(filter)) => Some(format!("`{name}` has a filter ({filter})")),
        _ => None,
    })
}

/// What the operator should know of ports that belong to other devices.
pub(crate) fn warnings(config: &RouterConfig, devices: &[NetDevice]) -> Vec<String> {
    let all = status(config, devices).into_iter();
    all.filter_map(|m| {
        let why = m.declined?;
        Some(format!(
            "what comes in by port `{}` stays with the kernel: {why}",
            m.port
        ))
    })
    .collect()
}

/// The devices by which a bond takes packets, where its program runs on them (`bond_should_deliver_exact_match` in
/// drivers/net/bonding/bond_main.c).
pub(crate) fn members<'a>(
    bond: &'a NetDevice,
    mode: Option<&str>,
    config: &RouterConfig,
    devices: &'a [NetDevice],
) -> impl Iterator<Item = &'a NetDevice> {
    // Sockets of the engine are those of one device, and a bond's packets come in by others.
    let engine = matches!(config.datapath, Datapath::Afxdp(_));
    let runs = is(bond, "bond") && mode == Some("native") && !engine;
    // One with another address gets nothing that is to the bond's, and a VLAN device over a member takes frames before the bond.
    let has_vlans = |d: &NetDevice| {
        let over = |v: &NetDevice| v.vlan.is_some() && v.under == Some(d.ifindex);
        devices.iter().any(over)
    };
    let of_bond = move |d: &NetDevice| {
        d.master == Some(bond.ifindex) && d.serves_master && d.mac == bond.mac && !has_vlans(d)
    };
    devices.iter().filter(move |d| runs && of_bond(d))
}

/// Ports, and those under them whose frames are theirs: members of bonds.
pub(crate) fn with_members<'a>(
    ports: &BTreeSet<&'a str>,
    devices: &'a [NetDevice],
) -> BTreeSet<&'a str> {
    let bonds = devices.iter();
    let bonds = bonds.filter(|d| is(d, "bond") && ports.contains(d.name.as_str()));
    let bonds: BTreeSet<u32> = bonds.map(|d| d.ifindex).collect();
    let members = devices.iter();
    let members = members.filter(|d| d.master.is_some_and(|m| bonds.contains(&m)));
    let members = members.map(|d| d.name.as_str());
    members.chain(ports.iter().copied()).collect()
}

/// Names of devices that packets of ports pass, too: bridges and VRFs that ports belong to, members of bonds.
pub(crate) fn beside(ports: &[String], devices: &[NetDevice]) -> Vec<String> {
    let names: BTreeSet<&str> = ports.iter().map(String::as_str).collect();
    let of = devices.iter().filter(|d| names.contains(d.name.as_str()));
    let masters = of.filter_map(|port| master_of(port, devices));
    let masters: BTreeSet<&str> = masters.map(|master| master.name.as_str()).collect();
    let all = with_members(&names, devices).into_iter().chain(masters);
    all.filter(|name| !names.contains(name))
        .map(Into::into)
        .collect()
}

/// What speaks against the express lane for a port of a master.
fn why_not(
    port: &NetDevice,
    master: &NetDevice,
    config: &RouterConfig,
    devices: &[NetDevice],
) -> Option<String> {
    let name = &master.name;
    let reason = |holds: bool, why: &str| holds.then(|| format!("`{name}` {why}"));
    let engine = matches!(config.datapath, Datapath::Afxdp(_));
    match master.kind.as_deref() {
        Some("vrf") => {
            reason(!master.up, "is down").or_else(|| reason(engine, "is not known to the engine"))
        }
        Some("bridge") => {
            let serves = port.serves_master;
            reason(engine, "is not known to the engine")
                .or_else(|| reason(config.ports.contains(name), "is a port itself"))
                .or_else(|| reason(master.filters_vlans, "tells VLANs apart (vlan_filtering)"))
                .or_else(|| {
                    let port = &port.name;
                    let shut = format!(
                        "takes nothing from `{port}` (spanning tree), or not from all (locked)"
                    );
                    reason(!serves, &shut)
                })
                .or_else(|| vlans::why_not(master, devices))
        }
        Some("bond" | "team") => Some(format!(
            "`{}` sends what it gets to `{name}`: name that in `ports` instead",
            port.name
        )),
        kind => reason(
            true,
            &format!("is a {}, which is not served", kind.unwrap_or("device")),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(ifindex: u32, name: &str, kind: Option<&str>, master: Option<u32>) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            kind: kind.map(Into::into),
            master,
            up: true,
            serves_master: master.is_some(),
            ..NetDevice::default()
        }
    }

    /// What speaks against the first port.
    fn declined(devices: &[NetDevice], config: &RouterConfig) -> Option<String> {
        let master = master_of(&devices[0], devices)?;
        why_not(&devices[0], master, config, devices)
    }

    fn config(ports: &[&str]) -> RouterConfig {
        let ports: Vec<String> = ports.iter().map(|p| format!("\"{p}\"")).collect();
        let text = format!(
            "ports = [{}]\n[[class]]\nname = \"all\"\nlane = \"stack\"\n",
            ports.join(", ")
        );
        rxlane_config::parse(&text).unwrap()
    }

    #[test]
    fn members_of_a_vrf_are_ports_as_others_that_linux_notes_by_the_vrf() {
        let mut devices = [
            device(1, "lan0", None, Some(3)),
            device(2, "wan0", None, None),
            device(3, "blue", Some("vrf"), None),
        ];
        let config = config(&["lan0", "wan0"]);
        assert_eq!(seen_as(&devices[0], &devices), 3);
        assert_eq!(seen_as(&devices[1], &devices), 2);
        assert_eq!(taken_by(&devices[0], &config, &devices), None);
        assert_eq!(declined(&devices, &config), None);
        devices[2].up = false;
        assert!(taken_by(&devices[0], &config, &devices).is_some());
        let declined = declined(&devices, &config);
        assert_eq!(declined.as_deref(), Some("`blue` is down"));
    }

    #[test]
    fn a_bridge_is_served_unless_more_than_what_it_has_learned_decides() {
        let bridge = device(3, "br0", Some("bridge"), None);
        let devices = |change: Change| {
            let (mut port, mut bridge) = (device(1, "lan0", None, Some(3)), bridge.clone());
            change(&mut port, &mut bridge);
            [port, bridge]
        };
        let config = config(&["lan0"]);
        type Change = fn(&mut NetDevice, &mut NetDevice);
        for (change, why) in [
            ((|_, _| ()) as Change, None),
            (
                |_, b| b.filters_vlans = true,
                Some("`br0` tells VLANs apart"),
            ),
            (|_, b| b.up = false, Some("`br0` is down")),
            (|_, b| b.xdp_program = 9, Some("`br0` has an XDP program")),
            (
                |p, _| p.serves_master = false,
                Some("`br0` takes nothing from `lan0`"),
            ),
        ] {
            let devices = devices(change);
            let said = declined(&devices, &config);
            assert_eq!(said.is_some(), why.is_some(), "{said:?}");
            assert!(said.unwrap_or_default().starts_with(why.unwrap_or("")));
            // Whether served or not, its packets are not the port's.
            assert!(taken_by(&devices[0], &config, &devices).is_some());
            let bridge = bridge_of(&devices[0], &config, &devices);
            assert_eq!(bridge.is_some(), why.is_none());
        }
    }

    #[test]
    fn a_bond_is_named_itself_and_takes_packets_by_its_active_members() {
        let devices = [
            device(1, "eth0", None, Some(3)),
            NetDevice {
                serves_master: false,
                ..device(2, "eth1", None, Some(3))
            },
            device(3, "bond0", Some("bond"), None),
        ];
        let bond = config(&["bond0"]);
        let names = |mode| {
            let members = members(&devices[2], mode, &bond, &devices);
            members.map(|d| d.name.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(names(Some("native")), ["eth0"]);
        assert!(names(Some("generic")).is_empty());
        let all = with_members(&["bond0"].into(), &devices);
        assert_eq!(all, ["bond0", "eth0", "eth1"].into());
        let declined = declined(&devices, &config(&["eth0"]));
        assert!(declined.unwrap().contains("name that in `ports` instead"));
    }
}
