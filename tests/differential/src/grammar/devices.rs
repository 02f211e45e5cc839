//! Devices over ports: what an address was on moves up to a bridge, a bond, a VLAN, or into a VRF.
//!
//! They are put into a scenario that is drawn already, with dice of their own. So a seed draws the same routers with and
//! without them, and a kernel that has none of them sees what it saw before.

use super::frames::{put_into_session, readdress, tag};
use super::{Dice, Kind, Kinds, behind, tunnels};
use crate::packets::mac_text;
use crate::scenario::{PORTS, Scenario, Statement, Step, Trust};
use crate::world::{NEIGHBOURS, port_mac};

/// In so many of a hundred configurations there are some.
const WITH_DEVICES: u32 = 60;

/// Tells these dice from those that drew the rest.
const OTHER_DICE: u64 = 0x9e37_79b9_7f4a_7c15;

/// The VLAN that devices are for.
pub(super) const VLAN_ID: u16 = 10;

/// The VLAN of a service tag that others are in.
pub(super) const SERVICE_ID: u16 = 20;

/// Number of the session that devices are for, and the last byte of its other end's MAC address.
pub(super) const SESSION_ID: u16 = 0x2001;
const PEER: u8 = 0x99;

/// Puts one or two kinds of devices into a scenario, with about so many packets more where they are tunnels.
pub(super) fn draw(seed: u64, about_packets: usize, kinds: &Kinds, scenario: &mut Scenario) {
    let mut dice = Dice::new(seed ^ OTHER_DICE);
    let dice = &mut dice;
    let mut left = kinds.list();
    if left.is_empty() || !dice.chance(WITH_DEVICES) && !kinds.are_named() {
        return;
    }
    let mut ports = PORTS.to_vec();
    let mut in_tunnels = false;
    for _ in 0..1 + dice.below(2) {
        if left.is_empty() {
            break;
        }
        let kind = left.remove(dice.below(left.len()));
        if kind.is_tunnel_over_ipv4() {
            let mut kinds: Vec<Kind> = left.clone();
            kinds.retain(|k| k.is_tunnel_over_ipv4());
            left.retain(|k| !k.is_tunnel_over_ipv4());
            kinds.push(kind);
            tunnels::draw(dice, &kinds, about_packets, scenario);
            in_tunnels = true;
        } else if kind.is_behind_routes() {
            behind::draw(dice, kind, scenario);
        } else {
            let port = ports.remove(dice.below(ports.len()));
            over(dice, kind, port, &mut ports, scenario);
        }
    }
    // Outer packets are tagged often.
    if in_tunnels && ports.len() == PORTS.len() && dice.chance(30) {
        let port = ports.remove(dice.below(2));
        over(dice, Kind::Vlan, port, &mut ports, scenario);
    }
}

/// Puts a device over a port, and perhaps over one of the `others`.
fn over<'a>(
    dice: &mut Dice,
    kind: Kind,
    port: &'a str,
    others: &mut Vec<&'a str>,
    scenario: &mut Scenario,
) {
    let upper = format!("{}x{port}", kind.name().split_at(2).0);
    let mut members = vec![port];
    if matches!(kind, Kind::Bridge | Kind::Vrf) && dice.chance(45) && others.len() > 1 {
        members.push(others.remove(dice.below(others.len())));
    }
    let made = made(dice, kind, &upper, &members);
    // Sometimes only later, under the hands of a running router; then addresses stay where they were.
    if dice.chance(20) {
        let at = dice.below(scenario.steps.len());
        scenario.steps.insert(at, Step::Change(made));
        return;
    }
    let shape = made.clone();
    let moves = dice.chance(85);
    if moves {
        for statement in scenario.all_statements().flatten() {
            moved(dice, kind, &upper, &members, statement);
        }
    }
    scenario.setup.splice(0..0, made);
    let masters = matches!(kind, Kind::Bridge | Kind::Bond | Kind::Vrf);
    match dice.below(4) {
        0 if kind != Kind::Vrf && moves => named_as_port(&upper, &members, scenario),
        // rxlane refuses members as ports of most classes, which need not be seen often.
        1 | 2 if masters => scenario
            .lanes
            .ports
            .retain(|p| !members.contains(&p.as_str())),
        3 if masters => {
            for class in &mut scenario.lanes.classes {
                class.trust = class.trust.as_ref().map(|_| Trust::Established);
            }
        }
        _ => {}
    }
    if kind == Kind::Vlan {
        tag(dice, port, &shape, scenario);
    }
    if kind == Kind::Pppoe {
        put_into_session(dice, port, &shape, scenario);
    }
    if kind == Kind::Macvlan && dice.chance(80) {
        readdress(dice, port, scenario);
    }
    if dice.chance(15) {
        let at = dice.below(scenario.steps.len());
        let change = undone(dice, kind, &upper, port);
        scenario.steps.insert(at, Step::Change(change));
    }
}

