//! The AF_XDP engine on real packets: strategies, exceptions, routes that change, ports that come and go.
//!
//! Needs root and the lab's tools (`make setup`).

mod common;

use std::time::Duration;

use common::{TestLab, error_of, wait_for};
use nix::sys::signal::Signal;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::lab::Place;
use rxlane_bench::trial::{Bed, Threads};
use rxlane_policy::Pps;

/// Slow enough that a stall of a shared machine loses nothing.
const RATE: Pps = Pps(5_000.0);
const RT: &str =
    "[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"EF\" }]\n";
const BE_FORWARDED: &str = "[[class]]\nname = \"be\"\nlane = \"express\"\ntrust = \"all\"\n";
const BE_BY_STACK: &str = "[[class]]\nname = \"be\"\nlane = \"stack\"\n";

fn engine(keys: &str, classes: &str) -> String {
    format!("datapath = \"afxdp\"\n[afxdp]\n{keys}\n{classes}")
}

fn forwarding(keys: &str) -> String {
    engine(keys, &(RT.to_owned() + BE_FORWARDED))
}

fn traffic() -> Traffic {
    Traffic {
        rt_ratio: 0.3,
        pattern: Pattern::Poisson,
        frame: 128,
        flows: 16,
        seed: 7,
    }
}

/// A number of the first worker.
fn worker(t: &TestLab, key: &str) -> u64 {
    let status = t.status_json().expect("a router");
    status["engine"]["workers"][0][key].as_u64().unwrap_or(0)
}

fn to_kernel(t: &TestLab, reason: &str) -> u64 {
    let status = t.status_json().expect("a router");
    status["engine"]["workers"][0]["to_kernel"][reason]
        .as_u64()
        .unwrap_or(0)
}

