//! The AF_XDP engine on real packets: strategies, exceptions, routes that change, ports that come and go.
//!
//! Needs root and the lab's tools (`make setup`).

use std::net::UdpSocket;
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::Place;
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use test_lab::{TestLab, error_of, undisturbed, wait_for};

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
        frame: Frame::Fixed(128),
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
    let every = std::env::var("RXLANE_EVERY").map_or(1, |n| n.parse().expect("a number"));
    let all = [
        "strategy = \"sq\"",
        "strategy = \"rr\"",
        "strategy = \"ll-rr\"",
        "strategy = \"ll-wfq\"",
        "priority = \"global\"",
        "itr = \"linear\"",
        "itr = { algorithm = \"static\", interval_ns = 50000 }",
        "itr = \"three-state\"\ncopy = \"always\"",
    ];
    // RXLANE_EVERY=3 tries a third of them.
    for keys in all.into_iter().step_by(every) {
        let router = t.router(&forwarding(keys));
        for options in ["-4 10.20.0.2", "-Q 0xb8 10.20.0.2", "-6 fd20::2"] {
            let out = t.must(Place::Gen, &format!("ping -c 5 -i 0.02 -W 2 {options}"));
            assert!(out.contains(" 0% packet loss"), "{keys}: {out}");
        }
        let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
        let length = Duration::from_millis(500);
        let trial = undisturbed(|| bed.run(RATE, length, &Threads::default()).unwrap());
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
    // The host has learned the path's MTU, and would send nothing greater.
    wait_for("the engine leaves it to the kernel", || {
        t.exec(
            Place::Gen,
            "ip route flush cache; ping -c 1 -W 1 -M do -s 1372 10.20.0.2",
        );
        to_kernel(&t, "mtu") > 0
    });
}

/// Frames that a port of the sink has received.
fn received(t: &TestLab, port: &str) -> u64 {
    let line = format!("cat /sys/class/net/{port}/statistics/rx_packets");
    t.must(Place::Sink, &line).trim().parse().unwrap()
}

/// A router with two ways to the sink, whose hosts are 198.51.100.1 and 2001:db8::1, and neighbours that it knows.
fn two_ways(name: &str) -> TestLab {
    let t = TestLab::up(name, |c| c.ports = 2);
    t.must(
        Place::Sink,
        "ip addr add 198.51.100.1/32 dev lo; ip -6 addr add 2001:db8::1/128 dev lo nodad; ip link set lo up; sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.snk0.rp_filter=0 net.ipv4.conf.snk1.rp_filter=0",
    );
    t.must(
        Place::Router,
        "ping -q -c 1 10.20.0.2; ping -q -c 1 10.20.1.2; ping -q -6 -c 1 fd20::2; ping -q -6 -c 1 fd20:1::2; sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.out0.rp_filter=0 net.ipv4.conf.out1.rp_filter=0",
    );
    t.must(
        Place::Gen,
        "ip route add 198.51.100.0/24 via 10.10.0.1; ip -6 route add 2001:db8::/64 via fd10::1",
    );
    t
}

/// Which of the two ports of the sink ten datagrams for an address arrive at, and how many of them the engine forwarded.
fn way(t: &TestLab, to: &str) -> (Vec<&'static str>, u64) {
    const PORTS: [&str; 2] = ["snk0", "snk1"];
    let forwarded = worker(t, "forwarded");
    let before = PORTS.map(|port| received(t, port));
    let line = format!("for i in 1 2 3 4 5 6 7 8 9 10; do echo x >/dev/udp/{to}/9; done");
    t.must(Place::Gen, &format!("bash -c '{line}'"));
    std::thread::sleep(Duration::from_millis(100));
    let arrived = |at: usize| received(t, PORTS[at]) >= before[at] + 10;
    let ports = (0..2).filter(|at| arrived(*at)).map(|at| PORTS[at]);
    (ports.collect(), worker(t, "forwarded") - forwarded)
}

/// The way of an address becomes that through a port, by the engine or by the kernel.
fn comes_to(t: &TestLab, what: &str, to: &str, port: &str, by_engine: bool) {
    wait_for(what, || {
        let (ports, forwarded) = way(t, to);
        ports == [port] && (forwarded >= 10) == by_engine
    });
}

