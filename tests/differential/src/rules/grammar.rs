//! Rulesets of nftables at random.

use crate::grammar::Dice;

/// Destination ports of flows, which rules ask for.
pub(super) const PORTS_TO: [u16; 6] = [53, 80, 443, 5004, 5060, 51820];

/// Base chains: type, hook, priority.
const BASES: [(&str, &str, &str); 11] = [
    ("filter", "prerouting", "raw"),
    ("filter", "prerouting", "mangle"),
    ("filter", "prerouting", "10"),
    ("nat", "prerouting", "dstnat"),
    ("filter", "forward", "mangle"),
    ("filter", "forward", "filter"),
    ("filter", "forward", "filter"),
    ("filter", "forward", "security"),
    ("filter", "postrouting", "mangle"),
    ("filter", "postrouting", "110"),
    ("nat", "postrouting", "srcnat"),
];

const SETS: &str = "
 set hosts { type ipv4_addr; elements = { 10.1.0.10, 10.2.0.11, 10.2.0.12 } }
 set nets { type ipv4_addr; flags interval; elements = { 10.1.0.0/28, 10.2.0.12-10.2.0.200, 192.0.2.0/24 } }
 set nets6 { type ipv6_addr; flags interval; elements = { fd01::/64, fd02::11-fd02::12 } }
 set ports { type inet_service; flags interval; elements = { 53, 80-443, 5000-5100 } }
 set timed { type ipv4_addr; flags timeout; timeout 1h; elements = { 10.2.0.10, 10.1.0.13 } }
 set empty { type ipv4_addr; }
 set filled { type ipv4_addr; flags dynamic; size 4096; }
 set both { type ipv4_addr . inet_service; elements = { 10.1.0.10 . 80, 10.1.0.11 . 53, 10.2.0.11 . 443 } }
 set ranges { type ipv4_addr . inet_service; flags interval; elements = { 10.1.0.0/30 . 1-100, 10.1.0.10-10.1.0.11 . 50-5060, 10.2.0.0/24 . 5004 } }
 set ports_of { type inet_service . ipv4_addr; flags interval; elements = { 50-100 . 10.1.0.0/24, 5000-5100 . 10.2.0.10-10.2.0.12, 443 . 10.1.0.8/30 } }
 set ways { type ifname . inet_proto; elements = { \"lan0\" . udp, \"wan0\" . tcp } }
 set macs { type ether_addr; elements = { 02:00:00:00:11:00, 02:00:00:00:11:02, 02:00:00:00:10:01 } }
 map by_port { type inet_service : verdict; elements = { 53 : accept, 80 : drop, 5004 : jump sub, 5060 : goto other } }
 map by_net { type ipv4_addr : verdict; flags interval; elements = { 10.1.0.8/29 : accept, 10.2.0.12-10.2.0.13 : drop, * : jump sub } }
 map marks { type ipv4_addr : mark; elements = { 10.1.0.10 : 1, 10.2.0.11 : 2 } }
 map marks_of_ranges { type ipv4_addr . inet_service : mark; flags interval; elements = { 10.1.0.0/24 . 50-90 : 1, 10.2.0.0/24 . 0-65535 : 2 } }
";

/// The same without the sets, which all tables have.
pub(super) fn without_sets(text: &str) -> String {
    text.replace(SETS, "\n")
}

/// A ruleset as `nft` reads it.
pub(super) fn draw(dice: &mut Dice) -> String {
    let mut text = String::new();
    for n in 0..1 + dice.below(2) {
        let family = dice.pick(&["inet", "inet", "inet", "ip", "ip6"]);
        text += &table(dice, family, n);
    }
    if dice.chance(12) {
        let port = dice.pick(&["lan0", "wan0"]);
        text += &format!(
            "table netdev early {{ chain in {{ type filter hook ingress device {port} priority 0; policy accept;\n"
        );
        for _ in 0..1 + dice.below(2) {
            let rule = rule(dice, "netdev", "ingress", false);
            text += &format!("  {rule}\n");
        }
        text += " }\n}\n";
    }
    text
}

fn table(dice: &mut Dice, family: &str, n: usize) -> String {
    let mut text = format!("table {family} t{n} {{{SETS}");
    // Chains that others jump to, the innermost first.
    for name in ["inner", "other", "sub"] {
        text += &format!(" chain {name} {{\n");
        for _ in 0..dice.below(3) {
            let rule = rule(dice, family, name, name != "inner");
            text += &format!("  {rule}\n");
        }
        text += " }\n";
    }
    let bases = 1 + dice.below(4);
    for b in 0..bases {
        let (kind, hook, priority) = dice.pick(&BASES);
        let policy = if kind == "filter" && dice.chance(25) {
            "drop"
        } else {
            "accept"
        };
        text += &format!(
            " chain b{b} {{ type {kind} hook {hook} priority {priority}; policy {policy};\n"
        );
        for _ in 0..dice.below(6) {
            let rule = match kind {
                "nat" => translation(dice, family, hook),
                _ => rule(dice, family, hook, true),
            };
            text += &format!("  {rule}\n");
        }
        text += " }\n";
    }
    if dice.chance(40) {
        text += &story(dice, family);
    }
    text + "}\n"
}

/// Chains of which one asks what another does: rules at random seldom do.
fn story(dice: &mut Dice, family: &str) -> String {
    let which = asked(dice, family, "forward");
    let chain = |name: &str, head: &str, rules: &str| {
        format!(" chain {name} {{ type {head}; policy accept;\n  {rules}\n }}\n")
    };
    let forward = "filter hook forward priority 20";
    let verdict = dice.pick(&["drop", "accept"]);
    match dice.below(if family == "ip6" { 3 } else { 4 }) {
        // Two of one priority.
        0 => {
            let rules = [
                "meta mark set 0x1".to_owned(),
                format!("meta mark 0x1 {which} drop"),
            ];
            let (first, second) = if dice.chance(50) { (0, 1) } else { (1, 0) };
            chain("twin", forward, &rules[first]) + &chain("other_twin", forward, &rules[second])
        }
        1 => {
            let raw = chain(
                "unseen",
                "filter hook prerouting priority raw",
                &format!("{which} notrack"),
            );
            let state = dice.pick(&["untracked", "new,established"]);
            raw + &chain(
                "seen",
                forward,
                &format!("ct state {state} {verdict}\n  drop"),
            )
        }
        2 => {
            let differs = dice.pick(&["meta length > 100", "meta random 0x0-0x7fffffff"]);
            let rules = format!(
                "{differs} meta mark set 0x1\n  meta mark 0x1 {which} {verdict}\n  meta mark 0 drop"
            );
            chain("some", forward, &rules)
        }
        _ => {
            let only = if family == "inet" {
                "meta nfproto ipv4 "
            } else {
                ""
            };
            let ip = if family == "inet" { "ip " } else { "" };
            let told =
                format!("iifname lan0 meta l4proto {{ tcp, udp }} {only}dnat {ip}to 10.1.0.11");
            let rules = format!("ip daddr 10.1.0.11 {verdict}\n  iifname lan0 drop");
            chain("told", "nat hook prerouting priority dstnat", &told)
                + &chain("there", forward, &rules)
        }
    }
}

fn rule(dice: &mut Dice, family: &str, place: &str, jumps: bool) -> String {
    let mut parts = Vec::new();
    for _ in 0..dice.below(3) {
        parts.push(asked(dice, family, place));
    }
    if dice.chance(25) {
        parts.push(deed(dice, family, place));
    }
    let is_netdev = family == "netdev";
    if dice.chance(10) && !is_netdev && jumps {
        let map = match dice.below(5) {
            0 => "th dport vmap @by_port".to_owned(),
            1 if family != "ip6" => "ip daddr vmap @by_net".into(),
            2 => "meta l4proto vmap { tcp : jump sub, udp : continue, 47 : drop }".into(),
            3 if place != "ingress" => "ct state vmap { established : accept, new : jump sub, invalid : drop }".into(),
            _ => "iifname . meta l4proto vmap { \"lan0\" . udp : goto other, \"wan0\" . tcp : return }".into(),
        };
        parts.push(map);
        return parts.join(" ");
    }
    let verdict = match dice.below(14) {
        0..=3 => "accept",
        4..=6 => "drop",
        7 if jumps && !is_netdev => "jump sub",
        8 if jumps && !is_netdev => "goto other",
        9 if !is_netdev => "jump inner",
        10 if place == "forward" => "reject",
        11 => "return",
        _ => "continue",
    };
    // No chain calls itself.
    let verdict = match (place, verdict) {
        ("sub", "jump sub") | ("other", "jump sub" | "goto other") => "jump inner",
        ("inner", _) if verdict.contains(' ') => "accept",
        _ => verdict,
    };
    parts.push(verdict.into());
    parts.join(" ")
}

fn translation(dice: &mut Dice, family: &str, hook: &str) -> String {
    let which = asked(dice, family, "nat");
    let v6 = family == "ip6";
    // Without ports two hosts cannot have one address at the same time.
    let which = format!("meta l4proto {{ tcp, udp }} {which}");
    let only = if family == "inet" {
        "meta nfproto ipv4 "
    } else {
        ""
    };
    let ip = if family == "inet" { "ip " } else { "" };
    // Elsewhere than where the flow is told to go to.
    let which = match hook {
        "prerouting" => format!("iifname lan0 {which}"),
        _ => which,
    };
    let act = match (hook, v6) {
        ("prerouting", false) => dice.pick(&[
            format!("{only}dnat {ip}to 10.1.0.11"),
            format!("{only}meta l4proto udp dnat {ip}to 10.1.0.12:5004"),
            format!("{only}dnat {ip}to 10.1.0.10-10.1.0.12"),
            "accept".into(),
        ]),
        ("prerouting", true) => "dnat to fd01::11".into(),
        (_, false) => dice.pick(&[
            "masquerade".to_owned(),
            format!("{only}snat {ip}to 10.1.0.1"),
            format!("{only}oifname wan0 snat {ip}to 10.1.0.1-10.1.0.2"),
            "return".into(),
        ]),
        (_, true) => dice.pick(&["masquerade".to_owned(), "snat to fd01::1".into()]),
    };
    format!("{which} {act}")
}

/// What rules do beside verdicts.
fn deed(dice: &mut Dice, family: &str, place: &str) -> String {
    let tos = match family {
        "ip6" => "ip6 dscp set cs1",
        _ => "ip dscp set cs1",
    };
    let hops = match family {
        "ip6" => "ip6 hoplimit set 33",
        _ => "ip ttl set 33",
    };
    let deed = match dice.below(9) {
        0 | 1 => "meta mark set 0x1",
        2 => "meta mark set meta mark or 0x2",
        3 if family != "ip6" && family != "netdev" => "meta mark set ip daddr map @marks",
        4 => tos,
        5 => hops,
        6 if place == "prerouting" => "notrack",
        7 if family != "netdev" && family != "ip6" => "add @filled { ip saddr }",
        8 if family != "netdev" => "ct mark set 0x3",
        _ => "counter",
    };
    deed.into()
}

/// What rules ask.
fn asked(dice: &mut Dice, family: &str, place: &str) -> String {
    let v6 = family == "ip6" || family != "ip" && dice.chance(30);
    let port = dice.pick(&PORTS_TO);
    if family != "netdev" && dice.chance(15) {
        return of_connections(dice);
    }
    let sets = family != "netdev";
    let host = 10 + dice.below(4);
    let of_addresses = match (dice.below(10), v6) {
        (0, false) => format!("ip saddr 10.{}.0.{host}", 1 + dice.below(2)),
        (1, false) => format!("ip daddr != 10.{}.0.0/28", 1 + dice.below(2)),
        (2, false) if sets => format!("ip daddr {}@hosts", not(dice)),
        (3, false) if sets => format!("ip saddr {}@nets", not(dice)),
        (4, false) if sets => "ip saddr @timed".into(),
        (5, false) if sets => "ip saddr @empty".into(),
        (6, false) if sets => format!("ip daddr . th dport {}@both", not(dice)),
        (7, false) if sets => format!("ip daddr . th dport {}@ranges", not(dice)),
        (8, false) if sets => format!("th dport . ip daddr {}@ports_of", not(dice)),
        (_, false) => "ip daddr { 10.1.0.10, 10.2.0.0/30, 10.1.0.12-10.1.0.13 }".into(),
        (0..=2, true) => format!("ip6 saddr fd0{}::{}", 1 + dice.below(2), 10 + dice.below(4)),
        (3..=5, true) if sets => format!("ip6 daddr {}@nets6", not(dice)),
        (_, true) => "ip6 saddr fd01::/64".into(),
    };
    let of_ip = match (dice.below(8), v6) {
        (0 | 1, false) => "ip dscp ef".into(),
        (2, false) => format!("ip ttl {} 33", dice.pick(&["<", ">", "!="])),
        (3, false) => "ip length > 100".into(),
        (4, false) => "ip frag-off & 0x4000 == 0".into(),
        (5, false) => "ip version 4".into(),
        (6, false) => "ip protocol { udp, 47 }".into(),
        (_, false) => "ip id > 100".into(),
        (0 | 1, true) => "ip6 dscp { ef, cs1 }".into(),
        (2 | 3, true) => "ip6 hoplimit 16-63".into(),
        (4, true) => "ip6 length > 100".into(),
        (5, true) => "exthdr frag exists".into(),
        _ => "ip6 nexthdr tcp".into(),
    };
    match dice.below(22) {
        0..=5 => of_addresses,
        6 | 7 => of_ip,
        8 => format!("udp dport {port}"),
        9 => format!("tcp dport {}{port}", not(dice)),
        10 => format!("th dport {}-{}", port - 3, u32::from(port) + 100),
        11 if sets => format!("th dport {}@ports", not(dice)),
        12 => format!(
            "{} sport {} 1024",
            dice.pick(&["udp", "tcp", "th"]),
            dice.pick(&["<", ">=", "<=", ">"])
        ),
        13 => format!(
            "iifname {}{}",
            not(dice),
            dice.pick(&["lan0", "wan0", "l*"])
        ),
        14 if place != "ingress" => {
            format!("oifname {}{}", not(dice), dice.pick(&["lan0", "wan0"]))
        }
        15 => format!("meta l4proto {}", dice.pick(&["udp", "tcp", "{ udp, 47 }"])),
        16 => format!(
            "meta mark {}",
            dice.pick(&["0x1", "0", "and 0x2 == 0x2", "!= 0x1"])
        ),
        17 => dice
            .pick(&[
                "meta nfproto ipv4",
                "meta protocol ip6",
                "meta pkttype host",
                "meta pkttype { broadcast, multicast }",
            ])
            .into(),
        18 if place != "nat" => format!(
            "ether saddr {}02:00:00:00:1{}:0{}",
            not(dice),
            dice.below(2),
            dice.below(4)
        ),
        19 => dice
            .pick(&[
                "tcp flags syn",
                "tcp flags & (syn|ack) == ack",
                "tcp flags & (fin|syn|rst) != 0",
                "tcp option maxseg exists",
                "udp length > 60",
            ])
            .into(),
        20 if sets => dice
            .pick(&[
                "limit rate 2/second burst 1 packets",
                "numgen inc mod 2 0",
                "meta length > 100",
                "meta random 0x0-0x7fffffff",
                "quota over 400 bytes",
            ])
            .into(),
        21 if sets => dice
            .pick(&[
                "fib daddr type unicast",
                "meta iif lan0",
                "meta oif wan0",
                "meta skuid 0",
                "ether saddr @macs",
                "iifname . meta l4proto @ways",
                "jhash ip saddr mod 2 0",
                "@th,16,16 80",
                "meta iiftype 1",
            ])
            .into(),
        _ => of_addresses_again(dice, v6),
    }
}

fn of_addresses_again(dice: &mut Dice, v6: bool) -> String {
    match v6 {
        true => format!("ip6 daddr fd0{}::/16", 1 + dice.below(2)),
        false => format!("ip saddr 10.{}.0.0/16", 1 + dice.below(2)),
    }
}

fn of_connections(dice: &mut Dice) -> String {
    dice.pick(&[
        "ct state new",
        "ct state established,related",
        "ct state invalid",
        "ct state untracked",
        "ct state != new",
        "ct direction original",
        "ct direction reply",
        "ct original ip saddr 10.2.0.0/24",
        "meta l4proto udp ct original proto-dst 5004",
        "ct l3proto ipv4",
        "ct protocol udp",
        "ct mark 0x3",
        "ct status dnat",
        "ct zone 0",
    ])
    .into()
}

fn not(dice: &mut Dice) -> &'static str {
    if dice.chance(30) { "!= " } else { "" }
}
