//! What rules that a kernel has say of a flow, with the rules that decide.

mod common;

use std::collections::BTreeMap;

use common::{beside, load, nft, read};
use rxlane_ruleset::evaluate::{Answer, Evaluator, Flow, Stage};
use rxlane_ruleset::nft::Elements;
use rxlane_system::{links, ruleset};

/// UDP from a phone behind lan0 to a host behind wan0.
fn call() -> Flow {
    Flow {
        ingress: Some("lan0".into()),
        egress: Some("wan0".into()),
        source: [10, 2, 0, 10].into(),
        destination: [10, 1, 0, 20].into(),
        protocol: 17,
        ports: Some((40_000, 5060)),
        tos: Some(0xb8),
        ttl: Some(64),
        source_mac: Some([2, 0, 0, 0, 0, 9]),
    }
}

/// What the rules of this network namespace say.
fn answer(flow: &Flow, stage: Stage) -> Answer {
    let links = links::all().unwrap();
    let (tables, unread) = ruleset::tables(&links, Elements::All).unwrap();
    assert!(unread.is_empty());
    let devices: BTreeMap<u32, String> = links.into_iter().map(|l| (l.ifindex, l.name)).collect();
    let evaluator = Evaluator {
        tables: &tables,
        devices: &devices,
    };
    evaluator.answer(flow, stage)
}

/// The outcome and the first rule that decides, without its number.
fn said(flow: &Flow, stage: Stage) -> String {
    let answer = answer(flow, stage);
    let because = answer.because.first().map(|deciding| {
        let handle = if deciding.handle.is_some() {
            "a rule"
        } else {
            "the policy"
        };
        let why = deciding.why.as_deref().map(|why| format!(": it {why}"));
        let (chain, what) = (&deciding.chain, &deciding.what);
        format!(" ({handle} of {chain} {what}{})", why.unwrap_or_default())
    });
    format!("{}{}", answer.outcome.name(), because.unwrap_or_default())
}

#[test]
#[ignore = "needs root: make test"]
fn rules_are_asked_as_the_kernel_asks_them() {
    let sets = "set nets { type ipv4_addr; flags interval; elements = { 10.1.0.0/24, 192.0.2.1-192.0.2.9 };; };;
        set ways { type ipv4_addr . inet_service; flags interval; elements = { 10.1.0.0/27 . 5000-5100 };; };;
        set none { type ipv4_addr;; };;
        map marks { type ipv4_addr : mark; elements = { 10.2.0.10 : 7 };; };;
        chain sub { udp dport 5060 return;; drop;; };;";
    for (rules, opening, established) in [
        (
            "",
            "accept (the policy of f accepts)",
            "accept (the policy of f accepts)",
        ),
        (
            "ct state established accept;; drop",
            "drop (a rule of f drops)",
            "accept (a rule of f accepts)",
        ),
        // Intervals, ranges of a concatenation, maps, jumps that come back.
        (
            "ip daddr @nets accept;; drop",
            "accept (a rule of f accepts)",
            "accept (a rule of f accepts)",
        ),
        (
            "ip daddr . udp dport @ways drop",
            "drop (a rule of f drops)",
            "drop (a rule of f drops)",
        ),
        (
            "ip saddr @none drop;; jump sub;; drop",
            "drop (a rule of f drops)",
            "drop (a rule of f drops)",
        ),
        (
            "ip saddr != @none accept;; drop",
            "accept (a rule of f accepts)",
            "accept (a rule of f accepts)",
        ),
        (
            "meta mark set ip saddr map @marks;; meta mark 7 drop",
            "drop (a rule of f drops)",
            "drop (a rule of f drops)",
        ),
        (
            "udp dport vmap { 53 : accept, 5060 : goto sub };; drop",
            "accept (the policy of f accepts)",
            "accept (the policy of f accepts)",
        ),
        // Routing has taken a hop; the mark is compared as it came.
        (
            "ip ttl 63 ip dscp ef drop",
            "drop (a rule of f drops)",
            "drop (a rule of f drops)",
        ),
        // What packets of a flow differ in.
        (
            "meta length > 500 drop",
            "depends (a rule of f drops: it asks for the length of packets)",
            "depends (a rule of f drops: it asks for the length of packets)",
        ),
        (
            "ct state new limit rate 5/second accept;; ct state new drop",
            "depends (a rule of f accepts: it limits packets)",
            "accept (the policy of f accepts)",
        ),
        // Both ways end alike.
        (
            "meta length > 500 accept",
            "accept (a rule of f accepts)",
            "accept (a rule of f accepts)",
        ),
    ] {
        beside(|| {
            nft(&format!(
                "table ip t {{;; {sets} chain f {{ type filter hook forward priority 0;; {rules};; }};; }}"
            ));
            assert_eq!(said(&call(), Stage::Opening), opening, "{rules}");
            assert_eq!(said(&call(), Stage::Established), established, "{rules}");
            // Such a rule keeps flows with Linux, too.
            let depends = established.starts_with("depends");
            assert!(!depends || !read().per_packet.is_empty(), "{rules}");
        });
    }
}

