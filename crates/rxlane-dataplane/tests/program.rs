//! The XDP program against the reference parser and classifier, packet by packet (BPF_PROG_TEST_RUN).
//!
//! Needs root: a network namespace of its own, two veth pairs, static routes and neighbours.

use std::net::{IpAddr, Ipv6Addr};
use std::path::Path;
use std::process::Command;

use nix::sched::{CloneFlags, unshare};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_config::RouterConfig;
use rxlane_dataplane::layout::REASONS;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing::{self, Counts};
use rxlane_policy::class::{Class, Lane, Trust};
use rxlane_policy::control::{ControlRates, control};
use rxlane_policy::headers::ipv4_checksum;
use rxlane_policy::headers::{Headers, Obstacle, Parsed, parse, parse_session};
use rxlane_policy::police::{Police, Rate};
use rxlane_policy::rule::{Flex, Rule, first_match};

const IN_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 7];
/// Number of the one session of PPPoE.
const SESSION: u16 = 0x1234;
const NEXT_HOP: [u8; 6] = [2, 0, 0, 0, 0, 9];
const OUT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
const PASS: u32 = 2;
const REDIRECT: u32 = 4;

fn ip(line: &str) {
    let status = Command::new("ip")
        .args(line.split_whitespace())
        .status()
        .expect("iproute2 is installed");
    assert!(status.success(), "ip {line}");
}

