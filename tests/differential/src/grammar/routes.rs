//! Routes, nexthop objects, and policy rules.

use super::{Dice, REMOTE, host, of_family};
use crate::scenario::{PORTS, Statement};

pub(super) fn draw(dice: &mut Dice, setup: &mut Vec<Statement>) {
    for v6 in [false, true] {
        let mut lines = Vec::new();
        if dice.chance(90) {
            lines.push(format!("route add default via {} dev wan0", host(0, v6, 0)));
        }
        for _ in 0..2 + dice.below(6) {
            lines.extend(route(dice, v6));
        }
        if dice.chance(35) {
            lines.push(format!(
                "route add default via {} dev {} table 100",
                host(2, v6, 1),
                PORTS[2]
            ));
            for _ in 0..dice.below(3) {
                let at = dice.pick(&REMOTE[usize::from(v6)]);
                let kind = dice.pick(&["throw", "blackhole", "unreachable", "prohibit"]);
                lines.push(format!("route add {kind} {at} table 100"));
            }
            for _ in 0..1 + dice.below(3) {
                lines.push(rule(dice, v6));
            }
        }
        setup.extend(lines.iter().map(|l| of_family(v6, l)));
    }
}

/// One route, with the nexthop objects that it needs.
pub(super) fn route(dice: &mut Dice, v6: bool) -> Vec<String> {
    let to = dice.pick(&REMOTE[usize::from(v6)]);
    let port = dice.below(3);
    let via = host(port, v6, dice.below(4) as u8);
    let dev = PORTS[port];
    let other = (port + 1 + dice.below(2)) % 3;
    let (via2, dev2) = (host(other, v6, 1), PORTS[other]);
    let metric = if dice.chance(10) { " metric 50" } else { "" };
    let line = match dice.below(100) {
        0..45 => format!("route add {to} via {via} dev {dev}{metric}"),
        45..52 => format!(
            "route add {} {to}{metric}",
            dice.pick(&["blackhole", "unreachable", "prohibit", "throw"])
        ),
        52..59 => format!(
            "route add {to} nexthop via {via} dev {dev} weight 1 nexthop via {via2} dev {dev2} weight 1"
        ),
        59..66 => {
            let id = 10 + dice.below(1000) * 3;
            return vec![
                format!("nexthop add id {id} via {via} dev {dev}"),
                format!("nexthop add id {} via {via2} dev {dev2}", id + 1),
                format!("nexthop add id {} group {id}/{}", id + 2, id + 1),
                format!("route add {to} nhid {}", id + dice.below(3)),
            ];
        }
        66..71 => format!("route add {to} via {via} dev {dev} onlink{metric}"),
        71..79 => format!(
            "route add {to} via {via} dev {dev} mtu {}",
            dice.pick(&["1300", "lock 1300", "1400"])
        ),
        79..83 if v6 => format!(
            "route add {to} from {} via {via} dev {dev}",
            dice.pick(&["fd02::/64", "fd03::/64", "fd02::10/128"])
        ),
        83..86 => format!(
            "route add local {} dev lo",
            dice.pick(if v6 {
                &["2001:db8:1::7", "2001:db8:2::7"]
            } else {
                &["198.51.100.7", "203.0.113.7"]
            })
        ),
        86..88 if !v6 => "route add broadcast 198.51.100.7 dev wan0".into(),
        88..91 => format!("route add {to} dev {dev}"),
        91..94 => format!("route add {} via {via2} dev {dev2}", host(port, v6, 1)),
        94..96 if !v6 => format!("route add {to} tos 0x10 via {via} dev {dev}"),
        96..98 if !v6 => format!("route add {to} via inet6 {} dev {dev}", host(port, true, 1)),
        _ => format!("route replace {to} via {via} dev {dev}"),
    };
    vec![line]
}

/// One policy rule.
pub(super) fn rule(dice: &mut Dice, v6: bool) -> String {
    let remote = dice.pick(&REMOTE[usize::from(v6)]);
    let local = if v6 {
        dice.pick(&["fd02::/64", "fd03::/64", "fd02::10"])
    } else {
        dice.pick(&["10.2.0.0/24", "10.3.0.0/24", "10.2.0.10"])
    };
    let what = match dice.below(8) {
        0 => format!("from {local}"),
        1 => format!("to {remote}"),
        2 => format!("iif {}", dice.pick(&PORTS)),
        3 => "fwmark 0x1".into(),
        4 => format!("ipproto {}", dice.pick(&["udp", "tcp"])),
        5 => format!(
            "ipproto udp dport {}",
            dice.pick(&["5004", "5000-6000", "53"])
        ),
        6 => format!("from {local} to {remote}"),
        _ if v6 => format!("from {local}"),
        _ => format!("tos {} from {local}", dice.pick(&["0x10", "0x08"])),
    };
    let pref = 1000 + dice.below(1000);
    match dice.below(10) {
        0 => format!("rule add pref {pref} {what} lookup main suppress_prefixlength 0"),
        1 => format!("rule add pref {pref} {what} unreachable"),
        2 => format!("rule add pref {pref} {what} prohibit"),
        3 => format!("rule add pref {pref} {what} blackhole"),
        4 => format!("rule add pref {pref} not {what} lookup 100"),
        _ => format!("rule add pref {pref} {what} lookup 100"),
    }
}
