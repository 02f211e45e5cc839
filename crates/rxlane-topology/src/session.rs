//! Sessions of PPPoE: which of them the express lane serves. What speaks against one is what Linux would do to its packets besides
//! forwarding them.

use std::collections::BTreeMap;

use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::{self, hides_tags};
use crate::master;

/// A ppp device over a port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SessionStatus {
    /// Name of the ppp device.
    pub name: String,
    /// The port or VLAN device by which its frames come and go; missing where nobody could look.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// Number of the session; 0 where nobody could look.
    pub id: u16,
    /// Why its packets stay with the kernel; missing if they may be express.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
}

/// What decides about all sessions.
pub struct Around<'a> {
    /// What the router is to do.
    pub config: &'a RouterConfig,
    /// All devices.
    pub devices: &'a Links,
    /// Modes of XDP by port, where it is attached.
    pub modes: BTreeMap<&'a str, &'a str>,
    /// VLAN devices that are served, each with its port, and whether its tags differ by priority ([`crate::vlan::express`]).
    pub vlans: BTreeMap<u32, (&'a NetDevice, bool)>,
    /// Devices under sessions, and what sees frames there or below.
    pub filtered: BTreeMap<u32, String>,
}

/// What the kernel can do with packets of a session besides, by bit.
pub const AGAINST: [&str; 6] = [
    "it has several links, or may have (multilink)",
    "it compresses packets or their headers",
    "its packets are filtered (PPPIOCSPASS, PPPIOCSACTIVE)",
    "IPv4 is not open on it",
    "IPv6 is not open on it",
    "its packets are taken to bring up the link (demand)",
];

impl Around<'_> {
    /// What speaks against the session of a ppp device over another one; `against`: bits of [`AGAINST`].
    pub fn why_not(&self, device: &NetDevice, under: &NetDevice, against: u32) -> Option<String> {
        let name = &under.name;
        if matches!(self.config.datapath, Datapath::Afxdp(_)) {
            return Some("the engine leaves sessions to the kernel".into());
        }
        let vlan = self.vlans.get(&under.ifindex);
        let port = vlan.map_or(under, |(port, _)| port);
        if vlan.is_none() && !self.config.ports.contains(name) {
            return Some(format!(
                "`{name}`, by which it comes and goes, is no port, nor a VLAN device of one that is served"
            ));
        }
        if vlan.is_none() && master::taken_by(under, self.config, self.devices).is_some() {
            return Some(format!("`{name}` belongs to another device"));
        }
        let mode = self.modes.get(port.name.as_str()).copied();
        if hides_tags(port.kind.as_deref(), mode) {
            return Some(format!("`{name}` gets its frames from other devices"));
        }
        // Of what is below a session the witness sees nothing.
        if vlan.is_some_and(|(_, maps)| *maps) {
            return Some(format!(
                "the priorities of `{name}` are mapped (egress-qos-map)"
            ));
        }
        if let Some(why) = self.filtered.get(&under.ifindex) {
            return Some(why.clone());
        }
        let bits = AGAINST.iter().enumerate();
        let mut said = bits.filter(|(bit, _)| against & 1 << bit != 0);
        said.next()
            .map(|(_, why)| (*why).to_owned())
            .or_else(|| device::why_not(device, self.devices))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rxlane_system::links::Vlan;

    fn device(ifindex: u32, name: &str) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            ..NetDevice::default()
        }
    }

    fn vlan(priorities: Vec<(u32, u32)>) -> NetDevice {
        NetDevice {
            kind: Some("vlan".into()),
            under: Some(1),
            vlan: Some(Vlan {
                id: 35,
                reorders: true,
                egress_priorities: priorities,
                ..Vlan::default()
            }),
            ..device(2, "wan0.35")
        }
    }

    fn ppp() -> NetDevice {
        NetDevice {
            is_ppp: true,
            ..device(9, "ppp0")
        }
    }

    fn config(datapath: &str) -> RouterConfig {
        let text =
            format!("ports = [\"wan0\"]\n{datapath}[[class]]\nname = \"all\"\nlane = \"stack\"\n");
        rxlane_config::parse(&text).unwrap()
    }

    /// Of the session of ppp0 over a device.
    fn declined(
        devices: &[NetDevice],
        (under, against): (u32, u32),
        config: &RouterConfig,
    ) -> Option<String> {
        let devices = &Links::from(devices.to_vec());
        let of = |ifindex| devices.at(ifindex).unwrap();
        let around = Around {
            config,
            modes: [("wan0", "native")].into(),
            devices,
            vlans: crate::vlan::express(&config.ports, devices),
            filtered: BTreeMap::from([(5, "the chain x sees frames".into())]),
        };
        around.why_not(of(9), of(under), against)
    }

    #[test]
    fn sessions_over_ports_and_their_vlans_are_served_and_those_over_others_are_not() {
        let devices = [
            device(1, "wan0"),
            vlan(Vec::new()),
            device(3, "eth9"),
            ppp(),
        ];
        let config = config("");
        for under in [1, 2] {
            assert_eq!(declined(&devices, (under, 0), &config), None);
        }
        let other = declined(&devices, (3, 0), &config).unwrap();
        assert!(other.starts_with("`eth9`, by which it comes"), "{other}");
    }

    #[test]
    fn a_session_in_which_linux_does_more_than_forward_is_its_own() {
        let devices = [device(1, "wan0"), ppp()];
        for (bit, why) in AGAINST.iter().enumerate() {
            let said = declined(&devices, (1, 1 << bit), &config(""));
            assert_eq!(said.as_deref(), Some(*why));
        }
        let engine = config("datapath = \"afxdp\"\n");
        assert!(
            declined(&devices, (1, 0), &engine)
                .unwrap()
                .contains("the engine")
        );
        let down = [devices[0].clone(), NetDevice { up: false, ..ppp() }];
        let down = declined(&down, (1, 0), &config(""));
        assert_eq!(down.as_deref(), Some("`ppp0` is down"));
    }

    #[test]
    fn a_session_is_linuxs_where_something_below_it_decides_that_the_witness_does_not_see() {
        let mapped = [device(1, "wan0"), vlan(vec![(6, 5)]), ppp()];
        let said = declined(&mapped, (2, 0), &config("")).unwrap();
        assert!(said.contains("egress-qos-map"), "{said}");
        let filtered = [device(5, "wan0"), ppp()];
        let said = declined(&filtered, (5, 0), &config(""));
        assert_eq!(said.as_deref(), Some("the chain x sees frames"));
        let bridged = NetDevice {
            master: Some(4),
            ..device(1, "wan0")
        };
        let bridge = NetDevice {
            kind: Some("bridge".into()),
            ..device(4, "br0")
        };
        let said = declined(&[bridged, bridge, ppp()], (1, 0), &config(""));
        assert_eq!(said.as_deref(), Some("`wan0` belongs to another device"));
    }
}