#[test]
#[ignore = "needs root: make test"]
fn every_strategy_forwards_both_classes_and_families_without_loss() {
    let mut t = TestLab::up("strategies", |_| ());
    for keys in [
        "strategy = \"sq\"",
        "strategy = \"rr\"",
        "strategy = \"ll-rr\"",
        "strategy = \"ll-wfq\"",
        "priority = \"global\"",
        "itr = \"linear\"",
        "itr = { algorithm = \"static\", interval_ns = 50000 }",
        "itr = \"three-state\"\ncopy = \"always\"",
    ] {
        let router = t.router(&forwarding(keys));
        for options in ["-4 10.20.0.2", "-Q 0xb8 10.20.0.2", "-6 fd20::2"] {
            let out = t.must(Place::Gen, &format!("ping -c 5 -i 0.2 -W 2 {options}"));
            assert!(out.contains(" 0% packet loss"), "{keys}: {out}");
        }
        let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
        let trial = bed
            .run(RATE, Duration::from_millis(500), &Threads::default())
            .unwrap();
        for class in &trial.classes {
            assert!(class.received > 0.0);
            assert_eq!((class.lost, class.reordered), (0.0, 0.0), "{keys}");
        }
        let received: f64 = trial.classes.iter().map(|c| c.received).sum();
        assert!(worker(&t, "forwarded") as f64 >= received, "{keys}");
        router.end(Signal::SIGTERM);
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_the_engine_cannot_forward_is_answered_by_the_kernel_and_nothing_is_lost() {
    let mut t = TestLab::up("exceptions", |_| ());
    let _router = t.router(&forwarding(""));
    t.must(Place::Router, "ip neigh flush all");
    let out = t.must(Place::Gen, "ping -c 3 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "resolved: {out}");
    assert!(to_kernel(&t, "no_neighbour") > 0);
    let out = t.must(Place::Gen, "ping -c 2 -i 0.2 -W 2 10.10.0.1");
    assert!(out.contains(" 0% packet loss"), "delivered: {out}");
    let out = t.must(Place::Gen, "traceroute -n -q 1 -w 2 10.20.0.2");
    assert!(
        out.contains("10.10.0.1") && out.contains("10.20.0.2"),
        "{out}"
    );
    let out = t.must(Place::Gen, "ping -c 2 -i 0.2 -W 2 -s 4000 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "fragments: {out}");
    t.must(Place::Router, "ip route add unreachable 198.51.100.0/24");
    wait_for("the route is refused", || {
        let out = t.exec(Place::Gen, "ping -c 1 -W 1 198.51.100.1");
        String::from_utf8_lossy(&out.stdout).contains("Unreachable")
    });
    t.must(Place::Router, "ip link set out0 mtu 1300");
    wait_for("the MTU is announced", || {
        let out = t.exec(Place::Gen, "ping -c 1 -W 1 -M do -s 1372 10.20.0.2");
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        text.contains("mtu = 1300") || text.contains("mtu=1300")
    });
    // While the daemon looks at what has changed, everything is the kernel's.
    wait_for("the engine leaves it to the kernel", || {
        t.exec(Place::Gen, "ping -c 1 -W 1 -M probe -s 1372 10.20.0.2");
        to_kernel(&t, "mtu") > 0
    });
}

#[test]
#[ignore = "needs root: make test"]
fn policy_rules_and_forwarding_turned_off_are_the_kernels_to_apply() {
    let mut t = TestLab::up("policy", |_| ());
    let _router = t.router(&forwarding(""));
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    t.must(
        Place::Router,
        "ip rule add to 10.20.0.2 table 77; ip route add unreachable default table 77",
    );
    wait_for("the rule is applied", || {
        let out = t.exec(Place::Gen, "ping -c 1 -W 1 10.20.0.2");
        String::from_utf8_lossy(&out.stdout).contains("Unreachable")
    });
    // While the daemon looks at what has changed, everything is the kernel's.
    wait_for("the engine leaves it to the kernel", || {
        t.exec(Place::Gen, "ping -c 1 -W 1 10.20.0.2");
        to_kernel(&t, "by_kernel") > 0
    });
    t.must(Place::Router, "ip rule del to 10.20.0.2 table 77");
    let before = worker(&t, "forwarded");
    wait_for("the engine forwards again", || {
        t.exec(Place::Gen, "ping -c 1 -W 1 10.20.0.2");
        worker(&t, "forwarded") > before
    });
    t.must(Place::Router, "sysctl -q -w net.ipv4.ip_forward=0");
    wait_for("nothing is forwarded", || {
        !t.exec(Place::Gen, "ping -c 1 -W 1 10.20.0.2")
            .status
            .success()
    });
    let out = t.must(Place::Gen, "ping -6 -c 2 -i 0.2 -W 2 fd20::2");
    assert!(
        out.contains(" 0% packet loss"),
        "the other family goes on: {out}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn classes_of_the_stack_are_filtered_by_the_firewall() {
    let mut t = TestLab::up("filtered", |_| ());
    t.must(
        Place::Router,
        "nft 'add table ip f; add chain ip f forward { type filter hook forward priority 0; policy accept; }; add rule ip f forward iifname \"in0\" icmp type echo-request ip dscp != ef counter drop'",
    );
    let _router = t.router(&engine("", &(RT.to_owned() + BE_BY_STACK)));
    let out = t.exec(Place::Gen, "ping -c 2 -i 0.2 -W 1 10.20.0.2");
    assert!(String::from_utf8_lossy(&out.stdout).contains("100% packet loss"));
    let counted = t.must(Place::Router, "nft list table ip f");
    assert!(counted.contains("packets 2"), "seen as from in0: {counted}");
    let out = t.must(Place::Gen, "ping -Q 0xb8 -c 3 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "{out}");
    assert!(to_kernel(&t, "stack") >= 2);
}

#[test]
#[ignore = "needs root: make test"]
fn routes_and_strategies_change_under_load_and_nothing_is_lost_or_reordered() {
    let mut t = TestLab::up("changes", |_| ());
    let _router = t.router(&forwarding(""));
    let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
    bed.run(RATE, Duration::from_millis(300), &Threads::default())
        .unwrap();
    let trial = bed
        .run_with(RATE, Duration::from_secs(2), &Threads::default(), || {
            for i in 0..20 {
                let metric = 100 + i;
                t.must(
                    Place::Router,
                    &format!("ip route add 198.19.0.0/24 via 10.20.0.2 metric {metric}; ip route add 198.19.0.0/25 via 10.20.0.2; ip route del 198.19.0.0/25; ip route del 198.19.0.0/24 metric {metric}"),
                );
            }
            for keys in ["strategy = \"sq\"", "device_budget = 32"] {
                t.config("router", &forwarding(keys));
                let out = t.rxlane(&["reload"]);
                assert!(
                    out.status.success(),
                    "{}",
                    String::from_utf8_lossy(&out.stderr)
                );
            }
        })
        .unwrap();
    let lost: f64 = trial.classes.iter().map(|c| c.lost).sum();
    let reordered: f64 = trial.classes.iter().map(|c| c.reordered).sum();
    assert_eq!((lost, reordered), (0.0, 0.0));
}

#[test]
#[ignore = "needs root: make test"]
fn a_worker_for_each_queue_serves_all_ports_by_one_priority() {
    let mut t = TestLab::up("queues", |c| c.ports = 2);
    // The lab's links, made anew with two queues at each end.
    for (ours, theirs, place, net) in [
        ("in0", "gen0", Place::Gen, "10.10.0"),
        ("in1", "gen1", Place::Gen, "10.10.1"),
        ("out0", "snk0", Place::Sink, "10.20.0"),
        ("out1", "snk1", Place::Sink, "10.20.1"),
    ] {
        let peer = t.lab.netns(place);
        let queues = "numrxqueues 2 numtxqueues 2";
        t.must(
            Place::Router,
            &format!("ip link del {ours}; ip link add {ours} {queues} type veth peer name {theirs} {queues} netns {peer}; ip addr add {net}.1/24 dev {ours}; ip link set {ours} up"),
        );
        t.must(
            place,
            &format!("ip addr add {net}.2/24 dev {theirs}; ip link set {theirs} up; ethtool -K {theirs} gro on tx off"),
        );
    }
    t.must(
        Place::Gen,
        "ip route add 10.20.0.0/24 via 10.10.0.1; ip route add 10.20.1.0/24 via 10.10.1.1",
    );
    t.must(
        Place::Sink,
        "ip route add 10.10.0.0/24 via 10.20.0.1; ip route add 10.10.1.0/24 via 10.20.1.1",
    );
    let _router = t.router(&forwarding("cores = [0, 1]\npriority = \"global\""));
    // A flow's hash chooses its queue.
    t.must(
        Place::Gen,
        "bash -c 'for i in 0 1; do for port in $(seq 1 40); do echo x >/dev/udp/10.20.$i.2/$port; done; done'",
    );
    for to in ["10.20.0.2", "-Q 0xb8 10.20.1.2"] {
        let out = t.must(Place::Gen, &format!("ping -c 5 -i 0.2 -W 2 {to}"));
        assert!(out.contains(" 0% packet loss"), "{out}");
    }
    let status = t.status_json().unwrap();
    for worker in status["engine"]["workers"].as_array().unwrap() {
        assert!(worker["forwarded"].as_u64() > Some(0), "{status:#}");
    }
    let rings = status["engine"]["rings"].as_array().unwrap();
    assert!(rings.iter().any(|r| r["queue"] == 1) && rings.iter().any(|r| r["ring"] == 1));
}

#[test]
#[ignore = "needs root: make test"]
fn a_killed_engine_leaves_the_other_lanes_and_the_next_start_takes_over() {
    let mut t = TestLab::up("killed", |_| ());
    let router = t.router(&forwarding(""));
    router.end(Signal::SIGKILL);
    let out = t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "{out}");
    assert!(t.class("be", "express") > 0, "forwarded by the XDP program");
    let _again = t.router(&forwarding(""));
    wait_for("the engine has taken over", || {
        let before = worker(&t, "forwarded");
        let out = t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
        assert!(out.contains(" 0% packet loss"), "{out}");
        worker(&t, "forwarded") >= before + 10
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_comes_back_is_served_by_the_engine_again() {
    let mut t = TestLab::up("engflap", |_| ());
    let _router = t.router(&forwarding(""));
    t.must(Place::Router, "ip link del out0");
    wait_for("the port is gone", || {
        t.status_json().unwrap()["ports"][1]["ifindex"].is_null()
    });
    let sink = t.lab.netns(Place::Sink);
    t.must(
        Place::Router,
        &format!("ip link add out0 type veth peer name snk0 netns {sink}; ip addr add 10.20.0.1/24 dev out0; ip link set out0 up"),
    );
    t.must(Place::Sink, "ip addr add 10.20.0.2/24 dev snk0; ip link set snk0 up; ip route add default via 10.20.0.1; ethtool -K snk0 gro on tx off");
    wait_for("the port is back", || {
        t.status_json().unwrap()["ports"][1]["mode"] == "native"
    });
    let before = worker(&t, "forwarded");
    wait_for("the engine forwards again", || {
        t.exec(Place::Gen, "ping -c 2 -i 0.2 -W 1 10.20.0.2");
        worker(&t, "forwarded") >= before + 4
    });
}

#[test]
#[ignore = "needs root: make test"]
fn after_a_load_beyond_its_capacity_every_frame_is_accounted_for() {
    let mut t = TestLab::up("frames", |_| ());
    let _router = t.router(&forwarding("ring = 64"));
    let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
    let seconds = std::env::var("RXLANE_TEST_SECONDS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(3.0);
    bed.run(
        Pps(4e6),
        Duration::from_secs_f64(seconds),
        &Threads::default(),
    )
    .unwrap();
    wait_for(
        "all frames are free or with the kernel to receive into",
        || worker(&t, "frames") == worker(&t, "free_frames") + worker(&t, "fill_frames"),
    );
    let status = t.status_json().unwrap();
    let rings = status["engine"]["rings"].as_array().unwrap();
    assert!(rings.iter().all(|r| r["occupancy"] == 0), "{rings:?}");
    assert!(
        rings.iter().any(|r| r["early_drops"].as_u64() > Some(0)),
        "it was overloaded: {rings:?}"
    );
    let out = t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "{out}");
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_wrong_with_an_engine_is_one_line_and_changes_nothing() {
    let mut t = TestLab::up("engwrong", |_| ());
    let both = RT.to_owned() + BE_FORWARDED;
    let mixed = RT.to_owned() + BE_BY_STACK;
    let budgets = |rt: u32, be: u32| {
        let class =
            |text: &str, budget| text.replacen("lane", &format!("budget = {budget}\nlane"), 1);
        class(RT, rt) + &class(BE_FORWARDED, be)
    };
    for (keys, classes, complaint) in [
        ("", &budgets(65, 4), "above the device budget 64"),
        ("", &budgets(60, 0), "budget of 0"),
        ("strategy = \"ll-rr\"", &budgets(60, 4), "the same `budget`"),
        ("prb = [4, 60]", &both, "the key `budget`"),
        ("strategy = \"sq\"", &mixed, "the same lane"),
        ("cores = [0, 1]", &both, "has 1 queues for 2 workers"),
        ("cores = [77]", &both, "core 77 does not exist"),
        ("ring = 4", &both, "outside 8 to 32768"),
        ("copy = \"never\"", &both, "no zero-copy mode"),
        (
            "itr = { algorithm = \"linear\", r_min = 0.0 }",
            &both,
            "r_min",
        ),
        ("strategy = \"rr\"\npriority = \"global\"", &both, "ll-wfq"),
    ] {
        let file = t.config("bad", &engine(keys, classes));
        let message = error_of(&t.rxlane(&["run", "-c", file.to_str().unwrap()]));
        assert!(message.contains(complaint), "{keys}: {message}");
        let links = t.must(Place::Router, "ip -details link show");
        assert!(
            !links.contains("xdp") && !links.contains("rxlane-up"),
            "{keys}"
        );
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_sweep_of_the_engine_is_laid_beside_its_model() {
    let model = std::env::temp_dir().join("t-model.toml");
    std::fs::write(&model, "seconds = 0.1\n[cpu]\npacket_ns = 2000\n").unwrap();
    let out = common::rxlane(&[
        "bench",
        "sweep",
        "--dut",
        "afxdp",
        "--strategy",
        "sq,ll-wfq",
        "--loads",
        "5k",
        "--ratios",
        "0.3",
        "--seconds",
        "0.2",
        "--repeat",
        "1",
        "--json",
        "--with-sim",
        model.to_str().unwrap(),
    ]);
    let kernel = common::rxlane(&[
        "bench",
        "sweep",
        "--dut",
        "kernel",
        "--with-sim",
        model.to_str().unwrap(),
    ]);
    assert!(error_of(&kernel).contains("no AF_XDP engine"));
    std::fs::remove_file(&model).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        let modelled = point["predicted"]["forwarded_pps"].as_f64().unwrap();
        assert!((modelled / 5000.0 - 1.0).abs() < 0.2, "{point:#}");
        assert!(point["predicted"]["mean_us"][0].as_f64() >= Some(2.0));
        assert!(point["wakeups_per_s"].as_f64() > Some(0.0));
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_without_native_xdp_is_refused_and_nothing_stays() {
    let mut t = TestLab::up("enggen", |_| ());
    t.must(
        Place::Router,
        "ip link add br0 type bridge && ip link set br0 up",
    );
    let text = format!("ports = [\"in0\", \"br0\"]\n{}", forwarding(""));
    let file = t.file("bridge", &text);
    let refused = t.rxlane(&["run", "-c", file.to_str().unwrap()]);
    let said = error_of(&refused);
    assert!(
        said.contains("port `br0`: the driver has no native XDP"),
        "{said}"
    );
    let links = t.must(Place::Router, "ip link show");
    assert!(!links.contains("xdp"), "{links}");
}
