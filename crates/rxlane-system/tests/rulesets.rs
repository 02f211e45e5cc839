//! What is read of rules that a kernel has: those of common firewalls keep nothing, and each kind of rule that must see every packet
//! is found with the flows that can meet it.

mod common;

use common::{beside, load, nft, read, sh};
use rxlane_ruleset::Ruleset;

/// What was found of established flows, a line for each.
fn said() -> Vec<String> {
    said_of(true)
}

/// The same of flows that connection tracking sees, or of others.
fn said_of(are_tracked: bool) -> Vec<String> {
    let mut all = read().per_packet;
    all.retain(|p| p.meets.tracked.is_none_or(|tracked| tracked == are_tracked));
    for p in &mut all {
        assert!(!p.rules.is_empty(), "{p} names no rule");
        p.rules.clear();
        p.meets.tracked = None;
    }
    all.iter().map(ToString::to_string).collect()
}

const FORWARD: &str = "type filter hook forward priority 0;";

/// What is found of a rule of a forward chain.
fn of_rule(rule: &str) -> Vec<String> {
    beside(|| {
        nft(&format!(
            "table inet t {{;; {} chain f {{ {FORWARD} {rule};; }};; }}",
            SETS
        ));
        said()
    })
}

const SETS: &str = "set s { type ipv4_addr; flags dynamic,timeout; timeout 1m;; };; quota q { over 10 mbytes };; limit l { rate 5/second };;
    chain sub { limit rate 5/second drop;; };;";

