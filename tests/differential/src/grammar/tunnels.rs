//! What routes may lead into besides ports: tunnels, IPsec, and a device that swallows everything.

use super::{Dice, Kind, REMOTE, of_family};
use crate::scenario::{Origin, Packet, Scenario, Statement, Step};

/// The ends of tunnels, by family: the router, and the first host of the first network.
const ENDS: [[&str; 2]; 2] = [["10.1.0.1", "10.1.0.10"], ["fd01::1", "fd01::10"]];

/// Numbers of added packets are above this, and below what identifications of IPv4 are made of.
const BARE: u32 = 50_000;

/// Encryption that does nothing, and a signature that is always the same for the same bytes.
const CIPHERS: [&str; 2] = [
    r#"auth digest_null "" enc ecb(cipher_null) """#,
    r#"auth hmac(sha256) 0x000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f enc ecb(cipher_null) """#,
];

/// Puts one into a scenario, at the end of the setup or as a change.
pub(super) fn draw(dice: &mut Dice, kind: Kind, scenario: &mut Scenario) {
    let lines = match kind {
        Kind::Esp => esp(dice),
        _ => device(dice, kind),
    };
    if dice.chance(25) {
        let at = dice.below(scenario.steps.len());
        scenario.steps.insert(at, Step::Change(lines));
    } else {
        scenario.setup.extend(lines);
    }
    if dice.chance(70) {
        bare_answers(dice, scenario);
    }
}

/// Adds answers that claim to be of a conversation but do not come through its tunnel, which Linux may mind.
fn bare_answers(dice: &mut Dice, scenario: &mut Scenario) {
    let packets = scenario.steps.iter_mut().filter_map(|step| match step {
        Step::Send(packets) => Some(packets),
        Step::Change(_) => None,
    });
    let mut number = BARE;
    for packets in packets {
        let mut added = Vec::new();
        for packet in packets.iter() {
            let Origin::Answer(answer) = &packet.origin else {
                continue;
            };
            if !dice.chance(40) {
                continue;
            }
            number += 1;
            let mut answer = answer.clone();
            answer.bare = true;
            added.push(Packet {
                number,
                what: format!("{}, not through the tunnel", packet.what),
                origin: Origin::Answer(answer),
            });
        }
        packets.extend(added);
    }
}

/// A device with routes through it.
fn device(dice: &mut Dice, kind: Kind) -> Vec<Statement> {
    let name = format!("{}0", kind.name());
    let outer_v6 = kind == Kind::Ip6tnl;
    let [local, remote] = ENDS[usize::from(outer_v6)];
    let made = match kind {
        Kind::Dummy => format!("link add {name} type dummy"),
        Kind::Ip6tnl => format!(
            "link add {name} type ip6tnl mode any local {local} remote {remote} encaplimit none hoplimit 64"
        ),
        _ => {
            let odd = dice.pick(&["ttl 64", "ttl 64 tos inherit", "ttl inherit nopmtudisc"]);
            format!(
                "link add {name} type {} local {local} remote {remote} {odd}",
                kind.name()
            )
        }
    };
    let mut lines = vec![
        Statement::Ip(made),
        Statement::Ip(format!("link set {name} up")),
    ];
    if dice.chance(30) {
        lines.push(Statement::Ip(format!("addr add 10.99.0.1/30 dev {name}")));
    }
    for _ in 0..1 + dice.below(3) {
        // IPIP carries IPv4 only; routes for IPv6 through it are refused or lead nowhere.
        let v6 = kind != Kind::Ipip && dice.chance(40);
        let to = dice.pick(&REMOTE[usize::from(v6)]);
        lines.push(of_family(v6, &format!("route replace {to} dev {name}")));
    }
    lines
}

/// Policies with the states that they need, for a network behind the router and one behind a peer.
fn esp(dice: &mut Dice) -> Vec<Statement> {
    let v6 = dice.chance(35);
    let [local, remote] = ENDS[usize::from(dice.chance(if v6 { 70 } else { 15 }))];
    let ours = dice.pick(if v6 {
        &["fd02::/64", "fd03::/64"]
    } else {
        &["10.2.0.0/24", "10.3.0.0/24"]
    });
    let theirs = dice.pick(&REMOTE[usize::from(v6)]);
    let cipher = dice.pick(&CIPHERS);
    let family = if v6 == local.contains(':') {
        String::new()
    } else if v6 {
        " sel src ::/0 dst ::/0".into()
    } else {
        " sel src 0.0.0.0/0 dst 0.0.0.0/0".into()
    };
    let tunnel =
        |from: &str, to: &str| format!("tmpl src {from} dst {to} proto esp reqid 1 mode tunnel");
    let state = |from: &str, to: &str| {
        format!(
            "xfrm state add src {from} dst {to} proto esp spi 0x100 reqid 1 mode tunnel {cipher}{family}"
        )
    };
    let mut lines = vec![
        state(local, remote),
        state(remote, local),
        format!(
            "xfrm policy add src {ours} dst {theirs} dir out {}",
            tunnel(local, remote)
        ),
    ];
    let back = tunnel(remote, local);
    for dir in ["fwd", "in"] {
        if dice.chance(85) {
            let level = dice.pick(&["", " level use"]);
            lines.push(format!(
                "xfrm policy add src {theirs} dst {ours} dir {dir} {back}{level}"
            ));
        }
    }
    if dice.chance(30) {
        let dir = dice.pick(&["out", "fwd", "in"]);
        let action = dice.pick(&["block", "allow"]);
        let protocol = dice.pick(&["", " proto udp", " proto tcp"]);
        lines.push(format!(
            "xfrm policy add src {ours} dst {theirs}{protocol} dir {dir} priority 1 action {action}"
        ));
    }
    lines.into_iter().map(Statement::Ip).collect()
}
