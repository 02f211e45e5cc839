//! Neighbours that only express traffic uses are confirmed as Linux confirms those that it uses itself.

use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, wait_for};

const PREFIX: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = { prefixes = [\"10.10.0.0/24\", \"fd10::/64\"] }\nmatch = [{ protocol = [\"udp\"] }]\n";

/// What the router knows of the sink.
fn state(t: &TestLab, address: &str) -> String {
    t.must(Place::Router, &format!("ip neigh show {address} dev out0"))
}

#[test]
#[ignore = "needs root: make test"]
fn a_host_that_was_silently_replaced_is_found_again_though_only_express_packets_go_to_it() {
    let mut t = TestLab::up("replaced", |_| ());
    t.must(
        Place::Router,
        "sysctl -q -w net.ipv4.neigh.out0.delay_first_probe_time=1 net.ipv4.neigh.out0.retrans_time_ms=100 net.ipv6.neigh.out0.delay_first_probe_time=1 net.ipv6.neigh.out0.retrans_time_ms=100",
    );
    let _router = t.router(&(PREFIX.to_owned() + REST));
    for (caller, sink) in [("10.10.0.2", "10.20.0.2"), ("fd10::2", "fd20::2")] {
        let bracketed = |a: &str| {
            if a.contains(':') {
                format!("[{a}]")
            } else {
                a.to_owned()
            }
        };
        let from = test_lab::udp(&t, Place::Gen, &format!("{}:6000", bracketed(caller)));
        let to = test_lab::udp(&t, Place::Sink, &format!("{}:7000", bracketed(sink)));
        let says = || {
            from.send_to(b"said", to.local_addr().unwrap())
                .expect("sent");
            to.recv(&mut [0; 64]).is_ok()
        };
        // Nobody says that the host has another address now, and it was there a moment ago.
        let mac = t
            .must(Place::Sink, "cat /sys/class/net/snk0/address")
            .trim()
            .to_owned();
        let stale = format!("ip neigh replace {sink} dev out0 lladdr {mac} nud stale");
        t.must(Place::Router, &stale);
        t.settle(1, || assert!(says()));
        t.must(Place::Sink, "ip link set snk0 address 02:00:00:00:0e:01");
        t.must(Place::Router, &stale);
        assert!(!says(), "the address is another one");
        wait_for("the new address is known", says);
        assert!(
            state(&t, sink).contains("02:00:00:00:0e:01"),
            "{}",
            state(&t, sink)
        );
        t.must(Place::Sink, &format!("ip link set snk0 address {mac}"));
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_permanent_neighbour_stays_permanent() {
    let mut t = TestLab::up("permanent", |_| ());
    let mac = t
        .must(Place::Sink, "cat /sys/class/net/snk0/address")
        .trim()
        .to_owned();
    t.must(
        Place::Router,
        &format!("ip neigh replace 10.20.0.2 dev out0 lladdr {mac} nud permanent"),
    );
    let _router = t.router(&(PREFIX.to_owned() + REST));
    let from = test_lab::udp(&t, Place::Gen, "10.10.0.2:6000");
    let to = test_lab::udp(&t, Place::Sink, "10.20.0.2:7000");
    let says = || {
        from.send_to(b"said", "10.20.0.2:7000").expect("sent");
        assert!(to.recv(&mut [0; 64]).is_ok());
    };
    t.settle(1, says);
    let before = t.class("voice", "express");
    for _ in 0..30 {
        says();
        std::thread::sleep(std::time::Duration::from_millis(100));
    }
    assert!(t.class("voice", "express") >= before + 29);
    assert!(
        state(&t, "10.20.0.2").contains("PERMANENT"),
        "{}",
        state(&t, "10.20.0.2")
    );
}
