//! VLAN devices over ports: which of them the express lane serves, and the tables that say how (bpf/vlan.h).

use std::collections::{BTreeMap, BTreeSet};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::addresses;
use rxlane_system::links::{Link as NetDevice, Vlan};
use schemars::JsonSchema;
use serde::Serialize;

use crate::DataplaneError;
use crate::attach_points;
use crate::error::BpfTried;
use crate::instance::PortState;
use crate::lanes::program::LaneProgram;
use crate::layout::{DeviceOver, PORT_HIDES_TAGS};
use crate::masters;
use crate::named_vlans::NamedVlans;
use crate::ports;
use crate::pppoe::Sessions;
use crate::qdiscs;

/// A VLAN device over a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
struct Stack<'a> {
    device: &'a NetDevice,
    port: &'a NetDevice,
    /// The outer tag's device first, the VLAN device itself last.
    chain: Vec<&'a NetDevice>,
    /// Their tags.
    tags: Vec<&'a Vlan>,
    /// Whether its frames are served: it is named, or something under it.
    named: bool,
    declined: Option<String>,
}

/// Forwarded IPv4 packets get their priority by bits 3 and 4 of the type of service (`ip_tos2prio` in net/ipv4/route.c).
const PRIORITY_OF_TOS: [u32; 4] = [0, 2, 6, 4];
/// Tags that the program reads.
pub(crate) const MAX_TAGS: usize = 2;
/// VLAN devices that the program knows: half of what its tables hold (`MAX_VLANS` of bpf/vlan.h), for tags without an id are in them, too.
const MAX_DEVICES: usize = 4096;

/// What a router does about the VLAN devices over its ports.
pub(crate) fn status(config: &RouterConfig, devices: &[NetDevice]) -> Vec<VlanStatus> {
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
pub(crate) fn express<'a>(
    ports: &[String],
    devices: &'a [NetDevice],
) -> BTreeMap<u32, (&'a NetDevice, bool)> {
    let served = stacks(ports, devices).into_iter();
    let served = served.filter(|stack| stack.declined.is_none());
    served
        .map(|s| {
            (
                s.device.ifindex,
                (s.port, s.tags.iter().any(|tag| maps(tag))),
            )
        })
        .collect()
}

/// VLAN devices over ports whose packets may be express, with those under them whose tags they have.
pub(crate) fn served(ports: &[String], devices: &[NetDevice]) -> BTreeSet<String> {
    let served = stacks(ports, devices).into_iter();
    let served = served.filter(|stack| stack.declined.is_none());
    let all = served.flat_map(|stack| stack.chain);
    all.map(|device| device.name.clone()).collect()
}

