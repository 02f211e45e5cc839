//! VLAN tags stay in frames as long as a router is attached, and offloads are as they were afterwards.

mod common;

use common::{REST, TestLab, VOICE_ALL};
use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;

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
    t.must(Place::Sink, "ip link set snk1 mtu 9000");
    assert!(t.try_router_from(&config).is_err());
    assert!(takes_tags(&t, "in0") && takes_tags(&t, "in1"));
    t.must(Place::Sink, "ip link set snk1 mtu 1500");
    let _router = t.router_from(&config);
    assert!(!takes_tags(&t, "in1"));
    std::fs::write(
        &config,
        all.replace("\"in1\", ", "").replace("\"out1\", ", ""),
    )
    .unwrap();
    let reloaded = t.rxlane(&["reload"]);
    assert!(reloaded.status.success(), "{reloaded:?}");
    assert!(
        takes_tags(&t, "in1"),
        "not a port any more: {}",
        std::fs::read_to_string(&config).unwrap()
    );
    assert!(!takes_tags(&t, "in0"));
}
