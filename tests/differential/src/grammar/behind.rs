//! What routes may lead into besides ports, one at a time: a tunnel over IPv6, IPsec, and a device that swallows everything.

use super::{Dice, Kind, REMOTE, esp, of_family};
use crate::scenario::{Origin, Packet, Scenario, Statement, Step};

/// The ends of tunnels, by family: the router, and the first host of the first network.
pub(super) const ENDS: [[&str; 2]; 2] = [["10.1.0.1", "10.1.0.10"], ["fd01::1", "fd01::10"]];

/// Numbers of added packets are above this, and below what identifications of IPv4 are made of.
const BARE: u32 = 50_000;

/// Puts one into a scenario, at the end of the setup or as a change.
pub(super) fn draw(dice: &mut Dice, kind: Kind, scenario: &mut Scenario) {
    let lines = match kind {
        Kind::Esp => esp::draw(dice),
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
pub(super) fn bare_answers(dice: &mut Dice, scenario: &mut Scenario) {
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
    let [local, remote] = ENDS[1];
    let made = match kind {
        Kind::Dummy => format!("link add {name} type dummy"),
        _ => format!(
            "link add {name} type ip6tnl mode any local {local} remote {remote} encaplimit none hoplimit 64"
        ),
    };
    let mut lines = vec![
        Statement::Ip(made),
        Statement::Ip(format!("link set {name} up")),
    ];
    if dice.chance(30) {
        lines.push(Statement::Ip(format!("addr add 10.99.0.1/30 dev {name}")));
    }
    for _ in 0..1 + dice.below(3) {
        let v6 = dice.chance(40);
        let to = dice.pick(&REMOTE[usize::from(v6)]);
        lines.push(of_family(v6, &format!("route replace {to} dev {name}")));
    }
    lines
}
