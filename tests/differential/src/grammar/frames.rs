//! What hosts behind devices send: with tags, in sessions, to other MAC addresses, and some of it wrongly.

use super::Dice;
use super::devices::{SERVICE_ID, SESSION_ID, VLAN_ID, macvlan_mac, peer_mac};
use crate::packets::{Session, into_session, retagged};
use crate::scenario::{Origin, PORTS, Scenario, Statement, Step};
use crate::world::port_mac;

/// A VLAN that nobody has a device for.
const UNKNOWN_ID: u16 = 11;

/// Frames that go into a port, as bytes.
fn frames_into<'a>(
    scenario: &'a mut Scenario,
    port: &str,
) -> impl Iterator<Item = (&'a mut String, &'a mut String)> {
    let number = PORTS.iter().position(|p| *p == port);
    let sends = scenario.steps.iter_mut().filter_map(|step| match step {
        Step::Send(packets) => Some(packets),
        Step::Change(_) => None,
    });
    sends.flatten().filter_map(move |packet| {
        let Origin::Frame { port, hex } = &mut packet.origin else {
            return None;
        };
        (Some(*port) == number).then_some((hex, &mut packet.what))
    })
}

/// Hosts behind a VLAN device tag what they send, and some do so wrongly.
pub(super) fn tag(dice: &mut Dice, port: &str, made: &[Statement], scenario: &mut Scenario) {
    let has = |what: &str| {
        made.iter()
            .any(|s| matches!(s, Statement::Ip(line) if line.contains(what)))
    };
    let service = has("802.1ad");
    let own: &[u16] = if has(&format!("id {SERVICE_ID}")) {
        &[SERVICE_ID, VLAN_ID]
    } else {
        &[VLAN_ID]
    };
    for (hex, what) in frames_into(scenario, port) {
        let (tags, service): (&[u16], bool) = match dice.below(100) {
            0..70 => (own, service),
            70..76 => (&[VLAN_ID | 0xa000], service),
            76..82 => (&[UNKNOWN_ID], false),
            82..87 => (&[0], dice.chance(20)),
            87..90 => (&[VLAN_ID, UNKNOWN_ID], false),
            90..92 => (&[0, VLAN_ID], false),
            92..94 => (own, !service),
            _ => (&[], false),
        };
        if !tags.is_empty() {
            *hex = retagged(hex, tags, service);
            let kind = if service { "service-tagged" } else { "tagged" };
            *what += &format!(", {kind} {tags:x?}");
        }
    }
}

/// Hosts behind a session send in it, and some do so wrongly.
pub(super) fn put_into_session(
    dice: &mut Dice,
    port: &str,
    made: &[Statement],
    scenario: &mut Scenario,
) {
    let number = PORTS.iter().position(|p| *p == port).unwrap_or(0);
    let over_vlan = made
        .iter()
        .any(|s| matches!(s, Statement::Ip(line) if line.contains("type vlan")));
    for (hex, what) in frames_into(scenario, port) {
        let mut session = Session {
            id: SESSION_ID,
            from: peer_mac(number),
            longer: 0,
            code: 0,
        };
        match dice.below(100) {
            0..78 => {}
            78..82 => session.id ^= 1,
            82..86 => session.from[5] ^= 1,
            86..89 => session.longer = 4,
            89..92 => session.longer = -4,
            92..94 => session.code = 0xa7,
            _ => continue,
        }
        *hex = into_session(hex, &session);
        *what += &format!(", {session}");
        if over_vlan != dice.chance(5) {
            *hex = retagged(hex, &[VLAN_ID], false);
            *what += ", tagged";
        }
    }
}

/// Hosts send to the MAC address of a macvlan device.
pub(super) fn readdress(dice: &mut Dice, port: &str, scenario: &mut Scenario) {
    let number = PORTS.iter().position(|p| *p == port).unwrap_or(0);
    let from = port_mac(number).map(|b| format!("{b:02x}")).concat();
    let to = macvlan_mac(number).map(|b| format!("{b:02x}")).concat();
    for (hex, what) in frames_into(scenario, port) {
        if hex.starts_with(&from) && dice.chance(60) {
            hex.replace_range(..12, &to);
            *what += ", to the macvlan device";
        }
    }
}