#[test]
#[ignore = "needs root: make test"]
fn a_route_that_names_only_a_nexthop_object_is_followed_and_never_the_default_route() {
    let mut t = two_ways("nexthops");
    t.must(
        Place::Router,
        "sysctl -q -w net.ipv4.nexthop_compat_mode=0; ip route add default via 10.20.1.2; ip nexthop add id 10 via 10.20.0.2 dev out0; ip nexthop add id 11 via 10.20.1.2 dev out1; ip nexthop add id 12 group 10; ip route add 198.51.100.0/24 nhid 12",
    );
    let _router = t.router(&forwarding(""));
    let to = "198.51.100.1";
    comes_to(&t, "the object's way is taken", to, "snk0", true);
    t.must(Place::Router, "ip nexthop replace id 12 group 11");
    comes_to(&t, "the group is another", to, "snk1", true);
    t.must(
        Place::Router,
        "ip nexthop replace id 11 via 10.20.0.2 dev out0",
    );
    comes_to(&t, "its member is another", to, "snk0", true);
    t.must(Place::Router, "ip nexthop replace id 12 group 10/11");
    comes_to(&t, "several share it", to, "snk0", false);
    t.must(Place::Router, "ip nexthop del id 12");
    comes_to(&t, "the route is gone with its object", to, "snk1", true);
}

#[test]
#[ignore = "needs root: make test"]
fn several_hops_and_routes_by_source_are_shared_out_by_the_kernel() {
    let mut t = two_ways("sources");
    t.must(
        Place::Router,
        "ip route add 198.51.100.0/24 nexthop via 10.20.0.2 dev out0 nexthop via 10.20.1.2 dev out1; ip -6 route add 2001:db8::/32 via fd20::2 dev out0; ip -6 route add 2001:db8::/64 from fd10::/64 via fd20:1::2 dev out1",
    );
    let _router = t.router(&forwarding(""));
    let before = to_kernel(&t, "by_kernel");
    let (_, forwarded) = way(&t, "198.51.100.1");
    // Errors that come back are the engine's.
    assert!(
        forwarded < 10,
        "only the kernel knows its hash: {forwarded}"
    );
    assert!(to_kernel(&t, "by_kernel") >= before + 10);
    let to = "2001:db8::1";
    comes_to(&t, "the kernel looks at the source", to, "snk1", false);
    t.must(
        Place::Router,
        "ip -6 route del 2001:db8::/64 from fd10::/64",
    );
    comes_to(&t, "the route by source is gone", to, "snk0", true);
}

#[test]
#[ignore = "needs root: make test"]
fn routes_that_go_with_an_address_or_a_carrier_are_no_longer_used() {
    let mut t = two_ways("addresses");
    t.must(
        Place::Router,
        "sysctl -q -w net.ipv4.conf.out0.ignore_routes_with_linkdown=1; ip route add 198.51.100.0/24 via 10.20.0.2 metric 10; ip route add 198.51.100.0/24 via 10.20.1.2 metric 20",
    );
    let _router = t.router(&forwarding(""));
    let to = "198.51.100.1";
    comes_to(&t, "the better route is taken", to, "snk0", true);
    t.must(Place::Sink, "ip link set snk0 down");
    let arrives_by_snk1 = || {
        let before = received(&t, "snk1");
        t.must(Place::Gen, &format!("bash -c 'echo x >/dev/udp/{to}/9'"));
        std::thread::sleep(Duration::from_millis(50));
        received(&t, "snk1") > before
    };
    wait_for("the kernel passes over it", arrives_by_snk1);
    t.must(Place::Sink, "ip link set snk0 up");
    t.must(Place::Router, "ping -q -c 1 -W 5 10.20.0.2");
    comes_to(&t, "the carrier is back", to, "snk0", true);
    // With its last address all routes through a port go, and nobody tells.
    t.must(Place::Router, "ip addr del 10.20.0.1/24 dev out0");
    comes_to(&t, "the other route is taken", to, "snk1", true);
}

