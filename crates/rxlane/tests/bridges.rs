//! Bridges over ports, with an address of their own: what they route is express as long as they know where stations are.

use std::net::UdpSocket;

use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, udp, wait_for};

const ESTABLISHED: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ protocol = [\"udp\"] }]\n";

/// A lab in which both links on the generator's side are ports of a bridge, which has the address of the first.
fn bridged(name: &str) -> TestLab {
    let t = TestLab::up(name, |c| c.ports = 2);
    t.must(
        Place::Router,
        "ip link add br0 type bridge forward_delay 0 && ip address flush dev in0 && ip link set in0 master br0 && ip link set in1 master br0 \
         && ip link set br0 up && ip address add 10.10.0.1/24 dev br0",
    );
    // The host behind one port does not answer for itself behind the other.
    t.must(
        Place::Gen,
        "sysctl -w net.ipv4.conf.all.arp_ignore=1 && ip neigh flush dev gen0 nud all && ping -c 1 -W 5 10.10.0.1",
    );
    t
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_bridge_routes_is_express_both_ways() {
    let mut t = bridged("bridged");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let status = t.status_json().unwrap();
    let master = &status["masters"][0];
    let said = ["name", "kind", "port"].map(|key| master[key].as_str().unwrap());
    assert_eq!(said, ["br0", "bridge", "in0"]);
    assert!(master["declined"].is_null(), "{master}");
    // To an address of its own that is none of its ports'.
    t.must(
        Place::Router,
        "ip link set br0 address 02:00:00:00:00:77 && ip neigh flush dev br0 nud all",
    );
    t.must(Place::Gen, "ip neigh flush dev gen0 nud all");
    wait_for("what is to the bridge's own address, too", || {
        t.pings(0) == 10
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_station_that_is_elsewhere_for_the_bridge_is_linuxs() {
    let mut t = bridged("stations");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let mac = t.must(Place::Gen, "cat /sys/class/net/gen0/address");
    let mac = mac.trim();
    t.must(
        Place::Router,
        &format!("bridge fdb replace {mac} dev in1 master static sticky"),
    );
    wait_for("the lane has heard of it", || {
        // Requests are Linux's. Answers are express, to the other port, where Linux would send them, too.
        t.pings(100) == 5
    });
    assert!(t.to_kernel("master") >= 5);
    // They are of their class all the same, with its share of an overloaded core.
    let before = t.class("voice", "packets");
    t.pings(100);
    assert_eq!(t.class("voice", "packets"), before + 10);
    t.must(
        Place::Router,
        &format!("bridge fdb delete {mac} dev in1 master"),
    );
    wait_for("learned anew, it is express again", || {
        let before = t.class("voice", "express");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        t.class("voice", "express") - before == 10
    });
}

/// Another host behind the second port, which sends to 10.20.0.3 in the name of the first one; its MAC address.
fn twin(t: &TestLab) -> String {
    let mac = t.must(Place::Gen, "cat /sys/class/net/gen0/address");
    let mac = mac.trim();
    let bridge = t.must(Place::Router, "cat /sys/class/net/br0/address");
    t.must(
        Place::Gen,
        &format!(
            "sysctl -w net.ipv6.conf.gen0.disable_ipv6=1 && ip link add twin link gen1 address {mac} type macvlan && ip link set twin addrgenmode none \
             && ip address add 10.10.0.77/32 dev twin && ip link set twin up && ip route add 10.20.0.3/32 via 10.10.0.1 dev twin onlink \
             && for d in gen0 twin; do ip neigh replace 10.10.0.1 lladdr {} dev $d nud permanent; done",
            bridge.trim()
        ),
    );
    // What it answers to the router's questions would tell where it is, too.
    t.must(
        Place::Router,
        &format!("ip neigh replace 10.10.0.2 lladdr {mac} dev br0 nud permanent"),
    );
    mac.to_owned()
}

fn is_behind(t: &TestLab, mac: &str, port: &str) -> bool {
    let all = t.must(Place::Router, "bridge fdb show br br0");
    let found = all.lines().find(|line| line.starts_with(mac));
    found.is_some_and(|line| line.contains(&format!("dev {port} ")))
}

#[test]
#[ignore = "needs root: make test"]
fn a_station_that_comes_back_before_the_daemon_has_heard_that_it_was_away_is_back_for_linux_too() {
    let mut t = bridged("comesback");
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let mac = twin(&t);
    for speaks in [
        "ping -Q 0xb8 -c 1 -W 1 10.20.0.3",
        // To everybody, by IP and by ARP, as who has moved does.
        "ping -b -I twin -c 1 -W 1 255.255.255.255",
        "ping -I twin -c 1 -W 1 10.10.0.99",
    ] {
        wait_for("with that twin, too", || t.pings(0) == 10);
        // The daemon hears nothing for now, as on a busy router.
        router.signal(nix::sys::signal::Signal::SIGSTOP);
        t.exec(Place::Gen, speaks);
        assert!(
            is_behind(&t, &mac, "in1"),
            "Linux has learned that it is elsewhere: {speaks}"
        );
        // However long that takes.
        std::thread::sleep(std::time::Duration::from_secs(3));
        t.must(Place::Gen, "ping -Q 0xb8 -c 1 -W 5 10.20.0.2");
        assert!(is_behind(&t, &mac, "in0"), "and that it is back: {speaks}");
        router.signal(nix::sys::signal::Signal::SIGCONT);
    }
    wait_for("express again", || t.pings(0) == 10);
}

#[test]
#[ignore = "needs root: make test"]
fn who_speaks_in_its_name_where_the_bridge_learns_nothing_takes_no_station_off_the_lane() {
    let mut t = bridged("nolearning");
    t.must(Place::Router, "bridge link set dev in1 learning off");
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    let mac = twin(&t);
    wait_for("with that twin, too", || t.pings(0) == 10);
    // Nor would it be put right by the daemon.
    router.signal(nix::sys::signal::Signal::SIGSTOP);
    t.exec(Place::Gen, "ping -Q 0xb8 -c 2 -i 0.2 -W 1 10.20.0.3");
    assert!(is_behind(&t, &mac, "in0"));
    assert_eq!(t.pings(0), 10);
    router.signal(nix::sys::signal::Signal::SIGCONT);
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_leaves_its_bridge_is_served_by_itself() {
    let mut t = bridged("nomaster");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    t.must(
        Place::Router,
        "ip link set in0 nomaster && ip address flush dev br0 && ip address add 10.10.0.1/24 dev in0",
    );
    t.must(Place::Gen, "ip neigh flush dev gen0 nud all");
    wait_for("without its bridge", || t.pings(0) == 10);
    let status = t.status_json().unwrap();
    let ports = status["masters"].as_array().unwrap().iter();
    let ports: Vec<_> = ports.map(|m| m["port"].as_str().unwrap()).collect();
    assert_eq!(ports, ["in1"]);
}

#[test]
#[ignore = "needs root: make test"]
fn what_rules_for_bridges_see_stays_with_linux_by_name() {
    let mut t = bridged("bridgerules");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("requests and answers are express", || t.pings(0) == 10);
    // What is only bridged is nothing to routed packets.
    t.must(
        Place::Router,
        "nft 'table bridge fw { chain only { type filter hook forward priority 0; drop; }; }'",
    );
    wait_for("express again after a look around", || t.pings(0) == 10);
    t.must(
        Place::Router,
        "nft 'table bridge fw { chain in { type filter hook input priority 0; ip dscp ef drop; }; }'",
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert_eq!(t.pings(100), 0, "the bridge would not have taken it");
    let status = t.status_json().unwrap();
    let why = status["masters"][0]["declined"].as_str().unwrap();
    assert!(why.contains("the chain bridge fw in sees"), "{why}");
    t.must(Place::Router, "nft delete table bridge fw");
    wait_for("served again", || t.pings(0) == 10);
    t.must(
        Place::Router,
        "nft 'table netdev early { chain in { type filter hook ingress device in0 priority 0; ip dscp cs7 drop; }; }'",
    );
    wait_for("a filter of one port decides about that", || {
        t.pings(0) == 0
    });
}

/// Both ends of a conversation, and whether what the first says arrives.
struct Call(UdpSocket, UdpSocket);

impl Call {
    fn says(&self) -> bool {
        self.0.send_to(b"said", "10.20.0.2:7000").expect("sent");
        self.1.recv(&mut [0; 64]).is_ok()
    }

    fn is_answered(&self) -> bool {
        let _ = self.1.send_to(b"answer", "10.10.0.2:6000");
        self.0.recv(&mut [0; 64]).is_ok()
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_the_bridges_own_firewall_stops_is_not_express() {
    let mut t = bridged("bridgefw");
    t.must(
        Place::Router,
        "nft 'table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname br0 accept; }; }'",
    );
    let _router = t.router(&(ESTABLISHED.to_owned() + REST));
    let call = Call(
        udp(&t, Place::Gen, "10.10.0.2:6000"),
        udp(&t, Place::Sink, "10.20.0.2:7000"),
    );
    t.settle(2, || assert!(call.says() && call.is_answered()));
    t.must(
        Place::Router,
        "nft 'table bridge fw { chain out { type filter hook output priority 0; ip protocol udp drop; }; }'",
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!call.is_answered(), "the bridge would not have sent it");
    t.must(Place::Router, "nft delete table bridge fw");
    t.must(
        Place::Router,
        "nft 'table bridge fw { chain in { type filter hook input priority 0; ip protocol udp drop; }; }'",
    );
    std::thread::sleep(std::time::Duration::from_secs(1));
    assert!(!call.says(), "the bridge would not have taken it");
}

#[test]
#[ignore = "needs root: make test"]
fn init_names_the_ports_of_a_bridge_that_has_the_address() {
    let t = bridged("inited");
    let out = t.rxlane(&["init"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(out.status.success(), "{out:?}");
    let ports = text.lines().find(|l| l.starts_with("ports = "));
    let mut ports: Vec<&str> = ports.unwrap().split('"').skip(1).step_by(2).collect();
    ports.sort_unstable();
    assert_eq!(ports, ["in0", "in1", "out0", "out1"]);
    assert!(text.contains("br0 is left out: a bridge, whose ports are named"));
    // There is no firewall here.
    assert!(!text.contains("trust = \"all\""), "{text}");
    t.must(Place::Router, "ip address flush dev br0");
    let out = t.rxlane(&["init"]);
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(text.contains("in0 is left out: a part of `br0`"), "{text}");
}
