use std::collections::BTreeMap;

use super::meets::{Meets, Outcome};
use super::test::{Header, Test, Tracked};
use super::traffic_control::of_filter;
use super::{Ruleset, nft};
use crate::dump::attribute;

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, format!("{value}\0").as_bytes())
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_be_bytes())
}

/// A message about the family inet.
fn inet(parts: &[Vec<u8>]) -> Vec<u8> {
    [vec![1, 0, 0, 0], parts.concat()].concat()
}

fn expression(name: &str, data: &[Vec<u8>]) -> Vec<u8> {
    attribute(1, &[text(1, name), attribute(2, &data.concat())].concat())
}

/// What is found of a rule of a forward chain with these expressions.
fn of_rule(expressions: &[Vec<u8>]) -> Ruleset {
    let hook = attribute(4, &[number(1, 2), number(2, 0)].concat());
    let chain = inet(&[
        text(1, "t"),
        text(3, "f"),
        hook,
        number(5, 1),
        text(7, "filter"),
    ]);
    let rule = inet(&[
        text(1, "t"),
        text(2, "f"),
        attribute(4, &expressions.concat()),
    ]);
    let none: [Vec<u8>; 0] = [];
    Ruleset::of(&nft::tables(
        &[rule],
        &[chain],
        &none,
        &none,
        &BTreeMap::new(),
    ))
}

#[test]
fn queues_are_found_by_expression_and_by_verdict() {
    let protocol = [
        expression("meta", &[number(2, 16), number(1, 1)]),
        expression(
            "cmp",
            &[
                number(1, 1),
                number(2, 0),
                attribute(3, &attribute(1, &[17])),
            ],
        ),
    ];
    let queue = expression("queue", &[attribute(1, &3u16.to_be_bytes())]);
    let verdict = attribute(2, &number(1, 7 << 16 | 3));
    let verdict = expression("immediate", &[number(1, 0), attribute(2, &verdict)]);
    for (last, queue) in [(queue, 3), (verdict, 7)] {
        let found = of_rule(&[protocol.concat(), last]);
        assert_eq!(found.per_packet.len(), 1);
        let wanted = format!(
            "the chain inet t f at forward queues packets to user space (queue {queue}) (of flows: UDP)"
        );
        assert_eq!(found.per_packet[0].to_string(), wanted);
        assert!(found.hooks[0].effects.filters);
    }
}

#[test]
fn what_is_not_known_is_taken_for_the_worst() {
    let target = expression("target", &[text(1, "NEWS"), number(2, 0)]);
    let matches = expression("match", &[text(1, "news"), number(2, 0)]);
    let lookup = expression("lookup", &[text(1, "gone"), number(2, 1)]);
    for unknown in [expression("news", &[]), target, matches, lookup] {
        let found = of_rule(&[unknown]);
        assert_eq!(found.per_packet.len(), 1, "{found:?}");
        assert!(found.per_packet[0].meets.is_universal());
        let effects = found.hooks[0].effects;
        assert!(effects.filters && effects.marks && effects.rewrites);
    }
    // A log after it is still met.
    let found = of_rule(&[expression("news", &[]), expression("log", &[])]);
    assert_eq!(found.per_packet.len(), 2);
}

#[test]
fn chains_that_jump_in_circles_and_many_ways_end() {
    let jump = |to: &str| {
        let verdict = [number(1, -3i32 as u32), text(2, to)].concat();
        expression(
            "immediate",
            &[number(1, 0), attribute(2, &attribute(2, &verdict))],
        )
    };
    let name = |i: usize| format!("c{i}");
    let hook = attribute(4, &[number(1, 2), number(2, 0)].concat());
    let mut chains = vec![inet(&[text(1, "t"), text(3, "c0"), hook])];
    let mut rules = Vec::new();
    for i in 0..40 {
        chains.push(inet(&[text(1, "t"), text(3, &name(i + 1))]));
        for port in 0..20u16 {
            let compared = attribute(3, &attribute(1, &port.to_be_bytes()));
            let load = [number(1, 1), number(2, 2), number(3, 2), number(4, 2)];
            let all = [
                expression("payload", &load),
                expression("cmp", &[number(1, 1), number(2, 0), compared]),
                jump(&name((i + 1) % 40)),
            ];
            let all = attribute(4, &all.concat());
            rules.push(inet(&[text(1, "t"), text(2, &name(i)), all]));
        }
    }
    let log = attribute(4, &expression("log", &[]));
    rules.push(inet(&[text(1, "t"), text(2, "c39"), log]));
    let none: [Vec<u8>; 0] = [];
    let tables = nft::tables(&rules, &chains, &none, &none, &BTreeMap::new());
    assert!(!Ruleset::of(&tables).per_packet.is_empty());
}