#[test]
#[ignore = "needs root: make test"]
fn packets_of_a_translated_flow_are_translated_like_its_first_one() {
    beside(|| {
        nft(
            "table ip t {;; chain d { type nat hook prerouting priority dstnat;; udp dport 5060 dnat to 192.0.2.7:5070;; };;
             chain f { type filter hook forward priority 0; policy drop;; ip daddr 192.0.2.7 udp dport 5070 accept;; };;
             chain s { type nat hook postrouting priority srcnat;; masquerade;; };;
             chain e { type filter hook postrouting priority 110;; ip saddr 10.2.0.10 drop;; };; }",
        );
        for stage in [Stage::Opening, Stage::Established] {
            let answer = answer(&call(), stage);
            let because: Vec<String> = answer.because.iter().map(|d| d.what.clone()).collect();
            assert_eq!(answer.outcome.name(), "depends", "{because:?}");
            let why = answer.because.first().and_then(|d| d.why.as_deref());
            assert_eq!(why, Some("asks what is not known of the flow"));
        }
        // To another port it is not translated.
        let other = Flow {
            ports: Some((40_000, 5061)),
            ..call()
        };
        assert_eq!(said(&other, Stage::Opening), "drop (the policy of f drops)");
    });
}

#[test]
#[ignore = "needs root: make test"]
fn iptables_of_both_kinds_are_asked_alike() {
    let rules = "*filter\n:FORWARD DROP [0:0]\n:sub - [0:0]\n-A FORWARD -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT\n-A FORWARD -i lan0 -o wan0 -s 10.2.0.0/24 -p udp -m udp --dport 5000:5100 -j sub\n-A FORWARD -i lan0 -m length --length 0:90 -j ACCEPT\n-A sub -d 10.1.0.20/32 -j ACCEPT\n-A sub -j RETURN\nCOMMIT\n";
    for tool in ["iptables-legacy-restore", "iptables-nft-restore"] {
        beside(|| {
            load(tool, &[], rules);
            assert_eq!(
                said(&call(), Stage::Opening),
                "accept (a rule of sub accepts)",
                "{tool}"
            );
            let established = said(&call(), Stage::Established);
            assert_eq!(established, "accept (a rule of FORWARD accepts)", "{tool}");
            let other = Flow {
                destination: [10, 1, 0, 21].into(),
                ..call()
            };
            let wanted = "depends (a rule of FORWARD accepts: it asks for the length of packets)";
            assert_eq!(said(&other, Stage::Opening), wanted, "{tool}");
            let outside = Flow {
                ingress: Some("wan0".into()),
                ..call()
            };
            assert_eq!(
                said(&outside, Stage::Opening),
                "drop (the policy of FORWARD drops)",
                "{tool}"
            );
        });
    }
}
