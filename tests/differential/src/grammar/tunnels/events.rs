//! What happens to tunnels while packets come.

use super::{Tunnel, outer};
use crate::grammar::{Dice, Kind, host, of_family};
use crate::scenario::{PORTS, Scenario, Statement, Step};

/// Puts a change somewhere behind the first packets.
pub(super) fn draw(dice: &mut Dice, tunnels: &[Tunnel], scenario: &mut Scenario) {
    let change = one(dice, tunnels);
    let at = 1 + dice.below(scenario.steps.len());
    scenario.steps.insert(at, Step::Change(change));
}

fn one(dice: &mut Dice, tunnels: &[Tunnel]) -> Vec<Statement> {
    let mut tunnel = dice.pick(tunnels);
    let Tunnel {
        kind,
        name,
        local,
        remote,
        port,
        ..
    } = tunnel.clone();
    let ip = |line: String| vec![Statement::Ip(line)];
    let number = tunnel.key.unwrap_or_default();
    let set = |what: &str| {
        let kind = match kind {
            Kind::Vxlan => format!("vxlan id {number}"),
            kind => kind.name().to_owned(),
        };
        ip(format!("link set {name} type {kind} {what}"))
    };
    match dice.below(16) {
        0 => ip(format!("link del {name}")),
        1 => ip(format!("link set {name} down")),
        2 => [
            format!("link set {name} down"),
            format!("link set {name} up"),
        ]
        .map(Statement::Ip)
        .into(),
        3 => set(&format!("local {local} remote {}", host(port, false, 2))),
        4 if kind == Kind::Gre => set(&format!("key {}", dice.pick(&[7, 8, 70]))),
        4 if kind == Kind::Vxlan => set(dice.pick(&["learning", "nolearning", "df set"])),
        // Of a VXLAN only a number can be changed.
        4 | 5 => set(dice.pick(&["ttl 64", "ttl 255", "ttl 33"])),
        6 => set(dice.pick(&["tos inherit", "tos 0x20", "tos 0"])),
        7 => ip(format!("addr del {local}/24 dev {}", PORTS[port])),
        8 => ip(format!(
            "link set {name} mtu {}",
            dice.pick(&[1280, 1350, 1500])
        )),
        9 => {
            let inside = dice.pick(&tunnel.inside);
            let line = format!("route del {inside} dev {name}");
            vec![of_family(inside.contains(':'), &line)]
        }
        10 => {
            let inside = dice.pick(&tunnel.inside);
            let v6 = inside.contains(':');
            let to = dice.below(3);
            let line = format!(
                "route replace {inside} via {} dev {}",
                host(to, v6, 1),
                PORTS[to]
            );
            vec![of_family(v6, &line)]
        }
        // Whom Linux gives the packets of both, and which of them is served.
        11 if kind == Kind::Vxlan => {
            let other = if tunnel.udp_port() == 4789 {
                8472
            } else {
                4789
            };
            let line = format!(
                "link add twin type vxlan id {number} local {local} remote {remote} dstport {other}"
            );
            [line, "link set twin up".into()].map(Statement::Ip).into()
        }
        11 => {
            let key = tunnel
                .key
                .map_or(String::new(), |key| format!(" key {key}"));
            let line = format!(
                "link add twin type {} local {local} remote {remote}{key} dev {}",
                kind.name(),
                PORTS[port]
            );
            [line, "link set twin up".into()].map(Statement::Ip).into()
        }
        12 | 13 => {
            let lines = outer::way(dice, &mut tunnel);
            lines.into_iter().map(Statement::Ip).collect()
        }
        _ => outer::another(dice, tunnels),
    }
}
