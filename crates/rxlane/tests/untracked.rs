//! Flows that connection tracking does not see, of classes with `trust = "firewall"`: express as Linux was seen to forward them,
//! and only where it treats all packets of a flow alike.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::process::Stdio;

use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::Place;
use rxlane_system::netns::within;
use test_lab::{Background, REST, TestLab, udp, wait_for};

const FIREWALL: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"firewall\"\nmatch = [{ dscp = [\"EF\", \"CS1\"], protocol = [\"udp\", \"tcp\"] }]\n";
const SINK: &str = "10.20.0.2:7000";
const GEN: &str = "10.10.0.2:6000";
const EF: i32 = 0xb8;
const CS1: i32 = 0x20;

/// A lab with these rules, and a router of which nobody has accepted anything.
fn lab(name: &str, rules: &str, ingress: &str) -> (TestLab, Background) {
    let mut t = TestLab::up(name, |_| ());
    if !rules.is_empty() {
        t.must(Place::Router, &format!("nft '{rules}'"));
    }
    let text = format!(
        "ports = [\"in0\", \"out0\"]\ningress = {{ in0 = \"{ingress}\", out0 = \"{ingress}\" }}\n{FIREWALL}{REST}"
    );
    let config = t.file("router", &text);
    let router = t.strict_router(&config, Stdio::null());
    (t, router)
}

/// Whoever speaks through the router, and whoever hears it.
struct Speaker(UdpSocket, UdpSocket);

impl Speaker {
    fn new(t: &TestLab, tos: i32) -> Self {
        let speaker = Self(udp(t, Place::Gen, GEN), udp(t, Place::Sink, SINK));
        speaker.marks(tos);
        speaker
    }

    fn marks(&self, tos: i32) {
        setsockopt(&self.0, sockopt::Ipv4Tos, &tos).expect("a type of service");
    }

    /// Whether a datagram arrives.
    fn says(&self) -> bool {
        self.0.send_to(b"said", SINK).expect("sent");
        self.1.recv(&mut [0; 64]).is_ok()
    }

    /// Speaks until it is express.
    fn settle(&self, t: &TestLab) {
        t.settle(1, || assert!(self.says()));
    }
}

fn express(t: &TestLab) -> u64 {
    t.class("voice", "express")
}

/// Says it some times: so many arrive, and none of them by the express lane.
fn stays_with_linux(t: &TestLab, speaker: &Speaker, times: usize) -> usize {
    let before = express(t);
    let arrived = (0..times).filter(|_| speaker.says()).count();
    assert_eq!(express(t), before, "it is Linux's");
    arrived
}

fn kept(t: &TestLab) -> String {
    let status = t.status_json().unwrap_or_default();
    status["classes"][0]["kept"].to_string()
}

