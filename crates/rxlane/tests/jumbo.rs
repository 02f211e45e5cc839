//! Frames longer than a page, which drivers hand over in several pieces.

use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, udp, wait_for};

const ENDS: [(Place, &str); 4] = [
    (Place::Gen, "gen0"),
    (Place::Router, "in0"),
    (Place::Router, "out0"),
    (Place::Sink, "snk0"),
];

fn widen(t: &TestLab) {
    for (place, device) in ENDS {
        t.must(place, &format!("ip link set {device} mtu 9000"));
    }
}

/// As long as the MTU allows, forbidden to be divided, and marked: how many went express, if none was lost.
fn try_to_ping(t: &TestLab) -> Result<u64, String> {
    let before = t.class("voice", "express");
    for to in ["-4 -s 8972 10.20.0.2", "-6 -s 8952 fd20::2"] {
        let line = format!("ping -M do -Q 0xb8 -c 5 -i 0.2 -W 2 {to}");
        let out = String::from_utf8_lossy(&t.exec(Place::Gen, &line).stdout).into_owned();
        if !out.contains(" 0% packet loss") || out.contains("wrong data") {
            return Err(out);
        }
    }
    Ok(t.class("voice", "express") - before)
}

fn ping(t: &TestLab) -> u64 {
    try_to_ping(t).unwrap_or_else(|out| panic!("{out}"))
}

#[test]
#[ignore = "needs root: make test"]
fn frames_of_several_pieces_are_express_where_the_driver_sends_such_and_linux_s_elsewhere() {
    let mut t = TestLab::up("jumbo", |_| ());
    widen(&t);
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    ping(&t);
    assert_eq!(ping(&t), 20, "requests and answers");
    // A veth whose peer does not poll takes nothing, of which nobody tells: it is asked each second.
    t.must(Place::Sink, "ethtool -K snk0 gro off");
    wait_for("Linux sends what goes out there", || {
        try_to_ping(&t) == Ok(10)
    });
    t.must(Place::Sink, "ethtool -K snk0 gro on");
    wait_for("the lane sends it again", || try_to_ping(&t) == Ok(20));
}

#[test]
#[ignore = "needs root: make test"]
fn an_mtu_is_raised_under_a_running_router() {
    let mut t = TestLab::up("raised", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    widen(&t);
    wait_for("long frames are express", || ping(&t) == 20);
}

#[test]
#[ignore = "needs root: make test"]
fn every_byte_of_a_long_datagram_arrives() {
    let mut t = TestLab::up("bytes", |_| ());
    widen(&t);
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let sink = udp(&t, Place::Sink, "10.20.0.2:7000");
    let source = udp(&t, Place::Gen, "10.10.0.2:6000");
    nix::sys::socket::setsockopt(&source, nix::sys::socket::sockopt::Ipv4Tos, &0xb8).unwrap();
    wait_for("long frames are express", || ping(&t) == 20);
    let before = t.class("voice", "express");
    // Around the length of what fits into one piece, and the longest.
    let lengths = (3000..4200).step_by(7).chain([8971, 8972]);
    for length in lengths {
        let sent: Vec<u8> = (0..length).map(|i| (i * 31 + length) as u8).collect();
        source.send_to(&sent, "10.20.0.2:7000").unwrap();
        let mut got = vec![0; 9000];
        let n = sink
            .recv(&mut got)
            .unwrap_or_else(|e| panic!("{length}: {e}"));
        assert!(got[..n] == sent[..], "{length} bytes");
    }
    assert!(t.class("voice", "express") >= before + 170);
}

#[test]
#[ignore = "needs root: make test"]
fn the_engine_leaves_frames_of_several_pieces_to_the_kernel() {
    let mut t = TestLab::up("longengine", |_| ());
    widen(&t);
    let classes = format!("datapath = \"afxdp\"\n{VOICE_ALL}{REST}");
    let _router = t.router(&classes);
    ping(&t);
    let out = t.must(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "{out}");
    assert!(t.to_kernel("mtu") >= 20);
}
