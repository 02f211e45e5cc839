//! At which hook packets of a port are served: in XDP, or at tc ingress.
//!
//! A native XDP program on a veth copies each packet of a local sender into a page, and makes a ring of 256 of the backlog of 1,000:
//! TCP, which waits while its packets do (small queues, backpressure of qdiscs), is held back by nothing then and loses what the ring
//! does not hold. At tc ingress packets stay what they are.

use rxlane_config::{Datapath, Ingress, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links};

use crate::device::is;

/// The mode of a port that is served at tc ingress.
pub const AT_TC: &str = "tc";
/// Kinds of devices whose packets the lane finds in others.
const IN_OTHERS: [&str; 5] = ["ipip", "gre", "sit", "vxlan", "ppp"];

/// Whether a port is served at tc ingress, where the kernel can.
pub fn is_at_tc(config: &RouterConfig, device: &NetDevice, devices: &Links) -> bool {
    if matches!(config.datapath, Datapath::Afxdp(_)) {
        return false;
    }
    match config
        .ingress
        .get(&device.name)
        .copied()
        .unwrap_or_default()
    {
        Ingress::Xdp => false,
        Ingress::Tc => true,
        Ingress::Auto => is(device, "veth") && !has_more_than_packets(config, device, devices),
    }
}

/// Whether any port may come to be served there.
pub fn any_at_tc(config: &RouterConfig, devices: &Links) -> bool {
    config.ports.iter().any(|name| match devices.named(name) {
        Some(device) => is_at_tc(config, device, devices),
        None => config.ingress.get(name) != Some(&Ingress::Xdp),
    })
}

/// Whether frames of ports may be others than packets to the next router: tags, tunnels, sessions, stations of bridges, which the lane
/// reads in XDP only.
fn has_more_than_packets(config: &RouterConfig, port: &NetDevice, devices: &Links) -> bool {
    let named = config.ports.iter().filter_map(|name| devices.named(name));
    let mut ports = named.chain([port]);
    // The other end of a veth is beside it.
    let lies_over = |port: &NetDevice| {
        let mut over = devices.over(port.ifindex);
        over.any(|d| !is(d, "veth") && d.ifindex != port.ifindex)
    };
    let in_others = |d: &NetDevice| IN_OTHERS.iter().any(|kind| is(d, kind));
    ports.any(|port| port.master.is_some() || lies_over(port))
        || devices.iter().any(|d| d.up && in_others(d))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(ifindex: u32, name: &str, kind: &str) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            kind: Some(kind.into()).filter(|kind: &String| !kind.is_empty()),
            ..NetDevice::default()
        }
    }

    fn config(more: &str) -> RouterConfig {
        let text = format!(
            "ports = [\"lan0\", \"wan0\"]\n{more}\n[[class]]\nname = \"all\"\nlane = \"stack\"\n"
        );
        rxlane_config::parse(&text).unwrap()
    }

    #[test]
    fn plain_veths_are_served_at_tc_ingress_and_all_else_in_xdp_unless_it_is_said_otherwise() {
        let both = [device(1, "lan0", "veth"), device(2, "wan0", "")];
        let at_tc = |more: &str, devices: &[NetDevice]| {
            let (config, devices) = (config(more), Links::from(devices.to_vec()));
            [0, 1].map(|i| is_at_tc(&config, &devices[i], &devices))
        };
        assert_eq!(at_tc("", &both), [true, false]);
        assert_eq!(
            at_tc("ingress = { lan0 = \"xdp\", wan0 = \"tc\" }", &both),
            [false, true]
        );
        assert_eq!(at_tc("datapath = \"afxdp\"", &both), [false, false]);
        let with = |change: fn(&mut [NetDevice; 2]), other: NetDevice| {
            let [mut lan, wan] = both.clone().map(Some);
            let mut two = [lan.take().unwrap(), wan.unwrap()];
            change(&mut two);
            let [lan, wan] = two;
            at_tc("", &[lan, wan, other])[0]
        };
        let nothing = |_: &mut [NetDevice; 2]| {};
        assert!(with(nothing, device(3, "eth9", "veth")));
        // Such devices are there as soon as the kernel knows the kind.
        assert!(with(nothing, device(3, "gre0", "gre")));
        for kind in IN_OTHERS {
            let up = NetDevice {
                up: true,
                ..device(3, "other", kind)
            };
            assert!(!with(nothing, up), "{kind}");
        }
        let over = NetDevice {
            under: Some(1),
            ..device(3, "lan0.7", "vlan")
        };
        assert!(!with(nothing, over));
        let other_end = NetDevice {
            under: Some(1),
            ..device(3, "host", "veth")
        };
        assert!(with(nothing, other_end));
        let taken = |two: &mut [NetDevice; 2]| two[1].master = Some(3);
        assert!(!with(taken, device(3, "br0", "bridge")));
    }

    #[test]
    fn a_port_that_is_not_there_yet_may_be_a_veth() {
        let wan = Links::from([device(2, "wan0", "")]);
        assert!(any_at_tc(&config(""), &wan));
        assert!(!any_at_tc(&config("ingress = { lan0 = \"xdp\" }"), &wan));
    }
}
