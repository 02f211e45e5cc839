//! Where packets are judged: a network namespace with two ports, and classes over every field that a rule can look at.

use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rxlane_config::{Ingress, RouterConfig};
use rxlane_dataplane::options::Options;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::control::ControlRates;
use rxlane_policy::rule::{Flex, Rule};
use rxlane_system::tunnels::{Tunnel, Vxlan};

pub(crate) const IN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const PEER: [u8; 6] = [2, 0, 0, 0, 0, 7];
/// Number of the one session of PPPoE.
pub(crate) const SESSION: u16 = 0x1234;
pub(crate) const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 0, 9];
pub(crate) const OUT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const PASS: u32 = 2;
pub(crate) const REDIRECT: u32 = 4;

pub(crate) fn ip(line: &str) {
    let status = Command::new("ip")
        .args(line.split_whitespace())
        .status()
        .expect("iproute2 is installed");
    assert!(status.success(), "ip {line}");
}

/// A namespace with ports p0 (ingress) and p1, behind which 10.20.0.0/16 and 2001:db8::/32 lie.
pub(crate) fn namespace() -> u32 {
    assert!(
        nix::unistd::geteuid().is_root(),
        "needs root: run `make test`"
    );
    unshare(CloneFlags::CLONE_NEWNET).expect("a network namespace");
    for (port, mac) in [("p0", "02:00:00:00:00:01"), ("p1", "02:00:00:00:00:02")] {
        ip(&format!("link add {port} type veth peer name {port}x"));
        ip(&format!("link set {port} address {mac}"));
        // The peers must be silent: a router solicitation of theirs would be counted too.
        rxlane_system::sysctl::write(&format!("net.ipv6.conf.{port}x.disable_ipv6"), "1")
            .expect("a silent peer");
        ip(&format!("link set {port} up"));
        ip(&format!("link set {port}x up"));
        // Without it a veth does not take frames from XDP.
        let gro = Command::new("ethtool")
            .args(["-K", &format!("{port}x"), "gro", "on"])
            .status();
        assert!(gro.is_ok_and(|s| s.success()), "ethtool is installed");
    }
    ip("addr add 10.1.0.1/24 dev p0");
    ip("addr add 10.2.0.1/24 dev p1");
    ip("addr add fd02::1/64 dev p1 nodad");
    ip("neigh add 10.2.0.9 lladdr 02:00:00:00:00:09 dev p1");
    ip("neigh add fd02::9 lladdr 02:00:00:00:00:09 dev p1");
    ip("route add 10.20.0.0/16 via 10.2.0.9");
    ip("route add 2001:db8::/32 via fd02::9");
    // Sources lie behind the ingress port; what else there is behind it shows that nothing leaves where it came from.
    ip("route add default dev p0");
    ip("route add 2001:db8:1::/48 dev p0");
    for (name, value) in [
        ("net.ipv4.ip_forward", "1"),
        ("net.ipv6.conf.all.forwarding", "1"),
        ("net.ipv4.conf.all.rp_filter", "0"),
        ("net.ipv4.conf.p0.rp_filter", "0"),
    ] {
        rxlane_system::sysctl::write(name, value).expect("forwarding");
    }
    rxlane_system::links::by_name("p0").expect("p0").ifindex
}

pub(crate) fn express(trust: Trust) -> Lane {
    Lane::express(trust)
}

pub(crate) fn class(name: &str, lane: Lane, rules: Vec<Rule>) -> Class {
    Class::new(name, lane).with_rules(rules)
}

