//! Ports under other names, in other namespaces, and not there yet.

use std::process::Stdio;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{Background, REST, TestLab, VOICE_ALL, error_of, wait_for};

/// Starts a router on these ports, which need not be the lab's.
fn router(t: &mut TestLab, ports: &str) -> Background {
    let config = t.file("ports", &format!("{ports}\n{VOICE_ALL}{REST}"));
    t.strict_router(&config, Stdio::null())
}

fn ip(t: &TestLab, lines: &str) {
    let all: Vec<String> = lines.split("; ").map(|l| format!("ip {l}")).collect();
    t.must(Place::Router, &all.join(" && "));
}

/// A device gets another name, and its address again where it lost that.
fn rename(t: &TestLab, from: &str, to: &str) {
    ip(
        t,
        &format!("link set {from} down; link set {from} name {to}; link set {to} up"),
    );
}

/// Both directions are express, and stay so: what changes closes the lane for a while.
fn is_express(t: &TestLab) {
    wait_for("both directions are express", || {
        let before = t.class("voice", "express");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        t.class("voice", "express") == before + 10
    });
}

/// How a port is attached; none where it is absent.
fn mode(t: &TestLab, port: &str) -> Option<String> {
    let status = t.status_json().expect("a router");
    let ports = status["ports"].as_array().unwrap();
    let port = ports.iter().find(|p| p["name"] == port)?;
    port["mode"].as_str().map(str::to_owned)
}

fn warns(t: &TestLab, of: &str) -> bool {
    let status = t.status_json().expect("a router");
    status["warnings"].to_string().contains(of)
}

const PORTS: &str = "ports = [\"in0\", \"out0\"]\ningress = { in0 = \"xdp\", out0 = \"xdp\" }";

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_gets_its_name_back_is_served_again() {
    let mut t = TestLab::up("renamed", |_| ());
    let first = router(&mut t, PORTS);
    is_express(&t);
    rename(&t, "in0", "inX");
    wait_for("it is absent", || mode(&t, "in0").is_none());
    assert!(warns(&t, "`in0` is absent"));
    t.must(Place::Gen, "ping -Q 0xb8 -c 2 -i 0.2 -W 5 10.20.0.2");
    rename(&t, "inX", "in0");
    is_express(&t);
    assert!(!warns(&t, "`in0` is absent"));
    // A reload meanwhile.
    rename(&t, "in0", "inX");
    t.reloaded();
    rename(&t, "inX", "in0");
    is_express(&t);
    // A restart meanwhile.
    rename(&t, "in0", "inX");
    first.end(Signal::SIGUSR1);
    let second = router(&mut t, PORTS);
    // It has taken over before it says what it found.
    wait_for("it is absent again", || mode(&t, "in0").is_none());
    rename(&t, "inX", "in0");
    is_express(&t);
    // Nobody there while it is.
    second.end(Signal::SIGKILL);
    rename(&t, "in0", "inX");
    rename(&t, "inX", "in0");
    let third = router(&mut t, PORTS);
    is_express(&t);
    third.end(Signal::SIGTERM);
    let links = t.must(Place::Router, "ip -details link show");
    assert!(!links.contains("xdp"), "{links}");
}