#[test]
fn comparisons_leave_what_they_say() {
    let of = |test: &Test, meets: &Meets| test.meet(meets, Tracked::Established);
    let any = Meets::default();
    let bytes = |header, offset, are: &[u8]| Test::Bytes {
        header,
        offset,
        mask: vec![255; are.len()],
        are: Some(are.to_vec()),
    };
    let v4 = Meets {
        v6: Some(false),
        ..Meets::default()
    };
    // Source and destination in one comparison, as nft joins them.
    let met = of(
        &bytes(Header::Network, 12, &[10, 0, 0, 1, 10, 0, 0, 2]),
        &v4,
    );
    assert_eq!(met.outcome, Outcome::May);
    assert_eq!(met.meets.source, Some(("10.0.0.1".parse().unwrap(), 32)));
    assert_eq!(
        met.meets.destination,
        Some(("10.0.0.2".parse().unwrap(), 32))
    );
    // The first bytes of an address are a prefix.
    let net = of(&bytes(Header::Network, 16, &[10, 9]), &v4);
    assert_eq!(
        net.meets.destination,
        Some(("10.9.0.0".parse().unwrap(), 16))
    );
    // Of another version nothing is known of bytes.
    let met = of(&bytes(Header::Network, 12, &[10, 0, 0, 1]), &any);
    assert!(met.varies.is_some() && met.meets == any);
    let both = of(&bytes(Header::Transport, 0, &[0, 53, 0, 54]), &any);
    assert_eq!(both.meets.source_ports, Some((53, 53)));
    assert_eq!(both.meets.destination_ports, Some((54, 54)));
    // What has been compared is known.
    let port = |first, last| Test::Ports {
        source: false,
        range: (first, last),
    };
    assert_eq!(of(&port(50, 60), &both.meets).outcome, Outcome::Holds);
    assert_eq!(of(&port(60, 70), &both.meets).outcome, Outcome::Fails);
    assert_eq!(of(&port(60, 70).not(), &both.meets).outcome, Outcome::Holds);
    let either = of(&Test::Any(vec![port(1, 2), port(5, 6)]), &any);
    assert_eq!(either.meets.destination_ports, Some((1, 6)));
    // A packet of an established flow has ACK, and neither SYN nor FIN nor RST.
    for (mask, is, outcome) in [
        (0x02, 0x02, Outcome::Fails),
        (0x17, 0x10, Outcome::Holds),
        (0x3f, 0x00, Outcome::Fails),
        (0x18, 0x18, Outcome::May),
        (0x00, 0x00, Outcome::Holds),
        (0x02, 0x10, Outcome::Fails),
    ] {
        assert_eq!(
            of(&Test::Flags { mask, is }, &any).outcome,
            outcome,
            "{mask:#x} {is:#x}"
        );
    }
}

/// A filter of a kind, for frames of a type, with actions.
fn filter(
    kind: &str,
    ethertype: u16,
    attribute_of_actions: u16,
    actions: &[(&str, Vec<u8>)],
) -> Vec<u8> {
    let mut body = vec![0; 20];
    body[16..20].copy_from_slice(&u32::from(ethertype.to_be()).to_ne_bytes());
    let actions = actions.iter().enumerate().map(|(i, (kind, options))| {
        attribute(
            i as u16 + 1,
            &[text(1, kind), attribute(2, options)].concat(),
        )
    });
    let actions = attribute(attribute_of_actions, &actions.collect::<Vec<_>>().concat());
    body.extend(text(1, kind));
    body.extend(attribute(2, &actions));
    body
}

