//! Where a port refuses frames, what leaves there leaves by the stack, untouched, whatever it leaves by.

use rxlane_bpf::layout::REASONS;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing;
use rxlane_policy::class::Trust;

use crate::outward::{aged, arrives, stand_in, udp4, udp6, voice};
use crate::world::{
    OUT_MAC, PASS, PEER, REDIRECT, class, express, ip, namespace, start, start_on, tunnel,
};

fn by_name(name: &str) -> rxlane_system::links::Link {
    rxlane_system::links::by_name(name).expect("a device")
}

/// Packets of the first class that were left to a qdisc, and all that have passed in it.
fn by_qdisc(router: &Router) -> (u64, u64) {
    let counts = testing::counts(router, 0).unwrap();
    let at = REASONS.iter().position(|(reason, _)| *reason == "qdisc");
    (counts.reasons[at.unwrap()], counts.classes[0].passed)
}

/// A packet that comes in by p0 is redirected, unless the port refuses.
fn is_refused_by(router: &Router, port: &str, packet: &[u8], ifindex: u32) {
    let frame = arrives(packet);
    for refuses in [false, true, false] {
        testing::refuse(router, port, refuses).unwrap();
        let before = by_qdisc(router);
        let out = testing::run(router, &frame, ifindex).unwrap();
        let counts = testing::counts(router, 0).unwrap();
        let after = by_qdisc(router);
        let left = (after.0 - before.0, after.1 - before.1);
        if refuses {
            assert_eq!((out.action, &out.frame), (PASS, &frame), "{counts:?}");
            assert_eq!(left, (1, 1));
        } else {
            assert_eq!((out.action, left), (REDIRECT, (0, 0)), "{counts:?}");
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_leaves_by_a_port_that_refuses_leaves_by_the_stack_and_what_leaves_elsewhere_does_not() {
    let ifindex = namespace();
    ip("neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev p0");
    let prefixes = vec![class(
        "all",
        express(Trust::Prefixes(vec!["0.0.0.0/0".parse().unwrap()])),
        vec![Default::default()],
    )];
    // By the short program, and by the other one.
    for (classes, v6) in [(voice(), true), (prefixes, false)] {
        let router = start(classes);
        is_refused_by(&router, "p1", &udp4([10, 20, 0, 1]), ifindex);
        if v6 {
            is_refused_by(&router, "p1", &udp6("2001:db8::1"), ifindex);
        }
        testing::refuse(&router, "p1", true).unwrap();
        let mut packet = udp4([10, 1, 0, 9]);
        packet[12..16].copy_from_slice(&[10, 20, 0, 1]);
        crate::outward::check(&mut packet);
        let frame = [&OUT_MAC[..], &PEER, &[8, 0], &packet, &[0; 13]].concat();
        let out = testing::run(&router, &frame, by_name("p1").ifindex).unwrap();
        let counts = testing::counts(&router, 1).unwrap();
        assert_eq!(out.action, REDIRECT, "{counts:?}");
        assert_eq!(out.frame[14..][..packet.len()], aged(&packet));
        router.detach().unwrap();
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_leaves_in_sessions_and_tunnels_by_a_port_that_refuses_leaves_by_the_stack() {
    let ifindex = namespace();
    stand_in("ppp0", 30);
    stand_in("tun0", 31);
    let router = start(voice());
    let (ppp, tun, port) = (by_name("ppp0"), by_name("tun0"), by_name("p1"));
    for tags in [&[][..], &[35], &[7, 35]] {
        testing::send_in_session(&router, ppp.ifindex, &port, tags, 0x1234, PEER).unwrap();
        // The first is Linux's, which shall see the session in use.
        testing::run(&router, &arrives(&udp4([10, 30, 0, 1])), ifindex).unwrap();
        for packet in [udp4([10, 30, 0, 1]), udp6("fd30::1")] {
            is_refused_by(&router, "p1", &packet, ifindex);
        }
    }
    for ends in [
        [[10, 2, 0, 1], [10, 2, 0, 9]],
        [[10, 3, 0, 1], [10, 30, 0, 9]],
    ] {
        let way = tunnel(47, ends, None);
        testing::serve_tunnels(&router, &[(tun.ifindex, [0; 6], way)], &[]).unwrap();
        for packet in [udp4([10, 31, 0, 1]), udp6("fd31::1")] {
            is_refused_by(&router, "p1", &packet, ifindex);
        }
    }
    router.detach().unwrap();
}

/// Two express classes: what is marked, and all else.
fn two_classes() -> Vec<rxlane_policy::class::Class> {
    let mut classes = voice();
    classes[1] = class("bulk", express(Trust::All), Vec::new());
    classes
}

/// In the lower class, as long as a frame can be.
fn full_frame() -> Vec<u8> {
    let mut packet = udp4([10, 20, 0, 1]);
    packet.resize(1500, 0x5a);
    packet[1] = 0;
    packet[2..4].copy_from_slice(&1500_u16.to_be_bytes());
    packet[24..26].copy_from_slice(&1480_u16.to_be_bytes());
    crate::outward::check(&mut packet);
    arrives(&packet)
}

#[test]
#[ignore = "needs root: make test"]
fn by_a_link_that_is_full_only_the_highest_class_leaves_directly() {
    let ifindex = namespace();
    let router = start(two_classes());
    let action = |frame: &[u8]| testing::run(&router, frame, ifindex).unwrap().action;
    let (voice, bulk) = (arrives(&udp4([10, 20, 0, 1])), full_frame());
    assert_eq!((action(&voice), action(&bulk)), (REDIRECT, REDIRECT));
    testing::fill_link(&router, "p1").unwrap();
    assert_eq!((action(&voice), action(&bulk)), (REDIRECT, PASS));
    testing::refuse(&router, "p1", true).unwrap();
    assert_eq!((action(&voice), action(&bulk)), (PASS, PASS));
    testing::refuse(&router, "p1", false).unwrap();
    assert_eq!((action(&voice), action(&bulk)), (REDIRECT, REDIRECT));
    router.detach().unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_link_is_full_once_more_is_sent_to_it_than_it_takes_and_it_has_a_queue() {
    const FRAMES: u32 = 64;
    let ifindex = namespace();
    let router = start(two_classes());
    let full = || testing::is_full(&router, "p1").unwrap();
    let bulk = full_frame();
    let arrive = |bits_per_s| {
        testing::slow_link(&router, "p1", bits_per_s).unwrap();
        testing::receive(&router, &bulk, ifindex, FRAMES).unwrap();
    };
    // Where nothing can wait it goes on directly.
    arrive(10_000_000);
    assert_eq!(full(), (false, false));
    let queue = std::process::Command::new("tc")
        .args([
            "qdisc", "add", "dev", "p1", "root", "pfifo", "limit", "1000",
        ])
        .status();
    assert!(queue.is_ok_and(|s| s.success()), "iproute2 is installed");
    // 64 full frames are less than a gigabit sends in a millisecond, and take ten megabits 79.
    arrive(1_000_000_000);
    assert_eq!(full(), (false, false));
    let sent = || testing::counts(&router, 0).unwrap().classes[1].express;
    let before = sent();
    let filled = (0..100).any(|_| {
        arrive(10_000_000);
        full() == (true, false)
    });
    assert!(filled, "{} frames", sent() - before);
    let before = sent();
    arrive(10_000_000);
    assert_eq!(sent(), before, "what comes now waits");
    router.detach().unwrap();
}

/// The port itself has no place in the table of egress devices that a route could lead to.
#[test]
#[ignore = "needs root: make test"]
fn what_leaves_by_a_vlan_device_of_a_port_that_refuses_leaves_by_the_stack() {
    let ifindex = namespace();
    stand_in("v5", 30);
    let mut router = start_on(&["p0"], voice());
    let through = by_name("v5").ifindex;
    testing::serve_by_vlan(&mut router, &by_name("p1"), &[5], 1, through).unwrap();
    is_refused_by(&router, "p1", &udp4([10, 30, 0, 1]), ifindex);
    // What a route sends there without a tag has always been Linux's, for another reason.
    testing::refuse(&router, "p1", true).unwrap();
    let before = by_qdisc(&router);
    let out = testing::run(&router, &arrives(&udp4([10, 20, 0, 1])), ifindex).unwrap();
    assert_eq!((out.action, by_qdisc(&router)), (PASS, before));
    router.detach().unwrap();
}
