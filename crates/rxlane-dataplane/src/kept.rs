//! Flows that stay with the kernel because a rule must see each of their packets, as the witness asks for them (bpf/trust/kept.h).

use std::net::IpAddr;

use rxlane_bpf::layout::{KEPT_TRACKED, KEPT_UNTRACKED, KeptFlows, MAX_KEPT_FLOWS};
use rxlane_ruleset::{Meets, PerPacket};
use rxlane_system::links::Link;

/// All flows.
const ALL: KeptFlows = KeptFlows {
    version: 0,
    protocol: 0,
    from_port: [0, u16::MAX],
    to_port: [0, u16::MAX],
    tracked: 0,
    pad: 0,
    ingress: 0,
    egress: 0,
    source: [0; 16],
    source_mask: [0; 16],
    destination: [0; 16],
    destination_mask: [0; 16],
};

/// What the witness asks for: each once, or all flows, if there are more kinds of flows than it has room for.
pub(crate) fn flows(kept: &[&PerPacket], devices: &[Link]) -> Vec<KeptFlows> {
    let mut all: Vec<KeptFlows> = Vec::new();
    let meets = kept.iter().flat_map(|rule| {
        let answers = rule.sees_both_directions().then(|| rule.meets.answers());
        std::iter::once(rule.meets.clone()).chain(answers)
    });
    for flows in meets.map(|meets| of(&meets, devices)) {
        if !all.contains(&flows) {
            all.push(flows);
        }
    }
    if all.len() > MAX_KEPT_FLOWS {
        return vec![ALL];
    }
    all
}

fn of(meets: &Meets, devices: &[Link]) -> KeptFlows {
    let (source, source_mask) = net(meets.source);
    let (destination, destination_mask) = net(meets.destination);
    let ports = |range: Option<(u16, u16)>| range.map_or(ALL.from_port, |(low, high)| [low, high]);
    // Of a VRF's packets Linux notes another device than rules may see.
    let by = |name: &String| devices.iter().find(|d| d.name == *name);
    let vrfs = devices.iter().any(|d| d.kind.as_deref() == Some("vrf"));
    let device = |name: &Option<String>| {
        let found = name.as_ref().filter(|_| !vrfs).and_then(by);
        found.map_or(0, |d| d.ifindex)
    };
    KeptFlows {
        version: match meets.v6 {
            None => 0,
            Some(false) => 4,
            Some(true) => 6,
        },
        protocol: meets.protocol.unwrap_or(0),
        tracked: match meets.tracked {
            None => 0,
            Some(true) => KEPT_TRACKED,
            Some(false) => KEPT_UNTRACKED,
        },
        from_port: ports(meets.source_ports),
        to_port: ports(meets.destination_ports),
        ingress: device(&meets.ingress),
        egress: device(&meets.egress),
        source,
        source_mask,
        destination,
        destination_mask,
        ..ALL
    }
}

/// Address and mask.
fn net(net: Option<(IpAddr, u8)>) -> ([u8; 16], [u8; 16]) {
    let Some((address, bits)) = net else {
        return ([0; 16], [0; 16]);
    };
    let mut bytes = [0; 16];
    match address {
        IpAddr::V4(v4) => bytes[..4].copy_from_slice(&v4.octets()),
        IpAddr::V6(v6) => bytes = v6.octets(),
    }
    let mask = u128::MAX
        .checked_shl(128 - u32::from(bits.min(128)))
        .unwrap_or(0);
    (bytes, mask.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(meets: Meets) -> PerPacket {
        PerPacket {
            what: "queues packets".into(),
            place: "the chain c".into(),
            meets,
            rules: vec![7],
        }
    }

    #[test]
    fn what_a_rule_compares_is_what_the_witness_asks_for() {
        let meets = Meets {
            v6: Some(false),
            protocol: Some(17),
            source: Some((IpAddr::from([10, 1, 0, 0]), 16)),
            destination_ports: Some((6000, 6001)),
            ..Meets::default()
        };
        let (one, same) = (rule(meets.clone()), rule(meets));
        let [flows] = flows(&[&one, &same], &[])[..] else {
            panic!("two rules about the same flows are one");
        };
        assert_eq!((flows.version, flows.protocol), (4, 17));
        assert_eq!(flows.from_port, [0, u16::MAX]);
        assert_eq!(flows.to_port, [6000, 6001]);
        assert_eq!(flows.source[..4], [10, 1, 0, 0]);
        assert_eq!(flows.source_mask[..4], [255, 255, 0, 0]);
        assert_eq!(flows.destination_mask, [0; 16]);
    }

    #[test]
    fn a_rule_about_counters_of_connections_keeps_what_answers_its_flows() {
        let meets = Meets {
            source: Some((IpAddr::from([10, 1, 0, 0]), 16)),
            destination_ports: Some((6000, 6001)),
            ..Meets::default()
        };
        let mut counters = rule(meets);
        counters.what = "asks for counters of connections".into();
        let [_, answers] = flows(&[&counters], &[])[..] else {
            panic!("both directions");
        };
        assert_eq!(answers.from_port, [6000, 6001]);
        assert_eq!(answers.to_port, [0, u16::MAX]);
        assert_eq!(answers.destination[..4], [10, 1, 0, 0]);
        assert_eq!(answers.source_mask, [0; 16]);
    }

    #[test]
    fn more_rules_than_there_is_room_for_keep_all_flows() {
        let of_port = |port| {
            rule(Meets {
                destination_ports: Some((port, port)),
                ..Meets::default()
            })
        };
        let rules: Vec<PerPacket> = (0..=MAX_KEPT_FLOWS as u16).map(of_port).collect();
        let all: Vec<&PerPacket> = rules.iter().collect();
        assert_eq!(flows(&all[..MAX_KEPT_FLOWS], &[]).len(), MAX_KEPT_FLOWS);
        assert_eq!(flows(&all, &[]), [ALL]);
    }
}
