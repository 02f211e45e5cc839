//! A port of which only a VLAN device is named: its frames are served, and all others are as if nobody were attached.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rxlane_bpf::layout::REASONS;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing;
use rxlane_policy::rule::Rule;

use crate::frames::{generate, mutate};
use crate::outward::{aged, arrives, stand_in, udp4, voice};
use crate::reference::minus;
use crate::world::{
    IN_MAC, NEXT_HOP, OUT_MAC, PASS, PEER, REDIRECT, class, classes, ip, namespace, number,
    start_on,
};

fn by_name(name: &str) -> rxlane_system::links::Link {
    rxlane_system::links::by_name(name).expect("a device")
}

fn reason(name: &str) -> usize {
    let at = REASONS.iter().position(|(reason, _)| *reason == name);
    at.expect("a reason")
}

/// With customer tags of these ids.
fn tagged(frame: &[u8], ids: &[u8]) -> Vec<u8> {
    let tags = ids.iter().flat_map(|id| [0x81, 0, 0, *id]);
    let tags: Vec<u8> = tags.collect();
    [&frame[..12], &tags, &frame[12..]].concat()
}

/// Packets that the classes of a port have counted.
fn counted(router: &Router, slot: u8) -> Vec<u64> {
    let counts = testing::counts(router, slot).unwrap();
    counts.classes.iter().map(|c| c.packets).collect()
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_of_no_vlan_device_that_is_named_is_passed_untouched_and_counted_as_that() {
    let ifindex = namespace();
    let mut router = start_on(&["p1"], classes());
    let slot = testing::serve_by_vlan(&mut router, &by_name("p0"), &[5], 1, 0).unwrap();
    let frames = number("RXLANE_FRAMES", 30_000);
    let mut rng = Pcg64Mcg::seed_from_u64(number("RXLANE_SEED", 20_261_126));
    let not_named = reason("not_named");
    let (mut seen, mut before) = ([0u32; 2], testing::counts(&router, slot).unwrap());
    for n in 0..frames {
        let mut frame = generate(&mut rng);
        if n % 2 == 1 {
            mutate(&mut rng, &mut frame);
        }
        let is_named = frame.len() >= 18 && frame[12..14] == [0x81, 0] && {
            u16::from_be_bytes([frame[14], frame[15]]) & 0xfff == 5
        };
        let Ok(out) = testing::run(&router, &frame, ifindex) else {
            assert!(frame.len() < 14, "{frame:02x?}");
            continue;
        };
        let after = testing::counts(&router, slot).unwrap();
        let now = minus(&after, &before);
        let served: u64 = now.classes.iter().map(|c| c.packets).sum();
        if is_named {
            assert_eq!(now.reasons[not_named], 0, "{frame:02x?}");
            let left: u64 = now.reasons.iter().sum();
            assert!(served + left > 0, "{frame:02x?}");
        } else {
            assert_eq!((out.action, &out.frame), (PASS, &frame));
            assert_eq!((served, now.reasons[not_named]), (0, 1), "{frame:02x?}");
            assert_eq!(now.reasons.iter().sum::<u64>(), 1, "{frame:02x?}");
        }
        seen[usize::from(is_named)] += 1;
        before = after;
    }
    router.detach().unwrap();
    assert!(seen.iter().all(|n| *n > 500), "{seen:?}");
}

#[test]
#[ignore = "needs root: make test"]
fn packets_of_a_vlan_device_that_is_named_are_express_and_nothing_leaves_by_its_port_without_its_tags()
 {
    let ifindex = namespace();
    stand_in("v0", 30);
    let mut router = start_on(&["p1"], voice());
    let (p0, p1, through) = (by_name("p0"), by_name("p1"), by_name("v0"));
    for ids in [&[5][..], &[7, 5]] {
        let of = ids.iter().map(|id| u16::from(*id)).collect::<Vec<_>>();
        let slot = testing::serve_by_vlan(&mut router, &p0, &of, 1, through.ifindex).unwrap();
        let frame = arrives(&udp4([10, 20, 0, 1]));
        // In by the tags, out without.
        let out = testing::run(&router, &tagged(&frame, ids), ifindex).unwrap();
        let wanted = [
            &NEXT_HOP[..],
            &OUT_MAC,
            &[8, 0],
            &aged(&udp4([10, 20, 0, 1])),
        ]
        .concat();
        assert_eq!(out.action, REDIRECT);
        assert_eq!(out.frame[..wanted.len()], wanted);
        // With others, or with none, it is not looked at.
        let before = counted(&router, slot);
        for others in [&[][..], &[6], &[ids[0], 6][..ids.len()], &[0, 5]] {
            if others == ids {
                continue;
            }
            let frame = tagged(&frame, others);
            let out = testing::run(&router, &frame, ifindex).unwrap();
            assert_eq!((out.action, &out.frame), (PASS, &frame));
        }
        assert_eq!(counted(&router, slot), before);
    }
    // From the other port: what is routed to p0 itself is Linux's, what is routed through the VLAN device gets its tags.
    ip("neigh add 10.1.0.3 lladdr 02:00:00:00:00:07 dev p0");
    let from_p1 = |to: [u8; 4]| {
        let mut packet = udp4(to);
        packet[12..16].copy_from_slice(&[10, 20, 0, 1]);
        let mut frame = arrives(&packet);
        frame[..6].copy_from_slice(&OUT_MAC);
        crate::outward::check(&mut frame[14..]);
        frame
    };
    let egress = reason("egress");
    let slot = router.state().ports["p1"].slot;
    let before = testing::counts(&router, slot).unwrap().reasons[egress];
    let frame = from_p1([10, 1, 0, 3]);
    let out = testing::run(&router, &frame, p1.ifindex).unwrap();
    assert_eq!((out.action, &out.frame), (PASS, &frame));
    let after = testing::counts(&router, slot).unwrap().reasons[egress];
    assert_eq!(after, before + 1);
    let frame = from_p1([10, 30, 0, 1]);
    let out = testing::run(&router, &frame, p1.ifindex).unwrap();
    assert_eq!(out.action, REDIRECT);
    assert_eq!(out.frame[12..22], [0x81, 0, 0, 7, 0x81, 0, 0, 5, 8, 0]);
    router.detach().unwrap();
}

/// Rules by port mean the VLAN device.
#[test]
#[ignore = "needs root: make test"]
fn rules_tell_a_vlan_device_that_is_named_as_a_port() {
    let ifindex = namespace();
    let by_port = |port| Rule {
        ports: Some(vec![port]),
        ..Rule::default()
    };
    let classes = vec![
        class("first", testing::stack_lane(), vec![by_port(0)]),
        class("second", testing::stack_lane(), vec![by_port(1)]),
        class("rest", testing::stack_lane(), Vec::new()),
    ];
    let mut router = start_on(&["p1"], classes);
    let slot = testing::serve_by_vlan(&mut router, &by_name("p0"), &[5], 1, 0).unwrap();
    let frame = [&IN_MAC[..], &PEER, &[8, 0], &udp4([10, 20, 0, 1])].concat();
    testing::run(&router, &tagged(&frame, &[5]), ifindex).unwrap();
    assert_eq!(counted(&router, slot)[..3], [0, 1, 0]);
    router.detach().unwrap();
}
