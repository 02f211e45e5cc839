//! nftables and xfrm policies.

use super::{Dice, REMOTE};
use crate::scenario::{Class, Lanes, PORTS, Statement, Trust};

/// Chains by name: hook, type and priority.
const CHAINS: [(&str, &str, &str, &str); 7] = [
    ("raw", "filter", "prerouting", "raw"),
    ("mangle", "filter", "prerouting", "mangle"),
    ("destination", "nat", "prerouting", "dstnat"),
    ("forwarded", "filter", "forward", "filter"),
    ("late", "filter", "forward", "10"),
    ("post", "filter", "postrouting", "mangle"),
    ("source", "nat", "postrouting", "srcnat"),
];

pub(super) fn draw(dice: &mut Dice, setup: &mut Vec<Statement>, lanes: &Lanes) {
    // rxlane refuses classes that trust without asking beside a firewall, at once; that need not be seen often.
    let asks = |c: &Class| matches!(c.trust, None | Some(Trust::Established));
    if !lanes.classes.iter().all(asks) && dice.chance(85) {
        return;
    }
    let established = lanes
        .classes
        .iter()
        .any(|c| c.trust == Some(Trust::Established));
    let mut nft = vec!["add table inet fw".to_owned()];
    let odds = |name: &str| match name {
        "forwarded" if established => 80,
        "forwarded" => 40,
        "raw" | "mangle" | "late" => 15,
        "destination" => 12,
        "post" => 6,
        _ => 25,
    };
    for (name, kind, hook, priority) in CHAINS {
        if !dice.chance(odds(name)) {
            continue;
        }
        let policy = if name == "forwarded" && dice.chance(70) {
            "drop"
        } else {
            "accept"
        };
        nft.push(format!(
            "add chain inet fw {name} {{ type {kind} hook {hook} priority {priority} ; policy {policy} ; }}"
        ));
        if name == "forwarded" {
            nft.push("add rule inet fw forwarded ct state established,related accept".into());
            if dice.chance(40) {
                nft.push("add rule inet fw forwarded ct state invalid drop".into());
            }
            let from = if dice.chance(80) { "lan0" } else { "dmz0" };
            nft.push(format!("add rule inet fw forwarded iifname {from} accept"));
        }
        for _ in 0..1 + dice.below(2) {
            nft.push(rule(dice, name));
        }
    }
    // Without a rule that asks for it connections are not tracked, and nothing is ever established.
    if established
        && !nft
            .iter()
            .any(|l| l.contains(" ct ") || l.contains("type nat"))
    {
        nft.push(
            "add chain inet fw track { type filter hook input priority 0 ; policy accept ; }"
                .into(),
        );
        nft.push("add rule inet fw track ct state new accept".into());
    }
    if dice.chance(6) {
        let port = dice.pick(&PORTS);
        nft.push("add table netdev early".into());
        nft.push(format!(
            "add chain netdev early in {{ type filter hook ingress device {port} priority 0 ; policy accept ; }}"
        ));
        nft.push(format!("add rule netdev early in {} drop", matching(dice)));
    }
    if nft.len() > 1 {
        setup.extend(nft.into_iter().map(Statement::Nft));
    }
    if dice.chance(8) {
        setup.push(Statement::Ip(xfrm(dice)));
    }
}

/// A rule of a chain of the table `inet fw`.
pub(super) fn rule(dice: &mut Dice, chain: &str) -> String {
    let which = matching(dice);
    let action = match chain {
        "raw" => dice.pick(&[
            "notrack",
            "drop",
            "iifname lan0 ct zone set 1",
            "ct zone set 2",
            "drop",
        ]),
        "mangle" => dice.pick(&[
            "meta mark set 0x1",
            "meta mark set 0x1",
            "drop",
            "ip dscp set cs1",
            "ct state invalid drop",
            "fib saddr . iif oif missing drop",
        ]),
        "destination" => dice.pick(&[
            "meta nfproto ipv4 dnat ip to 10.3.0.10",
            "meta nfproto ipv6 dnat ip6 to fd03::10",
            "meta nfproto ipv4 meta l4proto udp dnat ip to 10.3.0.11:5004",
        ]),
        "source" => {
            return format!(
                "add rule inet fw source {}",
                dice.pick(&[
                    "oifname wan0 masquerade",
                    "oifname wan0 ip saddr 10.2.0.0/24 snat ip to 10.1.0.1",
                    "oifname wan0 ip6 saddr fd02::/64 snat ip6 to fd01::1",
                    "oifname dmz0 masquerade",
                    "ip saddr 10.2.0.0/24 snat ip to 10.1.0.3",
                ])
            );
        }
        "post" => dice.pick(&["drop", "ip dscp set cs1", "ip ttl set 33"]),
        _ => dice.pick(&[
            "accept",
            "accept",
            "drop",
            "reject",
            "ct state new accept",
            "meta mark 0x1 drop",
            "oifname dmz0 drop",
            "ct mark set 0x7 accept",
        ]),
    };
    format!("add rule inet fw {chain} {which} {action}")
}

/// What packets a rule is for.
fn matching(dice: &mut Dice) -> String {
    match dice.below(9) {
        0 => format!("iifname {}", dice.pick(&PORTS)),
        1 => format!("ip daddr {}", dice.pick(&REMOTE[0])),
        2 => format!("ip6 daddr {}", dice.pick(&REMOTE[1])),
        3 => "ip saddr 10.2.0.10".into(),
        4 => "ip6 saddr fd02::10".into(),
        5 => format!("udp dport {}", dice.pick(&["53", "5004", "5000-5100"])),
        6 => format!("tcp dport {}", dice.pick(&["80", "443"])),
        7 => format!("ip dscp {}", dice.pick(&["ef", "af41", "cs6"])),
        // Not by the length of single packets: an established flow is judged as a whole, as the book says.
        _ => format!("meta l4proto {}", dice.pick(&["udp", "tcp", "icmp"])),
    }
}

/// An xfrm policy; ESP need not be in the kernel, as no packet is ever transformed.
pub(super) fn xfrm(dice: &mut Dice) -> String {
    let (src, dst) = dice.pick(&[
        ("10.2.0.0/24", "198.51.100.0/24"),
        ("10.2.0.0/24", "10.3.0.0/24"),
        ("0.0.0.0/0", "203.0.113.0/24"),
        ("fd02::/64", "2001:db8:1::/48"),
        ("10.3.0.0/24", "10.2.0.0/24"),
        ("fd02::/64", "fd03::/64"),
    ]);
    let (from, to) = if src.contains(':') {
        ("fd01::1", "fd01::10")
    } else {
        ("10.1.0.1", "10.1.0.10")
    };
    let dir = dice.pick(&["out", "fwd"]);
    let what = match dice.below(3) {
        0 => "action block".to_owned(),
        1 => format!("tmpl src {from} dst {to} proto esp mode tunnel"),
        _ if dir == "out" => format!("tmpl src {from} dst {to} proto esp mode transport level use"),
        _ => format!("tmpl src {from} dst {to} proto esp mode tunnel level use"),
    };
    format!("xfrm policy add dir {dir} src {src} dst {dst} {what}")
}
