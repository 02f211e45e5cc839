//! What each port is doing.

use std::collections::BTreeMap;

use rxlane_bpf::layout::{ClassCounters, Core, PortCounters, REASONS};
use rxlane_bpf::pinned::get_percpu;
use rxlane_system::links::Links;

use super::parts::PortStatus;
use crate::DataplaneError;
use crate::lanes::overload::Shared;
use crate::port::PortState;
use crate::refusing::{self, Full};
use crate::state::State;

/// Ports in the order of the configuration, with their counters by core.
pub(super) fn all(
    state: &State,
    shared: &Shared,
    cores: &BTreeMap<u8, Vec<Core>>,
    devices: &Links,
) -> Result<Vec<PortStatus>, DataplaneError> {
    let in_the_way = &state.topology.by_qdisc;
    let of_vlan = |name: &String| {
        let device = devices.named(name)?;
        in_the_way.get(&device.ifindex)
    };
    let hands_over = state.ports.values().any(|port| port.hands_over);
    let mut all = Vec::new();
    for (name, port) in in_order(state) {
        let own = port.ifindex.and_then(|ifindex| in_the_way.get(&ifindex));
        // Only if nothing leaves otherwise.
        let of_vlans: Option<Vec<_>> = port.vlans.iter().map(of_vlan).collect();
        let of_vlans = of_vlans.unwrap_or_default();
        let by_qdisc = own.or_else(|| of_vlans.first().copied());
        let full = refusing::full(shared, port.slot)?;
        let refuses = full.is_some_and(|(full, _)| full == Full::Ring);
        let mine = &cores[&port.slot];
        let mut egress = PortCounters::default();
        for count in get_percpu::<PortCounters>(&shared.port_counts, u32::from(port.slot))? {
            egress.tx_packets += count.tx_packets;
            egress.tx_drops += count.tx_drops;
            egress.refusals += count.refusals;
            egress.link_full += count.link_full;
            egress.by_qdisc += count.by_qdisc;
            let by_class = egress.refused.iter_mut().zip(count.refused);
            by_class.for_each(|(sum, lost)| *sum += lost);
            egress.refused_of_no_class += count.refused_of_no_class;
        }
        let reasons = REASONS
            .iter()
            .enumerate()
            .map(|(i, (reason, _))| (*reason, mine.iter().map(|c| c.reasons[i]).sum::<u64>()));
        let by_class = state.config.classes.iter().enumerate().map(|(i, class)| {
            let mut sum = ClassCounters::default();
            mine.iter().for_each(|c| sum += c.classes[i].into());
            (class.name.clone(), sum)
        });
        all.push(PortStatus {
            name: name.clone(),
            named_as: state.written_for(name).cloned(),
            named: port.vlans.iter().cloned().collect(),
            ifindex: port.ifindex,
            mode: port.mode.clone(),
            rests: port.rests,
            leaves: if !state.passes_the_stack_by() || (refuses && by_qdisc.is_none() && hands_over)
            {
                "qdisc"
            } else if by_qdisc.is_none() && !refuses && state.sends(port) {
                "directly"
            } else {
                "stack"
            },
            refusing_s: full.map(|(_, quiet_s)| quiet_s),
            full: full.map(|(full, _)| match full {
                Full::Ring => "ring",
                Full::Link => "link",
            }),
            shapers: by_qdisc.cloned().unwrap_or_default(),
            egress,
            polls: mine.iter().map(|c| c.polls).sum(),
            control: mine.iter().map(|c| c.control).sum(),
            control_policed: mine.iter().map(|c| c.control_policed).sum(),
            to_kernel: reasons.filter(|(_, n)| *n > 0).collect(),
            classes: by_class.collect(),
            cores: mine
                .iter()
                .enumerate()
                .filter(|(_, c)| c.polls > 0)
                .map(|(core, c)| (core, c.polls))
                .collect(),
        });
    }
    Ok(all)
}

/// Ports in the order of the configuration: one that VLAN devices stand for is where the first of them is named.
fn in_order(state: &State) -> Vec<(&String, &PortState)> {
    let names = &state.config.ports;
    let place = |name: &String, port: &PortState| {
        let called = |n: &String| port.vlans.contains(n) || (!port.is_by_vlan() && n == name);
        names.iter().position(called)
    };
    let mut all: Vec<_> = state.ports.iter().collect();
    all.sort_by_key(|(name, port)| place(name, port));
    all
}
