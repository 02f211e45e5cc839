//! The tables of ports: by which devices packets come in (`struct port` of bpf/lib/shared.h), and by which they may leave.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_bpf::layout::{
    PORT_HIDES_TAGS, PORT_OTHER_MACS, PORT_QDISC, PORT_XDP_FRAGS, Port, PortTable,
};
use rxlane_bpf::pinned;
use rxlane_config::RouterConfig;
use rxlane_system::links::Link as NetDevice;
use rxlane_system::snapshot::Snapshot;
use rxlane_system::xdp;
use rxlane_topology::device::{Checks, seen_as};
use rxlane_topology::hook::AT_TC;
use rxlane_topology::{Topology, macvlan, master};

use crate::DataplaneError;
use crate::device_over::flags;
use crate::lanes::overload::Shared;
use crate::lanes::program::LaneProgram;
use crate::port::{self, PortState};
use crate::{refusing, tags};

/// Tells the program about ports, and by which devices the packets of each come in.
///
/// # Errors
/// When the table is full.
pub(crate) fn write_ports(
    shared: &Shared,
    ports: &BTreeMap<String, PortState>,
    config: &RouterConfig,
    snapshot: &Snapshot,
    topology: &Topology,
    teaching: &BTreeSet<u32>,
) -> Result<(), DataplaneError> {
    let (devices, by_qdisc) = (&snapshot.links, &topology.by_qdisc);
    // Others pass queueing disciplines by.
    let meets = |port: &PortState| port.hands_over || port.is_at_tc();
    let any_meets = ports.values().any(meets);
    let whole = ports.iter().filter(|(_, port)| !port.is_by_vlan());
    let names: Vec<String> = whole.map(|(name, _)| name.clone()).collect();
    let others = macvlan::served(&names, devices);
    let flags = |device: &NetDevice, mode| flags(Checks::of(device, mode, snapshot));
    let mut table: PortTable = bytemuck::Zeroable::zeroed();
    for (name, port) in ports {
        let Some(device) = port.ifindex.and_then(|ifindex| devices.at(ifindex)) else {
            continue;
        };
        let mode = port.mode.as_deref();
        let master = master::taken_by(device, config, devices);
        let comes_in_by = master.unwrap_or(device);
        let own = flags(device, mode);
        let of_master = master.map_or(own, |master| flags(master, None));
        let has_others = others
            .iter()
            .any(|(_, port)| port.ifindex == device.ifindex)
            || master.is_some_and(|master| master.mac != device.mac);
        let entry = Port {
            ifindex: device.ifindex,
            device: device.ifindex,
            master: master.map_or(0, |master| master.ifindex),
            seen_as: seen_as(comes_in_by, devices),
            mac: device.mac,
            slot: port.slot,
            // Whether tags are hidden is a matter of the port, as is what leaves there.
            flags: (of_master & !PORT_HIDES_TAGS)
                | (own & PORT_HIDES_TAGS)
                | (u8::from(mode != Some(AT_TC) && !tags::are_left(name)) * PORT_HIDES_TAGS)
                | (u8::from(!port.is_by_vlan() && by_qdisc.contains_key(&device.ifindex))
                    * PORT_QDISC)
                | (u8::from(xdp::sends_pieces(device.ifindex)) * PORT_XDP_FRAGS)
                | (u8::from(has_others) * PORT_OTHER_MACS),
            lacks_checksums: u8::from(lacks_checksums(device)),
            teaches: u8::from(teaching.contains(&device.ifindex)),
            may_wait: u8::from(refusing::may_wait(config, name)),
            has_bands: u8::from(any_meets && snapshot.with_bands.contains(&device.ifindex)),
            at_tc: u8::from(mode == Some(AT_TC)),
            hands_over: u8::from(port.hands_over),
            pad: [0; 2],
        };
        let members = master::members(device, mode, config, devices);
        let members = members.filter(|member| !ports.contains_key(&member.name));
        if !table.insert(entry) {
            return Err(DataplaneError::PortTable(name.clone()));
        }
        for member in members.filter(|member| tags::are_left(&member.name)) {
            // One that finds no place in the table stays with Linux.
            let _ = table.insert(Port {
                ifindex: member.ifindex,
                lacks_checksums: u8::from(lacks_checksums(member)),
                ..entry
            });
        }
    }
    Ok(pinned::put(&shared.ports, 0, bytemuck::bytes_of(&table))?)
}

/// Whether senders on this machine may have left checksums to the device, which makes none (`NETIF_F_HW_CSUM` of veth, and of a tap by
/// `TUNSETOFFLOAD`).
fn lacks_checksums(device: &NetDevice) -> bool {
    matches!(device.kind.as_deref(), Some("veth" | "tun"))
}

/// The devices that the express lane may send to: ports whose drivers take frames from it, and whose qdiscs need not see them. Returns
/// the ports whose drivers should take frames, and do not.
pub(crate) fn write_egress(
    lane: &LaneProgram,
    ports: &BTreeMap<String, PortState>,
    snapshot: &Snapshot,
    topology: &Topology,
) -> Result<BTreeSet<String>, DataplaneError> {
    let mut mute = BTreeSet::new();
    // What comes in elsewhere leaves as the stack's packets do.
    let any_in_xdp = port::any_in_xdp(ports);
    for (name, port) in ports {
        let Some(ifindex) = port.ifindex else {
            continue;
        };
        let generic = port.mode.as_deref() == Some("generic");
        let there = snapshot.links.at(ifindex).is_some();
        let key = port.egress_key(ifindex);
        let sends = !there || generic || xdp::sends(ifindex);
        if !sends && any_in_xdp {
            mute.insert(name.clone());
        }
        if there && !generic && !topology.by_qdisc.contains_key(&ifindex) && sends {
            pinned::put(&lane.egress, key, &ifindex.to_ne_bytes())?;
        } else {
            pinned::forget(&lane.egress, key);
        }
    }
    Ok(mute)
}
