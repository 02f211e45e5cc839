//! VLAN devices over ports: which of them the express lane serves.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links, Vlan};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::attachment;
use crate::device::{MAX_TAGS, chain, hides_tags, why_not};

/// A VLAN device over a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VlanStatus {
    /// Name of the device.
    pub name: String,
    /// The port under it.
    pub port: String,
    /// Tags of its frames, the outer one first: VLAN id, with `ad` behind it if it is a service tag (IEEE 802.1ad).
    pub tags: Vec<String>,
    /// Why its packets stay with the kernel; missing if they may be express.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// A VLAN device over a port, with the devices that make up its tags.
pub struct Stack<'a> {
    /// The device.
    pub device: &'a NetDevice,
    /// The port under it.
    pub port: &'a NetDevice,
    /// The outer tag's device first, the VLAN device itself last.
    pub chain: Vec<&'a NetDevice>,
    /// Their tags.
    pub tags: Vec<&'a Vlan>,
    /// Whether its frames are served: it is named, or something under it.
    named: bool,
    /// Why its packets stay with the kernel.
    pub declined: Option<String>,
}

/// VLAN devices that the program knows: half of what its tables hold (`MAX_VLANS` of bpf/devices/vlan.h), for tags without an id are in them, too.
const MAX_DEVICES: usize = 4096;

/// What a router does about the VLAN devices over its ports.
pub fn status(config: &RouterConfig, devices: &Links) -> Vec<VlanStatus> {
    let id = |vlan: &&Vlan| format!("{}{}", vlan.id, if vlan.service { "ad" } else { "" });
    let engine = matches!(config.datapath, Datapath::Afxdp(_));
    let engine = engine.then(|| "the engine leaves tagged packets to the kernel".to_owned());
    stacks(&config.ports, devices)
        .into_iter()
        .map(|stack| VlanStatus {
            name: stack.device.name.clone(),
            port: stack.port.name.clone(),
            tags: stack.tags.iter().map(id).collect(),
            declined: stack.declined.or(engine.clone()),
        })
        .collect()
}

/// VLAN devices over ports whose packets may be express, each with its port, and whether its tags differ by priority.
pub fn express<'a>(ports: &[String], devices: &'a Links) -> BTreeMap<u32, (&'a NetDevice, bool)> {
    let of = |s: Stack<'a>| {
        let maps = s.tags.iter().any(|tag| maps(tag));
        (s.device.ifindex, (s.port, maps))
    };
    served_stacks(ports, devices).map(of).collect()
}

/// VLAN devices over ports whose packets may be express, with those under them whose tags they have.
pub fn served(ports: &[String], devices: &Links) -> BTreeSet<String> {
    let all = served_stacks(ports, devices).flat_map(|stack| stack.chain);
    all.map(|device| device.name.clone()).collect()
}

fn served_stacks<'a>(ports: &[String], devices: &'a Links) -> impl Iterator<Item = Stack<'a>> {
    let all = stacks(ports, devices).into_iter();
    all.filter(|stack| stack.declined.is_none())
}

/// The VLAN devices over ports, with what speaks against each.
pub fn stacks<'a>(ports: &[String], devices: &'a Links) -> Vec<Stack<'a>> {
    let found = devices.iter();
    let by_vlan = attachment::by_vlan(ports, devices);
    let is_port = |d: &NetDevice| ports.contains(&d.name) || by_vlan.contains_key(d.name.as_str());
    let found = found.filter_map(|device| stack_of(device, ports, is_port, devices));
    let mut all: Vec<Stack<'_>> = found.collect();
    let named = all.iter_mut().filter(|stack| stack.named);
    for stack in named.skip(MAX_DEVICES) {
        stack.declined = Some(format!("there are more than {MAX_DEVICES} VLAN devices"));
    }
    all
}

fn stack_of<'a>(
    device: &'a NetDevice,
    ports: &[String],
    is_port: impl Fn(&NetDevice) -> bool,
    devices: &'a Links,
) -> Option<Stack<'a>> {
    let (chain, at) = chain(device, devices);
    let at = at.filter(|at| is_port(at))?;
    let tags: Vec<&Vlan> = chain.iter().filter_map(|d| d.vlan.as_ref()).collect();
    if tags.is_empty() {
        return None;
    }
    let named = attachment::covers(ports, &chain, at);
    let declined = (!named).then(|| "neither it nor the port is named in `ports`".to_owned());
    let mut up = chain.iter().rev();
    let declined = declined.or_else(|| up.find_map(|d| why_not(d, devices)));
    // Both tags show the same priority, of which only that of the outer one is seen.
    let inner_maps = tags.len() > 1 && tags.last().is_some_and(|vlan| maps(vlan));
    let reason = |holds: bool, why: &str| holds.then(|| why.to_owned());
    let declined = declined
        .or_else(|| {
            let hidden = hides_tags(at.kind.as_deref(), Some("native"));
            reason(hidden, "its port hides tags from XDP")
        })
        .or_else(|| {
            reason(
                device.mac != at.mac,
                "its MAC address is not that of its port",
            )
        })
        .or_else(|| reason(tags.len() > MAX_TAGS, "it has more than two tags"))
        .or_else(|| reason(inner_maps, "its egress-qos-map is that of an inner tag"));
    Some(Stack {
        device,
        port: at,
        chain,
        tags,
        named,
        declined,
    })
}

