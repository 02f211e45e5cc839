//! Addresses of ports, and what the router knows of its neighbours.

use std::net::IpAddr;

use super::{Dice, host, subnet};
use crate::neighbours::mac_of;
use crate::packets::mac_text;
use crate::scenario::{PORTS, Statement};

/// How many hosts a port's network has; the last never answers.
pub(crate) const HOSTS: u8 = 4;

/// The hosts that answer when they are asked for their MAC address.
pub(super) fn alive() -> Vec<IpAddr> {
    let mut all = Vec::new();
    for port in 0..PORTS.len() {
        for n in 0..HOSTS - 1 {
            let both = [false, true].map(|v6| host(port, v6, n));
            all.extend(both.iter().filter_map(|a| a.parse::<IpAddr>().ok()));
        }
    }
    all
}

pub(super) fn draw(dice: &mut Dice, setup: &mut Vec<Statement>) {
    let mut ip = |line: String| setup.push(Statement::Ip(line));
    for (n, port) in PORTS.iter().enumerate() {
        let [v4, v6] = subnet(n);
        if dice.chance(95) {
            ip(format!("addr add {v4}.1/24 dev {port}"));
        } else {
            ip(format!("addr add 192.168.{n}.1/32 dev {port}"));
            ip(format!("route add {v4}.0/24 dev {port}"));
        }
        if dice.chance(95) {
            ip(format!("addr add {v6}:1/64 dev {port} nodad"));
        }
        if dice.chance(15) {
            ip(format!("addr add {v4}.2/24 dev {port}"));
        }
        if dice.chance(5) {
            // Two ports in one network.
            ip(format!("addr add 10.1.0.{}/24 dev {port}", 4 + n));
        }
        if dice.chance(25) {
            let mtu = dice.pick(&[1280, 1300, 1400, 2000]);
            ip(format!("link set {port} mtu {mtu}"));
        }
    }
    if dice.chance(20) {
        ip("addr add 10.255.0.1/32 dev lo".into());
    }
    let absent = if dice.chance(25) { 40 } else { 3 };
    for (port, name) in PORTS.iter().enumerate() {
        for n in 0..HOSTS {
            for v6 in [false, true] {
                let address = host(port, v6, n);
                let Ok(parsed) = address.parse::<IpAddr>() else {
                    continue;
                };
                let mac = mac_text(mac_of(port, parsed));
                let state = match dice.below(100) {
                    0..75 => "permanent",
                    75..88 => "stale",
                    _ => "reachable",
                };
                if !dice.chance(absent) {
                    ip(format!(
                        "neigh replace {address} lladdr {mac} dev {name} nud {state}"
                    ));
                }
            }
        }
    }
}
