//! VLAN tags stay in frames as long as a router is attached, and offloads are as they were afterwards.

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, udp, wait_for};

/// Whether a port of the router takes tags out of received frames.
fn takes_tags(t: &TestLab, port: &str) -> bool {
    let features = t.must(Place::Router, &format!("ethtool -k {port}"));
    let line = features.lines().find(|l| l.starts_with("rx-vlan-offload:"));
    line.expect("every device says so").contains(" on")
}

#[test]
#[ignore = "needs root: make test"]
fn ports_leave_vlan_tags_in_frames_until_the_router_is_detached() {
    let mut t = TestLab::up("tags", |_| ());
    let classes = VOICE_ALL.to_owned() + REST;
    t.must(Place::Router, "ethtool -K out0 rxvlan off");
    assert!(takes_tags(&t, "in0"), "as veths do");
    let router = t.router(&classes);
    assert!(!takes_tags(&t, "in0"));
    assert!(!takes_tags(&t, "out0"));
    router.end(Signal::SIGTERM);
    assert!(takes_tags(&t, "in0"), "as it was");
    assert!(!takes_tags(&t, "out0"), "as it was");
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_network_manager_turns_on_meanwhile_is_turned_off_again() {
    let mut t = TestLab::up("managed", |_| ());
    let classes = VOICE_ALL.to_owned() + REST;
    t.must(
        Place::Router,
        "ethtool -K in0 rxvlan off rx-vlan-stag-hw-parse off",
    );
    let router = t.router(&classes);
    for feature in ["rxvlan", "rx-vlan-stag-hw-parse"] {
        t.must(Place::Router, &format!("ethtool -K in0 {feature} on"));
        wait_for("tags are left in frames again", || {
            let features = t.must(Place::Router, "ethtool -k in0");
            let tags = |line: &&str| {
                line.starts_with("rx-vlan-offload:") || line.starts_with("rx-vlan-stag-hw-parse:")
            };
            features.lines().filter(tags).all(|l| l.contains(": off"))
        });
    }
    router.end(Signal::SIGTERM);
    assert!(takes_tags(&t, "in0"), "as it was wanted");
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_is_called_otherwise_at_the_end_gets_its_offloads_back() {
    let mut t = TestLab::up("renamedtags", |_| ());
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(
        Place::Router,
        "ip link set in0 down && ip link set in0 name inX && ip link set inX up",
    );
    wait_for("it is absent", || {
        t.status_json().unwrap()["ports"][0]["ifindex"].is_null()
    });
    assert!(!takes_tags(&t, "inX"));
    router.end(Signal::SIGTERM);
    assert!(takes_tags(&t, "inX"));
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_killed_daemon_turned_off_is_turned_on_by_whoever_detaches() {
    let mut t = TestLab::up("killedtags", |_| ());
    let classes = VOICE_ALL.to_owned() + REST;
    t.router(&classes).end(Signal::SIGKILL);
    // The next one finds nothing to turn off, and must not take that for how it was.
    t.router(&classes).end(Signal::SIGKILL);
    assert!(!takes_tags(&t, "in0") && !takes_tags(&t, "out0"));
    assert!(t.rxlane(&["detach"]).status.success());
    assert!(takes_tags(&t, "in0") && takes_tags(&t, "out0"));
}

#[test]
#[ignore = "needs root: make test"]
fn a_refused_start_and_a_port_left_out_by_a_reload_turn_it_on_again() {
    let mut t = TestLab::up("lefttags", |c| c.ports = 2);
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let all = std::fs::read_to_string(&config).unwrap();
    // No XDP on the last port: refused after the first was changed.
    t.must(Place::Sink, "ethtool -L snk1 tx 2");
    assert!(t.try_router_from(&config).is_err());
    assert!(takes_tags(&t, "in0") && takes_tags(&t, "in1"));
    t.must(Place::Sink, "ethtool -L snk1 tx 1");
    let _router = t.router_from(&config);
    assert!(!takes_tags(&t, "in1"));
    std::fs::write(
        &config,
        all.replace("\"in1\", ", "").replace("in1 = \"xdp\", ", ""),
    )
    .unwrap();
    t.reloaded();
    assert!(
        takes_tags(&t, "in1"),
        "not a port any more: {}",
        std::fs::read_to_string(&config).unwrap()
    );
    assert!(!takes_tags(&t, "in0"));
}

/// A datagram from the generator to the sink, EF, in a frame with these bytes between addresses and type.
fn datagram(to: [u8; 6], tags: &[u8]) -> Vec<u8> {
    let mut ip = vec![0x45, 0xb8, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0];
    ip.extend([10, 10, 0, 2, 10, 20, 0, 2]);
    let check = rxlane_policy::headers::ipv4_checksum(&ip);
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    // Without a checksum, which IPv4 allows.
    let udp = [0x17, 0x70, 0x1b, 0x58, 0, 12, 0, 0, b't', b'a', b'g', b's'];
    [&to[..], &[2, 0, 0, 0, 0, 9], tags, &[8, 0], &ip, &udp].concat()
}

/// Puts a frame on the wire towards the router.
fn put(t: &TestLab, frame: &[u8]) {
    use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockType, sendto, socket};
    let netns = t.lab.netns(Place::Gen);
    rxlane_system::netns::within(&netns, false, || {
        let flags = SockFlag::SOCK_CLOEXEC;
        let socket = socket(AddressFamily::Packet, SockType::Raw, flags, None).expect("a socket");
        let port = rxlane_system::links::by_name("gen0")?;
        let address = rxlane_system::packet_socket::address(port.ifindex, 0)?;
        let fd = std::os::fd::AsRawFd::as_raw_fd(&socket);
        sendto(fd, frame, &address, MsgFlags::empty()).expect("the wire takes it");
        Ok(())
    })
    .expect("the namespace");
}

#[test]
#[ignore = "needs root: make test"]
fn a_priority_tag_leaves_its_packet_with_the_port_and_any_other_tag_without_a_device_with_nobody() {
    let mut t = TestLab::up("priority", |_| ());
    let sink = udp(&t, Place::Sink, "10.20.0.2:7000");
    let mac = t.must(Place::Router, "cat /sys/class/net/in0/address");
    let bytes = mac.trim().split(':');
    let bytes: Vec<u8> = bytes.map(|b| u8::from_str_radix(b, 16).unwrap()).collect();
    let to: [u8; 6] = bytes.try_into().unwrap();
    let arrives = |t: &TestLab, tags: &[u8]| {
        put(t, &datagram(to, tags));
        let mut got = [0; 16];
        sink.recv(&mut got).is_ok_and(|n| &got[..n] == b"tags")
    };
    // The phone's priority; the same of a provider; a VLAN; a priority before a VLAN.
    let all: [(&[u8], bool); 4] = [
        (&[0x81, 0, 0xa0, 0], true),
        (&[0x88, 0xa8, 0xa0, 0], true),
        (&[0x81, 0, 0xa0, 5], false),
        (&[0x81, 0, 0xa0, 0, 0x81, 0, 0, 5], false),
    ];
    // So does Linux.
    arrives(&t, &[]);
    for (tags, wanted) in all {
        assert_eq!(arrives(&t, tags), wanted, "Linux, {tags:02x?}");
    }
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    for (tags, wanted) in all {
        let before = t.class("voice", "express");
        assert_eq!(arrives(&t, tags), wanted, "rxlane, {tags:02x?}");
        let went = t.class("voice", "express") - before;
        assert_eq!(went, u64::from(wanted), "express, {tags:02x?}");
    }
    assert_eq!(t.to_kernel("vlan"), 2);
}