fn stacks<'a>(ports: &[String], devices: &'a [NetDevice]) -> Vec<Stack<'a>> {
    let found = devices.iter();
    let by_vlan = attach_points::by_vlan(ports, devices);
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
    devices: &'a [NetDevice],
) -> Option<Stack<'a>> {
    let (chain, at) = attach_points::chain(device, devices);
    let at = at.filter(|at| is_port(at))?;
    let tags: Vec<&Vlan> = chain.iter().filter_map(|d| d.vlan.as_ref()).collect();
    if tags.is_empty() {
        return None;
    }
    let named = attach_points::covers(ports, &chain, at);
    let declined = (!named).then(|| "neither it nor the port is named in `ports`".to_owned());
    let mut up = chain.iter().rev();
    let declined = declined.or_else(|| up.find_map(|d| why_not(d, devices)));
    // Both tags show the same priority, of which only that of the outer one is seen.
    let inner_maps = tags.len() > 1 && tags.last().is_some_and(|vlan| maps(vlan));
    let reason = |holds: bool, why: &str| holds.then(|| why.to_owned());
    let declined = declined
        .or_else(|| {
            let hidden = ports::hides_tags(at.kind.as_deref(), Some("native"));
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
pub(crate) fn warnings(config: &RouterConfig, devices: &[NetDevice]) -> Vec<String> {
    let all = status(config, devices).into_iter();
    let named = all.filter(|vlan| config.ports.contains(&vlan.name));
    let warning = |vlan: VlanStatus| {
        let why = vlan.declined?;
        Some(format!(
            "packets of port `{}` stay with the kernel: {why}",
            vlan.name
        ))
    };
    named.filter_map(warning).collect()
}

/// What speaks against a device over a port, whatever it is for.
pub(crate) fn why_not(device: &NetDevice, devices: &[NetDevice]) -> Option<String> {
    let name = |ifindex: u32| {
        let found = devices.iter().find(|d| d.ifindex == ifindex);
        found.map_or_else(|| format!("device {ifindex}"), |d| d.name.clone())
    };
    let over = |d: &&NetDevice| d.takes_from == Some(device.ifindex);
    if !device.up {
        return Some(format!("`{}` is down", device.name));
    }
    if let Some(vrf) = masters::vrf_of(device, devices) {
        if !vrf.up {
            return Some(format!("`{}` is down", vrf.name));
        }
    } else if let Some(master) = device.master {
        let master = name(master);
        return Some(format!("`{}` belongs to `{master}`", device.name));
    }
    if let Some(over) = devices.iter().find(over) {
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

fn maps(vlan: &Vlan) -> bool {
    vlan.egress_priorities.iter().any(|(_, pcp)| *pcp != 0)
}

/// `struct vlan_key` of bpf/vlan.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Key {
    pub(crate) port: u32,
    pub(crate) tags: u32,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
struct Push {
    tpid: [u8; 2],
    id: u16,
    pcp_of_tos: [u8; 4],
    pcp_of_v6: u8,
    maps: u8,
    pad: [u8; 2],
}

/// `struct session_push` of bpf/vlan.h.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SessionPush {
    pub(crate) there: u8,
    pub(crate) pad: u8,
    pub(crate) id: [u8; 2],
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
}

/// `struct vlan_way` of bpf/vlan.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct Way {
    port: u32,
    mtu: u32,
    tags: u8,
    pub(crate) by_qdisc: u8,
    pad: [u8; 2],
    push: [Push; MAX_TAGS],
    pub(crate) session: SessionPush,
}

impl Way {
    /// Through a port, without tags.
    pub(crate) fn of_port(port: &NetDevice) -> Self {
        Self {
            port: port.ifindex,
            mtu: port.mtu,
            tags: 0,
            by_qdisc: 0,
            pad: [0; 2],
            push: [Push::default(); MAX_TAGS],
            session: SessionPush::default(),
        }
    }

    /// With customer tags of these ids, the outer one first.
    #[cfg(feature = "testing")]
    pub(crate) fn push_tags(&mut self, ids: &[u16]) {
        self.tags = ids.len() as u8;
        for (to, id) in self.push.iter_mut().zip(ids) {
            *to = push(&Vlan {
                id: *id,
                ..Vlan::default()
            });
        }
    }
}

/// As in `struct packet` of bpf/parse.h: bit 15 is set, bit 14 of a service tag.
pub(crate) fn word(id: u16, service: bool) -> u32 {
    0x8000 | u32::from(service) << 14 | u32::from(id & 0xfff)
}

pub(crate) fn key(port: u32, tags: &[&Vlan]) -> Key {
    let tags = tags.iter().enumerate();
    Key {
        port,
        tags: tags.fold(0, |all, (i, vlan)| {
            all | word(vlan.id, vlan.service) << (16 * i)
        }),
    }
}

fn push(vlan: &Vlan) -> Push {
    let pcp = |priority: u32| {
        let of = vlan.egress_priorities.iter().find(|(p, _)| *p == priority);
        of.map_or(0, |(_, pcp)| *pcp as u8 & 7)
    };
    Push {
        tpid: if vlan.service { 0x88a8u16 } else { 0x8100 }.to_be_bytes(),
        id: vlan.id,
        pcp_of_tos: PRIORITY_OF_TOS.map(pcp),
        pcp_of_v6: pcp(0),
        maps: u8::from(maps(vlan)),
        pad: [0; 2],
    }
}

/// Code points of received frames whose packets get a priority. Of several tags the inner one's counts, which the program does not
/// see.
fn priorities(tags: &[&Vlan]) -> u8 {
    let given = tags.iter().flat_map(|vlan| &vlan.ingress_priorities);
    let given = given.filter(|(_, priority)| *priority != 0);
    let bits = given.fold(0, |all, (pcp, _)| all | 1u8 << (pcp & 7));
    if tags.len() > 1 && bits != 0 {
        0xff
    } else {
        bits
    }
}

/// Tells the program about the VLAN devices over ports, and that a tag without an id belongs to the port (IEEE 802.1Q 6.9; Linux takes it
/// off in `__netif_receive_skb_core`). And about sessions over these and over ports, which leave by the same table.
///
/// # Errors
/// When the kernel cannot be asked, or a map cannot be written.
pub(crate) fn write(
    lane: &LaneProgram,
    all: &BTreeMap<String, PortState>,
    config: &RouterConfig,
    devices: &[NetDevice],
    sessions: Option<&Sessions>,
) -> Result<(), DataplaneError> {
    let ways = &config.egress;
    let addressed = addresses::devices_with_ipv4()?;
    let by_qdisc = qdiscs::in_the_way(ways, devices)?;
    let flags = |d: &NetDevice, mode| ports::flags(d, mode, addressed.contains(&d.ifindex));
    let mut entries = BTreeMap::new();
    let mut out = BTreeMap::new();
    let mut enter = |key: Key, device: &NetDevice, flags: u8, priorities: u8| {
        let entry = DeviceOver {
            ifindex: device.ifindex,
            seen_as: masters::seen_as(device, devices),
            flags,
            priorities,
            unfollowed: 0,
            pad: 0,
        };
        entries.insert(bytemuck::bytes_of(&key).to_vec(), entry);
    };
    for port in all.values().filter(|port| !port.is_by_vlan()) {
        let Some(device) = devices.iter().find(|d| Some(d.ifindex) == port.ifindex) else {
            continue;
        };
        // A bridge tells tags apart in ways of its own.
        if device.master.is_some() && masters::vrf_of(device, devices).is_none() {
            continue;
        }
        let of_port = flags(device, port.mode.as_deref());
        for service in [false, true] {
            let untagged = Vlan {
                service,
                ..Vlan::default()
            };
            enter(key(device.ifindex, &[&untagged]), device, of_port, 0);
        }
    }
    let (served, declined): (Vec<_>, Vec<_>) = stacks(&config.ports, devices)
        .into_iter()
        .partition(|stack| stack.declined.is_none());
    for stack in served {
        let (device, tags) = (stack.device, &stack.tags);
        let of_device = flags(device, None) & !PORT_HIDES_TAGS;
        let key = key(stack.port.ifindex, tags);
        enter(key, device, of_device, priorities(tags));
        let mut pushed = [Push::default(); MAX_TAGS];
        for (to, vlan) in pushed.iter_mut().zip(tags) {
            *to = push(vlan);
        }
        let port = all.get(&stack.port.name);
        let by_vlan = port.is_some_and(PortState::is_by_vlan);
        // The port's own says so itself where it is named.
        let own = by_vlan.then_some(stack.port);
        let mut on_the_way = stack.chain.iter().copied().chain(own);
        let way = Way {
            port: port.map_or(0, |port| port.egress_key(stack.port.ifindex)),
            tags: tags.len() as u8,
            by_qdisc: u8::from(on_the_way.any(|d| by_qdisc.contains_key(&d.ifindex))),
            push: pushed,
            ..Way::of_port(stack.port)
        };
        out.insert(device.ifindex.to_ne_bytes().to_vec(), way);
    }
    // Frames without an id, too, belong to the device that has none, if there is one.
    for stack in declined {
        let key = key(stack.port.ifindex, &stack.tags);
        entries.remove(bytemuck::bytes_of(&key));
    }
    match sessions {
        Some(sessions) => sessions.write(lane, config, devices, &mut out)?,
        None => replace::<DeviceOver>(&lane.sessions, &BTreeMap::new())?,
    }
    replace(&lane.vlan_devices, &entries)?;
    replace(&lane.vlan_ways, &out)?;
    NamedVlans::of(&config.ports, devices).write(lane)
}

/// Makes the map hold this and nothing else. What is gone goes first, so that there is room. What is right is left alone: an
/// entry that is replaced may be another's before a packet that has looked it up is done with it.
pub(crate) fn replace<V: Pod>(
    map: &MapHandle,
    wanted: &BTreeMap<Vec<u8>, V>,
) -> Result<(), DataplaneError> {
    let tried = || format!("write map {}", map.name().to_string_lossy());
    let there: Vec<Vec<u8>> = map.keys().collect();
    for key in there.iter().filter(|key| !wanted.contains_key(*key)) {
        map.delete(key).tried(tried)?;
    }
    for (key, value) in wanted {
        let there = map.lookup(key, MapFlags::ANY).tried(tried)?;
        if there.as_deref() == Some(bytemuck::bytes_of(value)) {
            continue;
        }
        map.update(key, bytemuck::bytes_of(value), MapFlags::ANY)
            .tried(tried)?;
    }
    Ok(())
}

/// Has the program take in frames with customer tags of these ids as the port's own, and send with these what is routed through device
/// `ifindex`.
#[cfg(feature = "testing")]
pub(crate) fn serve(
    lane: &LaneProgram,
    (state, port): (&PortState, &NetDevice),
    ids: &[u16],
    ifindex: u32,
) -> Result<(), DataplaneError> {
    let tag = |id: &u16| Vlan {
        id: *id,
        ..Vlan::default()
    };
    let tags: Vec<Vlan> = ids.iter().map(tag).collect();
    let entry = DeviceOver {
        ifindex: port.ifindex,
        seen_as: port.ifindex,
        flags: 0,
        priorities: 0,
        unfollowed: 0,
        pad: 0,
    };
    let key = key(port.ifindex, &tags.iter().collect::<Vec<_>>());
    let entries = BTreeMap::from([(bytemuck::bytes_of(&key).to_vec(), entry)]);
    replace(&lane.vlan_devices, &entries)?;
    let mut way = Way {
        port: state.egress_key(port.ifindex),
        ..Way::of_port(port)
    };
    way.push_tags(ids);
    let ways = BTreeMap::from([(ifindex.to_ne_bytes().to_vec(), way)]);
    replace(&lane.vlan_ways, &ways)
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

    fn declined(devices: &[NetDevice]) -> Vec<(String, Option<String>)> {
        let all = stacks(&["lan0".into()], devices).into_iter();
        all.map(|s| (s.device.name.clone(), s.declined)).collect()
    }

    #[test]
    fn vlans_of_ports_are_served_with_up_to_two_tags_and_those_of_others_are_not_ours() {
        let mut service = vlan(2, "lan0.7", 1, 7);
        service.vlan.as_mut().unwrap().service = true;
        let devices = [
            device(1, "lan0"),
            service,
            vlan(3, "lan0.7.8", 2, 8),
            vlan(4, "three", 3, 9),
            device(5, "other0"),
            vlan(6, "other0.1", 5, 1),
            vlan(7, "elsewhere", 99, 1),
        ];
        let all = stacks(&["lan0".into()], &devices);
        let ids = |s: &Stack<'_>| s.tags.iter().map(|t| t.id).collect::<Vec<_>>();
        let ids: Vec<_> = all.iter().map(ids).collect();
        assert_eq!(ids, [vec![7], vec![7, 8], vec![7, 8, 9]]);
        assert!(all[..2].iter().all(|v| v.declined.is_none()));
        assert!(all[2].declined.as_ref().unwrap().contains("two tags"));
        let names = served(&["lan0".into()], &devices);
        assert_eq!(names, ["lan0.7".into(), "lan0.7.8".into()].into());
        let tags = stacks(&["lan0".into()], &devices)[1].tags.clone();
        assert_eq!(key(1, &tags).tags, 0x8008_c007);
    }

    #[test]
    fn vlans_of_a_bridge_that_is_a_port_are_declined_for_their_outer_tag_is_hidden() {
        let bridge = NetDevice {
            kind: Some("bridge".into()),
            ..device(1, "lan0")
        };
        let all = declined(&[bridge, vlan(2, "lan0.7", 1, 7)]);
        assert_eq!(all[0].1.as_deref(), Some("its port hides tags from XDP"));
    }

    #[test]
    fn what_decides_about_a_vlans_packets_besides_its_routes_declines_it_by_name() {
        let with = |change: fn(&mut NetDevice)| {
            let mut v = vlan(2, "v", 1, 7);
            change(&mut v);
            let mut macvlan = device(3, "mv");
            macvlan.takes_from = Some(v.ifindex).filter(|_| v.mtu == 1);
            declined(&[device(1, "lan0"), v, macvlan, device(4, "br0")])
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

    #[test]
    fn code_points_follow_the_type_of_service_by_the_devices_map() {
        let mapped = Vlan {
            id: 5,
            egress_priorities: vec![(0, 1), (6, 5), (4, 9)],
            ..Vlan::default()
        };
        let push = push(&mapped);
        assert_eq!((push.pcp_of_tos, push.pcp_of_v6), ([1, 0, 5, 1], 1));
        assert_eq!((push.tpid, push.id, push.maps), ([0x81, 0], 5, 1));
        let given = Vlan {
            ingress_priorities: vec![(3, 6), (5, 0)],
            ..Vlan::default()
        };
        assert_eq!(priorities(&[&given]), 1 << 3);
        assert_eq!(priorities(&[&mapped, &given]), 0xff);
        assert_eq!(priorities(&[&mapped]), 0);
    }
}
