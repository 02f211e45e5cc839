//! Devices that ports belong to, and those that consist of ports: bridges, bonds, VRFs (bpf/devices/bridge.h, `struct port` of bpf/lib/shared.h).
//!
//! A bond is a port of its own: its XDP program runs on its members, and the kernel chooses among them where packets leave. A VRF's members
//! are ports as others, whose routes the kernel finds by the VRF. Of a bridge's member all that is to the router came in by the bridge.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attachment;
use crate::device::{self, is, master_of, with_members};

/// A device that a port belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// What a router does about the devices that its ports belong to. `filtered`: what sees packets of ports of bridges, by the port's index.
pub fn status(
    config: &RouterConfig,
    devices: &Links,
    filtered: &BTreeMap<u32, String>,
) -> Vec<MasterStatus> {
    let ports = attachment::whole(&config.ports, devices);
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

/// The master by which a port's packets come in, and not by the port: a bridge, or one that is not served at all.
pub fn taken_by<'a>(
    port: &NetDevice,
    config: &RouterConfig,
    devices: &'a Links,
) -> Option<&'a NetDevice> {
    let master = master_of(port, devices)?;
    let served_vrf = is(master, "vrf") && why_not(port, master, config, devices).is_none();
    (!served_vrf).then_some(master)
}

/// The bridge that routes what comes in by a port, if that may be express.
pub fn bridge_of<'a>(
    port: &NetDevice,
    config: &RouterConfig,
    devices: &'a Links,
) -> Option<&'a NetDevice> {
    let master = master_of(port, devices).filter(|master| is(master, "bridge"))?;
    let declined = why_not(port, master, config, devices).is_some();
    (!declined).then_some(master)
}

/// Ports of bridges that are served, each with its bridge.
pub fn bridged<'a>(
    config: &RouterConfig,
    devices: &'a Links,
) -> impl Iterator<Item = (&'a NetDevice, &'a NetDevice)> {
    let ports = attachment::whole(&config.ports, devices);
    ports.filter_map(|port| Some((port, bridge_of(port, config, devices)?)))
}

/// What the operator should know of ports that belong to other devices.
pub fn warnings(masters: &[MasterStatus]) -> Vec<String> {
    let warning = |m: &MasterStatus| {
        let why = m.declined.as_ref()?;
        Some(format!(
            "what comes in by port `{}` stays with the kernel: {why}",
            m.port
        ))
    };
    masters.iter().filter_map(warning).collect()
}

/// The devices by which a bond takes packets, where its program runs on them (`bond_should_deliver_exact_match` in
/// drivers/net/bonding/bond_main.c).
pub fn members<'a>(
    bond: &'a NetDevice,
    mode: Option<&str>,
    config: &RouterConfig,
    devices: &'a Links,
) -> impl Iterator<Item = &'a NetDevice> {
    // Sockets of the engine are those of one device, and a bond's packets come in by others.
    let engine = matches!(config.datapath, Datapath::Afxdp(_));
    let runs = is(bond, "bond") && mode == Some("native") && !engine;
    // One with another address gets nothing that is to the bond's, and a VLAN device over a member takes frames before the bond.
    let has_vlans = |d: &NetDevice| devices.over(d.ifindex).any(|v| v.vlan.is_some());
    let takes = move |d: &NetDevice| d.serves_master && d.mac == bond.mac && !has_vlans(d);
    let members = devices.members(bond.ifindex);
    members.filter(move |d| runs && takes(d))
}

/// Names of devices that packets of ports pass, too: bridges and VRFs that ports belong to, members of bonds.
pub fn beside(ports: &[String], devices: &Links) -> Vec<String> {
    let names: BTreeSet<&str> = ports.iter().map(String::as_str).collect();
    let of = names.iter().filter_map(|name| devices.named(name));
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
    devices: &Links,
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
                .or_else(|| device::why_not(master, devices))
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
    use crate::device::seen_as;

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
    fn declined(devices: &Links, config: &RouterConfig) -> Option<String> {
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
        let with = |up| {
            let vrf = NetDevice {
                up,
                ..device(3, "blue", Some("vrf"), None)
            };
            let lan = device(1, "lan0", None, Some(3));
            Links::from([lan, device(2, "wan0", None, None), vrf])
        };
        let devices = with(true);
        let config = config(&["lan0", "wan0"]);
        assert_eq!(seen_as(&devices[0], &devices), 3);
        assert_eq!(seen_as(&devices[1], &devices), 2);
        assert_eq!(taken_by(&devices[0], &config, &devices), None);
        assert_eq!(declined(&devices, &config), None);
        let devices = with(false);
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
            Links::from([port, bridge])
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
        let devices = Links::from([
            device(1, "eth0", None, Some(3)),
            NetDevice {
                serves_master: false,
                ..device(2, "eth1", None, Some(3))
            },
            device(3, "bond0", Some("bond"), None),
        ]);
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
