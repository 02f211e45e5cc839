//! Virtual MAC addresses, as redundant routers have them: macvlan devices over ports.

use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, wait_for};

const VIRTUAL: &str = "00:00:5e:00:01:01";

/// Hosts have the virtual address as their gateway.
fn gateway(t: &TestLab) {
    t.must(
        Place::Gen,
        &format!(
            "ip neigh replace 10.10.0.254 lladdr {VIRTUAL} dev gen0 && ip route replace 10.20.0.0/24 via 10.10.0.254"
        ),
    );
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_sent_to_a_virtual_address_is_express_as_long_as_linux_takes_it() {
    let mut t = TestLab::up("virtual", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    gateway(&t);
    assert_eq!(t.pings(100), 0, "nobody has the address");
    t.must(
        Place::Router,
        &format!(
            "ip link add vrrp1 link in0 address {VIRTUAL} type macvlan mode private && ip link set vrrp1 up"
        ),
    );
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let status = t.status_json().unwrap();
    let over = &status["macvlans"][0];
    assert_eq!(
        (over["name"].as_str(), over["port"].as_str()),
        (Some("vrrp1"), Some("in0"))
    );
    assert!(over["declined"].is_null(), "{over}");
    t.must(Place::Router, "ip link set vrrp1 down");
    wait_for("the lane has heard of it", || {
        let status = t.status_json().unwrap();
        status["macvlans"][0]["declined"] == "`vrrp1` is down"
    });
    assert_eq!(t.pings(100), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_strict_source_check_is_that_of_the_virtual_device() {
    let mut t = TestLab::up("virtualsource", |_| ());
    t.must(
        Place::Router,
        &format!(
            "ip link add vrrp1 link in0 address {VIRTUAL} type macvlan mode private && sysctl -w net.ipv4.conf.vrrp1.rp_filter=1 && ip link set vrrp1 up"
        ),
    );
    gateway(&t);
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    // The way back to the source leads through the port, not through the device over it.
    assert_eq!(t.pings(100), 0);
    t.must(Place::Router, "sysctl -w net.ipv4.conf.vrrp1.rp_filter=0");
    wait_for("both are express", || {
        let before = t.class("voice", "express");
        let out = t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        out.status.success() && t.class("voice", "express") - before == 10
    });
}