/// A namespace with ports p0 (ingress) and p1, behind which 10.20.0.0/16 and 2001:db8::/32 lie.
fn namespace() -> u32 {
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

fn express(trust: Trust) -> Lane {
    Lane::Express { trust }
}

fn class(name: &str, lane: Lane, rules: Vec<Rule>) -> Class {
    Class {
        name: name.into(),
        rules,
        police: None,
        lane,
    }
}

/// Classes over every field that a rule can look at.
fn classes() -> Vec<Class> {
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

fn start(classes: Vec<Class>) -> Router {
    let config = RouterConfig {
        ports: vec!["p0".into(), "p1".into()],
        classes,
        datapath: rxlane_config::Datapath::Express,
        egress: Default::default(),
        control: ControlRates::default(),
    };
    Router::start(config, Path::new("test.toml"), false, || ()).unwrap_or_else(|e| panic!("{e}"))
}

/// A packet whose fields come from small sets, so that rules are hit often.
fn generate(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut f = IN_MAC.to_vec();
    f.extend(PEER);
    for _ in 0..[0, 0, 0, 0, 1, 1, 2, 3][rng.random_range(0..8)] {
        f.extend([[0x81, 0x00], [0x88, 0xa8]][rng.random_range(0..2)]);
        let id = [0u16, 1, 5, 4095][rng.random_range(0..4)];
        f.extend((id | rng.random_range(0..8u16) << 13).to_be_bytes());
    }
    let dscp = [0u8, 10, 34, 44, 46, 63][rng.random_range(0..6)];
    let protocol = [6u8, 17, 17, 1, 132, 0, 44, 43, 58, 60, 51][rng.random_range(0..11)];
    let ttl = [0u8, 1, 2, 64, 64, 64][rng.random_range(0..6)];
    // Of ICMP the first byte is the type: errors of both families among them.
    let ports: [u16; 7] = [0, 80, 0x0300, 1023, 5000, 6000, 0x8001];
    let (sport, dport) = (ports[rng.random_range(0..7)], ports[rng.random_range(0..7)]);
    let payload = rng.random_range(0..60usize);
    if rng.random_bool(0.5) {
        f.extend([0x08, 0x00]);
        let at = f.len();
        let options = [0usize, 0, 0, 0, 4][rng.random_range(0..5)];
        let total = 20 + options + payload;
        f.extend([0x45 + (options / 4) as u8, dscp << 2]);
        f.extend((total as u16).to_be_bytes());
        f.extend([0, 1]);
        f.extend([[0x40, 0], [0, 0], [0x20, 0], [0, 5]][rng.random_range(0..4)]);
        f.extend([ttl, protocol, 0, 0]);
        f.extend(
            [
                [10, 1, 0, 3],
                [10, 1, 0, 200],
                [10, 9, 0, 1],
                [127, 0, 0, 1],
                [224, 1, 1, 1],
            ][rng.random_range(0..5)],
        );
        f.extend(
            [
                [10, 20, 3, 4],
                [10, 20, 9, 9],
                [10, 2, 0, 77],
                [10, 1, 0, 1],
                [8, 8, 8, 8],
                [169, 254, 1, 1],
            ][rng.random_range(0..6)],
        );
        f.resize(at + 20 + options, 1);
        let check = ipv4_checksum(&f[at..at + 20 + options]);
        f[at + 10..at + 12].copy_from_slice(&check.to_be_bytes());
    } else {
        f.extend([0x86, 0xdd, 0x60 | dscp >> 2, dscp << 6, 0, 0]);
        f.extend((payload as u16).to_be_bytes());
        f.extend([protocol, ttl]);
        for choices in [
            ["2001:db8:1::5", "2001:db8:2::5", "fe80::1", "::1"],
            ["2001:db8:7::1", "2001:db8:ffff::1", "fd02::77", "ff02::1"],
        ] {
            let address: std::net::Ipv6Addr = choices[rng.random_range(0..4)].parse().unwrap();
            f.extend(address.octets());
        }
    }
    let mut rest = sport.to_be_bytes().to_vec();
    rest.extend(dport.to_be_bytes());
    rest.resize(payload.max(4), 0x5a);
    rest.truncate(payload);
    f.extend(rest);
    // Padding of short frames lies behind the IP packet.
    if rng.random_bool(0.3) {
        f.resize(f.len() + rng.random_range(0..20usize), 0);
    }
    f
}

/// Puts the packet of a frame into a session of PPPoE, mostly one that is served, in the way that it should be or nearly so.
fn into_session(rng: &mut Pcg64Mcg, frame: &[u8]) -> Vec<u8> {
    let mut at = 12;
    while [[0x81, 0x00], [0x88, 0xa8]].contains(&[frame[at], frame[at + 1]]) {
        at += 4;
    }
    let mut protocol = match [frame[at], frame[at + 1]] {
        [0x86, _] => 0x57u16,
        _ => 0x21,
    };
    let packet = &frame[at + 2..];
    let mut length = packet.len() as u16 + 2;
    let (mut version, mut code, mut id) = (0x11, 0, SESSION);
    let mut sender = PEER;
    match rng.random_range(0..24) {
        0 => protocol = [0xc021u16, 0x8021, 0x2145, 0x0281, 0x7fff, 0x8000][rng.random_range(0..6)],
        1 => length = length.wrapping_add(rng.random_range(0..20)),
        2 => length -= rng.random_range(0..length.min(20)),
        3 => version = rng.random(),
        4 => code = rng.random(),
        5 => id ^= 1 << rng.random_range(0..16),
        6 => sender[5] ^= 1,
        _ => {}
    }
    let mut f = frame[..6].to_vec();
    f.extend(sender);
    f.extend(&frame[12..at]);
    f.extend([0x88, 0x64, version, code]);
    for word in [id, length, protocol] {
        f.extend(word.to_be_bytes());
    }
    f.extend(packet);
    f
}

fn is_session(frame: &[u8]) -> bool {
    parse(frame, 0, IN_MAC) == Parsed::NotIp
}

/// The reference's answer for a frame on a port with one session: of tags only those without an id are the port's.
fn parse_known(frame: &[u8]) -> Parsed {
    let id_of = |at: usize| {
        frame
            .get(at..at + 2)
            .map(|b| u16::from_be_bytes([b[0], b[1]]))
    };
    let mut at = 12;
    let mut ours = true;
    while at < 20 && matches!(id_of(at), Some(0x8100 | 0x88a8)) {
        ours &= at == 12 && id_of(at + 2).is_some_and(|tci| tci & 0xfff == 0);
        at += 4;
    }
    let known = frame.get(6..12) == Some(&PEER) && id_of(at + 4) == Some(SESSION);
    match parse_session(frame, 0, IN_MAC) {
        Parsed::Ip(headers) if known && ours => Parsed::Ip(headers),
        _ => parse(frame, 0, IN_MAC),
    }
}

/// Flips, overwrites and cuts.
fn mutate(rng: &mut Pcg64Mcg, f: &mut Vec<u8>) {
    for _ in 0..rng.random_range(1..4) {
        let at = rng.random_range(0..f.len());
        match rng.random_range(0..4) {
            0 => f[at] ^= 1 << rng.random_range(0..8),
            1 => f[at] = rng.random(),
            // Not into the addresses of the frame, where everything ends as "not to us".
            2 if at >= 12 => f[at] ^= 0xff,
            _ => f.truncate(at.max(14)),
        }
    }
}

fn reason_of(obstacle: Obstacle) -> &'static str {
    match obstacle {
        Obstacle::Vlan => "vlan",
        Obstacle::Options => "options",
        Obstacle::IcmpError => "icmp_error",
        Obstacle::Checksum => "malformed",
        Obstacle::SpecialAddress => "special_address",
        Obstacle::Ttl => "ttl",
        Obstacle::Fragment => "fragment",
    }
}

/// What the program must do, by the reference.
#[derive(Debug, PartialEq)]
enum Expected {
    ToKernel(&'static str),
    Stack(usize),
    Forward(usize),
    /// Express, but the kernel has no complete route.
    Unrouted(usize),
    /// Express, but the source belongs elsewhere.
    Foreign(usize),
}

/// Rules in the order in which they are asked, with the class of each.
fn in_order(classes: &[Class]) -> Vec<(usize, &Rule)> {
    let classes = classes.iter().enumerate();
    classes
        .flat_map(|(c, class)| class.rules.iter().map(move |r| (c, r)))
        .collect()
}

fn expected(
    classes: &[Class],
    rules: &[(usize, &Rule)],
    parsed: &Parsed,
) -> (Expected, Option<usize>) {
    let headers: &Headers = match parsed {
        Parsed::Ip(h) => h,
        Parsed::NotToUs => return (Expected::ToKernel("not_to_us"), None),
        Parsed::NotIp => return (Expected::ToKernel("not_ip"), None),
        Parsed::Malformed => return (Expected::ToKernel("malformed"), None),
    };
    let first = first_match(rules.iter().map(|(_, r)| *r), headers)
        .map_or(classes.len() - 1, |i| rules[i].0);
    let mut untrusted = None;
    for (i, class) in classes.iter().enumerate().skip(first) {
        match &class.lane {
            Lane::Stack { .. } => return (Expected::Stack(i), untrusted),
            Lane::Express { .. } if untrusted.is_some() => {}
            Lane::Express { trust } => {
                if let Some(obstacle) = headers.obstacle {
                    return (Expected::ToKernel(reason_of(obstacle)), untrusted);
                }
                let trusted = match trust {
                    Trust::Prefixes(nets) => nets.iter().any(|n| n.contains(&headers.src)),
                    _ => true,
                };
                if !trusted {
                    untrusted = Some(i);
                    continue;
                }
                if !source_holds(trust, headers.src) {
                    return (Expected::Foreign(i), untrusted);
                }
                // Behind the neighbours, or the neighbours themselves, which a mutation hits once in a million frames.
                let routed = match headers.dst {
                    IpAddr::V4(a) => a.octets()[..2] == [10, 20] || a.octets() == [10, 2, 0, 9],
                    IpAddr::V6(a) => {
                        let [first, second, third, ..] = a.segments();
                        let beyond = [first, second] == [0x2001, 0xdb8] && third != 1;
                        beyond || a == Ipv6Addr::new(0xfd02, 0, 0, 0, 0, 0, 0, 9)
                    }
                };
                return (
                    if routed {
                        Expected::Forward(i)
                    } else {
                        Expected::Unrouted(i)
                    },
                    untrusted,
                );
            }
        }
    }
    (Expected::ToKernel("untrusted"), untrusted)
}

/// Whether a source may come in at p0, where everything in IPv4 but 10.2.0.0/24 and 10.20.0.0/16 lies.
fn source_holds(trust: &Trust, src: IpAddr) -> bool {
    match (trust, src) {
        (_, IpAddr::V4(a)) => {
            let [x, y, z, last] = a.octets();
            let subnet = [x, y, z] == [10, 1, 0] || [x, y, z] == [10, 2, 0];
            // The router's own address, and those of the subnet that mean all of it.
            !(subnet && [0, 1, 255].contains(&last))
        }
        (Trust::Prefixes(_), IpAddr::V6(a)) => a.segments()[..3] == [0x2001, 0xdb8, 1],
        // Linux has no such check in IPv6.
        (_, IpAddr::V6(_)) => true,
    }
}

fn judge(
    expected: &Expected,
    untrusted: Option<usize>,
    frame: &[u8],
    out: &testing::TestRun,
    d: &Counts,
) {
    let context = || format!("{expected:?}, frame {frame:02x?}, got {out:?}, {d:?}");
    let reason = |name: &str| d.reasons[REASONS.iter().position(|(r, _)| *r == name).unwrap()];
    let total_reasons: u64 = d.reasons.iter().sum();
    if let Some(class) = untrusted {
        assert_eq!(d.classes[class].untrusted, 1, "{}", context());
    }
    match expected {
        Expected::ToKernel(name) => {
            assert_eq!(
                (out.action, reason(name), total_reasons),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Stack(class) => {
            assert_eq!(
                (out.action, d.classes[*class].passed, total_reasons),
                (PASS, 1, 0),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Foreign(class) => {
            assert_eq!(
                (out.action, d.classes[*class].packets, reason("source")),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Unrouted(class) => {
            let known: u64 = ["not_routed", "no_neighbour", "egress"]
                .iter()
                .map(|n| reason(n))
                .sum();
            assert_eq!(
                (out.action, d.classes[*class].packets, known),
                (PASS, 1, 1),
                "{}",
                context()
            );
            assert_eq!(out.frame, frame, "unchanged: {}", context());
        }
        Expected::Forward(class) => {
            assert_eq!(
                (out.action, d.classes[*class].express, total_reasons),
                (REDIRECT, 1, 0),
                "{}",
                context()
            );
            forwarded(frame, &out.frame);
        }
    }
}

/// The bytes on the wire: MAC addresses, no tag, TTL less one, a checksum that holds, and nothing else changed.
fn forwarded(before: &[u8], after: &[u8]) {
    let tagged = [[0x81, 0], [0x88, 0xa8]].contains(&[before[12], before[13]]);
    let mut l2 = if tagged { 18 } else { 14 };
    if before[l2 - 2..l2] == [0x88, 0x64] {
        l2 += 8;
    }
    let v4 = before[l2] >> 4 == 4;
    // What follows the IP packet is cut off, but for zeros that make the frame as long as Ethernet wants it.
    let field = |at: usize| usize::from(u16::from_be_bytes([before[l2 + at], before[l2 + at + 1]]));
    let len = if v4 { field(2) } else { 40 + field(4) };
    let mut packet = before[l2..].to_vec();
    if packet.len() > len || before.len() >= 60 {
        packet.truncate(len);
        packet.resize(len.max(46), 0);
    }
    if v4 {
        packet[8] -= 1;
        packet[10] = 0;
        packet[11] = 0;
        let check = ipv4_checksum(&packet[..20]);
        packet[10..12].copy_from_slice(&check.to_be_bytes());
    } else {
        packet[7] -= 1;
    }
    let kind: &[u8] = if v4 { &[0x08, 0x00] } else { &[0x86, 0xdd] };
    let wanted = [&NEXT_HOP, &OUT_MAC, kind, &packet].concat();
    assert_eq!(after, wanted);
}

fn minus(after: &Counts, before: &Counts) -> Counts {
    let mut d = *after;
    for (c, b) in d.classes.iter_mut().zip(&before.classes) {
        c.packets -= b.packets;
        c.bytes -= b.bytes;
        c.express -= b.express;
        c.passed -= b.passed;
        c.queued -= b.queued;
        c.early_drops -= b.early_drops;
        c.policed -= b.policed;
        c.untrusted -= b.untrusted;
    }
    for (r, b) in d.reasons.iter_mut().zip(&before.reasons) {
        *r -= b;
    }
    d
}

/// A number from the environment; `make soak` asks for more frames than there is time for in a test.
fn number(variable: &str, otherwise: u64) -> u64 {
    match std::env::var(variable) {
        Ok(text) => text
            .parse()
            .unwrap_or_else(|e| panic!("{variable}={text}: {e}")),
        Err(_) => otherwise,
    }
}

#[test]
#[ignore = "needs root: make test"]
fn verdicts_agree_with_the_reference_on_generated_and_mutated_packets() {
    let ifindex = namespace();
    let classes = classes();
    let mut router = start(classes.clone());
    let frames = number("RXLANE_FRAMES", 120_000);
    let seed = number("RXLANE_SEED", 20_261_121);
    println!("{frames} frames, seed {seed}");
    let rules = in_order(&classes);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut before = testing::counts(&router, 0).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    for n in 0..frames {
        // As the daemon does: without anybody who watches, `all` goes back to the kernel, and a slow machine takes long.
        if n % 1000 == 0 {
            router.keep_watch().unwrap();
            testing::serve_session(&router, ifindex, SESSION, PEER).unwrap();
        }
        let mut frame = generate(&mut rng);
        if n % 4 < 2 {
            frame = into_session(&mut rng, &frame);
        }
        if n % 2 == 1 {
            mutate(&mut rng, &mut frame);
        }
        let (wanted, untrusted) = expected(&classes, &rules, &parse_known(&frame));
        let out =
            testing::run(&router, &frame, ifindex).unwrap_or_else(|e| panic!("{frame:02x?}: {e}"));
        let after = testing::counts(&router, 0).unwrap();
        judge(&wanted, untrusted, &frame, &out, &minus(&after, &before));
        let in_session = matches!(wanted, Expected::Forward(_)) && is_session(&frame);
        *seen
            .entry(format!("{wanted:?} {in_session}"))
            .or_insert(0u32) += 1;
        before = after;
    }
    router.detach().unwrap();
    // Every outcome must have been tried, or the test proves less than it says.
    assert!(
        seen.len() >= 16 && seen.values().all(|n| *n >= 20),
        "{seen:#?}"
    );
}

/// What leaves in a session has the session's addresses, the tags of its way, a header as long as the packet, and the packet with one
/// less to live; the first by Linux, which shall see that the session is in use.
#[test]
#[ignore = "needs root: make test"]
fn what_is_routed_into_a_session_leaves_with_its_header_and_its_tags() {
    let ifindex = namespace();
    // In the place of a ppp device one that Linux can be told to route through.
    ip("link add ppp0 type veth peer name ppp0x");
    ip("link set ppp0 up");
    ip("link set ppp0x up");
    ip("addr add 10.3.0.1/24 dev ppp0");
    ip("addr add fd03::1/64 dev ppp0 nodad");
    ip("neigh add 10.3.0.9 lladdr 00:00:00:00:00:00 dev ppp0");
    ip("neigh add fd03::9 lladdr 00:00:00:00:00:00 dev ppp0");
    ip("route add 10.30.0.0/16 via 10.3.0.9");
    ip("route add fd30::/16 via fd03::9");
    let ef = Rule {
        dscp: Some(1 << 46),
        ..Rule::default()
    };
    let voice = class("voice", express(Trust::All), vec![ef]);
    let rest = class("rest", testing::stack_lane(), Vec::new());
    let router = start(vec![voice, rest]);
    let by_name = |name| rxlane_system::links::by_name(name).unwrap();
    let (ppp, port) = (by_name("ppp0"), by_name("p1"));
    let mut v4 = [0x45, 0xb8, 0, 33, 0, 1, 0x40, 0, 64, 17, 0, 0].to_vec();
    v4.extend([10, 1, 0, 3, 10, 30, 0, 1, 3, 232, 7, 208, 0, 13, 0, 0]);
    v4.extend([0x5a; 5]);
    let check = ipv4_checksum(&v4[..20]);
    v4[10..12].copy_from_slice(&check.to_be_bytes());
    let mut v6 = [0x6b, 0x80, 0, 0, 0, 13, 17, 64].to_vec();
    for address in ["2001:db8:1::5", "fd30::1"] {
        v6.extend(address.parse::<Ipv6Addr>().unwrap().octets());
    }
    v6.extend([3, 232, 7, 208, 0, 13, 0, 0]);
    v6.extend([0x5a; 5]);
    let mut first = true;
    for tags in [&[][..], &[35], &[7, 35]] {
        testing::send_in_session(&router, ppp.ifindex, &port, tags, 0x1234, PEER).unwrap();
        for (kind, protocol, packet) in [([0x08, 0x00], 0x21, &v4), ([0x86, 0xdd], 0x57, &v6)] {
            // Padded, as what is shorter than 60 bytes comes from a wire.
            let mut frame = [&IN_MAC[..], &PEER, &kind, packet].concat();
            frame.resize(frame.len().max(60), 0);
            let out = testing::run(&router, &frame, ifindex).unwrap();
            if first {
                assert_eq!((out.action, &out.frame), (PASS, &frame));
                first = false;
                continue;
            }
            let mut sent = packet.clone();
            if protocol == 0x21 {
                sent[8] -= 1;
                sent[10..12].fill(0);
                let check = ipv4_checksum(&sent[..20]);
                sent[10..12].copy_from_slice(&check.to_be_bytes());
            } else {
                sent[7] -= 1;
            }
            let mut wanted = [&PEER[..], &OUT_MAC].concat();
            for id in tags {
                wanted.extend([0x81, 0x00, 0, *id as u8]);
            }
            let length = sent.len() as u8 + 2;
            wanted.extend([0x88, 0x64, 0x11, 0, 0x12, 0x34, 0, length, 0, protocol]);
            wanted.extend(sent);
            wanted.resize(wanted.len().max(60), 0);
            let counts = testing::counts(&router, 0).unwrap();
            assert_eq!(out.action, REDIRECT, "{tags:?} {protocol:#x} {counts:?}");
            assert_eq!(out.frame, wanted, "{tags:?} {protocol:#x}");
        }
    }
    router.detach().unwrap();
}

/// A frame that is often near to being control: protocols, ports, hop limits and addresses that matter.
fn near_control(rng: &mut Pcg64Mcg) -> Vec<u8> {
    let mut f = generate(rng);
    let v6 = f.get(12..14) == Some(&[0x86, 0xdd]);
    let mut put = |at: usize, with: &[u8]| {
        if let Some(to) = f.get_mut(at..at + with.len()) {
            to.copy_from_slice(with);
        }
    };
    let protocols = [1, 2, 6, 17, 58, 89, 103, 112];
    let ports = [22u16, 67, 179, 520, 546, 646, 1985, 3784, 4784, 6784, 443];
    let (protocol, limit, from, to, l4) = match v6 {
        false => (23, 22, 26, 30, 34),
        true => (20, 21, 22, 38, 54),
    };
    let mut some = |n: usize| rng.random_range(0..n);
    put(protocol, &[protocols[some(8)]]);
    put(limit, &[[255, 254, 64, 1][some(4)]]);
    let at = l4 + 2 * some(2);
    put(at, &ports[some(11)].to_be_bytes());
    if some(3) == 0 {
        put(l4, &[130 + some(10) as u8]);
    }
    let [group, near]: [&[u8]; 2] = match v6 {
        false => [&[224, 0, 0, 5], &[255; 4]],
        true => [&[0xff, 2], &[0xfe, 0x80]],
    };
    match some(5) {
        0 => put(to, group),
        1 => put(to, near),
        2 if v6 => put(from, near),
        _ => {}
    }
    match some(12) {
        0 => put(
            12,
            &[[8, 6], [0x88, 9], [0x88, 0xcc], [0, 64], [5, 0xff], [6, 0]][some(6)],
        ),
        1 => put(0, &[0xff; 6]),
        _ => {}
    }
    f
}

#[test]
#[ignore = "needs root: make test"]
fn control_packets_are_told_as_the_reference_tells_them() {
    let program = testing::ControlProgram::load().unwrap_or_else(|e| panic!("{e}"));
    let frames = number("RXLANE_FRAMES", 60_000);
    let seed = number("RXLANE_SEED", 20_261_125);
    println!("{frames} frames, seed {seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut seen = std::collections::BTreeMap::new();
    for n in 0..frames {
        let mut frame = near_control(&mut rng);
        if n % 8 == 1 {
            frame = into_session(&mut rng, &frame);
        }
        if n % 4 == 3 {
            mutate(&mut rng, &mut frame);
        }
        let Ok(found) = program.of(&frame) else {
            assert!(frame.len() < 14, "{frame:02x?}");
            continue;
        };
        let wanted = control(&frame);
        assert_eq!(found, wanted, "{frame:02x?}");
        *seen.entry(format!("{wanted:?}")).or_insert(0u32) += 1;
    }
    assert!(
        seen.len() == 4 && seen.values().all(|n| *n > 500),
        "{seen:#?}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_burst_conforms_and_the_rest_becomes_the_next_class() {
    let ifindex = namespace();
    let mut classes = classes();
    classes[1].police = Some(Police {
        rate: Rate::Pps(1),
        burst: 5,
    });
    let router = start(classes);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    // One EF packet that can be forwarded, again and again.
    let frame = loop {
        let f = generate(&mut rng);
        let classes = self::classes();
        let wanted = expected(&classes, &in_order(&classes), &parse(&f, 0, IN_MAC));
        if wanted == (Expected::Forward(1), None) {
            break f;
        }
    };
    let begun = std::time::Instant::now();
    for _ in 0..50 {
        testing::run(&router, &frame, ifindex).unwrap();
    }
    let elapsed_s = begun.elapsed().as_secs();
    let counts = testing::counts(&router, 0).unwrap();
    router.detach().unwrap();
    let refilled = counts.classes[1].packets - 5;
    assert!(
        refilled <= elapsed_s + 1,
        "one packet a second: {refilled} in {elapsed_s} s"
    );
    assert_eq!(counts.classes[1].policed, 45 - refilled);
    let rest: u64 = counts.classes[2..].iter().map(|c| c.packets).sum();
    assert_eq!(rest, counts.classes[1].policed);
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_is_not_ours_is_passed_untouched() {
    namespace();
    let router = start(classes());
    let frame = generate(&mut Pcg64Mcg::seed_from_u64(3));
    // Without a context the kernel runs the program as if the frame had come in on loopback.
    let out = testing::run(&router, &frame, 0).unwrap();
    router.detach().unwrap();
    assert_eq!(
        out,
        testing::TestRun {
            action: PASS,
            frame
        }
    );
}
