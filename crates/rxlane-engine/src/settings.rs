//! What the kernel's settings say about forwarding: ports, policy rules, sysctls.

use std::collections::BTreeMap;

use rxlane_config::Egress;
use rxlane_system::links::Link;
use rxlane_system::snapshot::Snapshot;
use rxlane_system::{SystemError, rules, sysctl};
use rxlane_topology::qdisc;

use crate::forward::{Port, Ports};

/// Directories of /proc/sys/net, in the order of [`Ports::by_kernel`].
const FAMILIES: [&str; 2] = ["ipv4", "ipv6"];

/// Ports as they are configured.
#[derive(Debug, Clone, Default)]
pub struct WantedPorts {
    /// Their names.
    pub names: Vec<String>,
    /// How packets leave through them.
    pub ways: BTreeMap<String, Egress>,
}

/// The ports of those names, and which family only the kernel forwards.
pub(super) fn look(wanted: &WantedPorts) -> Result<Ports, SystemError> {
    let names = &wanted.names;
    let snapshot = Snapshot::read()?;
    let by_qdisc = qdisc::in_the_way(&wanted.ways, &snapshot);
    let port = |name: &String| {
        let device = snapshot.links.named(name)?;
        let mut port = port(device);
        // The stack sends what its qdisc is to see.
        port.sends &= !by_qdisc.contains_key(&device.ifindex);
        Some(port)
    };
    let all = names
        .iter()
        .map(|n| port(n).unwrap_or(Port::ABSENT))
        .collect();
    let mut by_kernel = rules::policy_rules()?;
    for (family, by_kernel) in FAMILIES.into_iter().zip(&mut by_kernel) {
        // A setting that cannot be read belongs to a device that is gone.
        let off = |name: &str| sysctl::of_interface(family, name, "forwarding") == Some(0);
        *by_kernel |= names.iter().any(|name| off(name));
    }
    // The port's own setting is not all that Linux asks (ip6_forward). A proxy forwards what is for neighbours.
    by_kernel[1] |= sysctl::of_interface("ipv6", "all", "forwarding") == Some(0)
        || sysctl::of_interface("ipv6", "all", "proxy_ndp") == Some(1);
    // MTUs of paths, which hosts behind the router have told it, are not mirrored.
    by_kernel[0] |= sysctl::read("net.ipv4.ip_forward_use_pmtu") == Some(1);
    Ok(Ports { all, by_kernel })
}

fn port(device: &Link) -> Port {
    let v6 = sysctl::of_interface("ipv6", &device.name, "mtu");
    let v6 = v6.and_then(|mtu| u32::try_from(mtu).ok());
    Port {
        ifindex: device.ifindex,
        mac: device.mac,
        mtu: [device.mtu, v6.unwrap_or(device.mtu).min(device.mtu)],
        sends: device.up && device.carrier,
    }
}