#[test]
#[ignore = "needs root: make test"]
fn ports_that_change_names_are_told_apart_by_them() {
    let mut t = TestLab::up("swapped", |_| ());
    let ports = format!("{PORTS}\negress = {{ out0 = \"qdisc\" }}");
    let ports = ports.as_str();
    let first = router(&mut t, ports);
    let swap = |t: &TestLab| {
        rename(t, "in0", "inX");
        rename(t, "out0", "in0");
        rename(t, "inX", "out0");
    };
    // Only answers, which leave by the other port.
    let answers_only = |t: &TestLab| {
        wait_for("answers alone are express", || {
            let before = t.class("voice", "express");
            t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
            t.class("voice", "express") == before + 5
        });
        let status = t.status_json().unwrap();
        assert_eq!(status["ports"][1]["leaves"], "stack");
    };
    answers_only(&t);
    swap(&t);
    answers_only(&t);
    first.end(Signal::SIGUSR1);
    swap(&t);
    let _second = router(&mut t, ports);
    answers_only(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_moves_to_another_namespace_takes_no_program_along() {
    let mut t = TestLab::up("moved", |_| ());
    let _router = router(&mut t, PORTS);
    is_express(&t);
    let (here, there) = (t.lab.netns(Place::Router), t.lab.netns(Place::Sink));
    ip(&t, &format!("link set in0 netns {there}"));
    wait_for("it is absent", || mode(&t, "in0").is_none());
    wait_for("it runs no program there", || {
        !t.must(Place::Sink, "ip -details link show in0")
            .contains("xdp")
    });
    t.must(Place::Sink, &format!("ip link set in0 netns {here}"));
    ip(&t, "addr add 10.10.0.1/24 dev in0; link set in0 up");
    is_express(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn ports_may_come_after_the_start() {
    let mut t = TestLab::up("late", |_| ());
    let ports = "ports = [\"lan\", \"wan\"]";
    let config = t.file("late", &format!("{ports}\n{VOICE_ALL}{REST}"));
    let checked = t.rxlane(&["check", "--live", config.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&checked.stdout).into_owned();
    assert!(checked.status.success(), "{checked:?}");
    assert!(said.contains("warning: port `wan` is absent"), "{said}");
    let first = router(&mut t, ports);
    assert_eq!((mode(&t, "lan"), mode(&t, "wan")), (None, None));
    rename(&t, "in0", "lan");
    wait_for("one is there", || mode(&t, "lan").is_some());
    // A reload with the other still absent.
    t.reloaded();
    assert!(warns(&t, "`wan` is absent"));
    first.end(Signal::SIGKILL);
    let second = router(&mut t, ports);
    rename(&t, "out0", "wan");
    is_express(&t);
    assert!(!warns(&t, "is absent"));
    second.end(Signal::SIGTERM);
    // The engine has rings for the ports that it finds.
    ip(&t, "link set wan down; link set wan name other");
    let engine = t.file(
        "engine",
        &format!("{ports}\ndatapath = \"afxdp\"\n{VOICE_ALL}{REST}"),
    );
    let message = error_of(&t.rxlane(&["run", "-c", engine.to_str().unwrap()]));
    assert!(
        message.contains("`wan`: no such interface") && message.contains("engine"),
        "{message}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_may_have_any_name_that_an_interface_may() {
    let mut t = TestLab::up("names", |_| ());
    for (lan, wan) in [("lan.isp", "fünfzehn.bytes"), (".a.", "wan-15-bytes.xy")] {
        rename(&t, "in0", lan);
        rename(&t, "out0", wan);
        let ports = format!("ports = [\"{lan}\", \"{wan}\"]");
        let first = router(&mut t, &ports);
        is_express(&t);
        let before = t.class("voice", "express");
        first.end(Signal::SIGKILL);
        let second = router(&mut t, &ports);
        assert!(t.class("voice", "express") >= before, "taken over");
        rename(&t, lan, "x.x");
        rename(&t, "x.x", lan);
        is_express(&t);
        second.end(Signal::SIGTERM);
        rename(&t, lan, "in0");
        rename(&t, wan, "out0");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_may_be_named_by_an_alternative_name_whatever_it_is_called() {
    let mut t = TestLab::up("altname", |_| ());
    let alt = "the.way-to-the-provider";
    ip(&t, &format!("link property add dev out0 altname {alt}"));
    let ports = format!(
        "ports = [\"in0\", \"{alt}\"]\negress = {{ \"{alt}\" = \"direct\" }}\ningress = {{ in0 = \"tc\", \"{alt}\" = \"xdp\" }}"
    );
    let first = router(&mut t, &ports);
    is_express(&t);
    let named_as = |t: &TestLab| t.status_json().unwrap()["ports"][1]["named_as"].clone();
    assert_eq!(mode(&t, "out0").as_deref(), Some("native"));
    assert_eq!(named_as(&t), alt);
    let before = t.class("voice", "express");
    rename(&t, "out0", "wan9");
    wait_for("it is followed", || mode(&t, "wan9").is_some());
    is_express(&t);
    assert!(
        t.class("voice", "express") > before,
        "it keeps its counters"
    );
    t.reloaded();
    assert_eq!(named_as(&t), alt);
    is_express(&t);
    first.end(Signal::SIGUSR1);
    rename(&t, "wan9", "wan8");
    let _second = router(&mut t, &ports);
    is_express(&t);
    // The name goes to another device, and comes back.
    ip(&t, &format!("link property del dev wan8 altname {alt}"));
    wait_for("it is absent", || warns(&t, "is absent"));
    assert_eq!(mode(&t, "wan8"), None);
    ip(&t, &format!("link property add dev wan8 altname {alt}"));
    is_express(&t);
    let both = t.file(
        "both",
        &format!("ports = [\"in0\", \"wan8\", \"{alt}\"]\n{VOICE_ALL}{REST}"),
    );
    let message = error_of(&t.rxlane(&["check", "--live", both.to_str().unwrap()]));
    assert!(message.contains("names of one interface"), "{message}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_veth_that_takes_no_frames_is_said_to_with_what_cures_it() {
    let mut t = TestLab::up("mute", |_| ());
    let _router = router(&mut t, PORTS);
    is_express(&t);
    let leaves = |t: &TestLab| t.status_json().unwrap()["ports"][1]["leaves"].clone();
    assert_eq!(leaves(&t), "directly");
    // GRO from before the device was up is not told to its other end.
    t.must(
        Place::Sink,
        "ethtool -K snk0 gro off && ip link set snk0 down && ethtool -K snk0 gro on && ip link set snk0 up && ip route replace default via 10.20.0.1",
    );
    assert_eq!(leaves(&t), "stack");
    assert!(warns(&t, "`out0` takes no frames from XDP") && warns(&t, "gro off"));
    t.must(Place::Gen, "ping -Q 0xb8 -c 2 -i 0.2 -W 5 10.20.0.2");
    t.must(
        Place::Sink,
        "ethtool -K snk0 gro off; ethtool -K snk0 gro on",
    );
    is_express(&t);
    assert_eq!(leaves(&t), "directly");
    assert!(!warns(&t, "takes no frames"));
}
