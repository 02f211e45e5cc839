use super::of_filter;
use crate::dump::attribute;

fn text(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, format!("{value}\0").as_bytes())
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
