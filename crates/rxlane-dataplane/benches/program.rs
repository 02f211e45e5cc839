//! What the lane program takes for a packet whose data are all in the caches, in ns (BPF_PROG_TEST_RUN). Needs root.
//!
//!   cargo bench -p rxlane-dataplane --bench program
//!
//! Two states of the program are compared by running this in both, in turns: one machine alone has phases in which
//! everything takes twice as long.

use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rxlane_config::{Datapath, RouterConfig};
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing;
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::Rule;

const EF: u8 = 46;
const TTL: u8 = 255;
/// A run takes one off the TTL, and below 2 the packet is the kernel's.
const RUNS: u32 = 250;
const ROUNDS: usize = 800;
const FROM: &str = "10.1.0.1";
const TO: &str = "10.20.0.1";
const PORTS: (u16, u16) = (6000, 7000);
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

fn sh(line: &str) {
    let status = Command::new("sh").args(["-c", line]).status();
    assert!(status.is_ok_and(|s| s.success()), "{line}");
}

/// A router whose next hop has the address of its own ingress port, so that a frame that it has forwarded is for it
/// again; and a flow that its connection tracking knows, because it went on while both ends were here.
fn namespace() -> u32 {
    unshare(CloneFlags::CLONE_NEWNET).expect("root, and network namespaces");
    for (port, mac) in [("p0", "02:00:00:00:00:01"), ("p1", "02:00:00:00:00:02")] {
        sh(&format!(
            "ip link add {port} type veth peer name {port}x && ip link set {port} address {mac}"
        ));
        sh(&format!(
            "ip link set {port} up && ip link set {port}x up && ethtool -K {port}x gro on"
        ));
    }
    sh("ip link set lo up");
    sh(&format!("ip addr add {FROM}/24 dev p0"));
    sh(&format!(
        "ip addr add 10.2.0.1/24 dev p1 && ip addr add {TO}/32 dev lo"
    ));
    sh(
        "nft 'table ip t { chain c { type filter hook input priority 0; ct state established accept; }; }'",
    );
    let here = UdpSocket::bind((FROM, PORTS.0)).expect("a socket");
    let there = UdpSocket::bind((TO, PORTS.1)).expect("a socket");
    for round in 0..3 {
        if round == 2 {
            // Conntrack calls it a stream when it goes on after two seconds.
            std::thread::sleep(std::time::Duration::from_millis(2200));
        }
        here.send_to(b"ping", (TO, PORTS.1)).expect("a datagram");
        there.recv(&mut [0; 8]).expect("the datagram");
        there.send_to(b"pong", (FROM, PORTS.0)).expect("an answer");
        here.recv(&mut [0; 8]).expect("the answer");
    }
    sh(&format!(
        "ip addr del {FROM}/24 dev p0 && ip addr add 10.1.0.254/24 dev p0"
    ));
    sh(&format!(
        "ip addr del {TO}/32 dev lo && ip neigh add 10.2.0.9 lladdr 02:00:00:00:00:01 dev p1"
    ));
    sh("ip route add 10.20.0.0/16 via 10.2.0.9 && echo 1 >/proc/sys/net/ipv4/ip_forward");
    rxlane_system::links::by_name("p0").expect("p0").ifindex
}

fn frame(dscp: u8) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
    let mut ip = vec![0x45, dscp << 2, 0, 46, 0, 0, 0, 0, TTL, 17, 0, 0];
    for address in [FROM, TO] {
        ip.extend(
            address
                .parse::<std::net::Ipv4Addr>()
                .expect("an address")
                .octets(),
        );
    }
    let sum: u32 = ip
        .chunks_exact(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let folded = (sum & 0xffff) + (sum >> 16);
    let check = !((folded & 0xffff) + (folded >> 16)) as u16;
    ip[10..12].copy_from_slice(&check.to_be_bytes());
    f.extend(ip);
    f.extend(PORTS.0.to_be_bytes());
    f.extend(PORTS.1.to_be_bytes());
    f.extend([0, 26, 0, 0]);
    f.resize(60, 0);
    f
}

/// Voice, of whom `trust` says, by `rules` rules (the one that matches last), within a rate if it has one.
fn router(trust: Trust, rules: u16, police: Option<Police>) -> Router {
    let other = |i: u16| Rule {
        dst_ports: vec![20_000 + i..=20_000 + i],
        ..Rule::default()
    };
    let voice = Rule {
        dscp: Some(1 << EF),
        ..Rule::default()
    };
    let class = |name: &str, rules, police, lane| Class {
        name: name.into(),
        rules,
        police,
        lane,
    };
    let config = RouterConfig {
        ports: vec!["p0".into(), "p1".into()],
        classes: vec![
            class(
                "voice",
                (1..rules).map(other).chain([voice]).collect(),
                police,
                Lane::Express { trust },
            ),
            class("rest", Vec::new(), None, testing::stack_lane()),
        ],
        datapath: Datapath::Express,
    };
    Router::start(config, Path::new("bench.toml"), false, || ()).unwrap_or_else(|e| panic!("{e}"))
}

fn measure(router: &Router, ifindex: u32, dscp: u8, action: u32) -> u32 {
    let frame = frame(dscp);
    let mut costs: Vec<u32> = (0..ROUNDS)
        .map(|_| {
            let (outcome, ns) = testing::repeat(router, &frame, ifindex, RUNS).expect("a test run");
            assert_eq!(outcome.action, action, "it went another way");
            ns
        })
        .collect();
    costs.sort_unstable();
    costs[ROUNDS / 2]
}

fn main() {
    let ifindex = namespace();
    let egress = rxlane_system::links::by_name("p1").expect("p1").ifindex;
    let prefixes = || Trust::Prefixes(vec!["10.1.0.0/16".parse().expect("a prefix")]);
    // More than the voice of this benchmark, so that it is always within the rate.
    let police = || Police {
        rate: Rate::Pps(100_000_000),
        burst: 1_000_000,
    };
    println!("trust        rules  rate  express ns  left to the kernel ns");
    for (name, trust, rules, limit) in [
        ("all", Trust::All, 1, None),
        ("all", Trust::All, 256, None),
        ("prefixes", prefixes(), 1, None),
        ("established", Trust::Established, 1, None),
        ("established", Trust::Established, 256, Some(police())),
    ] {
        let rate = if limit.is_some() { "yes" } else { "no" };
        let router = router(trust, rules, limit);
        // Nobody forwards here, so nobody sees it: the first packet asks, and this answers.
        testing::run(&router, &frame(EF), ifindex).expect("a test run");
        testing::believe(&router, egress, [2, 0, 0, 0, 0, 1]).expect("a witness");
        let express = measure(&router, ifindex, EF, REDIRECT);
        let rest = measure(&router, ifindex, 0, PASS);
        println!("{name:<12} {rules:>5}  {rate:<4}  {express:>10}  {rest:>21}");
    }
}