/// Classes over every field that a rule can look at.
pub(crate) fn classes() -> Vec<Class> {
    let nets = |list: &[&str]| list.iter().map(|n| n.parse().unwrap()).collect::<Vec<_>>();
    vec![
        class(
            "flex",
            express(Trust::All),
            vec![Rule {
                flex: Some(Flex {
                    offset: 36,
                    value: 0x1230,
                    mask: 0xfff0,
                }),
                ..Rule::default()
            }],
        ),
        class(
            "voice",
            express(Trust::All),
            vec![
                Rule {
                    dscp: Some(1 << 46 | 1 << 44),
                    protocols: Some(vec![17]),
                    ..Rule::default()
                },
                Rule {
                    dscp: Some(1 << 34),
                    dst_ports: vec![5000..=6000, 7000..=7000],
                    ..Rule::default()
                },
            ],
        ),
        class(
            "trusted",
            express(Trust::Prefixes(nets(&["10.1.0.0/25", "2001:db8:1::/48"]))),
            vec![Rule {
                src: nets(&["10.1.0.0/16", "2001:db8::/32"]),
                dscp: Some(1 << 10),
                ..Rule::default()
            }],
        ),
        class(
            "tagged",
            testing::stack_lane(),
            vec![
                Rule {
                    vlans: Some(vec![5, 4095]),
                    ..Rule::default()
                },
                Rule {
                    pcp: Some(1 << 6),
                    ..Rule::default()
                },
            ],
        ),
        class(
            "bulk",
            testing::stack_lane(),
            vec![
                Rule {
                    dst: nets(&["10.20.3.0/24", "2001:db8:7::/48"]),
                    src_ports: vec![0..=1023],
                    ..Rule::default()
                },
                Rule {
                    ports: Some(vec![1]),
                    ..Rule::default()
                },
            ],
        ),
        class("rest", testing::stack_lane(), Vec::new()),
    ]
}

pub(crate) fn start(classes: Vec<Class>) -> Router {
    start_on(&["p0", "p1"], classes)
}

pub(crate) fn start_on(ports: &[&str], classes: Vec<Class>) -> Router {
    start_with(ports, classes, ControlRates::default())
}

pub(crate) fn start_with(ports: &[&str], classes: Vec<Class>, control: ControlRates) -> Router {
    start_as(config(ports, classes, control), Options::default())
}

pub(crate) fn start_as(config: RouterConfig, options: Options) -> Router {
    Router::start(config, Path::new("test.toml"), options, || ()).unwrap_or_else(|e| panic!("{e}"))
}

pub(crate) fn config(ports: &[&str], classes: Vec<Class>, control: ControlRates) -> RouterConfig {
    RouterConfig {
        ports: ports.iter().map(|port| (*port).into()).collect(),
        classes,
        datapath: rxlane_config::Datapath::Express,
        egress: Default::default(),
        ingress: ports
            .iter()
            .map(|port| ((*port).into(), Ingress::Xdp))
            .collect(),
        control,
    }
}

/// A number from the environment; `make soak` asks for more frames than there is time for in a test.
pub(crate) fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("{variable}={text}: {e}")),
        Err(_) => otherwise,
    }
}

/// A tunnel with the TTL and the type of service of what is in it.
pub(crate) fn tunnel(protocol: u8, ends: [[u8; 4]; 2], key: Option<u32>) -> Tunnel {
    Tunnel {
        protocol,
        local: ends[0].into(),
        remote: ends[1].into(),
        key,
        link: 0,
        ttl: 0,
        tos: 1,
        discovers_mtu: false,
        besides: None,
        vxlan: None,
    }
}

/// Number and port of the one VXLAN, whose device has [`IN_MAC`]; the station that it knows, and the end of that, which is the end of all
/// that are unknown, too.
pub(crate) const VXLAN: (u32, u16) = (0x01_02_03, 4789);
pub(crate) const STATION: [u8; 6] = [2, 0, 0, 0, 0, 8];
pub(crate) const END: [u8; 4] = [10, 1, 0, 7];

/// The VXLAN, with the TTL and the type of service of what is in it.
pub(crate) fn vxlan(local: [u8; 4], learns: bool) -> Tunnel {
    Tunnel {
        vxlan: Some(Vxlan {
            port: VXLAN.1,
            source_ports: (40000, 50000),
            learns,
            ageing_s: 300,
            sums: false,
            inherits_ttl: true,
            inherits_df: false,
        }),
        ..tunnel(17, [local, [0; 4]], Some(VXLAN.0))
    }
}

/// The tunnels that packets come in by at p0: all kinds, and one whose other end is behind p1.
pub(crate) fn tunnels() -> Vec<Tunnel> {
    let ends = [[10, 1, 0, 1], [10, 1, 0, 7]];
    vec![
        tunnel(4, ends, None),
        tunnel(41, ends, None),
        tunnel(47, ends, None),
        tunnel(47, ends, Some(300)),
        tunnel(4, [[10, 1, 0, 1], [10, 20, 0, 7]], None),
        vxlan([10, 1, 0, 1], true),
    ]
}
