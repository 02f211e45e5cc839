//! Captures as traffic with classes: what is handled, and what is refused with the packet, the cause and the cure.

use std::path::PathBuf;

use rxlane_sim::SimError;
use rxlane_sim::capture::{Classes, Recording, classified};
use rxlane_sim::outcome::simulate;
use rxlane_sim::scenario::{Loaded, load, parse};
use rxlane_sim::sweep::Sweep;
use rxlane_sim::traffic::Pattern;

const ROUTER: &str = r#"
ports = ["wan0", "lan0"]
overlap = "first-match"
[[class]]
name = "voice"
lane = "express"
trust = "all"
match = [{ dscp = "EF" }, { vlan = 7 }]
[[class]]
name = "web"
lane = "stack"
match = [{ protocol = "udp", dst_port = 443 }, { port = "lan0", dst_port = 80 }]
[[class]]
name = "rest"
lane = "stack"
"#;

const MICROSECONDS: u32 = 0xa1b2_c3d4;
const NANOSECONDS: u32 = 0xa1b2_3c4d;
const ETHERNET: u32 = 1;
const RAW: u32 = 101;
const COOKED: u32 = 113;
const COOKED_2: u32 = 276;

/// UDP to a port with a DSCP, without a link's header.
fn udp(dscp: u8, port: u16) -> Vec<u8> {
    let mut packet = vec![0x45, dscp << 2, 0, 128, 0, 0, 0x40, 0, 64, 17, 0, 0];
    packet.extend([10, 0, 0, 1, 10, 1, 0, 1, 0x10, 0]);
    packet.extend(port.to_be_bytes());
    packet.resize(128, 0);
    packet
}

fn udp6(port: u16) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0, 0, 88, 17, 64];
    packet.extend([0x20; 32]);
    packet.extend([0x10, 0]);
    packet.extend(port.to_be_bytes());
    packet.resize(128, 0);
    packet
}

fn framed(head: &[u8], packet: &[u8]) -> Vec<u8> {
    [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2], head, packet].concat()
}

fn ethernet(dscp: u8, port: u16) -> Vec<u8> {
    framed(&[8, 0], &udp(dscp, port))
}

/// A pcap of packets at so many units of the magic's time, each kept up to `snaplen` bytes.
fn pcap(magic: u32, link: u32, snaplen: usize, packets: &[(u32, Vec<u8>)]) -> Vec<u8> {
    let header = [magic, 0x0004_0002, 0, 0, snaplen as u32, link];
    let mut file: Vec<u8> = header.into_iter().flat_map(u32::to_le_bytes).collect();
    for (at, packet) in packets {
        let kept = &packet[..packet.len().min(snaplen)];
        let header = [1, *at, kept.len() as u32, packet.len() as u32];
        file.extend(header.into_iter().flat_map(u32::to_le_bytes));
        file.extend(kept);
    }
    file
}