#[test]
#[ignore = "needs root: make test"]
fn without_a_firewall_a_flow_is_express_once_linux_forwards_it_answered_or_not() {
    for ingress in ["xdp", "tc"] {
        let (t, _router) = lab("untracked", "", ingress);
        let speaker = Speaker::new(&t, EF);
        assert_eq!(stays_with_linux(&t, &speaker, 1), 1, "the first");
        speaker.settle(&t);
        // What the lane itself sends is no proof of what Linux would do.
        t.must(
            Place::Router,
            "nft 'table ip fw { chain f { type filter hook forward priority 0; udp dport 7000 drop; }; }'",
        );
        wait_for("Linux drops it", || !speaker.says());
        assert_eq!(stays_with_linux(&t, &speaker, 5), 0, "{ingress}");
        t.must(Place::Router, "nft flush ruleset");
        speaker.settle(&t);
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_stateless_rules_drop_never_passes_and_what_they_let_through_is_express() {
    let rules = "table inet fw { chain f { type filter hook forward priority 0; policy drop; ip dscp ef udp dport 7000 accept; }; }";
    let (t, _router) = lab("stateless", rules, "xdp");
    let speaker = Speaker::new(&t, EF);
    speaker.settle(&t);
    speaker.marks(CS1);
    assert_eq!(
        stays_with_linux(&t, &speaker, 5),
        0,
        "another mark is another flow"
    );
    speaker.marks(EF);
    assert!(speaker.says());
    let other = udp(&t, Place::Sink, "10.20.0.2:7001");
    for _ in 0..5 {
        speaker.0.send_to(b"said", "10.20.0.2:7001").expect("sent");
    }
    assert!(other.recv(&mut [0; 64]).is_err());
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_rule_does_not_track_is_express_beside_what_is_tracked() {
    let rules = "table inet fw { chain raw { type filter hook prerouting priority raw; udp dport 7000 notrack; }; chain f { type filter hook forward priority 0; policy drop; ct state established,related accept; ct state new accept; ct state untracked udp dport 7000 accept; }; }";
    let (t, _router) = lab("notrack", rules, "xdp");
    t.must(Place::Gen, "ping -c 1 -W 5 10.20.0.2");
    let speaker = Speaker::new(&t, EF);
    speaker.settle(&t);
    let tracked = t.must(Place::Router, "cat /proc/net/nf_conntrack");
    assert!(!tracked.contains("dport=7000"), "{tracked}");
    // From now on it is, and nobody has answered.
    t.must(Place::Router, "nft flush chain inet fw raw");
    wait_for("Linux tracks it", || {
        assert!(speaker.says());
        let tracked = t.must(Place::Router, "cat /proc/net/nf_conntrack");
        tracked.contains("dport=7000")
    });
    assert_eq!(stays_with_linux(&t, &speaker, 5), 5, "not established");
}

#[test]
#[ignore = "needs root: make test"]
fn rules_that_must_see_each_packet_of_an_untracked_flow_keep_it() {
    let rules = "table inet fw { chain f { type filter hook forward priority 0; udp dport 7000 limit rate over 1/hour burst 3 packets drop; }; }";
    let (t, _router) = lab("limits", rules, "xdp");
    let speaker = Speaker::new(&t, EF);
    wait_for("status says so", || kept(&t).contains("limits packets"));
    assert_eq!(stays_with_linux(&t, &speaker, 10), 3, "the limit holds");
}

#[test]
#[ignore = "needs root: make test"]
fn where_rules_make_flows_look_like_others_untracked_ones_stay_with_linux() {
    for (name, dropped, rewrites, from, tos) in [
        (
            "marks",
            "ip dscp ef",
            "ip dscp cs1 ip dscp set ef",
            "10.10.0.2:6001",
            CS1,
        ),
        (
            "ports",
            "udp sport 6000",
            "udp sport 6001 udp sport set 6000",
            "10.10.0.2:6001",
            EF,
        ),
        (
            "addresses",
            "ip saddr 10.10.0.2",
            "ip saddr 10.10.0.77 ip saddr set 10.10.0.2",
            "10.10.0.77:6000",
            EF,
        ),
    ] {
        let rules = format!(
            "table ip fw {{ chain f {{ type filter hook forward priority 0; {dropped} drop; }}; chain p {{ type filter hook postrouting priority 0; {rewrites}; }}; }}"
        );
        let (t, _router) = lab(&format!("as-{name}"), &rules, "xdp");
        wait_for("status says so", || kept(&t).contains("rewrites addresses"));
        t.must(Place::Gen, "ip address add 10.10.0.77/24 dev gen0");
        let speaker = Speaker::new(&t, EF);
        let other = udp(&t, Place::Gen, from);
        setsockopt(&other, sockopt::Ipv4Tos, &tos).expect("a type of service");
        for _ in 0..10 {
            assert!(!speaker.says(), "{name}: Linux drops it");
            other.send_to(b"said", SINK).expect("sent");
            assert!(speaker.1.recv(&mut [0; 64]).is_ok(), "{name}");
        }
        assert_eq!(express(&t), 0, "{name}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_that_nobody_tracks_is_express_between_its_opening_and_its_end() {
    let (t, _router) = lab("tcp", "", "xdp");
    let listener = within(&t.lab.netns(Place::Sink), false, || {
        Ok(TcpListener::bind(SINK))
    });
    let listener = listener.expect("the namespace").expect("a listener");
    t.must(
        Place::Router,
        "nft 'table ip mss { chain f { type filter hook forward priority 0; tcp flags syn tcp option maxseg size set 1200; }; }'",
    );
    let stream = within(&t.lab.netns(Place::Gen), false, || {
        Ok(TcpStream::connect(SINK))
    });
    let mut stream = stream.expect("the namespace").expect("a connection");
    let (_other, _) = listener.accept().expect("a connection");
    setsockopt(&stream, sockopt::Ipv4Tos, &EF).expect("a type of service");
    wait_for("segments are express", || {
        stream.write_all(b"said").expect("sent");
        express(&t) > 5
    });
    assert!(
        kept(&t).contains("null"),
        "the size of segments is a matter of SYNs"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn thousands_of_flows_of_one_packet_leave_a_flow_express() {
    let (t, _router) = lab("spray", "", "xdp");
    let speaker = Speaker::new(&t, EF);
    speaker.settle(&t);
    for i in 0..20_000u16 {
        let other = (Ipv4Addr::new(10, 20, 0, 2), 10_000 + i);
        speaker.0.send_to(b"said", other).expect("sent");
    }
    let before = express(&t);
    assert!((0..20).all(|_| speaker.says()));
    // One may be asked for again.
    assert!(express(&t) >= before + 19);
}
