//! The mirror of routes against the kernel's own answers, in a network namespace. Needs root.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::process::{Command, Stdio};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_engine::{Decision, Mirror, Neighbours};
use rxlane_system::routes::{self, Kind, Lookups, Monitor, NextHop};
use rxlane_system::{links, neighbours, netns};

struct Namespace(String);

impl Namespace {
    /// Two links, each with both ends here.
    fn new(name: &str) -> Self {
        let this = Self(format!("rxlane-{name}-{}", std::process::id()));
        run(&format!("ip netns add {}", this.0));
        this.ip("link set lo up
            link add a0 type veth peer name b0
            link add a1 type veth peer name b1
            link set a0 up
            link set b0 up
            link set a1 up
            link set b1 up
            addr add 10.1.0.1/24 dev a0
            addr add 10.2.0.1/24 dev a1
            addr add 2001:db8:1::1/64 dev a0 nodad
            addr add 2001:db8:2::1/64 dev a1 nodad");
        this
    }

    /// Lines for `ip`; what it refuses is none of our business.
    fn ip(&self, lines: &str) {
        let mut child = Command::new("ip")
            .args(["-netns", &self.0, "-force", "-batch", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(lines.as_bytes())
            .unwrap();
        child.wait().unwrap();
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(&format!("ip netns del {}", self.0));
    }
}

fn run(command: &str) {
    let words: Vec<&str> = command.split(' ').collect();
    let status = Command::new(words[0]).args(&words[1..]).status().unwrap();
    assert!(status.success(), "{command}");
}

/// Few bits vary, so that routes nest and meet.
fn address4(rng: &mut Pcg64Mcg) -> Ipv4Addr {
    let n: u32 = rng.random();
    Ipv4Addr::from(
        20 << 24 | (n & 0x7) << 21 | (n >> 3 & 0x3f) << 14 | (n >> 9 & 0xff) << 6 | n >> 28,
    )
}

fn address6(rng: &mut Pcg64Mcg) -> Ipv6Addr {
    let n: u128 = rng.random();
    Ipv6Addr::from(0x2001_0db9u128 << 96 | (n & 0xff) << 88 | (n >> 8 & 0xff) << 60 | n >> 8 & 0xff)
}

/// A line that adds, changes or removes a route.
fn line(rng: &mut Pcg64Mcg, verb: &str) -> String {
    let v6 = rng.random_bool(0.3);
    let net = if v6 {
        let len = rng.random_range(33..=128);
        ipnet::IpNet::new(address6(rng).into(), len)
            .unwrap()
            .trunc()
    } else {
        let len = rng.random_range(8..=32);
        ipnet::IpNet::new(address4(rng).into(), len)
            .unwrap()
            .trunc()
    };
    let gateway = |i: u32, host: u32| {
        if v6 {
            format!("via 2001:db8:{}::{host} dev a{i}", i + 1)
        } else {
            format!("via 10.{}.0.{host} dev a{i}", i + 1)
        }
    };
    let metric = [10, 10, 20][rng.random_range(0..3)];
    if verb == "del" {
        let metric = [10, 15, 20][rng.random_range(0..3)];
        return format!("route del {net} metric {metric}");
    }
    let host = rng.random_range(2..6);
    match rng.random_range(0..10) {
        // With a metric of their own: the kernel's dump leaves out an IPv6 route that stands between two hops
        // of another, as one of the same metric can.
        0 => format!("route {verb} unreachable {net} metric 15"),
        1 => format!("route {verb} blackhole {net} metric 15"),
        2..5 => format!(
            "route {verb} {net} metric {metric} nexthop {} weight {} nexthop {} weight 1",
            gateway(0, host),
            rng.random_range(1..4),
            gateway(1, host)
        ),
        _ => format!(
            "route {verb} {net} metric {metric} {}",
            gateway(host % 2, host)
        ),
    }
}

/// Whether the mirror has the hops of the kernel in its order; for IPv6 the kernel names the hop that it would take first. One
/// that is dead may be missing, and may have come alive without news.
fn agrees(mirror: &[NextHop], kernel: &[NextHop], address: IpAddr) -> bool {
    let in_order = |hops: &[NextHop], dead_too: bool| {
        let hops = hops.iter().filter(|h| dead_too || !h.dead);
        let mut hops: Vec<_> = hops.map(|h| (h.ifindex, h.gateway, h.weight)).collect();
        if address.is_ipv6() {
            hops.sort();
        }
        hops
    };
    let ours = in_order(mirror, true);
    ours == in_order(kernel, true) || ours == in_order(kernel, false)
}

/// The mirror's answers are the kernel's, for so many random addresses.
fn agree(mirror: &Mirror, kernel: &Lookups, rng: &mut Pcg64Mcg, count: usize) {
    let mut reader = mirror.reader();
    let (mut forwarded, mut left) = (0, 0);
    for i in 0..count {
        let address: IpAddr = match i % 20 {
            0 => Ipv4Addr::from(rng.random::<u32>()).into(),
            1 => "10.1.0.1".parse().unwrap(),
            2 => "10.2.0.77".parse().unwrap(),
            3 => "2001:db8:1::1".parse().unwrap(),
            4 => "127.0.0.9".parse().unwrap(),
            5..10 => address6(rng).into(),
            _ => address4(rng).into(),
        };
        let expected = kernel.of(address).unwrap();
        let expected: Option<Vec<_>> = expected.filter(|r| r.kind == Kind::Unicast).map(|r| r.hops);
        match (reader.decide(address), expected) {
            (Decision::Kernel, None) => left += 1,
            (Decision::Forward(group), Some(hops)) if agrees(group.hops(), &hops, address) => {
                forwarded += 1
            }
            (decision, expected) => panic!("{address}: {decision:?}, kernel {expected:?}"),
        }
    }
    assert!(
        forwarded > count / 10 && left > count / 10,
        "{forwarded} forwarded, {left} left"
    );
}

fn load(mirror: &mut Mirror) {
    mirror.load(|found| routes::all(found)).unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_hundred_thousand_answers_are_the_kernel_s_while_routes_flap() {
    let namespace = Namespace::new("mirror");
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let lines: Vec<String> = (0..8000).map(|_| line(&mut rng, "append")).collect();
    namespace.ip(&lines.join("\n"));
    netns::within(&namespace.0, false, || {
        let mut monitor = Monitor::new().unwrap();
        let kernel = Lookups::new().unwrap();
        let mut mirror = Mirror::default();
        load(&mut mirror);
        // RXLANE_EVERY=3 asks a third of it.
        let every = std::env::var("RXLANE_EVERY").map_or(1, |n| n.parse().expect("a number"));
        agree(&mirror, &kernel, &mut rng, 60_000 / every);
        for _ in 0..40 / every {
            let lines: Vec<String> = (0..200)
                .map(|_| {
                    let verb = ["add", "append", "prepend", "replace", "del", "del"]
                        [rng.random_range(0..6)];
                    line(&mut rng, verb)
                })
                .collect();
            namespace.ip(&lines.join("\n"));
            let mut events = Vec::new();
            assert!(monitor.drain(|e| events.push(e)).unwrap(), "news were lost");
            assert!(!events.is_empty());
            mirror.apply(&events);
            agree(&mirror, &kernel, &mut rng, 1000);
        }
        // What was followed is what would be read anew.
        assert_eq!(mirror.load(|found| routes::all(found)).unwrap(), 0);
        Ok(())
    })
    .unwrap();
}

/// A line about nexthop objects and routes through them. Of a route made through a blackhole the mirror does not know
/// whether it is one by itself; it stays the kernel's, so this draws none.
fn nexthop_line(rng: &mut Pcg64Mcg) -> String {
    let id = rng.random_range(1..9);
    let group = rng.random_range(20..24);
    let (i, host) = (rng.random_range(0..2), rng.random_range(2..6));
    let v6 = id % 2 == 0;
    let via = match v6 {
        true => format!("via 2001:db8:{}::{host} dev a{i}", i + 1),
        false => format!("via 10.{}.0.{host} dev a{i}", i + 1),
    };
    let net = if v6 {
        format!("2001:db9:{}::/48", rng.random_range(0..6))
    } else {
        format!("20.{}.0.0/16", rng.random_range(0..6))
    };
    let of = if rng.random_bool(0.3) {
        // Groups of one family, as routes of the other cannot use them.
        group - group % 2 + u32::from(!v6)
    } else {
        id
    };
    let (a, b) = (id, (id + 2 * rng.random_range(0..2) - 1) % 8 + 1);
    match rng.random_range(0..9) {
        0 | 1 => format!("nexthop replace id {id} {via}"),
        2 => format!("nexthop del id {id}"),
        3 | 4 => format!("nexthop replace id {group} group {a}/{b},2"),
        5 => format!("nexthop replace id {group} group {a}"),
        6 => format!("nexthop del id {group}"),
        7 => format!("route del {net} metric 9"),
        _ => format!("route replace {net} nhid {of} metric 9"),
    }
}

/// News until now, applied; false when the kernel's routes must be read anew.
fn followed(mirror: &mut Mirror, monitor: &mut Monitor) -> bool {
    let mut events = Vec::new();
    let complete = monitor.drain(|e| events.push(e)).unwrap();
    if complete {
        mirror.apply(&events);
    }
    complete
}

#[test]
#[ignore = "needs root: make test"]
fn routes_follow_their_nexthop_objects_whether_or_not_routes_carry_hops() {
    for compatible in ["1", "0"] {
        let namespace = Namespace::new(&format!("mirror-nh{compatible}"));
        let mut rng = Pcg64Mcg::seed_from_u64(3);
        netns::within(&namespace.0, false, || {
            rxlane_system::sysctl::write("net.ipv4.nexthop_compat_mode", compatible)?;
            let mut monitor = Monitor::new()?;
            let mut mirror = Mirror::default();
            load(&mut mirror);
            let mut some = 0;
            for round in 0..60 {
                let lines: Vec<String> = (0..12).map(|_| nexthop_line(&mut rng)).collect();
                namespace.ip(&lines.join("\n"));
                assert!(followed(&mut mirror, &mut monitor), "news were lost");
                let mut reader = mirror.reader();
                for i in 0..6u8 {
                    for address in [
                        IpAddr::from([20, i, 0, 1]),
                        format!("2001:db9:{i}::1").parse().unwrap(),
                    ] {
                        some += u32::from(reader.decide(address) != Decision::Kernel);
                    }
                }
                let missed = mirror.load(|found| routes::all(found)).unwrap();
                assert_eq!(missed, 0, "compat {compatible}, round {round}: {lines:#?}");
            }
            assert!(some > 50, "{some} ways were known");
            Ok(())
        })
        .unwrap();
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_route_that_carries_only_the_number_of_a_nexthop_object_takes_its_way() {
    let namespace = Namespace::new("mirror-nhid");
    netns::within(&namespace.0, false, || {
        rxlane_system::sysctl::write("net.ipv4.nexthop_compat_mode", "0")?;
        let mut monitor = Monitor::new()?;
        let mut mirror = Mirror::default();
        namespace.ip("route add default via 10.1.0.9
            nexthop add id 10 via 10.2.0.3 dev a1
            nexthop add id 11 via 10.2.0.4 dev a1
            nexthop add id 12 group 10/11
            nexthop add id 13 via 10.2.0.5 dev a1
            route add 20.0.0.0/8 nhid 10
            route add 19.0.0.0/8 nhid 13
            route add 21.0.0.0/8 nhid 12");
        load(&mut mirror);
        let mut reader = mirror.reader();
        let mut ways = |address: [u8; 4]| -> Vec<String> {
            match reader.decide(address.into()) {
                Decision::Kernel => vec!["kernel".into()],
                Decision::Forward(group) => {
                    let gateway = |h: &NextHop| h.gateway.unwrap().to_string();
                    group.hops().iter().map(gateway).collect()
                }
            }
        };
        assert_eq!(ways([20, 0, 0, 1]), ["10.2.0.3"]);
        assert_eq!(ways([21, 0, 0, 1]), ["10.2.0.3", "10.2.0.4"]);
        assert_eq!(ways([22, 0, 0, 1]), ["10.1.0.9"], "the default route");
        namespace.ip("nexthop replace id 10 via 10.1.0.5 dev a0");
        assert!(followed(&mut mirror, &mut monitor));
        assert_eq!(ways([20, 0, 0, 1]), ["10.1.0.5"]);
        assert_eq!(ways([21, 0, 0, 1]), ["10.1.0.5", "10.2.0.4"]);
        assert_eq!(ways([19, 0, 0, 1]), ["10.2.0.5"]);
        namespace.ip("nexthop replace id 13 blackhole");
        assert!(followed(&mut mirror, &mut monitor));
        assert_eq!(ways([19, 0, 0, 1]), ["kernel"], "not the default route");
        namespace.ip("nexthop del id 11");
        assert!(followed(&mut mirror, &mut monitor));
        namespace.ip("nexthop del id 10");
        assert!(followed(&mut mirror, &mut monitor));
        assert_eq!(ways([20, 0, 0, 1]), ["10.1.0.9"], "the route is gone");
        assert_eq!(ways([21, 0, 0, 1]), ["10.1.0.9"], "and so is the group's");
        Ok(())
    })
    .unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_prefix_with_a_route_by_source_or_of_equal_preference_is_the_kernel_s() {
    let namespace = Namespace::new("mirror-from");
    netns::within(&namespace.0, false, || {
        let mut monitor = Monitor::new()?;
        let mut mirror = Mirror::default();
        namespace.ip("route add 2001:db9::/32 via 2001:db8:1::2 dev a0
            route add 2001:db9:1::/48 via 2001:db8:1::2 dev a0
            route add 2001:db9:2::/48 via 2001:db8:1::2 dev a0 metric 1024
            route add 20.0.0.0/8 via 10.1.0.2 dev a0 mtu 1300
            route add default via 10.1.0.2 dev a0
            route append default via 10.2.0.2 dev a1");
        load(&mut mirror);
        let mut reader = mirror.reader();
        let mut known = |address: &str| match reader.decide(address.parse().unwrap()) {
            Decision::Kernel => None,
            Decision::Forward(group) => Some(group.mtu()),
        };
        assert_eq!(known("20.0.0.1"), Some(Some(1300)));
        assert_eq!(
            known("21.0.0.1"),
            None,
            "of two default routes one that answers"
        );
        assert_eq!(known("2001:db9:1::1"), Some(None));
        namespace.ip(
            "route add 2001:db9:1::/48 from 2001:db8:2::/64 via 2001:db8:2::2 dev a1
            route append unreachable 2001:db9:2::/48 metric 1024",
        );
        for from_news in [true, false] {
            if from_news {
                assert!(followed(&mut mirror, &mut monitor));
            } else {
                load(&mut mirror);
            }
            assert_eq!(known("2001:db9:1::1"), None, "by source: {from_news}");
            assert_eq!(known("2001:db9:2::1"), None, "two of a metric: {from_news}");
            assert_eq!(known("2001:db9:3::1"), Some(None));
        }
        namespace.ip("route del 2001:db9:1::/48 from 2001:db8:2::/64");
        assert!(followed(&mut mirror, &mut monitor));
        assert_eq!(known("2001:db9:1::1"), Some(None), "the other stays");
        Ok(())
    })
    .unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn routes_that_go_with_an_address_are_noticed() {
    let namespace = Namespace::new("mirror-address");
    netns::within(&namespace.0, false, || {
        let mut monitor = Monitor::new()?;
        let mut mirror = Mirror::default();
        namespace.ip("route add 20.0.0.0/8 via 10.2.0.2 dev a1");
        load(&mut mirror);
        assert!(followed(&mut mirror, &mut monitor));
        namespace.ip("addr del 10.2.0.1/24 dev a1");
        assert!(!followed(&mut mirror, &mut monitor), "read everything anew");
        load(&mut mirror);
        let gone = mirror.reader().decide(IpAddr::from([20, 0, 0, 1])) == Decision::Kernel;
        assert!(gone, "without any news of its own");
        Ok(())
    })
    .unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_link_that_goes_down_takes_its_routes_along_and_brings_them_back() {
    let namespace = Namespace::new("mirror-link");
    let mut rng = Pcg64Mcg::seed_from_u64(2);
    let lines: Vec<String> = (0..2000).map(|_| line(&mut rng, "append")).collect();
    namespace.ip(&lines.join("\n"));
    netns::within(&namespace.0, false, || {
        let mut monitor = Monitor::new().unwrap();
        let kernel = Lookups::new().unwrap();
        let mut mirror = Mirror::default();
        load(&mut mirror);
        let a1 = links::by_name("a1").unwrap().ifindex;
        namespace.ip("link set a1 down");
        let mut events = Vec::new();
        monitor.drain(|e| events.push(e)).unwrap();
        mirror.apply(&events);
        mirror.link_down(a1);
        agree(&mirror, &kernel, &mut rng, 5000);
        namespace.ip("link set a1 up");
        load(&mut mirror);
        agree(&mirror, &kernel, &mut rng, 5000);
        Ok(())
    })
    .unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn neighbours_are_known_while_the_kernel_would_send_to_them() {
    let namespace = Namespace::new("mirror-neighbours");
    let there = Namespace(format!("{}-there", namespace.0));
    run(&format!("ip netns add {}", there.0));
    namespace.ip(&format!("link set b0 netns {}", there.0));
    there.ip("link set b0 up
        addr add 10.1.0.2/24 dev b0
        addr add 2001:db8:1::2/64 dev b0 nodad");
    netns::within(&namespace.0, false, || {
        let a0 = links::by_name("a0").unwrap().ifindex;
        let mut monitor = neighbours::Monitor::new().unwrap();
        let mut mirror = Neighbours::default();
        let mut reader = mirror.reader();
        let all = || {
            let mut found = Vec::new();
            neighbours::all(|n| found.push(n)).unwrap();
            // The kernel has multicast addresses there, and does not announce them.
            found.retain(|n| !n.address.is_multicast());
            found
        };
        mirror.load(all());
        let [v4, v6, by_hand]: [IpAddr; 3] =
            ["10.1.0.2", "2001:db8:1::2", "10.1.0.9"].map(|a| a.parse().unwrap());
        let mut follow = |mirror: &mut Neighbours| {
            let mut changes = Vec::new();
            assert!(monitor.drain(|n| changes.push(n)).unwrap());
            mirror.apply(changes);
        };
        assert_eq!(reader.mac(a0, v4), None);
        // The kernel asks for them when somebody sends.
        for address in [v4, v6] {
            run(&format!("ping -q -c 1 -W 5 {address}"));
        }
        namespace.ip("neigh add 10.1.0.9 lladdr 02:00:00:00:00:09 dev a0");
        follow(&mut mirror);
        let mac = reader.mac(a0, v4).unwrap();
        assert_eq!(
            (reader.mac(a0, v6), reader.mac(a0, by_hand)),
            (Some(mac), Some([2, 0, 0, 0, 0, 9]))
        );
        assert_eq!(
            mirror.load(all()),
            0,
            "what was followed is what would be read anew"
        );
        namespace.ip("neigh del 10.1.0.9 dev a0\nneigh del 10.1.0.2 dev a0");
        follow(&mut mirror);
        assert_eq!((reader.mac(a0, v4), reader.mac(a0, by_hand)), (None, None));
        namespace.ip("link set a0 down");
        follow(&mut mirror);
        assert_eq!(
            reader.mac(a0, v6),
            None,
            "a link that is down has no neighbours"
        );
        Ok(())
    })
    .unwrap();
}
