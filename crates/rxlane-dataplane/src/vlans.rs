//! The tables of VLAN devices (bpf/devices/vlan.h).

use std::collections::BTreeMap;

use bytemuck::{Pod, Zeroable};
use rxlane_bpf::BpfError;
use rxlane_bpf::layout::{DeviceOver, PORT_HIDES_TAGS};
use rxlane_bpf::pinned;
use rxlane_config::RouterConfig;
use rxlane_system::links::{Link as NetDevice, Vlan};
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::Topology;
use rxlane_topology::device::MAX_TAGS;
use rxlane_topology::device::{Checks, vrf_of};
use rxlane_topology::vlan::{maps, stacks};

use crate::device_over::{self, flags};
use crate::lanes::program::LaneProgram;
use crate::port::PortState;

/// Forwarded IPv4 packets get their priority by bits 3 and 4 of the type of service (`ip_tos2prio` in net/ipv4/route.c).
const PRIORITY_OF_TOS: [u32; 4] = [0, 2, 6, 4];

/// `struct vlan_key` of bpf/devices/vlan.h.
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

/// `struct session_push` of bpf/devices/vlan.h.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(crate) struct SessionPush {
    pub(crate) there: u8,
    pub(crate) pad: u8,
    pub(crate) id: [u8; 2],
    pub(crate) to: [u8; 6],
    pub(crate) from: [u8; 6],
}

/// `struct vlan_way` of bpf/devices/vlan.h.
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

/// As in `struct packet` of bpf/classify/parse.h: bit 15 is set, bit 14 of a service tag.
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

/// What the programs know of VLAN devices.
pub(crate) struct Tables {
    /// Devices by the tags of the frames that they get.
    devices: BTreeMap<Vec<u8>, DeviceOver>,
    /// How packets leave by a device: by its index. Sessions leave by the same table.
    pub(crate) ways: BTreeMap<Vec<u8>, Way>,
}

impl Tables {
    /// Those of the VLAN devices over ports. A tag without an id belongs to the port (IEEE 802.1Q 6.9; Linux takes it off in
    /// `__netif_receive_skb_core`).
    pub(crate) fn of(
        all: &BTreeMap<String, PortState>,
        config: &RouterConfig,
        snapshot: &Snapshot,
        topology: &Topology,
    ) -> Self {
        let (devices, by_qdisc) = (&snapshot.links, &topology.by_qdisc);
        let flags = |d: &NetDevice, mode| flags(Checks::of(d, mode, snapshot));
        let mut entries = BTreeMap::new();
        let mut out = BTreeMap::new();
        let mut enter = |key: Key, device: &NetDevice, flags: u8, priorities: u8| {
            let entry = DeviceOver {
                priorities,
                ..device_over::entry(device, devices, flags)
            };
            entries.insert(bytemuck::bytes_of(&key).to_vec(), entry);
        };
        for port in all.values().filter(|port| !port.is_by_vlan()) {
            let Some(device) = port.ifindex.and_then(|ifindex| devices.at(ifindex)) else {
                continue;
            };
            // A bridge tells tags apart in ways of its own.
            if device.master.is_some() && vrf_of(device, devices).is_none() {
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
        Self {
            devices: entries,
            ways: out,
        }
    }

    /// Tells the program.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn write(&self, lane: &LaneProgram) -> Result<(), BpfError> {
        pinned::replace(&lane.vlan_devices, &self.devices)?;
        pinned::replace(&lane.vlan_ways, &self.ways)
    }
}

/// Has the program take in frames with customer tags of these ids as the port's own, and send with these what is routed through device
/// `ifindex`.
#[cfg(feature = "testing")]
pub(crate) fn serve(
    lane: &LaneProgram,
    (state, port): (&PortState, &NetDevice),
    ids: &[u16],
    ifindex: u32,
) -> Result<(), BpfError> {
    let tag = |id: &u16| Vlan {
        id: *id,
        ..Vlan::default()
    };
    let tags: Vec<Vlan> = ids.iter().map(tag).collect();
    let entry = DeviceOver::seen_as_itself(port.ifindex);
    let key = key(port.ifindex, &tags.iter().collect::<Vec<_>>());
    let entries = BTreeMap::from([(bytemuck::bytes_of(&key).to_vec(), entry)]);
    pinned::replace(&lane.vlan_devices, &entries)?;
    let mut way = Way {
        port: state.egress_key(port.ifindex),
        ..Way::of_port(port)
    };
    way.push_tags(ids);
    let ways = BTreeMap::from([(ifindex.to_ne_bytes().to_vec(), way)]);
    pinned::replace(&lane.vlan_ways, &ways)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_a_word_the_outer_one_first() {
        let tag = |id, service| Vlan {
            id,
            service,
            ..Vlan::default()
        };
        let (outer, inner) = (tag(7, true), tag(8, false));
        assert_eq!(key(1, &[&outer, &inner]).tags, 0x8008_c007);
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