/// What the operator should know of VLAN devices that are named.
pub fn warnings(config: &RouterConfig, vlans: &[VlanStatus]) -> Vec<String> {
    let named = vlans
        .iter()
        .filter(|vlan| config.ports.contains(&vlan.name));
    let warning = |vlan: &VlanStatus| {
        let why = vlan.declined.as_ref()?;
        Some(format!(
            "packets of port `{}` stay with the kernel: {why}",
            vlan.name
        ))
    };
    named.filter_map(warning).collect()
}

/// Whether code points of a device's frames differ by priority (`egress-qos-map`).
pub fn maps(vlan: &Vlan) -> bool {
    vlan.egress_priorities.iter().any(|(_, pcp)| *pcp != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(ifindex: u32, name: &str) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: true,
            ..NetDevice::default()
        }
    }

    fn vlan(ifindex: u32, name: &str, under: u32, id: u16) -> NetDevice {
        NetDevice {
            kind: Some("vlan".into()),
            under: Some(under),
            vlan: Some(Vlan {
                id,
                reorders: true,
                ..Vlan::default()
            }),
            ..device(ifindex, name)
        }
    }

    fn declined(devices: impl Into<Links>) -> Vec<(String, Option<String>)> {
        let devices = devices.into();
        let all = stacks(&["lan0".into()], &devices).into_iter();
        all.map(|s| (s.device.name.clone(), s.declined)).collect()
    }

    #[test]
    fn vlans_of_ports_are_served_with_up_to_two_tags_and_those_of_others_are_not_ours() {
        let mut service = vlan(2, "lan0.7", 1, 7);
        service.vlan.as_mut().unwrap().service = true;
        let devices = Links::from([
            device(1, "lan0"),
            service,
            vlan(3, "lan0.7.8", 2, 8),
            vlan(4, "three", 3, 9),
            device(5, "other0"),
            vlan(6, "other0.1", 5, 1),
            vlan(7, "elsewhere", 99, 1),
        ]);
        let all = stacks(&["lan0".into()], &devices);
        let ids = |s: &Stack<'_>| s.tags.iter().map(|t| t.id).collect::<Vec<_>>();
        let ids: Vec<_> = all.iter().map(ids).collect();
        assert_eq!(ids, [vec![7], vec![7, 8], vec![7, 8, 9]]);
        assert!(all[..2].iter().all(|v| v.declined.is_none()));
        assert!(all[2].declined.as_ref().unwrap().contains("two tags"));
        let names = served(&["lan0".into()], &devices);
        assert_eq!(names, ["lan0.7".into(), "lan0.7.8".into()].into());
    }

    #[test]
    fn vlans_of_a_bridge_that_is_a_port_are_declined_for_their_outer_tag_is_hidden() {
        let bridge = NetDevice {
            kind: Some("bridge".into()),
            ..device(1, "lan0")
        };
        let all = declined([bridge, vlan(2, "lan0.7", 1, 7)]);
        assert_eq!(all[0].1.as_deref(), Some("its port hides tags from XDP"));
    }

    #[test]
    fn what_decides_about_a_vlans_packets_besides_its_routes_declines_it_by_name() {
        let with = |change: fn(&mut NetDevice)| {
            let mut v = vlan(2, "v", 1, 7);
            change(&mut v);
            let mut macvlan = device(3, "mv");
            macvlan.takes_from = Some(v.ifindex).filter(|_| v.mtu == 1);
            macvlan.under = macvlan.takes_from;
            declined([device(1, "lan0"), v, macvlan, device(4, "br0")])
                .remove(0)
                .1
                .unwrap_or_default()
        };
        assert_eq!(with(|_| ()), "");
        for (change, why) in [
            ((|v| v.up = false) as fn(&mut NetDevice), "`v` is down"),
            (|v| v.master = Some(4), "`v` belongs to `br0`"),
            (|v| v.mtu = 1, "`mv` takes or copies packets of `v`"),
            (|v| v.xdp_program = 5, "`v` has an XDP program"),
            (|v| v.mac[5] = 9, "its MAC address is not that of its port"),
            (
                |v| v.vlan.as_mut().unwrap().reorders = false,
                "`v` has reorder_hdr off",
            ),
        ] {
            assert_eq!(with(change), why);
        }
    }
}
