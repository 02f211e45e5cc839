//! A router on real packets, end to end: real clients, real answers, bytes on the wire.
//!
//! Needs root and the lab's tools (`make setup`). Tests share two cores, so `make test` runs them in turn.

use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::{Firewall, Place};
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use test_lab::{REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED, patience, wait_for};

const EF_TOS: &str = "0xb8";

#[test]
#[ignore = "needs root: make test"]
fn ef_pings_take_the_express_lane_in_both_families_and_from_cold_neighbours() {
    let mut t = TestLab::up("ping", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Router, "ip neigh flush all");
    t.must(Place::Gen, "ip neigh flush all");
    t.must(Place::Sink, "ip neigh flush all");
    // Once it has answers, ping waits an interval for the last one, whatever -W says: no short ones, on slow machines.
    let out = t.must(
        Place::Gen,
        &format!("ping -Q {EF_TOS} -c 10 -i 0.2 -W 2 10.20.0.2"),
    );
    assert!(out.contains(" 0% packet loss"), "{out}");
    let out = t.must(
        Place::Gen,
        &format!("ping -6 -Q {EF_TOS} -c 10 -i 0.2 -W 2 fd20:0::2"),
    );
    assert!(out.contains(" 0% packet loss"), "{out}");
    // The first of each family found no neighbour and went through the stack, which resolved it.
    assert!(t.to_kernel("no_neighbour") >= 1);
    // Requests and replies: an echo reply carries the DSCP of its request.
    assert!(
        t.class("voice", "express") >= 25,
        "{}",
        t.class("voice", "express")
    );
    let out = t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
    assert!(
        out.contains(" 0% packet loss") && out.contains("ttl=63"),
        "{out}"
    );
    assert!(t.class("rest", "passed") >= 5);
}

