//! What leaves by the express lane, Linux would have sent the same way: the firewall, marks, policies and interfaces that a
//! packet could otherwise pass by, each tried with packets that Linux alone would have stopped.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::Place;
use rxlane_system::netns::within;
use test_lab::{Background, REST, TestLab, error_of, udp, wait_for};

const ESTABLISHED: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ protocol = [\"udp\"] }]\n";
const PREFIX: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = { prefixes = [\"10.10.0.0/24\"] }\nmatch = [{ protocol = [\"udp\"] }]\n";
const STATEFUL: &str = "table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname in0 accept; }; }";
const SINK: &str = "10.20.0.2:7000";
const GEN: &str = "10.10.0.2:6000";

/// Two ends of a conversation through the router.
struct Call {
    caller: UdpSocket,
    called: UdpSocket,
}

impl Call {
    fn new(t: &TestLab) -> Self {
        Self {
            caller: udp(t, Place::Gen, GEN),
            called: udp(t, Place::Sink, SINK),
        }
    }

    /// Whether a datagram arrives.
    fn says(&self) -> bool {
        self.caller.send_to(b"said", SINK).expect("sent");
        arrives(&self.called)
    }

    /// Whether an answer arrives.
    fn is_answered(&self) -> bool {
        let _ = self.called.send_to(b"answer", GEN);
        arrives(&self.caller)
    }

    /// The caller goes on through another interface, with the address of the first.
    fn moves_to_gen1(&self, t: &TestLab) {
        t.must(
            Place::Gen,
            "ip route add 10.20.0.0/24 via 10.10.1.1 dev gen1 metric 5",
        );
        let device = std::ffi::OsString::from("gen1");
        setsockopt(&self.caller, sockopt::BindToDevice, &device).expect("another interface");
    }

    /// Talks until both directions are express.
    fn settle(&self, t: &TestLab) {
        t.settle(2, || assert!(self.says() && self.is_answered()));
    }
}

fn arrives(socket: &UdpSocket) -> bool {
    socket.recv(&mut [0; 64]).is_ok()
}

/// A call through a stateful firewall, both directions express.
fn call(name: &str, ports: u8) -> (TestLab, Background, Call) {
    let mut t = TestLab::up(name, |c| c.ports = ports);
    t.must(Place::Router, &format!("nft '{STATEFUL}'"));
    let router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call::new(&t);
    call.settle(&t);
    (t, router, call)
}

/// No datagram of a settled call arrives any more within a second of what has changed.
fn stops(call: &Call) {
    std::thread::sleep(Duration::from_secs(1));
    assert!(!call.says(), "Linux would not have sent it");
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_is_express_after_both_directions_and_after_linux_was_seen_to_forward_it() {
    let (t, _router, _call) = call("seen", 1);
    // In each direction at least the packet that asked.
    assert!(t.to_kernel("unseen") >= 2);
}

/// Talks for a second without a pause, so that the lane never has to look anything up because it knows too little.
fn keeps_talking(call: &Call) {
    let from = std::time::Instant::now();
    while from.elapsed() < Duration::from_secs(1) {
        call.caller.send_to(b"said", SINK).expect("sent");
        std::thread::sleep(Duration::from_millis(1));
    }
    while arrives(&call.called) {}
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_never_pauses_stops_within_a_second_of_a_route_that_refuses_it() {
    let (t, _router, call) = call("knownrt", 1);
    keeps_talking(&call);
    call.settle(&t);
    let route = "blackhole 10.20.0.2/32";
    t.must(Place::Router, &format!("ip route add {route}"));
    keeps_talking(&call);
    assert!(!call.says(), "Linux would not have sent it");
    t.must(Place::Router, &format!("ip route del {route}"));
    call.settle(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_never_pauses_stops_within_a_second_of_a_rule_that_drops_it() {
    let (t, _router, call) = call("knownfw", 1);
    keeps_talking(&call);
    call.settle(&t);
    t.must(Place::Router, "nft insert rule inet fw forwarded drop");
    keeps_talking(&call);
    assert!(!call.says(), "Linux would not have sent it");
    let before = t.class("voice", "express");
    call.says();
    assert_eq!(t.class("voice", "express"), before);
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_known_of_a_flow_is_not_said_of_packets_that_differ() {
    let (t, _router, call) = call("knownpkt", 1);
    let express = || t.class("voice", "express");
    let ttl = |ttl: u32| call.caller.set_ttl(ttl).expect("a TTL");
    let usual = call.caller.ttl().expect("a TTL");
    assert!(call.says());
    let (before, dead) = (express(), t.to_kernel("ttl"));
    ttl(1);
    assert!(!call.says(), "it has no hops left");
    assert_eq!(t.to_kernel("ttl"), dead + 1);
    ttl(usual);
    assert!(call.says());
    ttl(usual - 1);
    let unseen = t.to_kernel("unseen");
    assert!(call.says());
    assert_eq!(
        t.to_kernel("unseen"),
        unseen + 1,
        "Linux was not seen to forward it with this TTL"
    );
    ttl(usual);
    let pieces = t.to_kernel("fragment");
    call.caller.send_to(&[7; 3000], SINK).expect("sent");
    assert!(arrives(&call.called));
    assert_eq!(t.to_kernel("fragment"), pieces + 3);
    assert_eq!(express(), before + 1, "the one with its usual TTL");
}

#[test]
#[ignore = "needs root: make test"]
fn where_nothing_is_tracked_nobody_is_established_until_a_rule_asks() {
    let mut t = TestLab::up("untracked", |_| ());
    let _router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call::new(&t);
    let voice = || t.status_json().unwrap_or_default()["classes"][0].clone();
    wait_for("nothing is tracked", || voice()["at_work"] == "pass");
    let why = voice()["why"].to_string();
    assert!(
        why.contains("connection tracking knows of no flow"),
        "{why}"
    );
    assert!(call.says() && call.is_answered());
    assert_eq!(t.class("voice", "express"), 0);
    assert_eq!(t.class("voice", "packets"), 0, "nobody is classified");
    assert!(t.to_kernel("idle") >= 2, "a call and its answer");
    t.must(Place::Router, &format!("nft '{STATEFUL}'"));
    call.settle(&t);
    assert_eq!(voice()["at_work"], "forward");
    let before = t.to_kernel("idle");
    assert!(call.says());
    assert_eq!(t.to_kernel("idle"), before, "packets are classified again");
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_never_answered_stays_with_the_firewall_and_its_limits() {
    let mut t = TestLab::up("oneway", |_| ());
    t.must(
        Place::Router,
        "nft 'table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct state established,related accept; limit rate 2/minute burst 2 packets accept; }; }'",
    );
    let _router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call::new(&t);
    let arrived = (0..10).filter(|_| call.says()).count();
    assert_eq!(arrived, 2, "the limit for new flows holds");
    assert_eq!(t.class("voice", "express"), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_helper_rewrites_inside_a_flow_is_rewritten_by_linux() {
    let mut t = TestLab::up("helper", |_| ());
    t.must(
        Place::Router,
        "nft 'table ip nat { ct helper ftp { type \"ftp\" protocol tcp; }; chain pre { type filter hook prerouting priority 0; tcp dport 2121 ct helper set \"ftp\"; }; chain post { type nat hook postrouting priority srcnat; oifname out0 masquerade; }; }' && sysctl -q -w net.netfilter.nf_conntrack_tcp_be_liberal=1",
    );
    let classes = ESTABLISHED.replace("\"udp\"", "\"tcp\"");
    let _router = t.router(&(classes + REST));
    let sink = t.lab.netns(Place::Sink);
    let listener = within(&sink, false, || Ok(TcpListener::bind("10.20.0.2:2121")));
    let listener = listener.expect("the namespace").expect("a listener");
    let caller = t.lab.netns(Place::Gen);
    let client = within(&caller, false, || Ok(TcpStream::connect("10.20.0.2:2121")));
    let mut client = client.expect("the namespace").expect("a connection");
    let (server, _) = listener.accept().expect("a connection");
    let mut lines = BufReader::new(server.try_clone().expect("a second handle")).lines();
    let mut say = |line: &str| {
        client.write_all(line.as_bytes()).expect("sent");
        lines.next().expect("a line").expect("text")
    };
    // Long enough that any other flow would be express.
    let mut said = 0;
    wait_for("the flow is left to Linux", || {
        assert_eq!(say("NOOP\r\n"), "NOOP");
        (&server).write_all(b"200\r\n").expect("answered");
        said += 1;
        said >= 5 && t.to_kernel("nat") > 0
    });
    assert_eq!(say("PORT 10,10,0,2,200,10\r\n"), "PORT 10,20,0,1,200,10");
    assert_eq!(t.class("voice", "express"), 0);
    assert!(t.to_kernel("nat") > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_from_another_interface_is_judged_by_linux() {
    let (t, _router, call) = call("spoofed", 2);
    t.must(
        Place::Router,
        "sysctl -q -w net.ipv4.conf.all.rp_filter=1 net.ipv4.conf.in1.rp_filter=1",
    );
    call.settle(&t);
    let before = t.class("voice", "express");
    call.moves_to_gen1(&t);
    assert!(!call.says(), "the source does not belong behind in1");
    assert_eq!(t.class("voice", "express"), before);
    assert!(t.to_kernel("unseen") > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn fragments_are_left_to_linux_which_puts_them_together_for_its_rules() {
    let mut t = TestLab::up("pieces", |_| ());
    let _router = t.router(&(PREFIX.replace("\"udp\"", "\"icmp\"") + REST));
    t.must(Place::Gen, "ping -c 3 -i 0.2 -W 2 -s 3000 10.20.0.2");
    assert!(t.to_kernel("fragment") >= 9, "three of each request");
    assert_eq!(t.class("voice", "express"), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn what_ip_options_ask_for_is_done_by_linux() {
    let mut t = TestLab::up("options", |_| ());
    let _router = t.router(&(PREFIX.replace("\"udp\"", "\"icmp\"") + REST));
    let out = t.must(Place::Gen, "ping -n -c 3 -i 0.2 -W 2 -R 10.20.0.2");
    let route = out.split_once("RR:").expect("a recorded route").1;
    assert!(route.contains("10.20.0.1"), "the router is on it: {out}");
    assert!(t.to_kernel("options") >= 3);
    assert_eq!(t.class("voice", "express"), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn who_sends_what_goes_back_by_the_same_interface_is_told_a_better_way() {
    let mut t = TestLab::up("back", |_| ());
    // Somebody on the generator's own link, to whom it sends through the router all the same.
    t.must(Place::Gen, "ip route add 10.10.0.77/32 via 10.10.0.1");
    t.must(
        Place::Router,
        "ip neigh replace 10.10.0.77 lladdr 02:00:00:01:00:02 dev in0 nud permanent",
    );
    let _router = t.router(&(PREFIX.replace("\"udp\"", "\"icmp\"") + REST));
    let out = t.exec(Place::Gen, "ping -n -c 3 -i 0.2 -W 1 10.10.0.77");
    let said = String::from_utf8_lossy(&out.stdout).to_lowercase();
    assert!(said.contains("redirect"), "{said}");
    assert!(t.to_kernel("egress") > 0);
    assert_eq!(t.class("voice", "express"), 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_rule_about_an_interface_holds_for_a_flow_that_comes_from_there_now() {
    let mut t = TestLab::up("ruled", |c| c.ports = 2);
    t.must(
        Place::Router,
        "nft 'table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; iifname in1 drop; ct state established,related accept; iifname in0 accept; }; }'",
    );
    let _router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call::new(&t);
    call.settle(&t);
    call.moves_to_gen1(&t);
    assert!(!call.says(), "Linux drops what comes in there");
}

#[test]
#[ignore = "needs root: make test"]
fn a_trusted_prefix_that_comes_from_elsewhere_is_judged_by_linux() {
    let mut t = TestLab::up("prefix", |c| c.ports = 2);
    // Loose: Linux itself lets it pass, so that only the counters tell.
    t.must(
        Place::Router,
        "sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.in1.rp_filter=0",
    );
    let _router = t.router(&(PREFIX.to_owned() + REST));
    let call = Call::new(&t);
    t.settle(1, || assert!(call.says()));
    let before = t.class("voice", "express");
    call.moves_to_gen1(&t);
    assert!(call.says(), "Linux lets it pass");
    assert_eq!(t.class("voice", "express"), before);
    assert!(t.to_kernel("source") >= 1);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_whose_rule_is_deleted_stops_within_a_second() {
    let (t, _router, call) = call("rule", 1);
    t.must(Place::Router, "nft flush chain inet fw forwarded");
    stops(&call);
    t.must(
        Place::Router,
        "nft add rule inet fw forwarded ct state established,related accept",
    );
    std::thread::sleep(Duration::from_secs(1));
    call.settle(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_is_dropped_before_routing_stops_within_a_second() {
    for (name, table) in [
        (
            "raw",
            "table ip raw { chain c { type filter hook prerouting priority raw; udp dport 7000 drop; }; }",
        ),
        (
            "netdev",
            "table netdev x { chain c { type filter hook ingress device in0 priority 0; udp dport 7000 drop; }; }",
        ),
        (
            "egress",
            "table netdev x { chain c { type filter hook egress device out0 priority 0; udp dport 7000 drop; }; }",
        ),
    ] {
        let (t, _router, call) = call(name, 1);
        t.must(Place::Router, &format!("nft '{table}'"));
        stops(&call);
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_a_mark_makes_unreachable_stops_within_a_second() {
    let (t, _router, call) = call("marked", 1);
    t.must(
        Place::Router,
        "ip rule add fwmark 1 priority 100 unreachable",
    );
    call.settle(&t);
    t.must(
        Place::Router,
        "nft 'table ip m { chain c { type filter hook prerouting priority mangle; udp dport 7000 meta mark set 1; }; }'",
    );
    stops(&call);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_a_mark_sends_another_way_leaves_where_linux_sends_it() {
    let (t, _router, call) = call("uplinks", 2);
    t.must(
        Place::Router,
        "ip rule add fwmark 1 priority 100 table 100; ip route add default via 10.20.1.2 table 100",
    );
    t.must(
        Place::Router,
        "nft 'table ip m { chain c { type filter hook prerouting priority mangle; udp dport 7000 meta mark set 1; }; }'",
    );
    std::thread::sleep(Duration::from_secs(1));
    let through = |port: &str| -> u64 {
        let line = format!("cat /sys/class/net/{port}/statistics/rx_packets");
        t.must(Place::Sink, &line).trim().parse().unwrap()
    };
    let (first, second) = (through("snk0"), through("snk1"));
    for _ in 0..20 {
        call.says();
    }
    assert!(through("snk1") >= second + 20, "by the second uplink");
    assert!(through("snk0") < first + 10, "and not by the first");
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_an_ipsec_policy_forbids_stops_within_a_second() {
    let (t, _router, call) = call("ipsec", 1);
    t.must(
        Place::Router,
        "ip xfrm policy add dir fwd src 10.10.0.0/24 dst 10.20.0.0/24 action block",
    );
    stops(&call);
    t.must(Place::Router, "ip xfrm policy flush");
    std::thread::sleep(Duration::from_secs(1));
    call.settle(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn packets_that_a_macvlan_device_takes_are_not_express() {
    let mut t = TestLab::up("taken", |_| ());
    let _router = t.router(&(PREFIX.to_owned() + REST));
    let call = Call::new(&t);
    t.settle(1, || assert!(call.says()));
    // In this mode it has the MAC address of the port, and it drops what comes as long as it is down.
    let device = "ip link add taker link in0 type macvlan mode passthru";
    t.must(Place::Router, device);
    stops(&call);
    let why = || {
        let status = t.status_json().expect("a router");
        let why = status["classes"][0]["why"].as_str();
        why.unwrap_or_default().to_owned()
    };
    assert!(why().contains("`taker` takes"), "{}", why());
    t.must(Place::Router, "ip link delete taker");
    wait_for("the lane opens again", || !why().contains("taker"));
    assert!(call.says());
}

#[test]
#[ignore = "needs root: make test"]
fn translation_keeps_prefixes_with_the_kernel_as_long_as_it_is_there() {
    let mut t = TestLab::up("natted", |_| ());
    let nat = "nft 'table ip nat { chain post { type nat hook postrouting priority srcnat; oifname out0 masquerade; }; }'";
    t.must(Place::Router, nat);
    let config = t.config("router", &(PREFIX.to_owned() + REST));
    let refused = t.rxlane(&["run", "--accept-bypass", "-c", config.to_str().unwrap()]);
    let said = error_of(&refused);
    assert!(
        said.contains("`voice`") && said.contains("ip nat post at postrouting translates"),
        "{said}"
    );
    t.must(Place::Router, "nft delete table ip nat");
    let _router = t.router_from(&config);
    let call = Call::new(&t);
    let from = |call: &Call| {
        call.caller.send_to(b"said", SINK).unwrap();
        let (_, from) = call.called.recv_from(&mut [0; 64]).expect("it arrives");
        from.ip().to_string()
    };
    t.settle(1, || assert_eq!(from(&call), "10.10.0.2"));
    // While it runs. The flow that is there keeps its addresses, in Linux too.
    t.must(Place::Router, nat);
    let held_back = || {
        let status = t.status_json().expect("a router");
        status["classes"][0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("translates addresses"))
    };
    wait_for("status says why", held_back);
    let checked = t.rxlane(&["check", "--live", "-c", config.to_str().unwrap()]);
    assert!(
        error_of(&checked).contains("ip nat post"),
        "and check, which fails"
    );
    let new = Call {
        caller: udp(&t, Place::Gen, "10.10.0.2:6001"),
        called: call.called,
    };
    let express = t.class("voice", "express");
    assert_eq!(from(&new), "10.20.0.1", "translated");
    assert_eq!(t.class("voice", "express"), express);
    assert!(t.to_kernel("objection") >= 1);
    t.must(Place::Router, "nft delete table ip nat");
    wait_for("the lane opens again", || !held_back());
}

#[test]
#[ignore = "needs root: make test"]
fn hooks_before_routing_must_be_accepted_by_name() {
    let mut t = TestLab::up("hooks", |_| ());
    t.must(
        Place::Router,
        "nft 'table ip raw { chain early { type filter hook prerouting priority raw; udp dport 9 drop; }; }'",
    );
    let config = t.config("router", &(PREFIX.to_owned() + REST));
    let refused = t.rxlane(&["run", "-c", config.to_str().unwrap()]);
    let said = error_of(&refused);
    assert!(
        said.contains("ip raw early at prerouting filters") && said.contains("--accept-bypass"),
        "{said}"
    );
    let checked = t.rxlane(&["check", "--live", "-c", config.to_str().unwrap()]);
    assert!(error_of(&checked).contains("ip raw early"), "as run says");
    let _router = t.router_from(&config);
    let call = Call::new(&t);
    t.settle(1, || assert!(call.says()));
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_that_accepts_redirects_routes_otherwise_than_its_tables_say_and_is_refused() {
    let mut t = TestLab::up("advised", |_| ());
    t.must(
        Place::Router,
        "sysctl -w net.ipv4.conf.all.accept_redirects=1 net.ipv4.conf.in0.accept_redirects=1 net.ipv4.conf.out0.accept_redirects=0",
    );
    let config = t.config("router", &(PREFIX.to_owned() + REST));
    let refused = t.rxlane(&["run", "--accept-bypass", "-c", config.to_str().unwrap()]);
    let said = error_of(&refused);
    assert!(said.contains("port `in0` accepts ICMP redirects"), "{said}");
    assert!(!said.contains("port `out0`"), "{said}");
    t.must(
        Place::Router,
        "sysctl -w net.ipv4.conf.all.accept_redirects=0",
    );
    let _router = t.router_from(&config);
}

#[test]
#[ignore = "needs root: make test"]
fn without_its_daemon_an_established_flow_goes_back_to_linux() {
    let (t, router, call) = call("unfollowed", 1);
    router.end(nix::sys::signal::Signal::SIGKILL);
    // What the daemon has found holds for seconds, less than anything that was seen.
    wait_for("packets take the kernel", || {
        let before = (t.class("voice", "express"), t.to_kernel("objection"));
        let said = call.says();
        let now = (t.class("voice", "express"), t.to_kernel("objection"));
        said && now.0 == before.0 && now.1 > before.1
    });
}

#[test]
#[ignore = "needs root: make test"]
fn without_its_daemon_a_router_goes_back_to_linux() {
    let mut t = TestLab::up("unwatched", |_| ());
    let router = t.router(&(PREFIX.to_owned() + REST));
    let call = Call::new(&t);
    t.settle(1, || assert!(call.says()));
    router.end(nix::sys::signal::Signal::SIGKILL);
    assert!(call.says());
    wait_for("packets take the kernel", || {
        let before = t.class("voice", "express");
        call.says() && t.class("voice", "express") == before
    });
    assert!(t.to_kernel("objection") >= 1);
}
