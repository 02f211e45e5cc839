//! The table of devices that a port has beside itself, by their MAC addresses (bpf/devices/macvlan.h): macvlan devices over it, such as virtual
//! addresses of VRRP, and its bridge. Nothing is sent through one by the express lane.

use std::collections::BTreeMap;

use bytemuck::{Pod, Zeroable};
use rxlane_bpf::BpfError;
use rxlane_bpf::layout::DeviceOver;
use rxlane_bpf::pinned;
use rxlane_config::RouterConfig;
use rxlane_system::links::Link as NetDevice;
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::device::{Checks, hides_tags};
use rxlane_topology::{macvlan, master};

use crate::device_over::{self, flags};
use crate::lanes::program::LaneProgram;
use crate::port::PortState;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Key {
    port: u32,
    mac: [u8; 8],
}

/// Tells the program about them.
///
/// # Errors
/// When the map cannot be written.
pub(crate) fn write(
    lane: &LaneProgram,
    all: &BTreeMap<String, PortState>,
    config: &RouterConfig,
    snapshot: &Snapshot,
) -> Result<(), BpfError> {
    let devices = &snapshot.links;
    let whole = all.iter().filter(|(_, port)| !port.is_by_vlan());
    let names: Vec<String> = whole.map(|(name, _)| name.clone()).collect();
    let mut entries = BTreeMap::new();
    let mut enter = |device: &NetDevice, port: &NetDevice, ifindex| {
        let mut mac = [0; 8];
        mac[..6].copy_from_slice(&device.mac);
        let key = Key {
            port: port.ifindex,
            mac,
        };
        let mode = all.get(&port.name).and_then(|p| p.mode.as_deref());
        let checks = Checks {
            // That is a matter of the port.
            hides_tags: hides_tags(port.kind.as_deref(), mode),
            ..Checks::of(device, None, snapshot)
        };
        let entry = DeviceOver {
            ifindex,
            ..device_over::entry(device, devices, flags(checks))
        };
        entries.insert(bytemuck::bytes_of(&key).to_vec(), entry);
    };
    for (device, port) in macvlan::served(&names, devices) {
        enter(device, port, device.ifindex);
    }
    // A bridge takes what is to its own address by any port.
    for port in names.iter().filter_map(|name| devices.named(name)) {
        if let Some(bridge) = master::bridge_of(port, config, devices) {
            enter(bridge, port, port.ifindex);
        }
    }
    pinned::replace(&lane.mac_devices, &entries)
}
