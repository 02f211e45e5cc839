//! Macvlan devices over ports, such as virtual MAC addresses of VRRP: which of them packets of express classes may come in by
//! (bpf/devices/macvlan.h). Nothing is sent through one by the express lane.

use rxlane_system::links::{Link as NetDevice, Links, mac_text};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{is, why_not};

/// A macvlan device over a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Devices that the program knows (`MAX_MACVLANS` of bpf/devices/macvlan.h).
const MAX_DEVICES: usize = 4096;

/// A device with its port, and what speaks against it.
type Over<'a> = (&'a NetDevice, &'a NetDevice, Option<String>);

fn over<'a>(ports: &[String], devices: &'a Links) -> Vec<Over<'a>> {
    let port_of = |device: &NetDevice| {
        let port = device.under.and_then(|under| devices.at(under));
        port.filter(|d| d.vlan.is_none() && ports.contains(&d.name))
    };
    let macvlans = devices.iter().filter(|d| is(d, "macvlan"));
    macvlans
        .filter_map(|device| Some((device, port_of(device)?)))
        .enumerate()
        .map(|(i, (device, port))| {
            let takes = device.takes_from.is_some();
            let own = takes.then(|| "it takes or copies packets of its port".to_owned());
            let many = (i >= MAX_DEVICES)
                .then(|| format!("there are more than {MAX_DEVICES} macvlan devices"));
            let why = why_not(device, devices).or(own).or(many);
            (device, port, why)
        })
        .collect()
}

/// What the express lane does about the macvlan devices over these ports.
pub fn status(ports: &[String], devices: &Links) -> Vec<MacvlanStatus> {
    let status = |(device, port, declined): Over<'_>| MacvlanStatus {
        name: device.name.clone(),
        port: port.name.clone(),
        mac: mac_text(device.mac),
        declined,
    };
    over(ports, devices).into_iter().map(status).collect()
}

/// Macvlan devices over ports by which express packets may come in, with the port of each.
pub fn served<'a>(ports: &[String], devices: &'a Links) -> Vec<(&'a NetDevice, &'a NetDevice)> {
    let all = over(ports, devices).into_iter();
    all.filter(|(_, _, why)| why.is_none())
        .map(|(device, port, _)| (device, port))
        .collect()
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
        let devices = Links::from([
            device(1, "lan0", None, None),
            device(2, "other0", None, None),
            device(51, "vrrp.51", Some(1), None),
            device(52, "copies", Some(1), Some(1)),
            device(53, "down0", Some(1), None),
            device(54, "elsewhere", Some(2), None),
        ]);
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
