//! Settings of interfaces and of connection tracking.

use super::Dice;
use crate::scenario::{PORTS, Statement};

pub(super) fn draw(dice: &mut Dice, setup: &mut Vec<Statement>) {
    // A tracker that is not liberal keeps all TCP out of the express lane: most often it is.
    let liberal = usize::from(dice.chance(75));
    setup.push(Statement::sysctl(
        "net.netfilter.nf_conntrack_tcp_be_liberal",
        liberal,
    ));
    if dice.chance(30) {
        let strict = dice.chance(60);
        let value = if strict { 1 } else { 2 };
        let of = dice.pick(&["all", PORTS[0], PORTS[1], PORTS[2]]);
        setup.push(Statement::sysctl(
            format!("net.ipv4.conf.{of}.rp_filter"),
            value,
        ));
    }
    if dice.chance(15) {
        setup.push(one(dice));
    }
}

/// One setting that is not the default.
pub(super) fn one(dice: &mut Dice) -> Statement {
    let port = dice.pick(&PORTS);
    match dice.below(12) {
        0 => Statement::sysctl(format!("net.ipv4.conf.{port}.forwarding"), 0),
        1 => Statement::sysctl(format!("net.ipv6.conf.{port}.forwarding"), 0),
        2 => Statement::sysctl(format!("net.ipv4.conf.{port}.accept_local"), 1),
        3 => Statement::sysctl("net.ipv4.fib_multipath_hash_policy", dice.pick(&[1, 2])),
        4 => Statement::sysctl("net.ipv6.fib_multipath_hash_policy", dice.pick(&[1, 2])),
        5 => Statement::sysctl("net.ipv4.ip_forward", 0),
        6 => Statement::sysctl("net.ipv6.conf.all.forwarding", 0),
        7 => Statement::sysctl(
            format!("net.ipv4.conf.{port}.rp_filter"),
            dice.pick(&[1, 2]),
        ),
        8 => Statement::sysctl(format!("net.ipv6.conf.{port}.disable_ipv6"), 1),
        9 => Statement::sysctl(format!("net.ipv4.conf.{port}.src_valid_mark"), 1),
        10 => Statement::sysctl(format!("net.ipv4.conf.{port}.route_localnet"), 1),
        _ => Statement::sysctl("net.ipv4.ip_forward_use_pmtu", 1),
    }
}
