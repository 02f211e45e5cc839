//! Packets of express classes that leave through a port with a queueing discipline.

use rxlane_bench::lab::{Firewall, Place};
use test_lab::{REST, TestLab, VOICE_ALL, wait_for};

const SHAPER: &str = "tc qdisc replace dev out0 root tbf rate 20mbit burst 30k limit 300k";

/// What the qdisc has sent, packets.
fn seen_by_qdisc(t: &TestLab) -> u64 {
    let shown = t.must(Place::Router, "tc -j -s qdisc show dev out0 root");
    let shown: serde_json::Value = serde_json::from_str(&shown).unwrap();
    shown[0]["packets"].as_u64().unwrap()
}

fn port(t: &TestLab, key: &str) -> serde_json::Value {
    t.status_json().unwrap()["ports"][1][key].clone()
}

/// Says something that counts as voice, and waits until it was heard.
fn say(t: &TestLab) {
    let from = test_lab::udp(t, Place::Gen, "10.10.0.2:6000");
    let to = test_lab::udp(t, Place::Sink, "10.20.0.2:7000");
    let voice = nix::sys::socket::sockopt::Ipv4Tos;
    nix::sys::socket::setsockopt(&from, voice, &0xb8).unwrap();
    wait_for("it is heard", || {
        from.send_to(b"said", to.local_addr().unwrap()).unwrap();
        to.recv(&mut [0; 64]).is_ok()
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_qdisc_that_holds_a_link_to_a_rate_sees_express_packets_and_others_do_not() {
    let mut t = TestLab::up("shaped", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("it is express", || {
        say(&t);
        t.class("voice", "express") > 0
    });
    assert_eq!(port(&t, "leaves"), "directly");

    t.must(Place::Router, SHAPER);
    wait_for("the stack sends", || port(&t, "leaves") == "stack");
    assert_eq!(port(&t, "shapers")[0], "tbf");
    wait_for("the classes are open again", || {
        let before = t.to_kernel("qdisc");
        say(&t);
        t.to_kernel("qdisc") > before
    });
    let (express, seen) = (t.class("voice", "express"), seen_by_qdisc(&t));
    for _ in 0..10 {
        say(&t);
    }
    assert_eq!(t.class("voice", "express"), express);
    assert!(seen_by_qdisc(&t) >= seen + 10);
    assert!(t.class("voice", "passed") >= 10);

    t.must(Place::Router, "tc qdisc del dev out0 root");
    wait_for("it is express again", || {
        say(&t);
        t.class("voice", "express") > express
    });
}

#[test]
#[ignore = "needs root: make test"]
fn how_packets_leave_a_port_can_be_said() {
    for (way, leaves) in [("direct", "directly"), ("qdisc", "stack")] {
        let mut t = TestLab::up("said", |_| ());
        t.must(Place::Router, SHAPER);
        let classes = VOICE_ALL.to_owned() + REST;
        let config = t.config("router", &classes);
        let text = format!("egress = {{ out0 = \"{way}\" }}\n");
        let text = text + &std::fs::read_to_string(&config).unwrap();
        std::fs::write(&config, text).unwrap();
        if way == "qdisc" {
            t.must(Place::Router, "tc qdisc del dev out0 root");
        }
        let _router = t.router_from(&config);
        wait_for("neighbours are known", || {
            say(&t);
            t.class("voice", "express") + t.to_kernel("qdisc") > 0
        });
        assert_eq!(port(&t, "leaves"), leaves);
        assert_eq!(t.class("voice", "express") > 0, way == "direct");
        assert_eq!(t.to_kernel("qdisc") > 0, way == "qdisc");
    }
}

/// By the stack or not, they come first on an overloaded core.
#[test]
#[ignore = "needs root: make test"]
fn express_classes_that_leave_by_a_qdisc_are_not_shed() {
    let mut t = TestLab::up("firstq", |c| c.firewall = Firewall::Linear(400));
    t.must(
        Place::Router,
        "tc qdisc replace dev out0 root tbf rate 10gbit burst 1m limit 10m",
    );
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let trial = t.flood(0.05);
    assert!(t.to_kernel("qdisc") > 0);
    assert_eq!(t.class("voice", "express"), 0);
    assert_eq!(t.class("voice", "early_drops"), 0);
    // The first ones found no neighbour, and went to the kernel for that.
    assert!(t.to_kernel("qdisc") > t.class("voice", "packets") / 2);
    assert_eq!(t.to_kernel("qdisc"), t.class("voice", "passed"));
    assert!(t.class("rest", "early_drops") > 0);
    let share = |class: usize| trial.classes[class].received / trial.classes[class].sent;
    assert!(share(0) > 2.0 * share(1), "RT {} BE {}", share(0), share(1));
}

#[test]
#[ignore = "needs root: make test"]
fn the_engine_leaves_what_a_qdisc_is_to_see_to_the_kernel() {
    let mut t = TestLab::up("engq", |_| ());
    t.must(Place::Router, SHAPER);
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let text = "datapath = \"afxdp\"\n".to_owned() + &std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text).unwrap();
    let _router = t.router_from(&config);
    let seen = seen_by_qdisc(&t);
    for _ in 0..10 {
        say(&t);
    }
    assert!(seen_by_qdisc(&t) >= seen + 10);
}
