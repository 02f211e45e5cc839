//! What an operator or a daemon changes while the router runs.

use super::{Dice, firewall, host, of_family, routes, sysctls};
use crate::scenario::{PORTS, Statement};

pub(super) fn draw(dice: &mut Dice, setup: &[Statement]) -> Vec<Statement> {
    let v6 = dice.chance(40);
    let ip = |line: String| vec![of_family(v6, &line)];
    match dice.below(13) {
        0 | 1 => {
            let lines = routes::route(dice, v6);
            lines.into_iter().flat_map(ip).collect()
        }
        2 => undo(dice, setup, "route add ", "route del "),
        3 => undo(dice, setup, "rule add ", "rule del "),
        4 => ip(routes::rule(dice, v6)),
        5 => undo(dice, setup, "addr add ", "addr del "),
        6 => {
            let chains = chains(setup);
            if chains.is_empty() {
                return vec![Statement::sysctl("net.ipv4.ip_forward", 0)];
            }
            let chain = dice.pick(&chains);
            vec![Statement::Nft(firewall::rule(dice, &chain))]
        }
        7 => vec![Statement::Nft("flush ruleset".into())],
        8 => vec![Statement::Ip(firewall::xfrm(dice))],
        9 => vec![sysctls::one(dice)],
        10 => {
            let port = dice.pick(&PORTS);
            let down = Statement::Ip(format!("link set {port} down"));
            let up = Statement::Ip(format!("link set {port} up"));
            if dice.chance(50) {
                vec![down]
            } else {
                vec![down, up]
            }
        }
        11 => vec![forget(dice, setup)],
        _ => {
            let port = dice.below(3);
            let (neighbour, dev) = (host(port, v6, dice.below(4) as u8), PORTS[port]);
            let change = if dice.chance(50) {
                format!("neigh del {neighbour} dev {dev}")
            } else {
                format!(
                    "neigh replace {neighbour} lladdr 02:00:00:00:99:99 dev {dev} nud permanent"
                )
            };
            ip(change)
        }
    }
}

/// Forgets connections where nothing is translated: an answer that comes first then takes the port, and NAT draws another.
fn forget(dice: &mut Dice, setup: &[Statement]) -> Statement {
    let nat = |s: &Statement| s.command().contains("type nat");
    if setup.iter().any(nat) {
        sysctls::one(dice)
    } else {
        Statement::ForgetConnections
    }
}

/// Takes back a statement of the setup.
fn undo(dice: &mut Dice, setup: &[Statement], done: &str, undone: &str) -> Vec<Statement> {
    let lines: Vec<&String> = setup
        .iter()
        .filter_map(|s| match s {
            Statement::Ip(line) if line.contains(done) => Some(line),
            _ => None,
        })
        .collect();
    if lines.is_empty() {
        return vec![forget(dice, setup)];
    }
    vec![Statement::Ip(dice.pick(&lines).replace(done, undone))]
}

/// Chains of the table `inet fw`.
fn chains(setup: &[Statement]) -> Vec<String> {
    let names = setup.iter().filter_map(|s| match s {
        Statement::Nft(line) => line
            .strip_prefix("add chain inet fw ")?
            .split_whitespace()
            .next(),
        _ => None,
    });
    names.map(str::to_owned).collect()
}
