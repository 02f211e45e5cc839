//! What imaginary hosts answer when the router asks for their MAC address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::packets::{Spec, Transport, tagged, untagged};
use crate::scenario::{PORTS, Scenario, Statement};

/// Which hosts are behind which port. Each of them is behind every port, so that packets arrive wherever they are routed to;
/// but of the ports of one bridge only behind one, or two hosts of one address would answer and the faster be found.
pub(crate) struct Hosts {
    behind: [Vec<IpAddr>; PORTS.len()],
}

impl Hosts {
    pub(crate) fn of(scenario: &Scenario) -> Self {
        let bridged: Vec<usize> = (0..PORTS.len())
            .filter(|port| is_bridged(scenario, PORTS[*port]))
            .collect();
        let is_behind = |port: usize, host: IpAddr| {
            let home = home(host).filter(|home| bridged.contains(home));
            !bridged.contains(&port) || home.or(bridged.first().copied()) == Some(port)
        };
        Self {
            behind: std::array::from_fn(|port| {
                let mut hosts = scenario.alive.clone();
                hosts.retain(|host| is_behind(port, *host));
                hosts
            }),
        }
    }

    pub(crate) fn behind(&self, port: usize) -> &[IpAddr] {
        &self.behind[port]
    }
}

/// The port whose network an address is of.
fn home(host: IpAddr) -> Option<usize> {
    let number = match host {
        IpAddr::V4(a) => a.octets()[1],
        IpAddr::V6(a) => a.octets()[1],
    };
    (number as usize).checked_sub(1)
}

fn is_bridged(scenario: &Scenario, port: &str) -> bool {
    let lines = || {
        scenario
            .setup
            .iter()
            .filter_map(|statement| match statement {
                Statement::Ip(line) => Some(line.as_str()),
                _ => None,
            })
    };
    let is_bridge = |name: &str| {
        let made = format!("link add {name} ");
        lines().any(|line| line.starts_with(&made) && line.contains(" type bridge"))
    };
    let joins = format!("link set {port} master ");
    lines()
        .filter_map(|line| line.strip_prefix(&joins))
        .any(is_bridge)
}

/// The MAC address of the host with an address behind a port. A function of both, so that no table is needed.
pub(crate) fn mac_of(port: usize, address: IpAddr) -> [u8; 6] {
    let low = match address {
        IpAddr::V4(a) => a.octets()[3],
        IpAddr::V6(a) => a.octets()[15],
    };
    [2, 0, port as u8 + 1, 0, 0x10, low]
}

/// Whether a frame is something that routers say by themselves about neighbours and groups: it differs in time and
/// number between equal routers. ARP, neighbour discovery, redirects, MLD and IGMP, and the spanning tree of bridges.
pub(crate) fn is_chatter(frame: &[u8]) -> bool {
    if frame.starts_with(&[1, 0x80, 0xc2, 0, 0]) {
        return true;
    }
    let (_, frame) = untagged(frame);
    match frame.get(12..14) {
        Some([8, 6]) => true,
        Some([8, 0]) => {
            let header = 14 + usize::from(frame.get(14).copied().unwrap_or(0) & 15) * 4;
            match frame.get(23) {
                Some(2) => true,
                Some(1) => frame.get(header) == Some(&5),
                _ => false,
            }
        }
        Some([0x86, 0xdd]) => match frame.get(20) {
            Some(58) => matches!(frame.get(54), Some(130..=137 | 143)),
            // MLD follows a hop-by-hop header.
            Some(0) => frame.get(54) == Some(&58) && matches!(frame.get(62), Some(130..=132 | 143)),
            _ => false,
        },
        _ => false,
    }
}

/// The answer to an ARP request or a neighbour solicitation that is for a living host, in the same VLAN.
pub(crate) fn reply(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let (tags, frame) = untagged(frame);
    let reply = match frame.get(12..14)? {
        [8, 6] => arp(port, &frame, alive),
        [0x86, 0xdd] if frame.get(20) == Some(&58) && frame.get(54) == Some(&135) => {
            solicitation(port, &frame, alive)
        }
        _ => None,
    };
    Some(tagged(&reply?, &tags))
}

fn arp(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let request = frame.get(14..42)?;
    if request[..8] != [0, 1, 8, 0, 6, 4, 0, 1] {
        return None;
    }
    let wanted: [u8; 4] = request[24..28].try_into().ok()?;
    let address = IpAddr::from(Ipv4Addr::from(wanted));
    if !alive.contains(&address) {
        return None;
    }
    let mac = mac_of(port, address);
    let mut reply = request[8..14].to_vec();
    reply.extend(mac);
    reply.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 2]);
    reply.extend(mac);
    reply.extend(wanted);
    reply.extend(&request[8..18]);
    Some(reply)
}

fn solicitation(port: usize, frame: &[u8], alive: &[IpAddr]) -> Option<Vec<u8>> {
    let asker: [u8; 16] = frame.get(22..38)?.try_into().ok()?;
    let wanted: [u8; 16] = frame.get(62..78)?.try_into().ok()?;
    let (asker, address) = (Ipv6Addr::from(asker), Ipv6Addr::from(wanted));
    if asker.is_unspecified() || !alive.contains(&address.into()) {
        return None;
    }
    let mac = mac_of(port, address.into());
    let spec = Spec {
        to_mac: frame.get(6..12)?.try_into().ok()?,
        from_mac: mac,
        src: address.into(),
        dst: asker.into(),
        dscp: 0,
        ttl: 255,
        transport: Transport::Other(58),
        number: 0,
        payload_bytes: 0,
        quirks: Vec::new(),
    };
    let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
    body.extend(wanted);
    body.extend([2, 1]);
    body.extend(mac);
    Some(spec.icmpv6_frame(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Lanes;

    #[test]
    fn of_bridged_ports_a_host_is_behind_its_own_and_strangers_behind_the_first() {
        let ip = |line: &str| Statement::Ip(line.to_owned());
        let hosts = ["10.1.0.10", "fd02::10", "10.3.0.10"];
        let mut scenario = Scenario {
            seed: 0,
            setup: Vec::new(),
            lanes: Lanes {
                ports: Vec::new(),
                classes: Vec::new(),
                engine: false,
                at_tc: false,
                fast: false,
            },
            alive: hosts.map(|host| host.parse().unwrap()).to_vec(),
            steps: Vec::new(),
        };
        assert_eq!(Hosts::of(&scenario).behind(2), scenario.alive);
        scenario.setup = vec![
            ip("link add brlan0 address 02:00:00:00:00:02 type bridge"),
            ip("link set lan0 master brlan0"),
            ip("link set dmz0 master brlan0"),
        ];
        let hosts = Hosts::of(&scenario);
        assert_eq!(hosts.behind(0), scenario.alive);
        assert_eq!(hosts.behind(1), &scenario.alive[..2]);
        assert_eq!(hosts.behind(2), &scenario.alive[2..]);
    }
}
