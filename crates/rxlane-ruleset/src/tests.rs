use std::collections::BTreeMap;

use super::meets::{Meets, Outcome};
use crate::attribute::attribute;
use crate::test::{Header, Test, Tracked};
use crate::{Ruleset, nft};

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
            "the chain inet t f at forward queues packets to user space (queue {queue}) (of flows: UDP), rule 0"
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
