//! What leaves through queueing disciplines: of ports that are served at tc ingress, as veths are unless the configuration says otherwise,
//! and of classes of the fast lane.

use std::io::{Read, Write};
use std::net::UdpSocket;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::Place;
use test_lab::bulk::{Uploads, carry, connect};
use test_lab::slow::slow_host;
use test_lab::{Background, REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED, udp, wait_for};

const PORTS: &str = "ports = [\"in0\", \"out0\"]\n";
const NAT: &str = "table inet fw { chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname \"in0\" accept; }; chain n { type nat hook postrouting priority srcnat; oifname \"out0\" masquerade; }; }";

fn start(t: &mut TestLab, text: &str) -> Background {
    let config = t.file("router", &format!("{PORTS}{text}{REST}"));
    t.router_from(&config)
}

fn port(t: &TestLab, name: &str, key: &str) -> String {
    let status = t.status_json().expect("a router");
    let ports = status["ports"].as_array().unwrap();
    let port = ports.iter().find(|p| p["name"] == name).expect("the port");
    port[key].as_str().unwrap_or_default().to_owned()
}

/// Both directions are express, in order.
fn is_express(t: &TestLab) {
    wait_for("both directions are express", || {
        let before = t.class("voice", "express");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        t.class("voice", "express") == before + 10
    });
}

/// Packets that a queueing discipline of the router has sent.
fn sent(t: &TestLab, port: &str) -> u64 {
    let out = t.exec(Place::Router, &format!("tc -s qdisc show dev {port}"));
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let of_root = text.split("qdisc ").find(|q| q.contains(" root "));
    let words: Vec<&str> = of_root.unwrap_or_default().split_whitespace().collect();
    let at = words.iter().position(|w| *w == "pkt").expect("statistics");
    words[at - 1].parse().expect("a number")
}

