//! Frames, read by the reference parser and classified by compiled rules.

use std::sync::LazyLock;

use rxlane_policy::class::Class;
use rxlane_policy::compile::Classifier;
use rxlane_policy::headers::{HEAD, Headers, Obstacle, Parsed, parse};
use rxlane_policy::rule::{Rule, first_match};

/// A rule for every field of a packet.
const ROUTER: &str = r#"
ports = ["wan0", "lan0"]
overlap = "first-match"

[[class]]
name = "voice"
lane = "express"
trust = "all"
match = [
    { dscp = ["EF", 44], protocol = "udp" },
    { dst_port = ["5000-6000"], src = ["10.0.0.0/8", "2001:db8::/32"] },
    { bytes = { offset = 36, value = 0x1230, mask = 0xfff0 } },
]

[[class]]
name = "tagged"
lane = "stack"
match = [{ vlan = [5, 4095] }, { pcp = 6 }, { port = "lan0", src_port = [53, "0-9"] }]

[[class]]
name = "rest"
lane = "stack"
"#;

static CLASSES: LazyLock<(Vec<Class>, Classifier)> = LazyLock::new(|| {
    let classes = match rxlane_config::parse(ROUTER) {
        Ok(config) => config.classes,
        Err(complaints) => panic!("line {complaints}"),
    };
    let classifier = Classifier::compile(&classes).expect("these rules are few");
    (classes, classifier)
});

/// The frame is one that came in on either port and is for the address that it names, so all of it is read.
pub(crate) fn headers(frame: &[u8]) {
    let mac = frame.first_chunk().copied().unwrap_or_default();
    for port in [0, 1] {
        match parse(frame, port, mac) {
            Parsed::Ip(headers) => hold(frame, &headers),
            Parsed::NotToUs => panic!("it is for the address that it names"),
            Parsed::NotIp | Parsed::Malformed => {}
        }
    }
    let mut other = mac;
    other[5] ^= 1;
    let whole = frame.len() >= 14;
    assert_eq!(parse(frame, 0, other) == Parsed::NotToUs, whole);
}

fn hold(frame: &[u8], headers: &Headers) {
    assert!(headers.dscp < 64);
    assert_eq!(headers.src.is_ipv4(), headers.dst.is_ipv4());
    assert_eq!(headers.src_port.is_some(), headers.dst_port.is_some());
    assert!(headers.vlan.is_none_or(|tag| tag.id < 4096 && tag.pcp < 8));
    assert_eq!(
        headers.vlan.is_some(),
        headers.obstacle == Some(Obstacle::Vlan)
    );
    assert!(!headers.fragment || headers.obstacle.is_some());
    for offset in 0..=u8::MAX {
        let at = usize::from(offset);
        let there = frame[..frame.len().min(HEAD)].get(at..at + 2);
        let there = there.map(|w| u16::from_be_bytes([w[0], w[1]]));
        assert_eq!(headers.word(offset), there);
    }
    let (classes, classifier) = &*CLASSES;
    let rules: Vec<(usize, &Rule)> = classes
        .iter()
        .enumerate()
        .flat_map(|(c, class)| class.rules.iter().map(move |r| (c, r)))
        .collect();
    let first = first_match(rules.iter().map(|(_, r)| *r), headers);
    let class = first.map_or(classes.len() - 1, |i| rules[i].0);
    assert_eq!(usize::from(classifier.classify(headers)), class);
}
