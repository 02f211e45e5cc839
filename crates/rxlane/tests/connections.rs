//! Connections keep the life that Linux gives them although the express lane hides their packets from the tracker; and what a
//! connection was trusted for does not outlast what made Linux forward it so.

use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::socket::{setsockopt, sockopt};
use rxlane_bench::lab::Place;
use rxlane_system::netns::within;
use test_lab::{Background, REST, TestLab, udp, wait_for};

const ESTABLISHED: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ protocol = [\"udp\", \"tcp\"] }]\n";
const STATEFUL: &str = "table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct state invalid drop; ct state established,related accept; iifname in0 accept; }; }";
const SINK: &str = "10.20.0.2:7000";
const GEN: &str = "10.10.0.2:6000";

/// A lab with these rules, and more done to its router.
fn lab(name: &str, rules: &[&str]) -> (TestLab, Background) {
    let mut t = TestLab::up(name, |_| ());
    for rules in rules {
        t.must(Place::Router, &format!("nft '{rules}'"));
    }
    let router = t.router(&(ESTABLISHED.to_owned() + REST));
    (t, router)
}

fn arrives(socket: &UdpSocket) -> bool {
    socket.recv(&mut [0; 64]).is_ok()
}

/// Two hosts that talk through the router until all they say is express.
struct Call(UdpSocket, UdpSocket);

impl Call {
    fn settled(t: &TestLab) -> Self {
        let call = Self(udp(t, Place::Gen, GEN), udp(t, Place::Sink, SINK));
        call.settle(t);
        call
    }

    fn settle(&self, t: &TestLab) {
        t.settle(2, || assert!(self.says() && self.is_answered()));
    }

    fn says(&self) -> bool {
        self.0.send_to(b"said", SINK).expect("sent");
        arrives(&self.1)
    }

    fn is_answered(&self) -> bool {
        self.1.send_to(b"answer", GEN).is_ok() && arrives(&self.0)
    }
}

/// The line of the tracker about the connection to a port.
fn tracked(t: &TestLab, port: u16) -> Option<String> {
    let all = t.must(Place::Router, "cat /proc/net/nf_conntrack");
    let to = format!("dport={port} ");
    all.lines().find(|l| l.contains(&to)).map(str::to_owned)
}

/// How long the tracker remembers a connection if nothing more comes, s.
fn left_s(t: &TestLab, port: u16) -> u32 {
    let line = tracked(t, port).expect("the connection is tracked");
    let seconds = line.split_whitespace().nth(4).and_then(|s| s.parse().ok());
    seconds.unwrap_or_else(|| panic!("no seconds in {line}"))
}

/// Talks, all by the express lane, until the tracker says so.
fn has_left(t: &TestLab, call: &Call, seconds: std::ops::RangeInclusive<u32>) {
    let mut found = 0;
    wait_for("the tracker gives it as long as it would alone", || {
        let before = t.class("voice", "express");
        let said = (0..10).all(|_| call.says() && call.is_answered());
        found = left_s(t, 7000);
        said && t.class("voice", "express") - before == 20 && seconds.contains(&found)
    });
    assert!(seconds.contains(&found), "{found}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_timeout_that_is_set_while_the_router_runs_is_that_of_express_flows_from_then_on() {
    let (t, _router) = lab("tmo", &[STATEFUL]);
    let set = |s| {
        let line = format!("sysctl -qw net.netfilter.nf_conntrack_udp_timeout_stream={s}");
        t.must(Place::Router, &line);
    };
    let call = Call::settled(&t);
    // From two seconds after the first answer on it is a stream.
    has_left(&t, &call, 110..=120);
    for (s, range) in [(50, 48..=50), (90, 88..=90), (20, 18..=20)] {
        set(s);
        has_left(&t, &call, range);
    }
    // By express packets, and not by the one in twenty seconds that Linux sees.
    set(50);
    has_left(&t, &call, 48..=50);
    wait_for("a pause after which all is express", || {
        std::thread::sleep(Duration::from_secs(8));
        let before = t.class("voice", "express");
        let began = std::time::Instant::now();
        assert!((0..10).all(|_| call.says() && call.is_answered()));
        let all = t.class("voice", "express") - before == 20;
        let left = left_s(&t, 7000);
        // A machine that stands still before it is read takes of it.
        let stood = began.elapsed().as_secs() as u32;
        assert!(
            !all || (left <= 50 && left + stood >= 47),
            "{left}, {stood} s"
        );
        all
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_timeout_of_a_policy_is_that_of_the_express_flows_that_have_it() {
    let policy = "table ip p { ct timeout short { protocol udp; l3proto ip; policy = { unreplied : 20, replied : 40 }; }; chain pre { type filter hook prerouting priority -100; udp dport 7000 ct timeout set \"short\"; }; }";
    let (t, _router) = lab("policy", &[STATEFUL, policy]);
    let call = Call::settled(&t);
    has_left(&t, &call, 38..=40);
}

/// Whether the daemon has what Linux sends looked at, which each packet of the machine pays for.
fn looks(router: &Background) -> bool {
    let own = std::fs::read_dir(format!("/proc/{}/fdinfo", router.0.id())).unwrap();
    let mut texts = own.filter_map(|file| std::fs::read_to_string(file.ok()?.path()).ok());
    texts.any(|text| text.contains("net_dev_start_xmit"))
}

#[test]
#[ignore = "needs root: make test"]
fn what_the_machine_sends_is_looked_at_only_while_flows_are_asked_for() {
    let (t, router) = lab("looks", &[STATEFUL]);
    let call = Call::settled(&t);
    wait_for("a flow that begins is looked at", || {
        let from = udp(&t, Place::Gen, "10.10.0.2:0");
        for _ in 0..3 {
            from.send_to(b"said", SINK).expect("sent");
            let Ok((_, sender)) = call.1.recv_from(&mut [0; 64]) else {
                return false;
            };
            call.1.send_to(b"answer", sender).expect("sent");
            assert!(arrives(&from));
        }
        looks(&router)
    });
    wait_for("nothing is asked any more", || !looks(&router));
    let before = t.class("voice", "express");
    assert!(call.says() && call.is_answered());
    assert_eq!(t.class("voice", "express"), before + 2);
}

/// A connection of TCP through the router, whose ends wait for what they read.
fn connect(t: &TestLab, server: &str) -> (TcpStream, TcpStream) {
    let server: SocketAddr = server.parse().unwrap();
    let listen = || Ok(TcpListener::bind(server).expect("a listener"));
    let listener = within(&t.lab.netns(Place::Sink), false, listen).expect("the namespace");
    let call = || Ok(TcpStream::connect_timeout(&server, Duration::from_secs(20)));
    let one = within(&t.lab.netns(Place::Gen), false, call).expect("the namespace");
    let one = one.expect("a connection");
    let other = listener.accept().expect("a connection").0;
    for end in [&one, &other] {
        end.set_nodelay(true).unwrap();
        end.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    }
    (one, other)
}

/// So many bytes there, and each answered.
fn exchange(one: &mut TcpStream, other: &mut TcpStream, times: usize) {
    use std::io::{Read, Write};
    let mut bytes = [0; 1000];
    for _ in 0..times {
        one.write_all(&bytes).expect("sent");
        other.read_exact(&mut bytes).expect("received");
        other.write_all(&bytes).expect("sent");
        one.read_exact(&mut bytes).expect("received");
    }
}

/// The same until all of it is express.
fn settle(t: &TestLab, one: &mut TcpStream, other: &mut TcpStream) {
    wait_for("segments are express", || {
        let before = t.class("voice", "express");
        exchange(one, other, 20);
        t.class("voice", "express") - before >= 40
    });
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_is_express_without_a_sysctl_and_goes_on_when_the_router_ends() {
    for (name, server) in [("tcp4", "10.20.0.2:7000"), ("tcp6", "[fd20::2]:7000")] {
        let (t, router) = lab(name, &[STATEFUL]);
        t.must(
            Place::Router,
            "sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=0",
        );
        let (mut one, mut other) = connect(&t, server);
        settle(&t, &mut one, &mut other);
        // Far out of the window that the tracker knows.
        exchange(&mut one, &mut other, 5000);
        assert_eq!(t.to_kernel("malformed"), 0);
        assert!(left_s(&t, 7000) > 400_000, "as an idle connection has");
        router.end(Signal::SIGTERM);
        exchange(&mut one, &mut other, 100);
        drop((one, other));
        // Both ends have closed, which the tracker has seen.
        wait_for("the connection is over to the tracker", || {
            tracked(&t, 7000).is_none_or(|line| !line.contains(" ESTABLISHED "))
        });
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_tracker_that_is_liberal_no_more_cuts_no_connection() {
    let (t, _router) = lab("liberal", &[STATEFUL]);
    let set = |n| {
        let line = format!("sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal={n}");
        t.must(Place::Router, &line);
    };
    set(1);
    let (mut one, mut other) = connect(&t, SINK);
    for n in [0, 1, 0] {
        settle(&t, &mut one, &mut other);
        exchange(&mut one, &mut other, 1000);
        set(n);
    }
    exchange(&mut one, &mut other, 1000);
}

#[test]
#[ignore = "needs root: make test"]
fn a_connection_that_is_reset_is_forgotten_as_soon_as_by_linux_alone() {
    let (t, _router) = lab("reset", &[STATEFUL]);
    let (mut one, mut other) = connect(&t, SINK);
    settle(&t, &mut one, &mut other);
    let now = nix::libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    setsockopt(&one, sockopt::Linger, &now).unwrap();
    drop(one);
    // What is still under way, or answered to it, prolongs nothing.
    wait_for("the tracker waits ten seconds at most", || {
        tracked(&t, 7000).is_none_or(|_| left_s(&t, 7000) <= 10)
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_whose_connection_gets_a_mark_is_judged_by_linux() {
    let rules = "table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct mark 7 drop; ct state established accept; iifname in0 accept; }; }";
    let (t, _router) = lab("ctmark", &[rules]);
    let call = Call::settled(&t);
    // The tool updates what it has been listed, and the kernel refuses some of that: it is asked for the mark alone.
    let mark = |n| {
        format!(
            "conntrack -U -p udp -s 10.10.0.2 -d 10.20.0.2 --sport 6000 --dport 7000 --mark {n}"
        )
    };
    t.must(Place::Router, &mark(7));
    wait_for("Linux drops it", || !call.says());
    assert!(!call.says(), "and goes on");
    t.must(Place::Router, &mark(0));
    call.settle(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn addresses_and_ports_that_a_rule_rewrites_behind_the_tracker_are_rewritten() {
    for (name, rewrites, from) in [
        ("rewrite-a", "ip saddr set 10.20.0.77", "10.20.0.77:6000"),
        ("rewrite-p", "udp sport set 4444", "10.10.0.2:4444"),
    ] {
        let rule = format!(
            "table ip m {{ chain p {{ type filter hook postrouting priority 300; oifname out0 udp dport 7000 {rewrites}; }}; }}"
        );
        let (t, _router) = lab(name, &[STATEFUL, &rule]);
        let (host, sink) = (udp(&t, Place::Gen, GEN), udp(&t, Place::Sink, SINK));
        // Its answers come back, so that both directions were seen.
        let answers = udp(&t, Place::Sink, "10.20.0.2:7001");
        for _ in 0..100 {
            host.send_to(b"said", SINK).expect("sent");
            let (_, sender) = sink.recv_from(&mut [0; 64]).expect("received");
            assert_eq!(sender.to_string(), from);
            answers.send_to(b"answer", GEN).expect("sent");
            sink.send_to(b"answer", GEN).expect("sent");
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn of_several_code_points_in_a_flow_each_is_express() {
    let (t, _router) = lab("codes", &[STATEFUL]);
    let call = Call::settled(&t);
    // EF, AF41 and best effort, with marks of ECN.
    let all = [0xb8, 0x88, 0x00, 0xbb, 0x8a];
    t.settle(2 * all.len() as u64, || {
        for tos in all {
            setsockopt(&call.0, sockopt::Ipv4Tos, &tos).unwrap();
            assert!(call.says() && call.is_answered());
        }
    });
    assert!(t.to_kernel("unseen") < 100, "none evicts the other");
}

#[test]
#[ignore = "needs root: make test"]
fn where_a_rule_binds_an_address_to_a_sender_another_one_has_no_flow() {
    let mut t = TestLab::up("binding", |_| ());
    let show = "cat /sys/class/net/gen0/address";
    let mac = t.must(Place::Gen, show).trim().to_owned();
    let rules = format!(
        "table inet fw {{ chain pre {{ type filter hook prerouting priority -310; iifname in0 ip saddr 10.10.0.2 ether saddr != {mac} drop; }}; chain forwarded {{ type filter hook forward priority 0; ct state established,new accept; }}; }}"
    );
    t.must(Place::Router, &format!("nft '{rules}'"));
    let _router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call::settled(&t);
    t.must(
        Place::Gen,
        "ip link set gen0 down && ip link set gen0 address 02:00:00:00:99:99 && ip link set gen0 up && ip route add default via 10.10.0.1 || true",
    );
    t.must(Place::Gen, "ping -c 1 -W 5 10.10.0.1 || true");
    for _ in 0..5 {
        assert!(!call.says(), "Linux would not have sent it");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_an_element_of_a_set_lets_through_ends_with_it() {
    let rules = "table ip fw { set guests { type ipv4_addr; flags timeout; }; chain forwarded { type filter hook forward priority 0; policy drop; ip saddr @guests accept; ip daddr @guests ct state established accept; }; }";
    let (t, _router) = lab("guests", &[rules]);
    let let_in = "nft add element ip fw guests { 10.10.0.2 timeout 6s }";
    t.must(Place::Router, let_in);
    let call = Call::settled(&t);
    // Nobody says so when it ends.
    wait_for("the guest's time is over", || !call.says());
    assert!(!call.says() && !call.is_answered());
}

#[test]
#[ignore = "needs root: make test"]
fn a_rule_of_legacy_iptables_is_heard_of() {
    let (t, _router) = lab("legacy", &[STATEFUL]);
    let call = Call::settled(&t);
    let drop = "FORWARD -p udp --dport 7000 -j DROP";
    t.must(Place::Router, &format!("iptables-legacy -A {drop}"));
    wait_for("Linux drops it", || !call.says());
    assert!(!call.says());
    t.must(Place::Router, &format!("iptables-legacy -D {drop}"));
    call.settle(&t);
}

#[test]
#[ignore = "needs root: make test"]
fn without_a_daemon_established_flows_go_back_to_linux() {
    let (t, router) = lab("orphan", &[STATEFUL]);
    let call = Call::settled(&t);
    router.end(Signal::SIGKILL);
    // Nobody hears of this rule.
    t.must(
        Place::Router,
        "nft insert rule inet fw forwarded udp dport 7000 drop",
    );
    wait_for("nothing is express any more", || {
        let before = t.class("voice", "express");
        let passed = (0..3).any(|_| call.says());
        !passed && t.class("voice", "express") == before
    });
}
