//! What the operator should know of ports as they are now.

use rxlane_config::Datapath;
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::xdp;
use rxlane_topology::device::with_members;
use rxlane_topology::hook::AT_TC;

use crate::port::PortState;
use crate::state::State;
use crate::{port, port_names, ports, tags};

impl State {
    /// Whether express packets can be sent to a port now: by its driver, or by sockets of the engine.
    pub(crate) fn sends(&self, port: &PortState) -> bool {
        let native = matches!(port.mode.as_deref(), Some("native" | AT_TC));
        let engine = matches!(self.config.datapath, Datapath::Afxdp(_));
        port.ifindex
            .is_some_and(|ifindex| native && (engine || xdp::sends(ifindex)))
    }

    /// Whether express packets leave past queueing disciplines, taps and counters of the stack: those of ports that are served in XDP.
    pub fn passes_the_stack_by(&self) -> bool {
        port::any_in_xdp(&self.ports)
    }

    /// Ports that are served at tc ingress.
    pub fn ports_at_tc(&self) -> impl Iterator<Item = &str> {
        let all = self.ports.iter();
        let all = all.filter(|(_, port)| port.is_at_tc());
        all.map(|(name, _)| name.as_str())
    }

    /// What is to be said of its ports among these devices.
    pub fn warnings_of_ports(&self, devices: &Links) -> Vec<String> {
        let mut found = port_names::absent(&self.written_config(), devices);
        for device in devices {
            let Some(port) = self.ports.get(&device.name) else {
                continue;
            };
            if port.ifindex.is_none() && !port.is_by_vlan() {
                found.push(format!(
                    "port `{}` is there and not attached yet; where that lasts, the log says why, and rxlane reload tries again",
                    device.name
                ));
            }
            if port.ifindex == Some(device.ifindex)
                && matches!(port.mode.as_deref(), Some("native" | AT_TC))
                && self.passes_the_stack_by()
                && !self.sends(port)
            {
                found.push(takes_no_frames(device));
            }
        }
        let here = self.ports.iter().filter(|(_, port)| port.is_in_xdp());
        let here = here.map(|(name, _)| name.as_str()).collect();
        let all = with_members(&here, devices);
        found.extend(all.into_iter().filter_map(tags::insists));
        found.extend(ports::unserved_queues(self, devices));
        found
    }
}

/// Of a port that XDP cannot send to, with the cure.
pub(crate) fn takes_no_frames(device: &NetDevice) -> String {
    let name = &device.name;
    // `veth_set_features` and `veth_open` in drivers/net/veth.c.
    let why = match device.kind.as_deref() {
        Some("veth") => {
            "its other end has no GRO, or had it before it was up: there, ethtool -K IF gro off, then ethtool -K IF gro on"
        }
        _ => {
            "its driver has no ndo_xdp_xmit, or not as the port is set up now (driver and firmware, ethtool -L, ethtool -G)"
        }
    };
    format!(
        "port `{name}` takes no frames from XDP, so that express packets that leave there go by the Linux stack (`egress`): {why}"
    )
}