/// The statements that make a device, with what is unusual about it.
fn made(dice: &mut Dice, kind: Kind, upper: &str, members: &[&str]) -> Vec<Statement> {
    let port = members[0];
    let number = PORTS.iter().position(|p| *p == port).unwrap_or(0);
    let mac = mac_text(port_mac(number));
    let mut lines = Vec::new();
    let mut session = None;
    match kind {
        Kind::Pppoe => {
            let mut under = port.to_owned();
            if dice.chance(30) {
                under = format!("{upper}v");
                let odd = dice.pick(&[
                    "",
                    "",
                    " egress-qos-map 0:1 2:2 4:5 6:6",
                    " ingress-qos-map 5:6",
                ]);
                lines.push(format!(
                    "link add link {port} name {under} type vlan id {VLAN_ID}{odd}"
                ));
                lines.push(format!("link set {under} up"));
            }
            session = Some(Statement::Session {
                name: upper.to_owned(),
                device: under,
                id: SESSION_ID,
                remote: peer_mac(number),
            });
        }
        Kind::Bridge => {
            // A bridge that heeds the spanning tree forwards nothing for 60 s.
            lines.push(format!("link add {upper} address {mac} type bridge"));
            // Each alone: not every kernel has all of them.
            let odd = dice.pick(&[
                "mcast_snooping 0",
                "mcast_snooping 0",
                "stp_state 1 forward_delay 3000",
                "vlan_filtering 1",
                "vlan_filtering 1 vlan_default_pvid 0",
                "nf_call_iptables 1",
            ]);
            lines.push(format!("link set {upper} type bridge {odd}"));
        }
        Kind::Bond => {
            lines.push(format!("link add {upper} type bond mode active-backup"));
            lines.push(format!("link set {port} down"));
        }
        Kind::Vrf => lines.push(format!("link add {upper} type vrf table 10")),
        Kind::Vlan => {
            let odd = dice.pick(&[
                "",
                "",
                " reorder_hdr off",
                " protocol 802.1ad",
                " egress-qos-map 0:1 2:2 4:5 6:6",
                " ingress-qos-map 5:6 egress-qos-map 0:1 6:7",
            ]);
            let mut under = port.to_owned();
            if dice.chance(25) {
                under = format!("{upper}s");
                lines.push(format!(
                    "link add link {port} name {under} type vlan protocol 802.1ad id {SERVICE_ID}"
                ));
                lines.push(format!("link set {under} up"));
            }
            lines.push(format!(
                "link add link {under} name {upper} type vlan id {VLAN_ID}{odd}"
            ));
        }
        Kind::Macvlan => {
            let mode = dice.pick(&["bridge", "bridge", "private", "vepa", "passthru", "source"]);
            let own = if mode == "passthru" {
                mac
            } else {
                mac_text(macvlan_mac(number))
            };
            lines.push(format!(
                "link add link {port} name {upper} address {own} type macvlan mode {mode}"
            ));
            if mode == "source" {
                let host = mac_text([2, 0, number as u8 + 1, 0, 0x10, 10]);
                lines.push(format!("link set {upper} type macvlan macaddr add {host}"));
            }
        }
        _ => {
            let mode = dice.pick(&["l2", "l3", "l3s"]);
            lines.push(format!(
                "link add link {port} name {upper} type ipvlan mode {mode}"
            ));
        }
    }
    if matches!(kind, Kind::Bridge | Kind::Bond | Kind::Vrf) {
        for member in members {
            lines.push(format!("link set {member} master {upper}"));
            lines.push(format!("link set {member} up"));
        }
    }
    if kind == Kind::Bridge && dice.chance(35) {
        let odd = dice.pick(&[
            "learning off",
            "locked on",
            "isolated on",
            "hairpin on",
            "flood off",
            "guard on",
        ]);
        lines.push(format!("link set {port} type bridge_slave {odd}"));
    }
    let mut made: Vec<Statement> = lines.into_iter().map(Statement::Ip).collect();
    made.extend(session);
    // Without one it is down, which is sometimes forgotten.
    if dice.chance(92) {
        made.push(Statement::Ip(format!("link set {upper} up")));
    }
    if kind != Kind::Vrf {
        for family in ["ipv4", "ipv6"] {
            made.extend(NEIGHBOURS.map(|(name, value)| {
                Statement::sysctl(format!("net.{family}.neigh.{upper}.{name}"), value)
            }));
        }
    }
    made
}