#[test]
#[ignore = "needs root: make test"]
fn common_firewalls_keep_no_established_flow() {
    let nftables = [
        ("fw4", include_str!("rulesets/fw4.nft")),
        ("firewalld", include_str!("rulesets/firewalld.nft")),
    ];
    for (name, text) in nftables {
        // Kernels without flowtables take the rest.
        let has = |line: &&str| !line.contains("flowtable ft") && !line.contains("flow add");
        let lines: Vec<&str> = text.lines().filter(has).collect();
        beside(|| {
            nft(&lines.join("\n"));
            assert_eq!(said(), [""; 0], "{name}");
            let read = read();
            assert!(!read.uses.source_mac, "{name}");
            let acts = read
                .hooks
                .iter()
                .any(|h| h.effects.filters && !h.place.is_local());
            assert!(acts, "{name} filters");
        });
    }
    let rules = [
        ("docker", include_str!("rulesets/docker.rules")),
        ("ufw", include_str!("rulesets/ufw.rules")),
        ("proxmox", include_str!("rulesets/proxmox.rules")),
    ];
    for (name, text) in rules {
        for tool in ["iptables-legacy-restore", "iptables-nft-restore"] {
            beside(|| {
                load(tool, &[], text);
                assert_eq!(said(), [""; 0], "{name} by {tool}");
                let read = read();
                let filters =
                    |h: &rxlane_ruleset::Hook| h.effects.filters && h.place.name() == "forward";
                assert!(
                    read.hooks.iter().any(filters),
                    "{name} by {tool}: {:?}",
                    read.hooks
                );
            });
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_must_see_every_packet_is_found_with_the_flows_that_meet_it() {
    for (rule, wanted) in [
        (
            "ip saddr 10.0.0.0/8 tcp sport 80-90 log group 7",
            "logs packets to group 7 (of flows: TCP, IPv4, from 10.0.0.0/8, from ports 80 to 90)",
        ),
        // Ranges and sets of a rule itself.
        (
            "ip saddr 10.2.0.128-10.2.0.255 log group 7",
            "logs packets to group 7 (of flows: IPv4, from 10.2.0.128/25)",
        ),
        (
            "ip saddr { 10.2.0.98, 10.2.0.99 } log group 7",
            "logs packets to group 7 (of flows: IPv4, from 10.2.0.98/31)",
        ),
        (
            "ip daddr { 10.1.0.0/24, 10.1.1.3-10.1.1.9 } log group 7",
            "logs packets to group 7 (of flows: IPv4, to 10.1.0.0/23)",
        ),
        (
            "udp dport { 5000-5100, 6000 } log group 7",
            "logs packets to group 7 (of flows: UDP, to ports 5000 to 6000)",
        ),
        (
            "ip6 saddr { fd00::/16, fd01::1-fd01::ffff } log group 7",
            "logs packets to group 7 (of flows: IPv6, from fd00::/15)",
        ),
        (
            "iifname lan0 oifname wan0 limit rate over 5/second drop",
            "limits packets (of flows: in by `lan0`, out by `wan0`)",
        ),
        (
            "ip6 daddr fd00::/8 quota over 5 mbytes drop",
            "counts bytes against a quota (of flows: IPv6, to fd00::/8)",
        ),
        (
            "udp dport { 53, 5060 } ct original bytes > 5000 drop",
            "asks for counters of connections (of flows: UDP, to ports 53 to 5060)",
        ),
        (
            "numgen random mod 2 0 drop",
            "treats packets by turns or by chance (of all flows)",
        ),
        (
            "meta hour \"08:00\"-\"17:00\" drop",
            "asks for the time (of all flows)",
        ),
        (
            "tcp dport 80 meta length > 1000 drop",
            "asks for the length of packets (of flows: TCP, to port 80)",
        ),
        (
            "meta l4proto tcp ct expiration < 10s drop",
            "asks when connections expire (of flows: TCP)",
        ),
        (
            "udp dport 5 add @s { ip saddr }",
            "fills the set s (of flows: UDP, IPv4, to port 5)",
        ),
        (
            "quota name q drop",
            "counts bytes against a quota (of all flows)",
        ),
        ("limit name l accept", "limits packets (of all flows)"),
        (
            "tcp dport vmap { 22 : jump sub, 80 : accept }",
            "the chain inet t sub at forward limits packets (of flows: TCP, to port 22)",
        ),
        ("ct state established log", "logs packets (of all flows)"),
        (
            "@ih,0,32 0x12345678 drop",
            "looks into packets (of all flows)",
        ),
        (
            "udp length 8-100 drop",
            "looks into packets (of flows: UDP)",
        ),
        (
            "tcp flags & psh == psh drop",
            "asks for flags of TCP (of flows: TCP)",
        ),
        ("tcp dport != 22 log", "logs packets (of flows: TCP)"),
        ("meta l4proto != tcp log", "logs packets (of flows: UDP)"),
        ("ct count over 5 drop", "counts connections (of all flows)"),
        // What counts packets counts those that the rest of the rule is not about.
        (
            "limit rate 10/second udp dport 53 drop",
            "limits packets (of all flows)",
        ),
        (
            "tcp dport 443 numgen inc mod 3 1 meta mark set 1",
            "treats packets by turns or by chance (of flows: TCP, to port 443)",
        ),
        (
            "limit rate 5/second ct state new accept",
            "limits packets (of all flows)",
        ),
        (
            "udp dport 5004 ip dscp set ef",
            "gives packets other types of service or TTLs (of flows: UDP, IPv4, to port 5004)",
        ),
        (
            "oifname wan0 ip6 dscp set cs1",
            "gives packets other types of service or TTLs (of flows: IPv6, out by `wan0`)",
        ),
        (
            "meta length > 1000 tcp dport 80 drop",
            "asks for the length of packets (of flows: TCP, to port 80)",
        ),
    ] {
        let found = of_rule(rule);
        assert!(
            found.len() == 1 && found[0].contains(wanted),
            "{rule}: {found:?}"
        );
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_counts_in_front_of_a_log_is_found_beside_it() {
    let found = of_rule("limit rate 5/second udp dport 53 log");
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found
            .iter()
            .any(|f| f.contains("limits packets (of all flows)"))
    );
    assert!(
        found
            .iter()
            .any(|f| f.contains("logs packets (of flows: UDP, to port 53)"))
    );
}

#[test]
#[ignore = "needs root: make test"]
fn what_no_established_packet_reaches_or_meets_keeps_nothing() {
    for rule in [
        "ct state established,related accept; log",
        "ct state { established, related } accept; log group 1",
        "ct state vmap { established : accept, invalid : drop }; limit rate 5/second accept",
        "ct state new limit rate 5/second accept",
        "limit rate 5/second counter",
        "ct state invalid,untracked log drop",
        "meta l4proto icmp limit rate 5/second accept",
        "meta l4proto { icmp, ipv6-icmp } limit rate 5/second accept",
        "icmp type echo-request limit rate 5/second accept",
        "ip protocol esp log",
        "tcp flags syn log",
        "tcp flags & (syn | rst) == syn limit rate 5/second accept",
        "tcp flags & (fin|syn|rst|psh|ack|urg) == 0x0 log drop",
        "tcp flags & (fin|psh|urg) == fin|psh|urg log drop",
        "tcp option maxseg size 1-500 log drop",
        "frag frag-off 0 log",
        "accept; log",
        "meta length > 1000 counter",
        "jump ends; log",
    ] {
        let found = beside(|| {
            let ends = "chain ends { ct state established goto out;; };; chain out { accept;; };;";
            let rules: Vec<&str> = rule.split("; ").collect();
            let rules = rules.join("\n");
            nft(&format!(
                "table inet t {{;; {ends}\n chain f {{ {FORWARD}\n {rules};; }};; }}"
            ));
            said()
        });
        assert_eq!(found, [""; 0], "{rule}");
    }
    // Not before connection tracking, not for this machine, and only the first of a flow.
    for (hook, meets) in [
        ("type filter hook input priority 0;", false),
        ("type filter hook output priority 0;", false),
        ("type nat hook postrouting priority 100;", false),
        ("type filter hook prerouting priority raw;", true),
        ("type filter hook prerouting priority mangle;", false),
        ("type filter hook postrouting priority 0;", false),
    ] {
        let found = beside(|| {
            nft(&format!(
                "table ip t {{;; chain f {{ {hook}\n ct state established,new accept\n limit rate 5/second log;; }};; }}"
            ));
            said()
        });
        assert_eq!(!found.is_empty(), meets, "{hook}: {found:?}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_of_legacy_iptables_are_read_and_not_guessed() {
    let read = beside(|| {
        sh("iptables-legacy -L -n > /dev/null; iptables-legacy -t nat -L -n > /dev/null");
        read()
    });
    let nothing = Ruleset {
        // A table of nat is enough.
        tracks: true,
        ..Ruleset::default()
    };
    assert_eq!(read, nothing, "empty tables do nothing");
    for (version, rule, wanted) in [
        (
            "iptables",
            "-t mangle -A PREROUTING -i lan0 -p udp --dport 6000 -j TEE --gateway 10.9.0.2",
            "the chain iptables mangle PREROUTING at prerouting copies packets (TEE) (of flows: UDP, IPv4, to port 6000, in by `lan0`)",
        ),
        (
            "iptables",
            "-A FORWARD -s 10.0.0.0/8 -p tcp -m multiport --dports 80,443,8000:8010 -j NFQUEUE --queue-num 5",
            "queues packets to user space (queue 5) (of flows: TCP, IPv4, from 10.0.0.0/8, to ports 80 to 8010)",
        ),
        (
            "ip6tables",
            "-A FORWARD -d fd00::/16 -o wan0 -m statistic --mode random --probability 0.5 -j DROP",
            "the chain ip6tables filter FORWARD at forward treats packets by turns or by chance (of flows: IPv6, to fd00::/16, out by `wan0`)",
        ),
        (
            "iptables",
            "-A FORWARD -m conntrack --ctstate ESTABLISHED -m limit --limit 5/s -j ACCEPT",
            "limits packets (of flows: IPv4)",
        ),
        (
            "iptables",
            "-A FORWARD -m connbytes --connbytes 1000: --connbytes-dir both --connbytes-mode bytes -j DROP",
            "asks for counters of connections (of flows: IPv4)",
        ),
        (
            "iptables",
            "-t security -A FORWARD -m quota --quota 1000 -j ACCEPT",
            "the chain iptables security FORWARD at forward counts bytes against a quota",
        ),
        (
            "iptables",
            "-A FORWARD -p udp -m length --length 500: -j DROP",
            "asks for the length of packets (of flows: UDP, IPv4)",
        ),
    ] {
        for kind in ["legacy", "nft"] {
            let found = beside(|| {
                sh(&format!("{version}-{kind} {rule}"));
                said()
            });
            let wanted = match kind {
                "nft" => wanted
                    .replace("iptables ", "ip ")
                    .replace("ip6tables ", "ip6 "),
                _ => wanted.to_owned(),
            };
            let wanted = wanted.replace("ip6ip ", "ip6 ");
            assert!(
                found.len() == 1 && found[0].contains(&wanted),
                "{kind} {rule}: {found:?}"
            );
        }
    }
    for rule in [
        "-A FORWARD -m state --state RELATED,ESTABLISHED -j ACCEPT",
        "-A FORWARD -m conntrack ! --ctstate NEW,INVALID -j ACCEPT",
        "-A FORWARD -p tcp -j CHAIN && iptables-legacy -A FORWARD -p udp -j CHAIN",
    ] {
        let found = beside(|| {
            sh(
                "iptables-legacy -N CHAIN; iptables-legacy -A CHAIN -m conntrack --ctstate ESTABLISHED -j ACCEPT",
            );
            sh(&format!(
                "iptables-legacy {rule}; iptables-legacy -A FORWARD -p tcp --syn -j LOG"
            ));
            sh(
                "iptables-legacy -A FORWARD -m conntrack --ctstate NEW -j LOG; iptables-legacy -A FORWARD -p icmp -j NFLOG",
            );
            said()
        });
        assert_eq!(found, [""; 0], "{rule}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_that_established_packets_do_not_reach_are_met_by_those_that_nobody_tracks() {
    let limits = ["the chain inet t f at forward limits packets (of all flows)"];
    let logs = ["the chain inet t f at forward logs packets (of all flows)"];
    for (rules, tracked, untracked) in [
        ("limit rate 5/second drop", &limits[..], &limits[..]),
        (
            "ct state established accept; limit rate 5/second drop",
            &[],
            &limits,
        ),
        (
            "ct state established limit rate 5/second drop",
            &limits,
            &[],
        ),
        ("ct state new limit rate 5/second drop", &[], &[]),
        ("ct state untracked log", &[], &logs),
        ("ct state { invalid, untracked } log", &[], &logs),
        ("ct state established,untracked accept; log", &[], &logs),
        ("tcp flags syn limit rate 5/second drop", &[], &[]),
    ] {
        beside(|| {
            let rules = rules.replace("; ", "\n");
            nft(&format!(
                "table inet t {{;; chain f {{ {FORWARD}\n {rules};; }};; }}"
            ));
            assert_eq!(said_of(true), tracked, "{rules}");
            assert_eq!(said_of(false), untracked, "{rules}");
        });
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_say_what_is_not_tracked_and_what_looks_like_another_flow() {
    let none = (false, false);
    for (rule, does) in [
        ("udp dport 7000 notrack", (true, false)),
        ("ip saddr set 10.0.0.1", (false, true)),
        ("udp sport set 7000", (false, true)),
        ("ip dscp set ef", (false, true)),
        ("ip ttl set 64", (false, true)),
        ("tcp flags syn tcp option maxseg size set 1200", none),
        ("meta mark set 1", none),
        ("drop", none),
    ] {
        let read = beside(|| {
            let chain = "type filter hook prerouting priority raw;";
            nft(&format!(
                "table ip t {{;; chain p {{ {chain} {rule};; }};; }}"
            ));
            read()
        });
        let of = |effect: fn(&rxlane_ruleset::Effects) -> bool| {
            read.hooks.iter().any(|h| effect(&h.effects))
        };
        let found = (of(|e| e.untracks), of(|e| e.disguises));
        assert_eq!(found, does, "{rule}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_that_ask_for_the_source_mac_address_are_known() {
    for (rule, asks) in [
        (
            "ip saddr 10.0.0.1 ether saddr != 02:00:00:00:00:01 drop",
            true,
        ),
        (
            "ether saddr . ip saddr { 02:00:00:00:00:01 . 10.0.0.1 } accept",
            true,
        ),
        ("ct state new ether saddr 02:00:00:00:00:01 drop", false),
        ("ether daddr 02:00:00:00:00:01 drop", false),
        (
            "ct state established accept; ether saddr 02:00:00:00:00:01 drop",
            false,
        ),
    ] {
        let read = beside(|| {
            let rules = rule.replace("; ", "\n");
            nft(&format!(
                "table inet t {{;; chain f {{ {FORWARD}\n {rules};; }};; }}"
            ));
            read()
        });
        assert_eq!(read.uses.source_mac, asks, "{rule}");
    }
    for (version, rule) in [("legacy", true), ("nft", true)] {
        let read = beside(|| {
            sh(&format!(
                "iptables-{version} -A FORWARD -m mac --mac-source 02:00:00:00:00:01 -j DROP"
            ));
            read()
        });
        assert_eq!(read.uses.source_mac, rule, "{version}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn verdicts_in_maps_are_seen() {
    for (rule, filters) in [
        ("udp dport vmap { 6000 : drop }", true),
        ("iifname vmap { lan0 : jump drops, wan0 : accept }", true),
        ("iifname vmap { lan0 : jump accepts }", false),
        ("ct state vmap { new : drop }", true),
        ("udp dport vmap @m", true),
        ("iifname vmap { lan0 : jump marks }", false),
    ] {
        let read = beside(|| {
            nft(&format!(
                "table inet t {{;; chain drops {{ drop;; }};; chain accepts {{ accept;; }};; chain marks {{ meta mark set 1;; }};;
                map m {{ type inet_service : verdict;; elements = {{ 5 : goto drops }};; }};;
                chain f {{ {FORWARD} {rule};; }};; }}"
            ));
            read()
        });
        let found = read.hooks.iter().any(|h| h.effects.filters);
        assert_eq!(found, filters, "{rule}: {:?}", read.hooks);
        let marks = read.hooks.iter().any(|h| h.effects.marks);
        assert_eq!(marks, rule.contains("marks"), "{rule}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_comment_excepts_rules_that_only_record_packets() {
    let kept_and_excepted = || {
        let read = read();
        (said().len(), read.excepted.len())
    };
    for (rule, wanted) in [
        ("log comment \"rxlane: express\"", (0, 1)),
        ("log comment \"rxlane: expressly\"", (1, 0)),
        ("log", (1, 0)),
        // What it lets pass depends on what it has seen.
        (
            "limit rate 5/second drop comment \"rxlane: express\"",
            (1, 0),
        ),
        ("update @s { ip saddr } comment \"rxlane: express\"", (1, 0)),
    ] {
        beside(|| {
            nft(&format!(
                "table ip t {{;; {SETS} chain f {{ {FORWARD} {rule};; }};; }}"
            ));
            assert_eq!(kept_and_excepted(), wanted, "{rule}");
        });
    }
    let rules = "*filter\n:FORWARD ACCEPT [0:0]\n-A FORWARD -p udp -m comment --comment \"rxlane: express\" -j NFLOG --nflog-group 5\nCOMMIT\n";
    for tool in ["iptables-legacy-restore", "iptables-nft-restore"] {
        beside(|| {
            load(tool, &[], rules);
            assert_eq!(kept_and_excepted(), (0, 1), "{tool}");
        });
    }
}
