//! A reload is a transaction: a packet sees the old configuration or the new one, and a refused one changes nothing.

use std::time::Duration;

use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::Place;
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use test_lab::{Background, REST, TestLab, error_of};

/// Express is what comes in at `port`; nothing that the lab sends comes in anywhere but at in0.
fn only_from(ports: &[&str], port: &str) -> String {
    let in_xdp: Vec<String> = ports.iter().map(|p| format!("{p} = \"xdp\"")).collect();
    let ports: Vec<String> = ports.iter().map(|p| format!("\"{p}\"")).collect();
    format!(
        "ports = [{}]\ningress = {{ {} }}\n[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{{ port = \"{port}\" }}]\n{REST}",
        ports.join(", "),
        in_xdp.join(", ")
    )
}

/// A third port in the router. One whose peer has more Tx queues than it has Rx queues takes no XDP program.
fn third_port(t: &TestLab, peer_queues: u32) {
    t.must(
        Place::Router,
        &format!(
            "ip link add x0 type veth peer name x0p && ethtool -L x0p tx {peer_queues} && ip link set x0 up && ip link set x0p up"
        ),
    );
}

fn traffic() -> Traffic {
    Traffic {
        rt_ratio: 0.5,
        pattern: Pattern::Cbr,
        frame: Frame::Fixed(64),
        flows: 4,
        seed: 1,
    }
}

fn start(t: &mut TestLab, text: &str) -> (std::path::PathBuf, Background) {
    let file = t.file("router", text);
    let router = t.router_from(&file);
    (file, router)
}

#[test]
#[ignore = "needs root: make test"]
fn a_refused_reload_changes_nothing_wherever_the_refusing_port_stands() {
    let mut t = TestLab::up("undone", |_| ());
    third_port(&t, 2);
    let (file, _router) = start(&mut t, &only_from(&["in0", "out0"], "out0"));
    for ports in [
        ["x0", "in0", "out0"],
        ["in0", "x0", "out0"],
        ["in0", "out0", "x0"],
    ] {
        std::fs::write(&file, only_from(&ports, "in0")).unwrap();
        let refused = t.reload(&[]);
        assert!(
            error_of(&refused).contains("port `x0`"),
            "{}",
            error_of(&refused)
        );
        // It has touched a port, of which the kernel gives notice, so the lane opens again after a look around.
        std::thread::sleep(Duration::from_millis(500));
        let before = t.class("voice", "express");
        t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
        let answers = t.class("voice", "express") - before;
        assert_eq!(answers, 5, "the answers, and no request: {ports:?}");
    }
    let status = t.status_json().expect("a router");
    assert_eq!(status["ports"].as_array().unwrap().len(), 2);
    let links = t.must(Place::Router, "ip link show x0");
    assert!(!links.contains("xdp"), "nothing is attached to it: {links}");
}

#[test]
#[ignore = "needs root: make test"]
fn no_packet_sees_a_mixture_of_two_configurations_whatever_the_order_of_the_ports() {
    let mut t = TestLab::up("mixture", |_| ());
    third_port(&t, 1);
    let orders: [[&str; 3]; 6] = [
        ["in0", "out0", "x0"],
        ["out0", "x0", "in0"],
        ["x0", "in0", "out0"],
        ["x0", "out0", "in0"],
        ["out0", "in0", "x0"],
        ["in0", "x0", "out0"],
    ];
    let (file, _router) = start(&mut t, &only_from(&orders[0], "x0"));
    let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
    let reloads = std::env::var("RXLANE_TEST_RELOADS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(20);
    let mut done = 0;
    let trial = bed
        .run_with(
            Pps(50_000.0),
            // A reload takes its time, and all of them are to meet packets.
            Duration::from_millis(220 * reloads as u64).max(Duration::from_secs(3)),
            &Threads::default(),
            || {
                for order in orders.iter().cycle().skip(1).take(reloads) {
                    std::fs::write(&file, only_from(order, "x0")).unwrap();
                    t.reloaded();
                    done += 1;
                }
            },
        )
        .unwrap();
    let sent: f64 = trial.classes.iter().map(|c| c.sent).sum();
    println!("{done} reloads, {sent} packets");
    assert_eq!(
        t.class("voice", "express"),
        0,
        "both configurations have them pass the kernel"
    );
    assert!(
        t.class("rest", "passed") > 10_000,
        "and that is where they went"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_keeps_its_counters_when_others_come_and_go() {
    let mut t = TestLab::up("slots", |_| ());
    third_port(&t, 1);
    let (file, _router) = start(&mut t, &only_from(&["in0", "out0"], "in0"));
    t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
    let counted = |name: &str| {
        let status = t.status_json().expect("a router");
        let ports = status["ports"].as_array().unwrap().clone();
        let port = ports.into_iter().find(|p| p["name"] == name);
        port.expect("the port")["classes"]["voice"]["packets"]
            .as_u64()
            .unwrap()
    };
    // A machine that stood still may have sent fewer.
    let before = counted("in0");
    assert!((1..=5).contains(&before), "{before}");
    for ports in [&["x0", "in0", "out0"][..], &["out0", "in0"]] {
        std::fs::write(&file, only_from(ports, "in0")).unwrap();
        t.reloaded();
        assert_eq!(counted("in0"), before, "{ports:?}");
    }
}