#[test]
#[ignore = "needs root: make test"]
fn the_ttl_is_decremented_and_traceroute_sees_the_router() {
    let mut t = TestLab::up("ttl", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let out = t.must(
        Place::Gen,
        &format!("ping -Q {EF_TOS} -c 5 -i 0.2 -t 9 10.20.0.2"),
    );
    assert!(
        out.contains("ttl=63"),
        "the reply crossed one router: {out}"
    );
    // ICMPv6 errors need the link-local address, which takes a second to be checked for duplicates.
    wait_for("addresses are usable", || {
        !t.must(Place::Sink, "ip -6 addr").contains("tentative")
    });
    wait_for("addresses are usable", || {
        !t.must(Place::Router, "ip -6 addr").contains("tentative")
    });
    for (family, router, target) in [
        ("-4", "10.10.0.1", "10.20.0.2"),
        ("-6", "fd10::1", "fd20::2"),
    ] {
        let tos = if family == "-4" { "184" } else { "0xb8" };
        let out = t.must(
            Place::Gen,
            &format!("traceroute {family} -n -t {tos} -q 1 -w 2 {target}"),
        );
        let hops: Vec<&str> = out
            .lines()
            .skip(1)
            .filter_map(|l| l.split_whitespace().nth(1))
            .collect();
        assert_eq!(hops, [router, target], "{out}");
    }
    assert!(t.to_kernel("ttl") >= 2);
}

#[test]
#[ignore = "needs root: make test"]
fn a_packet_too_big_for_the_next_link_or_its_route_is_answered_with_the_mtu() {
    let link = ["ip link set out0 mtu 1300", "ip link set snk0 mtu 1300"];
    let route =
        "ip route add 10.20.0.2 dev out0 mtu 1300; ip -6 route add fd20::2 dev out0 mtu 1300";
    for (name, router, sink) in [("mtu", link[0], link[1]), ("mtur", route, "true")] {
        let mut t = TestLab::up(name, |_| ());
        t.must(Place::Router, router);
        t.must(Place::Sink, sink);
        let _router = t.router(&(VOICE_ALL.to_owned() + REST));
        let ping = |what: &str| t.exec(Place::Gen, &format!("ping -Q {EF_TOS} {what}"));
        assert!(ping("-c 2 -i 0.2 10.20.0.2").status.success());
        for to in ["10.20.0.2", "-6 fd20::2"] {
            let out = ping(&format!("-M do -s 1400 -c 2 -i 0.1 -W 1 {to}"));
            let text = [out.stdout, out.stderr].map(|t| String::from_utf8_lossy(&t).into_owned());
            let says = |one: &str| text.iter().any(|text| text.contains(one));
            assert!(says("mtu = 1300") || says("mtu=1300"), "{name}: {text:?}");
        }
        assert!(t.to_kernel("mtu") >= 1);
        // And without DF the stack fragments.
        let out = ping("-M dont -s 1400 -c 3 -i 0.2 -W 1 10.20.0.2");
        assert!(out.status.success(), "{out:?}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_tcp_transfer_through_nat_uses_the_express_lane_when_established() {
    let mut t = TestLab::up("nat", |_| ());
    t.must(Place::Router, "nft add table ip nat && nft add chain ip nat post '{ type nat hook postrouting priority srcnat; }' && nft add rule ip nat post oifname out0 masquerade");
    t.must(Place::Router, "nft add table inet fw && nft add chain inet fw forwarded '{ type filter hook forward priority 0; policy drop; }' && nft add rule inet fw forwarded ct state established,related accept && nft add rule inet fw forwarded iifname in0 ct state new accept");
    t.must(
        Place::Router,
        "sysctl -q -w net.netfilter.nf_conntrack_tcp_be_liberal=1",
    );
    // The sink must answer the router, not the generator it cannot know of.
    t.must(Place::Sink, "ip route del default");
    let all_established = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ protocol = [\"tcp\", \"udp\"] }]\n";
    let _router = t.router(&(all_established.to_owned() + REST));
    let (sent, got) = ("/tmp/rxlane-t-sent", "/tmp/rxlane-t-got");
    t.must(
        Place::Gen,
        &format!("head -c 20000000 /dev/urandom > {sent}"),
    );
    let _server = t.spawn(
        Place::Sink,
        &format!("socat -u TCP4-LISTEN:5201,bind=10.20.0.2 OPEN:{got},creat,trunc"),
    );
    wait_for("socat listens", || {
        t.exec(Place::Sink, "ss -ltn | grep -q 5201")
            .status
            .success()
    });
    // All is over within the tenth of a second in which the router notices that flows are tracked at all.
    t.must(Place::Gen, "ping -c 1 -W 2 10.20.0.2");
    wait_for("flows are tracked", || {
        let status = t.status_json().unwrap_or_default();
        status["classes"][0]["at_work"] == "forward"
    });
    t.must(
        Place::Gen,
        &format!("socat -u OPEN:{sent} TCP4:10.20.0.2:5201"),
    );
    wait_for("all bytes have arrived", || {
        std::fs::metadata(got).is_ok_and(|m| m.len() == 20_000_000)
    });
    assert!(
        std::fs::read(sent).unwrap() == std::fs::read(got).unwrap(),
        "every byte as it was sent"
    );
    let _ = (std::fs::remove_file(sent), std::fs::remove_file(got));
    let express = t.class("voice", "express");
    assert!(
        express >= 10_000,
        "both directions were translated in the express lane: {express}"
    );
    // SYN and FIN took the stack, so the tracker knows that the connection is over.
    assert!(t.to_kernel("tcp_control") >= 2);
    // UDP with a reply, checksums included: a datagram with a bad checksum would not be answered.
    let _echo = t.spawn(
        Place::Sink,
        "socat UDP4-RECVFROM:7007,bind=10.20.0.2,fork EXEC:cat",
    );
    wait_for("socat listens", || {
        t.exec(Place::Sink, "ss -lun | grep -q 7007")
            .status
            .success()
    });
    let out = t.must(Place::Gen, "for i in 1 2 3 4 5; do echo hello$i; sleep 0.1; done | socat -T 1 STDIO UDP4:10.20.0.2:7007");
    assert_eq!(out.matches("hello").count(), 5, "{out}");
}

#[test]
#[ignore = "needs root: make test"]
fn an_unestablished_ef_flow_that_the_firewall_drops_stays_dropped() {
    let mut t = TestLab::up("stranger", |_| ());
    t.must(Place::Router, "nft add table inet fw && nft add chain inet fw forwarded '{ type filter hook forward priority 0; policy drop; }' && nft add rule inet fw forwarded ct state established,related accept && nft add rule inet fw forwarded iifname in0 udp dport 5004 accept");
    let _router = t.router(&(VOICE_ESTABLISHED.to_owned() + REST));
    let _open = t.spawn(
        Place::Sink,
        "socat -u UDP4-RECV:5004 OPEN:/tmp/rxlane-t-open,creat,trunc",
    );
    let _shut = t.spawn(
        Place::Sink,
        "socat -u UDP4-RECV:5005 OPEN:/tmp/rxlane-t-shut,creat,trunc",
    );
    wait_for("socat listens", || {
        t.exec(Place::Sink, "ss -lun | grep -q 5005")
            .status
            .success()
    });
    for port in [5004, 5005] {
        // A line that socat is too slow to read alone goes into the datagram of the next.
        let pause = 0.05 * f64::from(patience());
        t.must(Place::Gen, &format!("for i in 1 2 3 4 5 6 7 8 9 10; do sleep {pause}; echo x$i; done | socat -u STDIO UDP4:10.20.0.2:{port},tos=184"));
    }
    let read = |file: &str| {
        std::fs::read_to_string(file)
            .unwrap_or_default()
            .lines()
            .count()
    };
    wait_for("the allowed flow arrives", || {
        read("/tmp/rxlane-t-open") == 10
    });
    assert_eq!(
        read("/tmp/rxlane-t-shut"),
        0,
        "the firewall's verdict holds"
    );
    // Nobody answers: to the firewall each packet of either is a new one, so both stay with it.
    assert_eq!(t.class("voice", "express"), 0);
    // Some may have come while the daemon still looked at the rules, and all is the kernel's; or while nothing was tracked at all.
    let left: u64 = ["objection", "idle"]
        .iter()
        .map(|why| t.to_kernel(why))
        .sum();
    assert!(t.class("voice", "untrusted") + left >= 20);
    let _ = std::fs::remove_file("/tmp/rxlane-t-open");
    let _ = std::fs::remove_file("/tmp/rxlane-t-shut");
}

#[test]
#[ignore = "needs root: make test"]
fn what_exceeds_the_rate_takes_the_stack_and_still_arrives() {
    let mut t = TestLab::up("police", |_| ());
    let policed = VOICE_ALL.to_owned() + "police = { pps = 10, burst = 5 }\n" + REST;
    let _router = t.router(&policed);
    let out = t.must(
        Place::Gen,
        &format!("ping -Q {EF_TOS} -c 50 -i 0.05 -W 2 10.20.0.2"),
    );
    assert!(out.contains(" 0% packet loss"), "{out}");
    let (served, policed) = (t.class("voice", "packets"), t.class("voice", "policed"));
    assert!(
        served >= 5 && policed >= 60,
        "{served} served, {policed} policed"
    );
    assert_eq!(t.class("rest", "passed"), t.class("rest", "packets"));
}

#[test]
#[ignore = "needs root: make test"]
fn a_full_routing_table_is_used_as_it_is() {
    let table = std::env::temp_dir().join("rxlane-t-routes.txt");
    // 600,000 prefixes as a router of the default-free zone holds them, /24s from 11.0.0.0 on.
    let text: String = (0..600_000u32)
        .map(|i| {
            let net = 0x0b00_0000 + (i << 8);
            format!(
                "{}.{}.{}.0/24\t64500\n",
                net >> 24,
                (net >> 16) & 255,
                (net >> 8) & 255
            )
        })
        .collect();
    std::fs::write(&table, text).unwrap();
    let mut t = TestLab::up("routes", |c| c.routes = Some(table.clone()));
    std::fs::remove_file(&table).unwrap();
    let count = t.must(Place::Router, "ip route show | wc -l");
    assert!(count.trim().parse::<u32>().unwrap() >= 600_000, "{count}");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(
        Place::Sink,
        "ip addr add 15.1.2.3/32 dev snk0 && ip addr add 19.200.7.9/32 dev snk0",
    );
    // Not all at once: while the router looks around, and before a neighbour has answered, they are Linux's.
    for address in ["15.1.2.3", "19.200.7.9"] {
        let most_were_express = (0..20).any(|_| {
            let before = t.class("voice", "express");
            let out = t.must(
                Place::Gen,
                &format!("ping -Q {EF_TOS} -c 5 -i 0.2 -W 2 {address}"),
            );
            assert!(out.contains(" 0% packet loss"), "{out}");
            t.class("voice", "express") - before >= 8
        });
        assert!(most_were_express, "{address} was never express");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn flows_of_a_bench_are_connections_that_a_stateful_firewall_and_established_know() {
    let mut t = TestLab::up("primed", |c| c.firewall = Firewall::Stateful(60));
    let _router = t.router(&(VOICE_ESTABLISHED.to_owned() + REST));
    let traffic = Traffic {
        rt_ratio: 0.5,
        pattern: Pattern::Poisson,
        frame: Frame::Fixed(128),
        flows: 16,
        seed: 7,
    };
    let mut bed = Bed::new(&t.lab, &traffic).unwrap();
    let length = std::time::Duration::from_millis(500);
    // Without an answer none of them is. Not all at once: while the router looks around, which waits for the kernel's
    // configuration lock, they are Linux's.
    let mut tried = Vec::new();
    let most_were_express = (0..20).any(|_| {
        let before = t.class("voice", "express");
        let trial = bed.run(Pps(2_000.0), length, &Threads::default());
        let received = trial.unwrap().classes[0].received;
        assert!(received > 0.0);
        let express = (t.class("voice", "express") - before) as f64;
        tried.push((express, received));
        express > received / 2.0
    });
    assert!(
        most_were_express,
        "express of received: {tried:?}, {:?}",
        t.status_json()
    );
    let rules = t.must(Place::Router, "nft list ruleset");
    let accepted = rules.find("ct state established,related accept");
    assert!(accepted < rules.find("counter"), "it comes first: {rules}");
}
