//! The compiled classifier against the reference, on random rules and packets.

use ipnet::IpNet;
use proptest::collection::vec;
use proptest::option::of;
use proptest::prelude::*;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::compile::Classifier;
use rxlane_policy::headers::{Headers, Parsed, parse};
use rxlane_policy::rule::{Flex, Rule, first_match};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

/// Few distinct values, so that rules and packets meet often.
fn net() -> impl Strategy<Value = IpNet> {
    prop_oneof![
        (0u8..4, 0u8..4, 8u8..=32)
            .prop_map(|(a, b, len)| format!("10.{a}.0.{b}/{len}").parse().unwrap()),
        (0u16..4, 0u16..4, 16u8..=128)
            .prop_map(|(a, b, len)| format!("2001:{a:x}::{b:x}/{len}").parse().unwrap()),
    ]
}

fn rule() -> impl Strategy<Value = Rule> {
    (
        (
            of(vec(0u8..3, 1..3)),
            of(1u64..16),
            of(vec(prop_oneof![Just(6u8), Just(17)], 1..2)),
        ),
        (vec(net(), 0..3), vec(net(), 0..3)),
        (vec((0u16..8, 0u16..8), 0..2), vec((0u16..8, 0u16..8), 0..2)),
        (of(vec(0u16..4, 1..3)), of(1u8..=255)),
        of((prop_oneof![Just(0u8), Just(36), Just(62)], 0u16..8, 0u16..8)),
    )
        .prop_map(|(l3, nets, ports, l2, flex)| {
            let ranges =
                |v: Vec<(u16, u16)>| v.into_iter().map(|(a, b)| a.min(b)..=a.max(b)).collect();
            Rule {
                ports: l3.0,
                dscp: l3.1,
                protocols: l3.2,
                src: nets.0,
                dst: nets.1,
                src_ports: ranges(ports.0),
                dst_ports: ranges(ports.1),
                vlans: l2.0,
                pcp: l2.1,
                flex: flex.map(|(offset, value, mask)| Flex {
                    offset,
                    value,
                    mask,
                }),
            }
        })
}

fn packet() -> impl Strategy<Value = Headers> {
    (
        (
            0u8..3,
            of((0u16..4, 0u8..8)),
            0u8..4,
            prop_oneof![Just(6u8), Just(17), Just(1)],
        ),
        (any::<bool>(), 0u8..4, 0u8..4, 0u8..4, 0u8..4),
        (0u16..8, 0u16..8, 0usize..40),
    )
        .prop_map(
            |((port, tag, dscp, protocol), (v6, a, b, c, d), (sport, dport, extra))| {
                let mut f = MAC.to_vec();
                f.extend([2, 0, 0, 0, 0, 2]);
                if let Some((id, pcp)) = tag {
                    f.extend([0x81, 0]);
                    f.extend((id | u16::from(pcp) << 13).to_be_bytes());
                }
                let payload = 4 + extra;
                if v6 {
                    f.extend([0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6, 0, 0]);
                    f.extend((payload as u16).to_be_bytes());
                    f.extend([protocol, 64]);
                    for (hi, lo) in [(a, b), (c, d)] {
                        f.extend([0x20, 0x01, 0, hi]);
                        f.extend([0; 11]);
                        f.push(lo);
                    }
                } else {
                    f.extend([8, 0, 0x45, dscp << 2]);
                    f.extend((20 + payload as u16).to_be_bytes());
                    f.extend([0, 0, 0, 0, 64, protocol, 0, 0, 10, a, 0, b, 10, c, 0, d]);
                }
                f.extend(sport.to_be_bytes());
                f.extend(dport.to_be_bytes());
                f.extend(vec![0; extra]);
                match parse(&f, port, MAC) {
                    Parsed::Ip(headers) => *headers,
                    other => panic!("{other:?}"),
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_tables_find_the_first_matching_rule(
        classes in vec(vec(rule(), 0..12), 1..8),
        packets in vec(packet(), 200),
    ) {
        let classes: Vec<Class> = classes
            .into_iter()
            .enumerate()
            .map(|(i, rules)| {
                Class::new(i.to_string(), Lane::express(Trust::All)).with_rules(rules)
            })
            .collect();
        let compiled = Classifier::compile(&classes).unwrap();
        let all: Vec<(usize, &Rule)> = classes
            .iter()
            .enumerate()
            .flat_map(|(c, class)| class.rules.iter().map(move |r| (c, r)))
            .collect();
        for packet in packets {
            let expected = first_match(all.iter().map(|(_, r)| *r), &packet)
                .map_or(classes.len() - 1, |i| all[i].0);
            prop_assert_eq!(usize::from(compiled.classify(&packet)), expected, "{:?}", packet);
        }
    }
}
