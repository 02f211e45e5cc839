//! Macvlan devices over ports, such as virtual MAC addresses of VRRP: which of them packets of express classes may come in by
//! (bpf/macvlan.h). Nothing is sent through one by the express lane.

use std::collections::BTreeMap;

use bytemuck::{Pod, Zeroable};
use rxlane_config::RouterConfig;
use rxlane_system::addresses;
use rxlane_system::links::Link as NetDevice;
use schemars::JsonSchema;
use serde::Serialize;

use crate::DataplaneError;
use crate::instance::PortState;
use crate::lanes::program::LaneProgram;
use crate::layout::DeviceOver;
use crate::masters;
use crate::ports;
use crate::vlans;

/// A macvlan device over a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct MacvlanStatus {
    /// Name of the device.
    pub name: String,
    /// The port under it.
    pub port: String,
    /// Address of its frames.
    pub mac: String,
    /// Why its packets stay with the kernel; missing if they may be express.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// Devices that the program knows (`MAX_MACVLANS` of bpf/macvlan.h).
const MAX_DEVICES: usize = 4096;

/// A device with its port, and what speaks against it.
type Over<'a> = (&'a NetDevice, &'a NetDevice, Option<String>);

fn over<'a>(ports: &[String], devices: &'a [NetDevice]) -> Vec<Over<'a>> {
    let port_of = |device: &NetDevice| {
        let port = devices.iter().find(|d| Some(d.ifindex) == device.under);
        port.filter(|d| d.vlan.is_none() && ports.contains(&d.name))
    };
    let macvlans = devices
        .iter()
        .filter(|d| d.kind.as_deref() == Some("macvlan"));
    macvlans
        .filter_map(|device| Some((device, port_of(device)?)))
        .enumerate()
        .map(|(i, (device, port))| {
            let takes = device.takes_from.is_some();
            let own = takes.then(|| "it takes or copies packets of its port".to_owned());
            let many = (i >= MAX_DEVICES)
                .then(|| format!("there are more than {MAX_DEVICES} macvlan devices"));
            let why = vlans::why_not(device, devices).or(own).or(many);
            (device, port, why)
        })
        .collect()
}

/// What the express lane does about the macvlan devices over these ports.
pub(crate) fn status(ports: &[String], devices: &[NetDevice]) -> Vec<MacvlanStatus> {
    let status = |(device, port, declined): Over<'_>| MacvlanStatus {
        name: device.name.clone(),
        port: port.name.clone(),
        mac: device.mac.map(|byte| format!("{byte:02x}")).join(":"),
        declined,
    };
    over(ports, devices).into_iter().map(status).collect()
}

/// Macvlan devices over ports by which express packets may come in, with the port of each.
pub(crate) fn served<'a>(
    ports: &[String],
    devices: &'a [NetDevice],
) -> Vec<(&'a NetDevice, &'a NetDevice)> {
    let all = over(ports, devices).into_iter();
    all.filter(|(_, _, why)| why.is_none())
        .map(|(device, port, _)| (device, port))
        .collect()
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Key {
    port: u32,
    mac: [u8; 8],
}

/// Tells the program about them.
///
/// # Errors
/// When the kernel cannot be asked, or the map cannot be written.
pub(crate) fn write(
    lane: &LaneProgram,
    all: &BTreeMap<String, PortState>,
    config: &RouterConfig,
    devices: &[NetDevice],
) -> Result<(), DataplaneError> {
    let addressed = addresses::devices_with_ipv4()?;
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
        let hidden = ports::flags(port, mode, true) & crate::layout::PORT_HIDES_TAGS;
        let own = ports::flags(device, None, addressed.contains(&device.ifindex));
        let entry = DeviceOver {
            ifindex,
            seen_as: masters::seen_as(device, devices),
            // Whether tags are hidden is a matter of the port.
            flags: own & !crate::layout::PORT_HIDES_TAGS | hidden,
            priorities: 0,
            unfollowed: 0,
            pad: 0,
        };
        entries.insert(bytemuck::bytes_of(&key).to_vec(), entry);
    };
    for (device, port) in served(&names, devices) {
        enter(device, port, device.ifindex);
    }
    // A bridge takes what is to its own address by any port.
    for port in devices.iter().filter(|d| names.contains(&d.name)) {
        if let Some(bridge) = masters::bridge_of(port, config, devices) {
            enter(bridge, port, port.ifindex);
        }
    }
    vlans::replace(&lane.mac_devices, &entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_addresses_are_served_and_what_takes_a_ports_own_packets_is_not() {
        let device = |ifindex, name: &str, under, takes_from| NetDevice {
            ifindex,
            name: name.into(),
            mac: [0, 0, 0x5e, 0, 1, ifindex as u8],
            up: name != "down0",
            kind: (ifindex > 2).then(|| "macvlan".into()),
            under,
            takes_from,
            ..NetDevice::default()
        };
        let devices = [
            device(1, "lan0", None, None),
            device(2, "other0", None, None),
            device(51, "vrrp.51", Some(1), None),
            device(52, "copies", Some(1), Some(1)),
            device(53, "down0", Some(1), None),
            device(54, "elsewhere", Some(2), None),
        ];
        let all = status(&["lan0".into()], &devices);
        let said: Vec<_> = all
            .iter()
            .map(|m| (m.name.as_str(), m.declined.as_deref()))
            .collect();
        assert_eq!(
            said,
            [
                ("vrrp.51", None),
                ("copies", Some("it takes or copies packets of its port")),
                ("down0", Some("`down0` is down")),
            ]
        );
        assert_eq!(all[0].mac, "00:00:5e:00:01:33");
        let names = served(&["lan0".into()], &devices);
        assert_eq!(names[0].0.name, "vrrp.51");
        assert_eq!(names.len(), 1);
    }
}
