//! Flows that are known: whatever a packet of one is, it fares as it would if everything about it were looked up.

use std::process::Command;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_bpf::test_run::TestRun;
use rxlane_dataplane::cost;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::testing::{self, Counts};
use rxlane_policy::class::Trust;
use rxlane_policy::rule::Rule;

use crate::frames::mutate;
use crate::outward::check;
use crate::reference::minus;
use crate::world::{
    IN_MAC, NEXT_HOP, PASS, PEER, REDIRECT, class, express, namespace, number, start,
};

/// A flow by what `conntrack` calls it, and a frame of it.
struct Flow {
    tracked: String,
    frame: Vec<u8>,
}

fn run(line: &str) {
    let mut words = line.split_whitespace();
    let command = words.next().expect("a command");
    let out = Command::new(command).args(words).output();
    let out = out.unwrap_or_else(|e| panic!("{command}: {e}"));
    assert!(
        out.status.success(),
        "{line}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
}

fn udp(length: u16, check: u16) -> Vec<u8> {
    let mut l4 = [0u8, 0, 0, 0].to_vec();
    l4.extend(length.to_be_bytes());
    l4.extend(check.to_be_bytes());
    l4.resize(usize::from(length), 0x5a);
    l4
}

fn tcp(payload: usize) -> Vec<u8> {
    let mut l4 = [
        0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0x50, 0x10, 1, 0, 0xab, 0xcd, 0, 0,
    ]
    .to_vec();
    l4.resize(20 + payload, 0x5a);
    l4
}

impl Flow {
    /// From port 1000 + n to 2000, translated as `conntrack -I` says.
    fn new(n: u16, v6: bool, mut l4: Vec<u8>, nat: &str) -> Self {
        let is_tcp = l4.len() >= 20 && l4[12] == 0x50;
        let protocol = if is_tcp { 6 } else { 17 };
        l4[..2].copy_from_slice(&(1000 + n).to_be_bytes());
        l4[2..4].copy_from_slice(&2000u16.to_be_bytes());
        let (from, to) = match v6 {
            true => ("2001:db8:1::5", "2001:db8:7::9"),
            false => ("10.1.0.3", "10.20.3.4"),
        };
        let mut frame = [IN_MAC, PEER].concat();
        if v6 {
            frame.extend([0x86, 0xdd, 0x6b, 0xa0, 0, 0]);
            frame.extend((l4.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            for address in [from, to] {
                frame.extend(address.parse::<std::net::Ipv6Addr>().unwrap().octets());
            }
        } else {
            frame.extend([8, 0]);
            let mut ip = [0x45, 0xba].to_vec();
            ip.extend((20 + l4.len() as u16).to_be_bytes());
            ip.extend([0, 1, 0x40, 0, 64, protocol, 0, 0]);
            for address in [from, to] {
                ip.extend(address.parse::<std::net::Ipv4Addr>().unwrap().octets());
            }
            check(&mut ip);
            frame.extend(ip);
        }
        frame.extend(l4);
        let name = if is_tcp {
            "tcp --state ESTABLISHED"
        } else {
            "udp"
        };
        Self {
            tracked: format!(
                "conntrack -I -p {name} -s {from} -d {to} --sport {} --dport 2000 -t 600 -u SEEN_REPLY,ASSURED {nat}",
                1000 + n
            ),
            frame,
        }
    }
}

/// Both protocols in both families, untranslated and translated both ways, with and without checksums.
fn flows() -> Vec<Flow> {
    let mut flows = Vec::new();
    for v6 in [false, true] {
        let (source, destination) = match v6 {
            true => ("2001:db8:9::1", "2001:db8:8::8"),
            false => ("10.2.0.1", "10.20.9.9"),
        };
        for nat in [
            String::new(),
            format!("--src-nat {source}"),
            format!("--dst-nat {destination}"),
        ] {
            for l4 in [udp(30, 0), udp(31, 0xbeef), udp(8, 0xffff), tcp(0), tcp(33)] {
                flows.push(Flow::new(flows.len() as u16, v6, l4, &nat));
            }
        }
    }
    flows
}

/// What came of a frame: its verdict, and what was counted but for lookups.
fn fares(router: &Router, frame: &[u8], ifindex: u32) -> (TestRun, Counts, u64) {
    let before = testing::counts(router, 0).unwrap();
    let out = testing::run(router, frame, ifindex).unwrap_or_else(|e| panic!("{frame:02x?}: {e}"));
    let mut counted = minus(&testing::counts(router, 0).unwrap(), &before);
    let looked_up = counted.classes.iter().map(|c| c.looked_up).sum();
    counted.classes.iter_mut().for_each(|c| c.looked_up = 0);
    (out, counted, looked_up)
}

/// Until nothing is looked up for it any more. Linux was seen to forward it, though nobody forwards here.
fn make_known(router: &Router, flow: &Flow, ifindex: u32) -> TestRun {
    for _ in 0..1000 {
        let (out, _, looked_up) = fares(router, &flow.frame, ifindex);
        if out.action == REDIRECT && looked_up == 0 {
            return out;
        }
        if out.action != REDIRECT {
            let egress = rxlane_system::links::by_name("p1").expect("p1").ifindex;
            cost::believe(router, egress, NEXT_HOP).unwrap();
        }
    }
    panic!("never known: {}", flow.tracked);
}

/// What stands in place of a checksum that is missing.
fn pseudo_sum(frame: &[u8], l4: usize) -> u16 {
    let (addresses, protocol) = match l4 {
        34 => (&frame[26..34], frame[23]),
        _ => (&frame[22..54], frame[20]),
    };
    let words = addresses.chunks_exact(2);
    let words = words.map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = words.sum::<u32>() + (frame.len() - l4) as u32 + u32::from(protocol);
    let folded = (sum & 0xffff) + (sum >> 16);
    ((folded & 0xffff) + (folded >> 16)) as u16
}

/// Something near to a frame of the flow.
fn near(rng: &mut Pcg64Mcg, frame: &[u8]) -> Vec<u8> {
    let mut f = frame.to_vec();
    let is_v4 = f[12] == 8;
    let l4 = if is_v4 { 34 } else { 54 };
    match rng.random_range(0..9) {
        0 => {}
        1 => mutate(rng, &mut f),
        2 => {
            let more = rng.random_range(1..40);
            let length = [f.len() + more, f.len().max(60)][rng.random_range(0..2)];
            f.resize(length, rng.random());
        }
        3 => {
            let at = if is_v4 { 17 } else { 19 };
            f[at] = f[at].wrapping_add(rng.random_range(0..5)).wrapping_sub(2);
        }
        4 => f[l4 + rng.random_range(0..8)] = rng.random(),
        // Flags of TCP, its header's length, its window.
        5 if f.len() >= l4 + 20 => {
            f[l4 + rng.random_range(12..16)] = [0, 0x10, 0x11, 0x50, 0x60][rng.random_range(0..5)]
        }
        // What a sender leaves to a device that there is not.
        6 => {
            let at = l4
                + if frame[if is_v4 { 23 } else { 20 }] == 6 {
                    16
                } else {
                    6
                };
            let sum = pseudo_sum(frame, l4);
            f[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        // About as long as the link takes.
        7 => {
            f.resize(14 + rng.random_range(1496..1505), 0x5a);
            let (all, l4_bytes) = ((f.len() - 14) as u16, (f.len() - l4) as u16);
            match is_v4 {
                true => f[16..18].copy_from_slice(&all.to_be_bytes()),
                false => f[18..20].copy_from_slice(&l4_bytes.to_be_bytes()),
            }
            if frame[if is_v4 { 23 } else { 20 }] == 17 {
                f[l4 + 4..l4 + 6].copy_from_slice(&l4_bytes.to_be_bytes());
            }
        }
        _ => f[14 + rng.random_range(0..20)] = rng.random(),
    }
    if is_v4 && f.len() >= 34 && rng.random_bool(0.9) {
        check(&mut f[14..]);
    }
    f
}

/// A router with these flows as established connections.
fn router_of(flows: &[Flow]) -> (u32, Router) {
    let ifindex = namespace();
    run("nft add table inet t");
    run("nft add chain inet t c { type filter hook forward priority 0; }");
    run("nft add rule inet t c ct state established accept");
    run("sysctl -qw net.netfilter.nf_conntrack_tcp_be_liberal=1");
    for flow in flows {
        run(&flow.tracked);
    }
    let rule = Rule {
        protocols: Some(vec![6, 17]),
        ..Rule::default()
    };
    let known = class("known", express(Trust::Established), vec![rule]);
    let rest = class("rest", testing::stack_lane(), Vec::new());
    (ifindex, start(vec![known, rest]))
}

#[test]
#[ignore = "needs root: make test"]
fn a_packet_of_a_known_flow_fares_as_if_all_about_it_were_looked_up() {
    let flows = flows();
    let (ifindex, mut router) = router_of(&flows);
    let seed = number("RXLANE_SEED", 20_261_130);
    let frames = number("RXLANE_FRAMES", 12_000);
    println!("{frames} frames, seed {seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let (mut without_lookup, mut express) = (0u64, 0u64);
    for n in 0..frames {
        if n % 500 == 0 {
            router.keep_watch().unwrap();
        }
        let flow = &flows[rng.random_range(0..flows.len())];
        let frame = near(&mut rng, &flow.frame);
        if frame.len() < 14 {
            continue;
        }
        let sent = make_known(&router, flow, ifindex);
        let (out, counted, looked_up) = fares(&router, &frame, ifindex);
        testing::forget_flows(&router).unwrap();
        let (wanted, wanted_counts, looked_up_again) = fares(&router, &frame, ifindex);
        let is_express = u64::from(wanted.action == REDIRECT);
        assert_eq!(looked_up_again, is_express, "a route has changed");
        let what = || {
            format!(
                "{}\n{:02x?}\nnear to {:02x?}",
                flow.tracked, frame, flow.frame
            )
        };
        assert_eq!(
            (out.action, &out.frame),
            (wanted.action, &wanted.frame),
            "{}",
            what()
        );
        assert_eq!(counted, wanted_counts, "{}", what());
        if frame == flow.frame {
            assert_eq!(out.frame, sent.frame, "{}", what());
        }
        if n % 64 == 0 {
            make_known(&router, flow, ifindex);
            testing::distrust_flows(&router).unwrap();
            let (out, ..) = fares(&router, &flow.frame, ifindex);
            assert_eq!(out.action, PASS, "the firewall has changed");
        }
        if out.action == REDIRECT {
            express += 1;
            without_lookup += u64::from(looked_up == 0);
        }
    }
    router.detach().unwrap();
    println!("{express} express, {without_lookup} of them known");
    assert!(
        without_lookup > frames / 10 && express > without_lookup,
        "{express} {without_lookup}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_known_of_a_flow_is_looked_up_again_after_a_fifteenth_of_a_second() {
    let flows = flows();
    let (ifindex, mut router) = router_of(&flows);
    for flow in &flows {
        router.keep_watch().unwrap();
        make_known(&router, flow, ifindex);
        std::thread::sleep(std::time::Duration::from_millis(80));
        let (out, _, looked_up) = fares(&router, &flow.frame, ifindex);
        assert_eq!((out.action, looked_up), (REDIRECT, 1), "{}", flow.tracked);
    }
    router.detach().unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn whoever_sends_many_flows_has_no_known_one_forgotten() {
    let flow = Flow::new(0, false, udp(30, 0), "");
    let (ifindex, mut router) = router_of(std::slice::from_ref(&flow));
    let mut rng = Pcg64Mcg::seed_from_u64(number("RXLANE_SEED", 20_261_130));
    let mut looked_up = 0;
    make_known(&router, &flow, ifindex);
    const PACKETS: u64 = 2000;
    for n in 0..PACKETS {
        if n % 100 == 0 {
            router.keep_watch().unwrap();
        }
        // Two packets of each, as of what is worth to be remembered: in all five times what there is room for.
        for _ in 0..20 {
            let mut scan = flow.frame.clone();
            scan[26..30].copy_from_slice(&[10, 1, rng.random(), rng.random()]);
            scan[34..36].copy_from_slice(&rng.random::<[u8; 2]>());
            check(&mut scan[14..]);
            for _ in 0..2 {
                testing::run(&router, &scan, ifindex).unwrap();
            }
        }
        let (out, _, lookups) = fares(&router, &flow.frame, ifindex);
        assert_eq!(out.action, REDIRECT);
        looked_up += lookups;
    }
    router.detach().unwrap();
    // It is looked up fifteen times a second in any case, and after a standstill of the machine.
    println!("{looked_up} of {PACKETS} looked up");
    assert!(looked_up < PACKETS / 4, "{looked_up}");
}
