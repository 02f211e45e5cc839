//! Rules that must see every packet of a flow, and what they ask.

use super::{chain, change, flow, nft};
use crate::grammar::Dice;
use crate::scenario::{Scenario, Statement};

/// Sets whose elements come and go, by somebody's hand.
pub(super) fn sets(dice: &mut Dice, scenario: &mut Scenario) {
    let (kind, of, elements) = dice.pick(&[
        ("ipv4_addr", "ip saddr", ["10.2.0.10", "10.3.0.10"]),
        ("ipv4_addr", "ip daddr", ["10.1.0.10", "198.51.100.7"]),
        ("ipv6_addr", "ip6 saddr", ["fd02::10", "fd03::11"]),
        ("inet_service", "udp dport", ["5004", "53"]),
        ("inet_service", "tcp sport", ["443", "80"]),
        (
            "ipv4_addr . inet_service",
            "ip saddr . udp dport",
            ["10.2.0.10 . 5004", "10.2.0.11 . 9999"],
        ),
    ]);
    let flags = dice.pick(&[
        "",
        " flags timeout ;",
        " flags timeout ;",
        " flags dynamic,timeout ; timeout 1h ;",
        " flags dynamic ; size 100 ;",
    ]);
    nft(
        scenario,
        &[&format!(
            "add set inet fw listed {{ type {kind} ;{flags} }}"
        )],
    );
    let hook = dice.pick(&["prerouting", "forward"]);
    let action = dice.pick(&["drop", "drop", "ip dscp set cs1", "ct mark set 0x7"]);
    chain(
        scenario,
        "listed",
        hook,
        -50,
        &[format!("{of} @listed {action}")],
    );
    let element = dice.pick(&elements);
    let timeout = if flags.contains("timeout") && dice.chance(60) {
        " timeout 1h"
    } else {
        ""
    };
    let add = |verb: &str, what: &str| {
        Statement::Nft(format!("{verb} element inet fw listed {{ {what} }}"))
    };
    let added = add("add", &format!("{element}{timeout}"));
    if dice.chance(60) {
        change(dice, scenario, vec![added]);
    } else {
        scenario.setup.push(added);
        change(dice, scenario, vec![add("delete", element)]);
    }
}

/// Sets whose elements come of packets, of which nobody tells.
pub(super) fn knocking(dice: &mut Dice, scenario: &mut Scenario) {
    nft(
        scenario,
        &["add set inet fw knocked { type ipv4_addr ; flags dynamic,timeout ; timeout 1h ; }"],
    );
    let knock = dice.pick(&[
        "udp dport 9999",
        "udp dport 53",
        "tcp dport 22",
        "icmp type echo-request",
        "udp sport 5060",
    ]);
    let verb = dice.pick(&["add", "update"]);
    let (key, of) = dice.pick(&[
        ("ip saddr", "ip saddr"),
        ("ip saddr", "ip daddr"),
        ("ip daddr", "ip daddr"),
    ]);
    let which = if dice.chance(40) {
        flow(dice)
    } else {
        String::new()
    };
    let rules = [
        format!("{which} {of} @knocked drop"),
        format!("{knock} {verb} @knocked {{ {key} }}"),
    ];
    let hook = dice.pick(&["prerouting", "forward"]);
    chain(scenario, "knocked", hook, -40, &rules);
}

/// What a rule does with one packet depends on those before.
pub(super) fn counting(dice: &mut Dice, scenario: &mut Scenario) {
    let which = flow(dice);
    let (rule, hook) = (
        dice.pick(&[
            "numgen inc mod 2 0 drop",
            "numgen inc mod 3 1 ip dscp set cs1",
            "quota over 1500 bytes drop",
            "quota until 900 bytes accept",
            "limit rate over 1/hour burst 4 packets drop",
            "ct original packets > 3 drop",
            "ct bytes > 1500 drop",
            "ct reply packets > 2 ip dscp set cs1",
        ]),
        dice.pick(&["prerouting", "forward", "postrouting"]),
    );
    if rule.starts_with("ct ") && dice.chance(90) {
        scenario
            .setup
            .insert(0, Statement::sysctl("net.netfilter.nf_conntrack_acct", 1));
    }
    let mut rules = vec![format!("{which} {rule}")];
    if rule.ends_with("accept") {
        rules.push(format!("{which} drop"));
    }
    chain(scenario, "counted", hook, -30, &rules);
    if dice.chance(15) {
        change(
            dice,
            scenario,
            vec![Statement::Nft("flush chain inet fw counted".into())],
        );
    }
}

/// Copies that leave by another port.
pub(super) fn copies(dice: &mut Dice, scenario: &mut Scenario) {
    let which = dice.pick(&[
        "udp dport 5004",
        "udp sport 5004",
        "tcp dport 443",
        "ip dscp ef",
        "meta l4proto udp",
        "iifname lan0 udp dport 9999",
    ]);
    let (to, port) = dice.pick(&[("10.3.0.11", "dmz0"), ("10.1.0.11", "wan0")]);
    let hook = dice.pick(&["prerouting", "forward", "postrouting"]);
    nft(
        scenario,
        &[
            "add table ip copying",
            &format!(
                "add chain ip copying copied {{ type filter hook {hook} priority -20 ; policy accept ; }}"
            ),
            &format!("add rule ip copying copied {which} dup to {to} device {port}"),
        ],
    );
}