#[test]
#[ignore = "needs root: make test"]
fn datagrams_of_a_veth_are_express_through_the_queueing_discipline_of_their_egress() {
    let mut t = TestLab::up("tcqdisc", |_| ());
    t.must(Place::Router, "tc qdisc replace dev out0 root pfifo_fast");
    let router = start(&mut t, VOICE_ALL);
    for name in ["in0", "out0"] {
        assert_eq!(port(&t, name, "mode"), "tc");
        assert_eq!(port(&t, name, "leaves"), "qdisc");
    }
    is_express(&t);
    let (before, express) = (sent(&t, "out0"), t.class("voice", "express"));
    t.must(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 5 10.20.0.2");
    assert_eq!(t.class("voice", "express"), express + 10);
    assert!(sent(&t, "out0") >= before + 5);
    // Packets to the router, and those that need an error, are Linux's.
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.10.0.1");
    t.exec(Place::Gen, "ping -Q 0xb8 -c 1 -W 1 -t 1 10.20.0.2");
    assert!(t.to_kernel("not_routed") >= 1 && t.to_kernel("ttl") >= 1);
    router.end(Signal::SIGTERM);
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
}

/// A call between hosts, in either family of addresses.
fn call(t: &TestLab, v6: bool) -> (UdpSocket, UdpSocket) {
    let [from, to] = match v6 {
        false => ["10.10.0.2:6000", "10.20.0.2:7000"],
        true => ["[fd10::2]:6000", "[fd20::2]:7000"],
    };
    let ends = (udp(t, Place::Gen, from), udp(t, Place::Sink, to));
    for socket in [&ends.0, &ends.1] {
        match v6 {
            false => setsockopt(socket, sockopt::Ipv4Tos, &0xb8).unwrap(),
            true => setsockopt(socket, sockopt::Ipv6TClass, &0xb8).unwrap(),
        }
    }
    ends
}

/// Each is heard and answered, to the address that it came from.
fn talk(from: &UdpSocket, to: &UdpSocket, bytes: usize) -> bool {
    let mut heard = [0; 2000];
    from.send_to(&vec![7; bytes], to.local_addr().unwrap())
        .unwrap();
    let Ok((n, sender)) = to.recv_from(&mut heard) else {
        return false;
    };
    to.send_to(&heard[..n], sender).unwrap();
    from.recv(&mut heard).is_ok_and(|n| n == bytes)
}

#[test]
#[ignore = "needs root: make test"]
fn translated_flows_are_express_whether_or_not_their_senders_leave_checksums_to_a_device() {
    let mut t = TestLab::up("tcnat", |_| ());
    t.must(Place::Router, &format!("nft '{NAT}'"));
    let _router = start(&mut t, VOICE_ESTABLISHED);
    for v6 in [false, true] {
        for offloads in ["on", "off"] {
            for place in [Place::Gen, Place::Sink] {
                let all = "$(ls /sys/class/net | grep -v '^lo$')";
                let each = format!("for d in {all}; do ethtool -K $d tx {offloads}; done");
                t.exec(place, &each);
            }
            let (from, to) = call(&t, v6);
            // The receiving kernel drops what has a wrong checksum, odd lengths among them.
            wait_for("the call is express", || {
                let before = t.class("voice", "express");
                let heard = (0..20).filter(|n| talk(&from, &to, 100 + n)).count();
                heard == 20 && t.class("voice", "express") >= before + 40
            });
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_of_a_veth_is_linuxs_and_counted() {
    let mut t = TestLab::up("tctcp", |_| ());
    let _router = start(&mut t, VOICE_ALL);
    let (mut one, mut other) = connect(&t, "10.20.0.2:7000");
    let mut bytes = vec![3; 100_000];
    let sender = std::thread::spawn(move || {
        for _ in 0..20 {
            one.write_all(&[5; 100_000]).expect("sent");
        }
        one
    });
    for _ in 0..20 {
        other.read_exact(&mut bytes).expect("received");
    }
    drop(sender.join().expect("all is sent"));
    assert!(t.to_kernel("local_tcp") > 10);
    assert_eq!(t.to_kernel("malformed"), 0);
    is_express(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_passes_by_the_stack_while_its_egress_is_full_and_is_linuxs_again_afterwards() {
    let bulk = "[[class]]\nname = \"bulk\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ protocol = \"tcp\" }]\n";
    let mut t = TestLab::up("tcfull", |_| ());
    t.must(Place::Router, &format!("nft '{NAT}'"));
    slow_host(&t, 3_000);
    let _router = start(
        &mut t,
        &format!("overlap = \"first-match\"\n{VOICE_ESTABLISHED}{bulk}"),
    );
    carry(&t, "10.20.0.2:7000");
    assert_eq!(t.class("bulk", "express"), 0);
    let uploads = Uploads::begin(&t, 8);
    wait_for("the link is full", || port(&t, "out0", "full") == "link");
    wait_for("they pass by the stack", || {
        t.class("bulk", "express") > 1000
    });
    // Connections that begin and end meanwhile are whole.
    carry(&t, "10.20.0.2:7000");
    assert_eq!(port(&t, "in0", "full"), "");
    drop(uploads);
    wait_for("nothing waits", || port(&t, "out0", "full").is_empty());
    let (express, local) = (t.class("bulk", "express"), t.to_kernel("local_tcp"));
    let one = connect(&t, "10.20.0.2:7000");
    drop(one);
    assert_eq!(t.class("bulk", "express"), express);
    assert!(t.to_kernel("local_tcp") > local);
    assert_eq!(t.to_kernel("malformed"), 0);
}

/// Whether Linux serves the port alone.
fn rests(t: &TestLab, name: &str) -> bool {
    let status = t.status_json().expect("a router");
    let mut ports = status["ports"].as_array().unwrap().iter();
    let port = ports.find(|p| p["name"] == name).expect("the port");
    port["rests"] == true
}

#[test]
#[ignore = "needs root: make test"]
fn beside_bulk_that_is_linuxs_the_hook_rests_until_the_bulk_ends() {
    let mut t = TestLab::up("tcrest", |_| ());
    t.must(Place::Router, &format!("nft '{NAT}'"));
    let config = t.file("router", &format!("{PORTS}{VOICE_ESTABLISHED}{REST}"));
    let router = t.router_from(&config);
    let both = |t: &TestLab, rest: bool| ["in0", "out0"].iter().all(|p| rests(t, p) == rest);
    assert!(both(&t, false));
    // A packet for each segment.
    for place in [Place::Gen, Place::Sink] {
        let all = "$(ls /sys/class/net | grep -v '^lo$')";
        let set = "ethtool -K $d tso off gso off; ip link set $d mtu 600";
        t.exec(place, &format!("for d in {all}; do {set}; done"));
    }
    for port in ["in0", "out0"] {
        let merge_none = format!("ip link set {port} gro_max_size 700");
        t.must(Place::Router, &merge_none);
    }
    let uploads = Uploads::begin(&t, 8);
    wait_for("the hook rests", || both(&t, true));
    wait_for("the status says so", || {
        let status = t.status_json().expect("a router");
        let why = status["help"]["why"].as_str().unwrap_or_default();
        why.contains("alone for now")
    });
    let (from, to) = call(&t, false);
    wait_for("Linux serves the call", || talk(&from, &to, 100));
    // A port that only changes is not attached by that, and the next daemon finds nothing there.
    t.must(Place::Router, "ip link set in0 mtu 1400");
    router.end(Signal::SIGKILL);
    let router = t.router_from(&config);
    wait_for("it rests again", || both(&t, true));
    t.reloaded();
    wait_for("it rests after a reload, too", || both(&t, true));
    drop(uploads);
    wait_for("the lane serves again", || both(&t, false));
    wait_for("the call is express", || {
        let before = t.class("voice", "express");
        let heard = (0..20).filter(|n| talk(&from, &to, 100 + n)).count();
        heard == 20 && t.class("voice", "express") >= before + 40
    });
    router.end(Signal::SIGTERM);
    assert!(talk(&from, &to, 100));
}

fn fast(classes: &str) -> String {
    assert!(classes.contains("\"express\""));
    classes.replace("\"express\"", "\"fast\"")
}

fn hooks(hook: &str) -> String {
    format!("ingress = {{ in0 = \"{hook}\", out0 = \"{hook}\" }}\n")
}

fn is_fast(t: &TestLab) {
    wait_for("both directions are fast", || {
        let before = t.class("voice", "fast");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        t.class("voice", "fast") == before + 10
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_fast_class_leaves_through_queueing_disciplines_from_either_hook_and_over_reloads() {
    let mut t = TestLab::up("fast", |_| ());
    t.must(Place::Router, "tc qdisc replace dev out0 root pfifo_fast");
    let text = |hook: &str, classes: &str| format!("{PORTS}{}{classes}{REST}", hooks(hook));
    let config = t.file("router", &text("xdp", &fast(VOICE_ALL)));
    let router = t.router_from(&config);
    for hook in ["xdp", "tc", "xdp"] {
        std::fs::write(&config, text(hook, &fast(VOICE_ALL))).unwrap();
        t.reloaded();
        is_fast(&t);
        let (express, before) = (t.class("voice", "express"), sent(&t, "out0"));
        t.must(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 5 10.20.0.2");
        assert_eq!(t.class("voice", "express"), express, "{hook}");
        assert!(sent(&t, "out0") >= before + 5, "{hook}");
        t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.10.0.1");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 1 -W 1 -t 1 10.20.0.2");
    }
    assert!(t.to_kernel("not_routed") >= 1 && t.to_kernel("ttl") >= 1);
    // Where no class is fast nothing is handed over, and the next daemon finds what a killed one had attached.
    std::fs::write(&config, text("xdp", VOICE_ALL)).unwrap();
    t.reloaded();
    is_express(&t);
    std::fs::write(&config, text("xdp", &fast(VOICE_ALL))).unwrap();
    t.reloaded();
    is_fast(&t);
    router.end(Signal::SIGKILL);
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
    let router = t.router_from(&config);
    is_fast(&t);
    router.end(Signal::SIGTERM);
    t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
}

#[test]
#[ignore = "needs root: make test"]
fn known_flows_of_an_express_and_a_fast_class_leave_each_by_its_own_way() {
    let mut t = TestLab::up("fastboth", |_| ());
    t.must(Place::Router, &format!("nft '{NAT}'"));
    let bulk = "[[class]]\nname = \"bulk\"\nlane = \"fast\"\ntrust = \"established\"\nmatch = [{ protocol = \"udp\" }]\n";
    let _router = start(
        &mut t,
        &format!(
            "overlap = \"first-match\"\n{}{VOICE_ESTABLISHED}{bulk}",
            hooks("xdp")
        ),
    );
    let (from, to) = call(&t, false);
    let bulk = ["10.10.0.2:6001", "10.20.0.2:7001"];
    let bulk = (udp(&t, Place::Gen, bulk[0]), udp(&t, Place::Sink, bulk[1]));
    let sent = || {
        let of = |class| ["express", "fast"].map(|lane| t.class(class, lane));
        [of("voice"), of("bulk")].concat()
    };
    // In turns, so that each packet comes after one of the other class.
    wait_for("voice is express, and bulk is fast", || {
        let before = sent();
        let heard =
            (0..20).filter(|n| talk(&from, &to, 100 + n) && talk(&bulk.0, &bulk.1, 100 + n));
        let heard = heard.count();
        let passed: Vec<u64> = sent()
            .iter()
            .zip(before)
            .map(|(now, was)| now - was)
            .collect();
        heard == 20 && passed == [40, 0, 0, 40]
    });
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_of_a_fast_class_is_whole_through_nat_whatever_its_senders_leave_to_devices() {
    let connections = r#"
[[class]]
name = "voice"
lane = "fast"
trust = "established"
match = [{ protocol = ["tcp", "udp"] }]
"#;
    for hook in ["xdp", "tc"] {
        let mut t = TestLab::up(&format!("fasttcp{hook}"), |_| ());
        // XDP has room to hand over translations of IPv4 alone; those of IPv6 stay Linux's.
        let nat = match hook {
            "xdp" => NAT.replace(
                "oifname \"out0\" masq",
                "meta nfproto ipv4 oifname \"out0\" masq",
            ),
            _ => NAT.to_owned(),
        };
        t.must(Place::Router, &format!("nft '{nat}'"));
        let _router = start(&mut t, &(hooks(hook) + connections));
        for offloads in ["off", "on"] {
            for place in [Place::Gen, Place::Sink] {
                let all = "$(ls /sys/class/net | grep -v '^lo$')";
                let set =
                    format!("ethtool -K $d tx {offloads} tso {offloads} gso {offloads} gro on");
                t.exec(place, &format!("for d in {all}; do {set}; done"));
            }
            for server in ["10.20.0.2:7000", "[fd20::2]:7000"] {
                // The first connection of a firewall that has just changed may be over before Linux is seen to forward it.
                let expected = hook == "tc" || offloads == "off";
                wait_for("a connection is fast", || {
                    let before = t.class("voice", "fast");
                    carry(&t, server);
                    !expected || t.class("voice", "fast") > before + 100
                });
            }
        }
        assert_eq!(t.class("voice", "express"), 0);
        assert_eq!(t.to_kernel("malformed"), 0);
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_reload_moves_a_port_between_hooks_and_nothing_is_left_behind() {
    let mut t = TestLab::up("tcmove", |_| ());
    let text = |hook: &str| format!("{PORTS}ingress = {{ in0 = \"{hook}\" }}\n{VOICE_ALL}{REST}");
    let config = t.file("router", &text("xdp"));
    let router = t.router_from(&config);
    for (hook, mode) in [("tc", "tc"), ("xdp", "native"), ("auto", "tc")] {
        std::fs::write(&config, text(hook)).unwrap();
        t.reloaded();
        assert_eq!(port(&t, "in0", "mode"), mode, "{hook}");
        is_express(&t);
        // Who tells the guard of polls is passed by every poll of the machine, and is there only where there is a guard.
        let polls = || t.status_json().unwrap()["ports"][0]["polls"].as_u64();
        let before = polls();
        t.must(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 5 10.20.0.2");
        assert_eq!(polls() > before, hook == "xdp", "{hook}");
    }
    // One that cannot be in force leaves the port where it is.
    std::fs::write(&config, format!("datapath = \"afxdp\"\n{}", text("tc"))).unwrap();
    assert!(!t.reload(&[]).status.success());
    assert_eq!(port(&t, "in0", "mode"), "tc");
    is_express(&t);
    // A daemon that was killed is followed by one that finds both kinds of links.
    router.end(Signal::SIGKILL);
    std::fs::write(&config, text("xdp")).unwrap();
    let router = t.router_from(&config);
    wait_for("one has moved", || port(&t, "in0", "mode") == "native");
    assert_eq!(port(&t, "out0", "mode"), "tc");
    is_express(&t);
    router.end(Signal::SIGTERM);
    let links = t.exec(Place::Router, "ip -d link show");
    let text = String::from_utf8_lossy(&links.stdout).into_owned();
    assert!(!text.contains("xdp"), "{text}");
}