#[test]
#[ignore = "needs root: make test"]
fn a_route_s_mtu_is_announced_by_the_kernel() {
    let mut t = two_ways("routemtu");
    t.must(
        Place::Router,
        "ip route add 198.51.100.0/24 via 10.20.0.2 mtu 1300",
    );
    let _router = t.router(&forwarding(""));
    comes_to(
        &t,
        "small packets are forwarded",
        "198.51.100.1",
        "snk0",
        true,
    );
    wait_for("the MTU is announced", || {
        let out = t.exec(Place::Gen, "ping -c 1 -W 1 -M do -s 1372 198.51.100.1");
        let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
        text.contains("mtu = 1300") || text.contains("mtu=1300")
    });
    assert!(to_kernel(&t, "mtu") > 0);
}

/// A filter of traffic control that sends all that is to leave a port of the router out of another.
#[allow(unsafe_code)]
fn redirect_all(t: &TestLab, from: &str, to: &str) {
    use libbpf_rs::libbpf_sys as sys;
    const PIN: &str = "/sys/fs/bpf/rxlane-t-redirect";
    let line = format!("cat /sys/class/net/{to}/ifindex");
    let ifindex: u64 = t.must(Place::Router, &line).trim().parse().unwrap();
    // r1 = ifindex, r2 = 0, bpf_redirect(r1, r2), exit.
    let program: [u64; 4] = [
        ifindex << 32 | 0x01b7,
        0x02b7,
        u64::from(sys::BPF_FUNC_redirect) << 32 | 0x85,
        0x95,
    ];
    let kind = sys::BPF_PROG_TYPE_SCHED_CLS;
    // SAFETY: four instructions of eight bytes, and strings that end with a zero.
    let pinned = unsafe {
        let fd = sys::bpf_prog_load(
            kind,
            c"redirect".as_ptr(),
            c"GPL".as_ptr(),
            program.as_ptr().cast(),
            program.len() as _,
            std::ptr::null_mut(),
        );
        let path = std::ffi::CString::new(PIN).unwrap();
        let pinned = sys::bpf_obj_pin(fd, path.as_ptr());
        nix::libc::close(fd);
        pinned
    };
    assert_eq!(pinned, 0, "{}", std::io::Error::last_os_error());
    let netns = t.lab.netns(Place::Router);
    let added = rxlane_system::netns::within(&netns, false, || {
        let filter = format!("filter add dev {from} egress bpf da object-pinned {PIN}");
        let mut tc = std::process::Command::new("tc");
        Ok(tc.args(filter.split(' ')).status().expect("tc"))
    });
    std::fs::remove_file(PIN).unwrap();
    assert!(added.unwrap().success());
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_that_linux_sends_out_of_another_port_is_not_sent_by_the_mirror() {
    let mut t = TestLab::up("elsewhere", |c| c.ports = 2);
    let mac = t.must(Place::Sink, "cat /sys/class/net/snk0/address");
    t.must(
        Place::Sink,
        &format!("ip link set snk1 address {}; sysctl -q -w net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.snk0.rp_filter=0 net.ipv4.conf.snk1.rp_filter=0", mac.trim()),
    );
    t.must(
        Place::Router,
        "nft 'table inet fw { chain forwarded { type filter hook forward priority 0; policy drop; ct state established,related accept; iifname in0 accept; }; }'",
    );
    t.must(
        Place::Router,
        &format!(
            "ip neigh replace 10.20.0.2 lladdr {} dev out0 nud permanent; tc qdisc add dev out0 clsact",
            mac.trim()
        ),
    );
    // Nor would answers to whoever asks for the router's address come back.
    let own = t.must(Place::Router, "cat /sys/class/net/out0/address");
    t.must(
        Place::Sink,
        &format!(
            "ip neigh replace 10.20.0.1 lladdr {} dev snk0 nud permanent",
            own.trim()
        ),
    );
    redirect_all(&t, "out0", "out1");
    let established = RT.replace("\"all\"", "\"established\"");
    let established = established.replace("dscp = \"EF\"", "protocol = \"udp\"");
    let _router = t.router(&engine("", &(established + BE_BY_STACK)));
    let socket = |place, address: &str| {
        let netns = t.lab.netns(place);
        rxlane_system::netns::within(&netns, false, || {
            Ok(UdpSocket::bind(address).expect("a socket"))
        })
        .expect("the namespace")
    };
    let (caller, called) = ("10.10.0.2:6000", "10.20.0.2:7000");
    let (gen_socket, sink_socket) = (socket(Place::Gen, caller), socket(Place::Sink, called));
    for socket in [&gen_socket, &sink_socket] {
        let patience = Some(Duration::from_millis(500));
        socket.set_read_timeout(patience).unwrap();
    }
    let talk = |times: u64| {
        for _ in 0..times {
            gen_socket.send_to(b"said", called).unwrap();
            assert!(sink_socket.recv(&mut [0; 64]).is_ok(), "it arrives");
            sink_socket.send_to(b"answer", caller).unwrap();
            assert!(gen_socket.recv(&mut [0; 64]).is_ok(), "it is answered");
        }
    };
    // At first the router knows of no tracked flow, and the kernel forwards.
    wait_for("the engine forwards answers", || {
        let before = worker(&t, "forwarded");
        talk(5);
        worker(&t, "forwarded") > before
    });
    let (first, second) = (received(&t, "snk0"), received(&t, "snk1"));
    let forwarded = worker(&t, "forwarded");
    talk(20);
    assert!(received(&t, "snk1") >= second + 20, "where Linux sends it");
    assert!(received(&t, "snk0") < first + 10, "and not elsewhere");
    let answers = worker(&t, "forwarded") - forwarded;
    assert!(answers >= 15, "the engine forwards the answers: {answers}");
}

#[test]
#[ignore = "needs root: make test"]
fn an_mtu_that_grows_while_the_engine_runs_is_that_of_its_packets_for_the_kernel() {
    let mut t = TestLab::up("wider", |_| ());
    let _router = t.router(&forwarding(""));
    let mtu_of = |name: &str| -> u32 {
        let line = format!("cat /sys/class/net/{name}/mtu");
        t.must(Place::Router, &line).trim().parse().unwrap()
    };
    // As much more as a VLAN tag is long: what Linux takes, tag or none.
    assert_eq!(mtu_of("rxlane-up"), 1504);
    t.must(Place::Gen, "ip link set gen0 mtu 1504");
    let out = t.must(Place::Gen, "ping -c 3 -i 0.2 -W 2 -M do -s 1476 10.10.0.1");
    assert!(out.contains(" 0% packet loss"), "{out}");
    for (place, port) in [
        (Place::Gen, "gen0"),
        (Place::Router, "in0"),
        (Place::Router, "out0"),
        (Place::Sink, "snk0"),
    ] {
        t.must(place, &format!("ip link set {port} mtu 3000"));
    }
    wait_for("the way into the kernel is wider", || {
        mtu_of("rxlane-up") == 3004
    });
    // To the router itself: through the engine into the kernel. Then through the engine alone.
    for to in ["10.10.0.1", "10.20.0.2", "-6 fd10::1", "-6 fd20::2"] {
        wait_for(to, || {
            let out = t.exec(Place::Gen, &format!("ping -c 1 -W 1 -M do -s 2900 {to}"));
            out.status.success()
        });
    }
    // While the daemon looks at what has changed, everything is the kernel's.
    let three = |to: &str, counted: &dyn Fn() -> u64, at_least: u64| {
        wait_for(to, || {
            let before = counted();
            let out = t.must(
                Place::Gen,
                &format!("ping -c 3 -i 0.2 -W 2 -M do -s 2900 {to}"),
            );
            assert!(out.contains(" 0% packet loss"), "{out}");
            counted() >= before + at_least
        });
    };
    three("10.10.0.1", &|| to_kernel(&t, "not_routed"), 3);
    three("10.20.0.2", &|| worker(&t, "forwarded"), 6);
    assert_eq!(worker(&t, "kernel_full"), 0, "none was refused");
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
    let mut change = || {
        for i in 0..20 {
            let metric = 100 + i;
            t.must(
                Place::Router,
                &format!("ip route add 198.19.0.0/24 via 10.20.0.2 metric {metric}; ip route add 198.19.0.0/25 via 10.20.0.2; ip route del 198.19.0.0/25; ip route del 198.19.0.0/24 metric {metric}"),
            );
        }
        for keys in ["strategy = \"sq\"", "device_budget = 32"] {
            t.config("router", &forwarding(keys));
            t.reloaded();
        }
    };
    let (length, threads) = (Duration::from_secs(2), Threads::default());
    let trial = undisturbed(|| bed.run_with(RATE, length, &threads, &mut change).unwrap());
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
    for to in ["10.20.0.2", "-Q 0xb8 10.20.1.2"] {
        let out = t.must(Place::Gen, &format!("ping -c 5 -i 0.2 -W 2 {to}"));
        assert!(out.contains(" 0% packet loss"), "{out}");
    }
    // A flow's hash chooses its queue. What comes before a worker knows the neighbour is the kernel's.
    wait_for("each worker has forwarded", || {
        t.must(
            Place::Gen,
            "bash -c 'for i in 0 1; do for port in $(seq 1 40); do echo x >/dev/udp/10.20.$i.2/$port; done; done'",
        );
        let status = t.status_json().unwrap();
        let workers = status["engine"]["workers"].as_array().unwrap();
        workers.iter().all(|w| w["forwarded"].as_u64() > Some(0))
    });
    let status = t.status_json().unwrap();
    let rings = status["engine"]["rings"].as_array().unwrap();
    assert!(rings.iter().any(|r| r["queue"] == 1) && rings.iter().any(|r| r["ring"] == 1));
}

#[test]
#[ignore = "needs root: make test"]
fn a_killed_engine_leaves_the_other_lanes_and_the_next_start_takes_over() {
    let mut t = TestLab::up("killed", |_| ());
    // What an engine that is killed while it looks at a change has closed stays so.
    wait_for("one is killed that looks at none", || {
        let router = t.router(&forwarding(""));
        wait_for("it forwards", || {
            t.exec(Place::Gen, "ping -c 1 -W 1 10.20.0.2");
            worker(&t, "forwarded") > 0
        });
        router.end(Signal::SIGKILL);
        let before = t.class("be", "express");
        let out = t.must(Place::Gen, "ping -c 5 -i 0.2 -W 2 10.20.0.2");
        assert!(out.contains(" 0% packet loss"), "{out}");
        t.class("be", "express") > before
    });
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
fn queues_that_a_port_gets_while_the_engine_runs_are_told_and_served_after_a_reload() {
    let mut t = TestLab::up("morequeues", |_| ());
    let _router = t.router(&forwarding(""));
    let told = |t: &TestLab| t.status_json().unwrap()["warnings"].to_string();
    assert!(!told(&t).contains("Rx queues"), "{}", told(&t));
    // A queue of the sender's is one of the port's.
    t.must(Place::Router, "ethtool -L in0 rx 2");
    t.must(Place::Gen, "ethtool -L gen0 tx 2");
    let text = told(&t);
    assert!(
        text.contains("port `in0` has 2 Rx queues, and had 1"),
        "{text}"
    );
    // Pings come in by the first queue, what the generator's core redirects by the second.
    let forwards = |t: &TestLab| {
        let out = t.must(Place::Gen, "ping -Q 0xb8 -c 10 -i 0.01 -W 2 10.20.0.2");
        assert!(out.contains(" 0% packet loss"), "{out}");
        // The thread of a new queue is where the generator leaves it no time.
        t.lab.tune().expect("threads can be placed");
        let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
        let length = Duration::from_millis(300);
        let trial = bed.run(RATE, length, &Threads::default()).unwrap();
        assert!(trial.classes.iter().all(|class| class.received > 0.0));
    };
    let rings_of_queue = |t: &TestLab, queue: u64| {
        let status = t.status_json().unwrap();
        let rings = status["engine"]["rings"].as_array().unwrap().clone();
        let of_port = |r: &&serde_json::Value| r["port"] == "in0" && r["queue"] == queue;
        rings.iter().filter(of_port).count()
    };
    forwards(&t);
    assert_eq!(rings_of_queue(&t, 1), 0, "which are Linux's until then");
    t.reloaded();
    assert!(!told(&t).contains("Rx queues"), "{}", told(&t));
    forwards(&t);
    assert!(rings_of_queue(&t, 0) > 0 && rings_of_queue(&t, 1) > 0);
    // Back again: that the kernel refuses to take a queue from under a socket is as good.
    t.exec(Place::Gen, "ethtool -L gen0 tx 1");
    t.exec(Place::Router, "ethtool -L in0 rx 1");
    forwards(&t);
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