/// A pcapng of packets (interface, units, bytes) on interfaces with a name and a unit of 10^-resolution s.
fn pcapng(interfaces: &[(&str, u8)], packets: &[(u32, u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let length = (body.len() as u32 + 12).to_le_bytes();
        file.extend([&kind.to_le_bytes()[..], &length, body, &length].concat());
    };
    let section = [0x1a2b_3c4du32, 1, u32::MAX, u32::MAX];
    block(0x0a0d_0d0a, &section.map(u32::to_le_bytes).concat());
    for (name, resolution) in interfaces {
        let mut body = vec![1, 0, 0, 0, 0, 0, 0, 0, 2, 0, name.len() as u8, 0];
        body.extend(name.as_bytes());
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend([9, 0, 1, 0, *resolution, 0, 0, 0, 0, 0, 0, 0]);
        block(1, &body);
    }
    for (interface, at, packet) in packets {
        let (high, low, length) = ((at >> 32) as u32, *at as u32, packet.len() as u32);
        let head = [*interface, high, low, length, length];
        let mut body = head.map(u32::to_le_bytes).concat();
        body.extend(packet);
        body.resize(body.len().next_multiple_of(4), 0);
        block(6, &body);
    }
    file
}

fn read(file: &[u8]) -> Result<Recording, String> {
    read_by(ROUTER, file, None)
}

fn read_by(router: &str, file: &[u8], port: Option<&str>) -> Result<Recording, String> {
    let router = rxlane_config::parse(router).unwrap();
    classified(
        file,
        &Classes::new(&router.ports, &router.classes, port, None).unwrap(),
    )
}

fn classes(recording: &Recording) -> Vec<u8> {
    recording.packets.iter().map(|p| p.class).collect()
}

fn without_ports() -> String {
    ROUTER.replace(", { port = \"lan0\", dst_port = 80 }", "")
}

/// A folder with a router, a capture and a scenario that names both.
fn folder(name: &str, capture: &[u8], keys: &str) -> (PathBuf, Result<Loaded, SimError>) {
    let folder =
        std::env::temp_dir().join(format!("rxlane-captures-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("rxlane.toml"), without_ports()).unwrap();
    std::fs::write(folder.join("a.pcap"), capture).unwrap();
    let pattern =
        "pattern = { pattern = \"capture\", file = \"a.pcap\", router = \"rxlane.toml\" }";
    std::fs::write(
        folder.join("s.toml"),
        format!("seconds = 0.05\n[traffic]\n{pattern}\n{keys}\n"),
    )
    .unwrap();
    let loaded = load(&folder.join("s.toml"), &[]);
    (folder, loaded)
}

#[test]
fn packets_have_the_classes_that_the_router_would_give_them() {
    let tagged = framed(&[0x81, 0, 0, 7, 8, 0], &udp(0, 9));
    let v6 = framed(&[0x86, 0xdd], &udp6(443));
    let arp = framed(&[8, 6], &[0; 46]);
    let broadcast = [&[0xff; 6][..], &ethernet(46, 443)[6..]].concat();
    let packets = [
        ethernet(46, 443),
        tagged,
        v6,
        ethernet(0, 443),
        ethernet(0, 53),
        arp,
        broadcast,
    ];
    let timed: Vec<_> = (0u32..).map(|i| i * 100).zip(packets).collect();
    let recording = read_by(
        &without_ports(),
        &pcap(MICROSECONDS, ETHERNET, 65535, &timed),
        None,
    )
    .unwrap();
    assert_eq!(classes(&recording), [0, 0, 1, 1, 2, 2, 2]);
    assert!((recording.pps - 1e4).abs() < 1e-6, "{}", recording.pps);
    assert_eq!(recording.packets[0].bytes, 128 + 14 + 4);
    assert_eq!(recording.packets[5].bytes, 64);
    assert!((recording.shares.iter().sum::<f64>() - 1.0).abs() < 1e-12);
}

#[test]
fn the_same_packets_on_other_links_have_the_same_classes() {
    let raw = [
        (0, udp(46, 9)),
        (10, udp(0, 443)),
        (20, udp6(443)),
        (30, udp(0, 9)),
    ];
    let cooked = |kind: u8, packet: &[u8]| {
        [&[0, kind, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 8, 0], packet].concat()
    };
    let cooked_2 = |packet: &[u8]| {
        [
            &[8, 0, 0, 0, 0, 0, 0, 1, 0, 1, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0],
            packet,
        ]
        .concat()
    };
    let router = without_ports();
    let of = |link, packets: &[(u32, Vec<u8>)]| {
        classes(&read_by(&router, &pcap(NANOSECONDS, link, 65535, packets), None).unwrap())
    };
    assert_eq!(of(RAW, &raw), [0, 1, 1, 2]);
    // What the machine has sent has not arrived at it, and what was for others is not its own.
    let sent = [
        (0, cooked(0, &udp(46, 9))),
        (5, cooked(4, &udp(46, 9))),
        (9, cooked(3, &udp(46, 9))),
    ];
    assert_eq!(of(COOKED, &sent), [0, 2]);
    let cooked_2 = [(0, cooked_2(&udp(46, 9))), (5, cooked_2(&udp(0, 443)))];
    assert_eq!(of(COOKED_2, &cooked_2), [0, 1]);
    let refused = read(&pcap(MICROSECONDS, 105, 65535, &raw)).unwrap_err();
    assert!(
        refused.starts_with("packet 1: link type 105") && refused.contains("record on"),
        "{refused}"
    );
}

#[test]
fn a_short_snaplen_is_enough_where_the_class_needs_no_more() {
    let packets = [
        (0, ethernet(46, 443)),
        (10, ethernet(0, 443)),
        (20, ethernet(0, 53)),
    ];
    let router = without_ports();
    let of = |snaplen| {
        read_by(
            &router,
            &pcap(MICROSECONDS, ETHERNET, snaplen, &packets),
            None,
        )
    };
    let whole = of(65535).unwrap();
    assert_eq!(of(14 + 20 + 4).unwrap(), whole);
    let refused = of(14 + 20 + 3).unwrap_err();
    assert!(
        refused.starts_with("packet 1: 37 bytes of it were kept, and its class needs 38"),
        "{refused}"
    );
    assert!(refused.contains("snaplen of at least 96"), "{refused}");
    let by_bytes = router.replace("{ vlan = 7 }", "{ bytes = { offset = 50, value = 1 } }");
    let refused =
        read_by(&by_bytes, &pcap(MICROSECONDS, ETHERNET, 42, &packets), None).unwrap_err();
    assert!(refused.contains("its class needs 52"), "{refused}");
}

#[test]
fn times_are_read_in_the_units_of_the_file() {
    let packets = [
        (0, ethernet(0, 1)),
        (1000, ethernet(0, 1)),
        (3000, ethernet(0, 1)),
    ];
    let rate = |magic| {
        read_by(
            &without_ports(),
            &pcap(magic, ETHERNET, 65535, &packets),
            None,
        )
        .unwrap()
        .pps
    };
    assert!((rate(MICROSECONDS) - 2.0 / 3e-3).abs() < 1e-6);
    assert!((rate(NANOSECONDS) - 2.0 / 3e-6).abs() < 1e-3);
    for (resolution, unit) in [(3, 1e-3), (6, 1e-6), (9, 1e-9), (0x80 | 10, 1.0 / 1024.0)] {
        let packets = [(0, 1024, ethernet(0, 1)), (0, 3072, ethernet(0, 1))];
        let recording = read_by(
            &without_ports(),
            &pcapng(&[("eth0", resolution)], &packets),
            None,
        )
        .unwrap();
        assert!(
            (recording.pps * 2048.0 * unit - 1.0).abs() < 1e-3,
            "{resolution}: {}",
            recording.pps
        );
    }
}

#[test]
fn packets_a_little_out_of_order_are_sorted_and_a_clock_that_was_set_is_refused() {
    let swapped = [
        (0, ethernet(46, 1)),
        (200, ethernet(0, 53)),
        (100, ethernet(46, 2)),
    ];
    let recording = read_by(
        &without_ports(),
        &pcap(MICROSECONDS, ETHERNET, 65535, &swapped),
        None,
    )
    .unwrap();
    assert_eq!(classes(&recording), [0, 0, 2]);
    let gaps: Vec<f64> = recording.packets.iter().map(|p| p.gap).collect();
    assert_eq!(gaps, [1.0, 1.0, 1.0]);
    let set = [
        (0, 5_000_000_000, ethernet(0, 1)),
        (0, 3_000_000_000, ethernet(0, 1)),
    ];
    let refused = read_by(&without_ports(), &pcapng(&[("wan0", 9)], &set), None).unwrap_err();
    assert!(
        refused.starts_with("packet 2: it is 2.000 s before") && refused.contains("reordercap"),
        "{refused}"
    );
}

#[test]
fn the_port_is_that_of_the_interface_or_the_one_that_is_given() {
    let packets = [(0, 0, ethernet(0, 80)), (1, 10, ethernet(0, 80))];
    let named = pcapng(&[("wan0", 6), ("lan0", 6)], &packets);
    assert_eq!(classes(&read(&named).unwrap()), [2, 1]);
    let unnamed = pcap(
        MICROSECONDS,
        ETHERNET,
        65535,
        &[(0, ethernet(0, 80)), (9, ethernet(0, 80))],
    );
    let refused = read(&unnamed).unwrap_err();
    assert!(
        refused.starts_with("packet 1: ") && refused.contains("say port = \"wan0\""),
        "{refused}"
    );
    assert_eq!(
        classes(&read_by(ROUTER, &unnamed, Some("lan0")).unwrap()),
        [1, 1]
    );
    let router = rxlane_config::parse(ROUTER).unwrap();
    let none = Classes::new(&router.ports, &router.classes, Some("eth9"), None).unwrap_err();
    assert_eq!(none, "eth9: none of the ports: use wan0, lan0");
}

#[test]
fn what_is_no_capture_or_a_broken_one_is_refused_with_the_packet() {
    let whole = pcapng(
        &[("wan0", 6)],
        &[(0, 0, ethernet(0, 1)), (0, 10, ethernet(0, 1))],
    );
    let cut = read(&whole[..whole.len() - 20]).unwrap_err();
    assert!(
        cut.starts_with("packet 2: ") && cut.contains("cut short"),
        "{cut}"
    );
    let strange = read(&pcapng(&[("wan0", 6)], &[(3, 0, ethernet(0, 1))])).unwrap_err();
    assert!(
        strange.contains("packet 1: the file does not describe its interface, number 3"),
        "{strange}"
    );
    assert!(
        read(&[0x1f, 0x8b, 8, 0, 0, 0])
            .unwrap_err()
            .contains("gunzip")
    );
    assert!(
        read(b"not a capture at all, but text")
            .unwrap_err()
            .contains("pcap or pcapng format")
    );
    assert!(
        read(&pcap(MICROSECONDS, ETHERNET, 65535, &[]))
            .unwrap_err()
            .contains("record more")
    );
}

#[test]
fn a_scenario_replays_classes_sizes_and_rate_into_the_rings() {
    let packets: Vec<_> = (0..2000u32)
        .map(|i| (i * 5, ethernet(if i % 4 == 0 { 46 } else { 0 }, 53)))
        .collect();
    let capture = pcap(MICROSECONDS, ETHERNET, 96, &packets);
    let (at, loaded) = folder("rate", &capture, "");
    let scenario = loaded.unwrap().scenario;
    assert!((scenario.traffic.pps - 2e5).abs() < 1e-3 && scenario.traffic.frame == 146);
    let outcome = simulate(&scenario, 0).unwrap();
    let get = |name: &str| outcome.get(name).unwrap();
    assert!((get("arrived") - 1e4).abs() < 20.0, "{}", get("arrived"));
    assert!((get("packets.c0") / get("arrived") - 0.25).abs() < 0.01);
    assert_eq!(get("packets.c1"), 0.0);
    assert_eq!(simulate(&scenario, 0).unwrap().metrics, outcome.metrics);
    let faster = load(&at.join("s.toml"), &["traffic.pps=1e6".into()])
        .unwrap()
        .scenario;
    assert!((simulate(&faster, 0).unwrap().get("arrived").unwrap() - 5e4).abs() < 100.0);
    // Points of a sweep do not read it again.
    let swept = load(&at.join("s.toml"), &[]).unwrap();
    std::fs::remove_file(at.join("a.pcap")).unwrap();
    let slower = swept.with([("traffic.pps".into(), 1e3.into())]).unwrap();
    assert_eq!(slower.scenario.traffic.shares, scenario.traffic.shares);
    assert_eq!(
        Sweep::new(&swept).unwrap().point(0).unwrap().scenario,
        scenario
    );
    assert!(
        swept
            .with([("traffic.pattern.port".into(), "lan0".into())])
            .is_err()
    );
    let Pattern::Capture { recording, .. } = &faster.traffic.pattern else {
        panic!()
    };
    assert_eq!(recording.packets.len(), 2000);
    std::fs::remove_dir_all(at).unwrap();
}

#[test]
fn a_pattern_that_is_set_replaces_that_of_the_file() {
    let text = "[traffic]\npattern = { pattern = \"on-off\", mean_burst = 8 }\n";
    let set = ["traffic.pattern={ pattern = \"cbr\", jitter = 0.5 }".into()];
    let loaded = parse(text, "s.toml".as_ref(), &set).unwrap();
    assert_eq!(
        loaded.scenario.traffic.pattern,
        Pattern::Cbr { jitter: 0.5 }
    );
}

#[test]
fn a_scenario_names_the_file_and_what_is_wrong_with_it() {
    let good = pcap(
        MICROSECONDS,
        ETHERNET,
        96,
        &[(0, ethernet(0, 1)), (9, ethernet(0, 1))],
    );
    let (at, _) = folder("wrong", &good, "");
    let said = |keys: &str| folder("wrong", &good, keys).1.unwrap_err().to_string();
    assert!(said("rt_ratio = 0.3").contains("traffic.rt_ratio = 0.3: leave it out"));
    let short = folder(
        "wrong",
        &pcap(MICROSECONDS, ETHERNET, 20, &[(0, ethernet(0, 1))]),
        "",
    )
    .1;
    let short = short.unwrap_err().to_string();
    assert!(short.contains("a.pcap: packet 1: 20 bytes"), "{short}");
    let pattern = |rest: &str| {
        let text = format!(
            "[traffic]\npattern = {{ pattern = \"capture\", file = \"a.pcap\", {rest} }}\n"
        );
        parse(&text, &at.join("s.toml"), &[])
            .unwrap_err()
            .to_string()
    };
    assert!(
        pattern("router = \"no.toml\"").contains("no.toml"),
        "{}",
        pattern("router = \"no.toml\"")
    );
    assert!(pattern("file2 = 1").contains("unknown field"));
    assert!(pattern("router = \"rxlane.toml\", mac = \"2\"").contains("02:00:00:00:00:01"));
    std::fs::write(at.join("bad.toml"), "ports = []\n").unwrap();
    assert!(
        pattern("router = \"bad.toml\"").contains("bad.toml:1: "),
        "{}",
        pattern("router = \"bad.toml\"")
    );
    std::fs::remove_dir_all(at).unwrap();
}