/// The MAC address of the other end of a session over a port.
pub(super) fn peer_mac(port: usize) -> [u8; 6] {
    [2, 0, port as u8 + 1, 0, 0, PEER]
}

/// The MAC address of a macvlan device over a port.
pub(super) fn macvlan_mac(port: usize) -> [u8; 6] {
    [2, 0, 0, 0, 2, port as u8 + 1]
}

/// The end of it, while packets come.
fn undone(dice: &mut Dice, kind: Kind, upper: &str, port: &str) -> Vec<Statement> {
    let member = matches!(kind, Kind::Bridge | Kind::Bond | Kind::Vrf);
    let line = match dice.below(4) {
        0 => format!("link del {upper}"),
        1 if member => format!("link set {port} nomaster"),
        2 => format!("link set {port} down"),
        _ => format!("link set {upper} down"),
    };
    vec![Statement::Ip(line)]
}

/// A statement about a port becomes one about what is over it.
fn moved(dice: &mut Dice, kind: Kind, upper: &str, members: &[&str], statement: &mut Statement) {
    let about = |line: &str| members.iter().any(|m| line.split(' ').any(|w| w == *m));
    let there = |line: &str| {
        let words = line.split(' ');
        let words = words.map(|w| if members.contains(&w) { upper } else { w });
        words.collect::<Vec<_>>().join(" ")
    };
    match statement {
        Statement::Ip(line) if kind == Kind::Vrf => {
            let main = !line.contains(" table ") && !line.contains("nexthop add");
            if line.contains("route ") && main && about(line) {
                *line += " table 10";
            }
        }
        Statement::Ip(line) => *line = there(line),
        // The firewall sees one or the other, by the hook: both are worth a look.
        Statement::Nft(line) if about(line) && dice.chance(60) => *line = there(line),
        Statement::Sysctl { name, .. } if kind != Kind::Vrf && dice.chance(60) => {
            for member in members {
                *name = name.replace(&format!(".{member}."), &format!(".{upper}."));
            }
        }
        _ => {}
    }
}

/// rxlane is told of the device instead of what is under it.
fn named_as_port(upper: &str, members: &[&str], scenario: &mut Scenario) {
    let lanes = &mut scenario.lanes;
    let under = |p: &String| members.contains(&p.as_str());
    if !lanes.ports.iter().any(under) {
        return;
    }
    lanes.ports.retain(|p| !under(p));
    lanes.ports.push(upper.to_owned());
    for class in &mut lanes.classes {
        for rule in &mut class.rules {
            for member in members {
                *rule = rule.replace(&format!("\"{member}\""), &format!("\"{upper}\""));
            }
        }
    }
}
