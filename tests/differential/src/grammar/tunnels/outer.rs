//! Routes, rules and a firewall that concern packets of tunnels: outer ones, and inner ones by the tunnel's device.

use super::Tunnel;
use crate::grammar::{Dice, host};
use crate::scenario::{PORTS, Scenario, Statement, Trust};

/// Chains for outer packets: hook and priority.
const CHAINS: [(&str, &str, &str); 3] = [
    ("early", "prerouting", "raw"),
    ("incoming", "input", "filter"),
    ("outgoing", "output", "filter"),
];

pub(super) fn draw(dice: &mut Dice, tunnels: &mut [Tunnel], scenario: &mut Scenario) {
    for tunnel in tunnels.iter_mut() {
        if dice.chance(35) {
            let lines = way(dice, tunnel);
            scenario.setup.extend(lines.into_iter().map(Statement::Ip));
        }
    }
    let established = scenario
        .lanes
        .classes
        .iter()
        .any(|c| c.trust == Some(Trust::Established));
    let mut nft = inner_rules(dice, tunnels, &scenario.setup);
    if dice.chance(if established { 45 } else { 12 }) {
        nft.push("add table inet fw".into());
        for (name, hook, priority) in CHAINS {
            if !dice.chance(if name == "early" { 20 } else { 60 }) {
                continue;
            }
            nft.push(chain(name, hook, priority));
            for _ in 0..1 + dice.below(2) {
                nft.push(rule(dice, tunnels, name));
            }
        }
    }
    scenario.setup.extend(nft.into_iter().map(Statement::Nft));
}

fn chain(name: &str, hook: &str, priority: &str) -> String {
    format!(
        "add chain inet fw {name} {{ type filter hook {hook} priority {priority} ; policy accept ; }}"
    )
}

/// A chain with a rule about outer packets, for a router that may have it already.
pub(super) fn another(dice: &mut Dice, tunnels: &[Tunnel]) -> Vec<Statement> {
    let (name, hook, priority) = dice.pick(&CHAINS);
    let rule = rule(dice, tunnels, name);
    let lines = [
        "add table inet fw".into(),
        chain(name, hook, priority),
        rule,
    ];
    lines.into_iter().map(Statement::Nft).collect()
}

/// A rule about outer packets, which most often are not all of a tunnel's.
fn rule(dice: &mut Dice, tunnels: &[Tunnel], chain: &str) -> String {
    let tunnel = dice.pick(tunnels);
    let protocol = tunnel.protocol();
    let (theirs, ours) = if chain == "outgoing" {
        ("daddr", "saddr")
    } else {
        ("saddr", "daddr")
    };
    let which = match dice.below(8) {
        0 if protocol == 17 => format!("udp dport {}", tunnel.udp_port()),
        0 => format!("ip protocol {protocol}"),
        1 => format!("ip {theirs} {} ip protocol {protocol}", tunnel.remote),
        2 => format!("ip {ours} {} ip dscp cs0", tunnel.local),
        3 => format!(
            "ip protocol {protocol} ip dscp {}",
            dice.pick(&["ef", "af41", "cs6"])
        ),
        4 => format!(
            "ip protocol {protocol} ip ttl {}",
            dice.pick(&[64, 63, 255])
        ),
        5 => format!("ip {theirs} {} ip dscp ef", tunnel.remote),
        6 => format!(
            "ip protocol {} ip {theirs} 10.2.0.0/24",
            dice.pick(&[4, 41, 47])
        ),
        _ => "ip dscp ef meta l4proto { 4, 17, 41, 47 }".into(),
    };
    let action = match chain {
        "early" => dice.pick(&["drop", "notrack", "meta mark set 0x1"]),
        "outgoing" => dice.pick(&[
            "accept",
            "drop",
            "drop",
            "ip dscp set cs1",
            "ip ttl set 33",
            "ct state new accept",
            "meta mark set 0x1",
        ]),
        _ => dice.pick(&[
            "accept",
            "drop",
            "drop",
            "ct state new accept",
            "ct state new drop",
            "meta mark set 0x1",
        ]),
    };
    format!("add rule inet fw {chain} {which} {action}")
}

/// Rules about inner packets by the tunnel's device, in chains that are there.
fn inner_rules(dice: &mut Dice, tunnels: &[Tunnel], setup: &[Statement]) -> Vec<String> {
    let has = |chain: &str| {
        let made = format!("add chain inet fw {chain} ");
        setup
            .iter()
            .any(|s| matches!(s, Statement::Nft(line) if line.starts_with(&made)))
    };
    let mut lines = Vec::new();
    for Tunnel { name, .. } in tunnels {
        if has("forwarded") && dice.chance(75) {
            lines.push(format!("add rule inet fw forwarded iifname {name} accept"));
        }
        if has("forwarded") && dice.chance(25) {
            let action = dice.pick(&["accept", "drop", "ip dscp ef drop", "udp dport 5004 drop"]);
            lines.push(format!(
                "insert rule inet fw forwarded oifname {name} {action}"
            ));
        }
        if has("source") && dice.chance(40) {
            lines.push(format!("add rule inet fw source oifname {name} masquerade"));
        }
        if has("mangle") && dice.chance(30) {
            lines.push(format!(
                "add rule inet fw mangle iifname {name} meta mark set 0x1"
            ));
        }
    }
    lines
}

/// What changes the way of outer packets. Mostly the other end is behind the new way then.
pub(super) fn way(dice: &mut Dice, tunnel: &mut Tunnel) -> Vec<String> {
    let Tunnel {
        name,
        local,
        remote,
        port,
        gateway,
        ..
    } = &*tunnel;
    let (mut at, mut next) = (*port, *gateway);
    let pref = 1000 + dice.below(1000);
    let protocol = tunnel.protocol();
    let via = |port: usize, n: u8| format!("via {} dev {}", host(port, false, n), PORTS[port]);
    let lines = match dice.below(12) {
        0..=2 => {
            at = (*port + 1 + dice.below(2)) % 3;
            next = dice.below(3) as u8;
            vec![format!("route replace {remote}/32 {}", via(at, next))]
        }
        3 => {
            let kind = dice.pick(&["unreachable", "blackhole", "prohibit", "throw"]);
            vec![format!("route replace {kind} {remote}/32")]
        }
        4 => {
            let mtu = dice.pick(&["1300", "lock 1300", "1400"]);
            vec![format!(
                "route replace {remote}/32 {} mtu {mtu}",
                via(*port, (*gateway + 1) % 3)
            )]
        }
        5 => vec![format!(
            "neigh replace {} lladdr 02:00:00:00:99:99 dev {} nud permanent",
            host(*port, false, *gateway),
            PORTS[*port]
        )],
        rule => {
            let which = match rule {
                6 => format!("to {remote}"),
                7 => format!("from {local}"),
                8 => format!("ipproto {protocol}"),
                9 => format!("tos 0x10 to {remote}"),
                10 => format!("iif {name}"),
                _ => "iif lo".into(),
            };
            let mut lines = vec![format!("rule add pref {pref} {which} lookup 100")];
            if dice.chance(60) {
                at = dice.below(3);
                next = dice.below(3) as u8;
                lines.push(format!("route replace default {} table 100", via(at, next)));
            }
            lines
        }
    };
    if dice.chance(65) {
        (tunnel.port, tunnel.gateway) = (at, next);
    }
    lines
}
