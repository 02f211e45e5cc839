//! What the devices of a router are to each other.
//!
//! Purpose: from a configuration and a [`Snapshot`] of the kernel's devices, say where programs are attached, which devices over and under
//! ports are served, and why others are not. Guarantees: nothing here asks the kernel, the clock or a file, so that all that is told of
//! one snapshot agrees; the order in which devices are listed changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::RouterConfig;
use rxlane_system::snapshot::Snapshot;
use serde::{Deserialize, Serialize};

pub mod attachment;
pub mod device;
pub mod hook;
pub mod macvlan;
pub mod master;
pub mod qdisc;
pub mod session;
pub mod tunnel;
pub mod vlan;

use macvlan::MacvlanStatus;
use master::MasterStatus;
use vlan::VlanStatus;

/// What a router makes of its devices, as people are told. The programs' tables are written from the same snapshot by the same rules.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// VLAN devices over the ports.
    pub vlans: Vec<VlanStatus>,
    /// Macvlan devices over the ports.
    pub macvlans: Vec<MacvlanStatus>,
    /// Devices that ports belong to.
    pub masters: Vec<MasterStatus>,
    /// Devices whose packets leave by the stack, by index, with the queueing disciplines that say so ([`qdisc::in_the_way`]).
    pub by_qdisc: BTreeMap<u32, BTreeSet<String>>,
}

impl Topology {
    /// That of a configuration; `filtered`: what sees packets of ports of bridges ([`master::bridged`]), by the port's index.
    pub fn compile(
        config: &RouterConfig,
        snapshot: &Snapshot,
        filtered: &BTreeMap<u32, String>,
    ) -> Self {
        let links = &snapshot.links;
        Self {
            vlans: vlan::status(config, links),
            macvlans: macvlan::status(&config.ports, links),
            masters: master::status(config, links, filtered),
            by_qdisc: qdisc::in_the_way(&config.egress, snapshot),
        }
    }

    /// What the operator should know of it.
    pub fn warnings(&self, config: &RouterConfig) -> Vec<String> {
        let mut all = master::warnings(&self.masters);
        all.extend(vlan::warnings(config, &self.vlans));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rxlane_system::links::{Link, Vlan};

    const KINDS: [&str; 7] = ["", "veth", "vlan", "macvlan", "bridge", "bond", "vrf"];

    /// A device that may lie over and belong to any other one.
    fn any_device(ifindex: u32) -> impl Strategy<Value = Link> {
        let other = || proptest::option::of(1..9u32);
        (
            0..KINDS.len(),
            other(),
            other(),
            any::<[bool; 4]>(),
            0..4u16,
        )
            .prop_map(
                move |(kind, under, master, [up, takes, serves, reorders], id)| {
                    let kind = KINDS[kind];
                    let under = under.filter(|under| *under != ifindex);
                    Link {
                        ifindex,
                        name: format!("d{ifindex}"),
                        kind: Some(kind.to_owned()).filter(|kind| !kind.is_empty()),
                        up,
                        serves_master: serves,
                        under: under.filter(|_| ["vlan", "macvlan"].contains(&kind)),
                        master: master.filter(|master| *master != ifindex),
                        takes_from: under.filter(|_| takes && kind == "macvlan"),
                        vlan: (kind == "vlan").then(|| Vlan {
                            id,
                            reorders,
                            ..Vlan::default()
                        }),
                        ..Link::default()
                    }
                },
            )
    }

    /// VLAN devices lie over devices that were there before them.
    fn no_circles(mut devices: Vec<Link>) -> Vec<Link> {
        for device in &mut devices {
            let before = |under: &u32| *under < device.ifindex;
            device.under = device.under.filter(before);
            device.takes_from = device.takes_from.filter(before);
            if device.under.is_none() {
                device.vlan = None;
            }
        }
        devices
    }

    fn devices() -> impl Strategy<Value = Vec<Link>> {
        let all: Vec<_> = (1..9).map(any_device).collect();
        all.prop_map(no_circles)
    }

    proptest! {
        #[test]
        fn the_order_in_which_devices_are_listed_changes_nothing(
            (devices, shuffled) in devices().prop_flat_map(|all| (Just(all.clone()), Just(all).prop_shuffle())),
            shaped in 1..9u32,
        ) {
            let config = rxlane_config::parse(
                "ports = [\"d1\", \"d2\", \"d5\"]\n[[class]]\nname = \"all\"\nlane = \"stack\"\n",
            ).unwrap();
            let compile = |devices: Vec<Link>| {
                let snapshot = Snapshot {
                    shapers: [(shaped, BTreeSet::from(["htb".to_owned()]))].into(),
                    ..Snapshot::of(devices)
                };
                Topology::compile(&config, &snapshot, &BTreeMap::new())
            };
            prop_assert_eq!(compile(devices), compile(shuffled));
        }

        #[test]
        fn a_device_is_served_only_if_it_is_up_and_so_is_what_is_under_it(devices in devices()) {
            let config = rxlane_config::parse(
                "ports = [\"d1\", \"d2\"]\n[[class]]\nname = \"all\"\nlane = \"stack\"\n",
            ).unwrap();
            let snapshot = Snapshot::of(devices);
            let topology = Topology::compile(&config, &snapshot, &BTreeMap::new());
            let is_up = |name: &str| snapshot.links.named(name).is_some_and(|d| d.up);
            for vlan in topology.vlans.iter().filter(|v| v.declined.is_none()) {
                let device = snapshot.links.named(&vlan.name).unwrap();
                let (chain, _) = device::chain(device, &snapshot.links);
                prop_assert!(chain.iter().all(|d| d.up), "{vlan:?}");
            }
            for macvlan in topology.macvlans.iter().filter(|m| m.declined.is_none()) {
                prop_assert!(is_up(&macvlan.name), "{macvlan:?}");
            }
        }
    }
}