#[test]
fn actions_that_copy_divert_or_hold_packets_to_a_rate_are_found() {
    let mirred = |does: u32| {
        let mut parameters = vec![0; 28];
        parameters[20..24].copy_from_slice(&does.to_ne_bytes());
        attribute(2, &parameters)
    };
    const ALL: u16 = 3;
    for (body, wanted) in [
        (
            filter("u32", ALL, 7, &[("mirred", mirred(1))]),
            Some("sends packets elsewhere (mirred redirect) (u32)"),
        ),
        (
            filter("matchall", 0x0800, 2, &[("mirred", mirred(2))]),
            Some("copies packets (mirred mirror) (matchall)"),
        ),
        (
            filter("flower", ALL, 3, &[("skbedit", vec![]), ("police", vec![])]),
            Some("holds packets to a rate (police) (flower)"),
        ),
        (
            filter("u32", ALL, 6, &[]),
            Some("holds packets to a rate (police) (u32)"),
        ),
        (
            filter("bpf", ALL, 1, &[]),
            Some("may do anything with each packet (bpf)"),
        ),
        (
            filter("news", ALL, 1, &[]),
            Some("does what is not known here (news)"),
        ),
        (
            filter("basic", ALL, 3, &[("news", vec![])]),
            Some("does what is not known here (action news) (basic)"),
        ),
        (
            filter("flower", ALL, 3, &[("gact", vec![]), ("skbedit", vec![])]),
            None,
        ),
        (
            filter("flower", ALL, 3, &[("gact", attribute(3, &[0; 8]))]),
            Some("drops packets by chance (gact) (flower)"),
        ),
        // ARP.
        (filter("u32", 0x0806, 7, &[("mirred", mirred(1))]), None),
    ] {
        let found = of_filter("lan0", "ingress", &body);
        assert_eq!(found.as_ref().map(|f| f.what.as_str()), wanted);
        if let Some(found) = found {
            assert_eq!(found.place, "port `lan0` (tc, ingress)");
            assert_eq!(found.meets.ingress.as_deref(), Some("lan0"));
        }
    }
    let v4 = of_filter(
        "lan0",
        "egress",
        &filter("matchall", 0x0800, 2, &[("sample", vec![])]),
    );
    let meets = v4.unwrap().meets;
    assert_eq!(
        (meets.v6, meets.egress.as_deref()),
        (Some(false), Some("lan0"))
    );
}

#[test]
fn filters_that_look_at_more_than_what_a_flow_has_in_common_are_found() {
    let of = |kind: &str, ethertype: u16, keys: &[u8]| {
        let mut body = filter(kind, ethertype, 3, &[]);
        body.truncate(20);
        body.extend(text(1, kind));
        body.extend(attribute(2, keys));
        of_filter("lan0", "ingress", &body).map(|f| f.what)
    };
    let u32_keys = |keys: &[(u32, u32, i32)]| {
        let mut selector = vec![0; 16];
        selector[2] = keys.len() as u8;
        for (value, mask, at) in keys {
            selector.extend(mask.to_be_bytes());
            selector.extend(value.to_be_bytes());
            selector.extend(at.to_ne_bytes());
            selector.extend([0; 4]);
        }
        attribute(5, &selector)
    };
    let differs = |kind: &str| {
        Some(format!(
            "looks at what differs from packet to packet ({kind})"
        ))
    };
    let (v4, v6) = (0x0800, 0x86dd);
    for (keys, of_v4, of_v6) in [
        // Addresses; a port behind 20 or 40 bytes; the type of service.
        (&[(1, u32::MAX, 12)][..], false, false),
        (&[(1, u32::MAX, 36)], true, false),
        (&[(5004, 0xffff, 20)], false, false),
        (&[(5004, 0xffff, 40)], true, false),
        (&[(0xb8 << 16, 0xff << 16, 0)], false, true),
        // The length, the TTL, the payload, no key.
        (&[(100, 0xffff, 0)], true, true),
        (&[(64 << 24, 0xff << 24, 8)], true, false),
        (&[(0x4154_5441, u32::MAX, 28)], true, false),
        (&[(1, u32::MAX, 12), (1, 1, 48)], true, true),
        (&[], false, false),
        // Of ICMP.
        (
            &[(1 << 16, 0xff << 16, 8), (8 << 24, 0xff << 24, 20)],
            false,
            false,
        ),
    ] {
        let keys = u32_keys(keys);
        let wanted = |differing: bool| differs("u32").filter(|_| differing);
        assert_eq!(of("u32", v4, &keys), wanted(of_v4), "IPv4 {keys:?}");
        assert_eq!(of("u32", v6, &keys), wanted(of_v6), "IPv6 {keys:?}");
    }
    // Behind a header, at the place of the protocol in front of it.
    let mut moved = u32_keys(&[(0x4154_5441, u32::MAX, 8)]);
    moved[32..36].fill(0xff);
    assert_eq!(of("u32", v4, &moved), differs("u32"));
    let protocol = |number: u8| attribute(9, &[number]);
    for (keys, differing) in [
        ([protocol(17), attribute(21, &[0; 2])], false),
        ([protocol(17), attribute(6, &[2; 6])], true),
        ([protocol(6), attribute(71, &[0; 2])], true),
        ([protocol(6), attribute(75, &[64])], true),
        ([protocol(1), attribute(51, &[8])], false),
    ] {
        let wanted = differs("flower").filter(|_| differing);
        assert_eq!(of("flower", v4, &keys.concat()), wanted, "{keys:?}");
    }
    assert_eq!(of("basic", v4, &attribute(2, &[])), differs("basic"));
}
