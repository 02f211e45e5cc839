//! VXLANs between the router and a host. More of them, with VLAN devices below and several ends: tests/vm/test-vxlan.

use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, wait_for};

/// Of the host in the VXLAN.
const STATION: &str = "02:00:00:00:77:07";

/// A lab whose generator is also a station in a VXLAN with the router, by which it reaches the sink.
fn in_vxlan(name: &str) -> TestLab {
    let t = TestLab::up(name, |_| ());
    for (place, own, other, last, mac) in [
        (Place::Gen, "10.10.0.2", "10.10.0.1", 2, STATION),
        (
            Place::Router,
            "10.10.0.1",
            "10.10.0.2",
            1,
            "02:00:00:00:88:07",
        ),
    ] {
        t.must(
            place,
            &format!(
                "ip link add vx7 address {mac} type vxlan id 7 local {own} remote {other} dstport 4789 && ip link set vx7 addrgenmode none \
                 && ip address add 10.77.0.{last}/24 dev vx7 && ip link set vx7 up"
            ),
        );
    }
    t.must(
        Place::Gen,
        "ip route replace 10.20.0.0/24 via 10.77.0.1 && ping -c 1 -W 5 10.77.0.1",
    );
    t
}

/// Behind which end Linux believes the station to be.
fn is_behind(t: &TestLab, end: &str) -> bool {
    let all = t.must(Place::Router, "bridge fdb show dev vx7");
    let found = all.lines().find(|line| line.starts_with(STATION));
    found.is_some_and(|line| line.contains(&format!("dst {end} ")))
}

/// Has the station send from another address of the host's.
fn send_from(t: &TestLab, end: &str) {
    t.must(
        Place::Gen,
        &format!("ip link set vx7 type vxlan local {end}"),
    );
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_routed_from_and_into_a_vxlan_is_express_both_ways() {
    let mut t = in_vxlan("vxlan");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let status = t.status_json().unwrap();
    let vxlan = &status["tunnels"][0];
    assert_eq!(
        (vxlan["name"].as_str(), vxlan["kind"].as_str()),
        (Some("vx7"), Some("vxlan"))
    );
    assert!(vxlan["declined"].is_null(), "{vxlan}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_station_goes_where_linux_sends_it_after_it_has_moved() {
    let mut t = in_vxlan("vxlanmoves");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    t.must(Place::Gen, "ip address add 10.10.0.3/24 dev gen0");
    send_from(&t, "10.10.0.3");
    wait_for("express from and to where it is now", || t.pings(0) == 10);
    assert!(is_behind(&t, "10.10.0.3"));
}

#[test]
#[ignore = "needs root: make test"]
fn a_station_that_comes_back_before_the_daemon_has_heard_that_it_moved_is_back_for_linux_too() {
    let mut t = in_vxlan("vxlanback");
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Gen, "ip address add 10.10.0.3/24 dev gen0");
    wait_for("requests and answers are express", || t.pings(0) == 10);
    // The daemon hears nothing for now, as on a busy router.
    router.signal(nix::sys::signal::Signal::SIGSTOP);
    send_from(&t, "10.10.0.3");
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
    assert!(
        is_behind(&t, "10.10.0.3"),
        "Linux has learned that it moved"
    );
    // However long that takes.
    std::thread::sleep(std::time::Duration::from_secs(3));
    send_from(&t, "10.10.0.2");
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
    assert!(is_behind(&t, "10.10.0.2"), "and that it is back");
    router.signal(nix::sys::signal::Signal::SIGCONT);
    wait_for("express again", || t.pings(0) == 10);
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_to_a_station_waits_for_the_daemon_also_where_its_new_end_is_routed_by_another_port() {
    let mut t = in_vxlan("vxlanaway");
    t.must(Place::Gen, "ip address add 10.10.0.3/24 dev gen0");
    let rp_filter = |value: u8| {
        format!("for i in all in0; do sysctl -q -w net.ipv4.conf.$i.rp_filter={value}; done")
    };
    t.must(Place::Router, &rp_filter(0));
    t.must(Place::Router, "ip route add 10.10.0.3/32 dev out0");
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    // The daemon hears nothing for now, as on a busy router.
    router.signal(nix::sys::signal::Signal::SIGSTOP);
    send_from(&t, "10.10.0.3");
    // Requests are Linux's, which learns from them, and so are answers, whether or not Linux has its old route in a cache.
    let express = t.class("voice", "express");
    t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
    assert_eq!(t.class("voice", "express"), express);
    assert!(is_behind(&t, "10.10.0.3"));
    router.signal(nix::sys::signal::Signal::SIGCONT);
}
