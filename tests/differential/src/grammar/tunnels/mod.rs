//! Tunnels over IPv4: one to three of them, routes into them, and what speaks in them.

mod arrivals;
mod events;
mod outer;

use std::net::IpAddr;

use super::{Dice, Kind, REMOTE, behind, host, of_family, subnet};
use crate::packets::mac_text;
use crate::scenario::{Class, PORTS, Scenario, Statement, Trust};

/// An address that is on no port.
const ON_LOOPBACK: &str = "10.255.0.1";

/// The broadest rule of classes.
const ALL_OF_HOSTS: &str = r#"{ protocol = ["tcp", "udp"] }"#;

/// Hosts of a prefix that speak.
const SPEAKERS: [u8; 2] = [7, 9];

/// A tunnel, as it is at the start.
#[derive(Debug, Clone)]
struct Tunnel {
    kind: Kind,
    name: String,
    local: String,
    remote: String,
    key: Option<u32>,
    /// The port behind which the other end is, and the host there that is it or hands to it.
    port: usize,
    gateway: u8,
    /// Prefixes that are routed into it.
    inside: Vec<&'static str>,
}

/// Puts tunnels of some kinds into a scenario, with so many packets of theirs.
pub(super) fn draw(dice: &mut Dice, kinds: &[Kind], about: usize, scenario: &mut Scenario) {
    suited(dice, scenario);
    let mut prefixes = REMOTE.map(|all| all.to_vec());
    let mut tunnels = Vec::new();
    for n in 0..dice.pick(&[1, 2, 2, 3]) {
        let kind = dice.pick(kinds);
        let mut tunnel = Tunnel::drawn(dice, kind, n);
        let setup = &mut scenario.setup;
        setup.extend(tunnel.made(dice));
        tunnel.routed(dice, &mut prefixes, setup);
        tunnels.push(tunnel);
    }
    outer::draw(dice, &mut tunnels, scenario);
    for class in &mut scenario.lanes.classes {
        trusted(dice, &tunnels, class);
    }
    arrivals::draw(dice, &tunnels, about, scenario);
    if dice.chance(30) {
        behind::bare_answers(dice, scenario);
    }
    for _ in 0..dice.pick(&[0, 0, 1, 1, 2]) {
        events::draw(dice, &tunnels, scenario);
    }
}

/// Takes away most of what keeps all packets out of tunnels, so that those are seen to be express, and gives classes more packets.
fn suited(dice: &mut Dice, scenario: &mut Scenario) {
    scenario.lanes.engine &= dice.chance(20);
    for words in [
        ["nexthop", "nhid"],
        ["xfrm policy add dir", "xfrm policy add dir"],
    ] {
        if dice.chance(85) {
            for statements in scenario.all_statements() {
                statements.retain(|s| !words.iter().any(|w| s.command().contains(w)));
            }
        }
    }
    let express = scenario.lanes.classes.iter_mut().rev();
    let last = express.into_iter().find(|c| c.trust.is_some());
    if let Some(class) = last.filter(|_| dice.chance(75))
        && !class.rules.iter().any(|rule| rule == ALL_OF_HOSTS)
    {
        class.rules.push(ALL_OF_HOSTS.into());
    }
}

/// A class that trusts sources trusts those in tunnels most often, too.
fn trusted(dice: &mut Dice, tunnels: &[Tunnel], class: &mut Class) {
    let Some(Trust::Prefixes(list)) = &mut class.trust else {
        return;
    };
    for inside in tunnels.iter().flat_map(|t| &t.inside) {
        if dice.chance(85) && !list.iter().any(|p| p == inside) {
            list.push((*inside).to_owned());
        }
    }
}

/// Who has a hardware address in a VXLAN.
const DEVICE: u8 = 0x88;
const STATION: u8 = 0x77;

impl Tunnel {
    fn drawn(dice: &mut Dice, kind: Kind, n: usize) -> Self {
        let port = dice.pick(&[0, 0, 0, 1, 2]);
        let gateway = ((n + dice.below(2)) % 3) as u8;
        let at = if dice.chance(10) { dice.below(3) } else { port };
        let remote = if dice.chance(75) {
            host(port, false, gateway)
        } else {
            format!("203.0.113.{}", 60 + n)
        };
        Self {
            kind,
            name: format!("{}{}", kind.name(), n + 1),
            local: if dice.chance(10) {
                ON_LOOPBACK.into()
            } else {
                format!("{}.1", subnet(at)[0])
            },
            remote,
            key: (kind == Kind::Vxlan || (kind == Kind::Gre && dice.chance(50)))
                .then_some(7 + n as u32),
            port,
            gateway,
            inside: Vec::new(),
        }
    }

    /// Whether the other end is a host of the port.
    fn is_near(&self) -> bool {
        self.remote == host(self.port, false, self.gateway)
    }

    /// The statements that make it, and lead to its other end.
    fn made(&self, dice: &mut Dice) -> Vec<Statement> {
        let Self {
            kind,
            name,
            local,
            remote,
            port,
            ..
        } = self;
        if self.kind == Kind::Vxlan {
            return self.vxlan_made(dice);
        }
        let ttl = dice.pick(&[
            "ttl 64",
            "ttl 64",
            "ttl inherit",
            "ttl inherit",
            // Linux takes this with an inherited TTL only.
            "ttl inherit nopmtudisc",
            "ttl 255",
            "ttl 2",
        ]);
        let tos = dice.pick(&[
            "",
            "",
            " tos inherit",
            " tos inherit",
            " tos 0xb8",
            " tos 0x10",
            " tos 0x22",
        ]);
        let mut line = format!(
            "link add {name} type {} local {local} remote {remote} {ttl}{tos}",
            kind.name()
        );
        if let Some(key) = self.key {
            line += &format!(" key {key}");
        }
        if dice.chance(10) {
            line += match kind {
                Kind::Gre => dice.pick(&[" seq", " csum", " seq csum", " fwmark 0x1"]),
                _ => " fwmark 0x1",
            };
        } else if dice.chance(30) {
            // Unless told so they carry anything.
            line += match kind {
                Kind::Ipip => " mode ipip",
                Kind::Sit => " mode ip6ip",
                _ => "",
            };
        }
        if dice.chance(10) {
            line += &format!(" dev {}", PORTS[*port]);
        }
        self.around(dice, line)
    }

    /// The same of a VXLAN, whose device and whose one station have addresses that are known.
    fn vxlan_made(&self, dice: &mut Dice) -> Vec<Statement> {
        let Self {
            name,
            local,
            remote,
            port,
            ..
        } = self;
        let ttl = dice.pick(&["", "", " ttl 64", " ttl inherit", " ttl 255", " ttl 2"]);
        let tos = dice.pick(&["", "", " tos inherit", " tos 0xb8", " tos 0x22"]);
        let df = dice.pick(&["", "", " df set", " df inherit"]);
        let learns = dice.pick(&["", " nolearning"]);
        let number = self.key.unwrap_or_default();
        let mut line = format!(
            "link add {name} address {} type vxlan id {number} local {local} remote {remote} dstport {}{ttl}{tos}{df}{learns}",
            mac_text(self.mac(DEVICE)),
            self.udp_port(),
        );
        if dice.chance(40) {
            line += " noudpcsum";
        }
        if dice.chance(5) {
            line += " proxy";
        }
        if dice.chance(10) {
            line += &format!(" dev {}", PORTS[*port]);
        }
        self.around(dice, line)
    }

    /// Of hardware addresses in a VXLAN.
    fn mac(&self, whose: u8) -> [u8; 6] {
        [2, 0, 0, 0, whose, self.key.unwrap_or_default() as u8]
    }

    /// That a VXLAN sends to.
    fn udp_port(&self) -> u16 {
        if self.key.unwrap_or_default().is_multiple_of(2) {
            8472
        } else {
            4789
        }
    }

    /// A line that makes it, with those that go before and follow.
    fn around(&self, dice: &mut Dice, line: String) -> Vec<Statement> {
        let Self {
            name,
            local,
            remote,
            port,
            ..
        } = self;
        let mut lines = Vec::new();
        if local == ON_LOOPBACK {
            lines.push(format!("addr replace {ON_LOOPBACK}/32 dev lo"));
        }
        lines.push(line);
        if dice.chance(95) {
            lines.push(format!("link set {name} up"));
        }
        if dice.chance(25) {
            let mtu = dice.pick(&[1280, 1300, 1400, 1480, 1500]);
            lines.push(format!("link set {name} mtu {mtu}"));
        }
        if !self.is_near() && dice.chance(85) {
            let via = host(*port, false, self.gateway);
            lines.push(format!(
                "route replace {remote}/32 via {via} dev {}",
                PORTS[*port]
            ));
        }
        let mut made: Vec<Statement> = lines.into_iter().map(Statement::Ip).collect();
        if dice.chance(20) {
            let (setting, value) =
                dice.pick(&[("rp_filter", 1), ("rp_filter", 2), ("forwarding", 0)]);
            made.push(Statement::sysctl(
                format!("net.ipv4.conf.{name}.{setting}"),
                value,
            ));
        }
        made
    }

    /// Leads some prefixes into it, which are taken out of those that are left, and gives it addresses.
    fn routed(
        &mut self,
        dice: &mut Dice,
        prefixes: &mut [Vec<&'static str>; 2],
        setup: &mut Vec<Statement>,
    ) {
        let name = &self.name;
        let n = self.name.trim_start_matches(|c: char| !c.is_ascii_digit());
        let is_vxlan = self.kind == Kind::Vxlan;
        // A device without an address of IPv4 is asked about more strictly.
        if is_vxlan || dice.chance(60) {
            setup.push(Statement::Ip(format!("addr add 10.9{n}.0.1/30 dev {name}")));
            let six = format!("addr add fd0a:{n}::1/64 dev {name} nodad");
            setup.push(Statement::Ip(six));
        }
        if is_vxlan {
            let mac = mac_text(self.mac(STATION));
            for next in [format!("10.9{n}.0.2"), format!("fd0a:{n}::2")] {
                setup.push(Statement::Ip(format!(
                    "neigh replace {next} lladdr {mac} dev {name} nud permanent"
                )));
            }
        }
        for _ in 0..2 + dice.below(2) {
            // Some routes lead into a tunnel that does not carry such packets, or puts them into others.
            let v6 = match self.kind {
                Kind::Ipip => dice.chance(5),
                Kind::Sit => dice.chance(95),
                _ => dice.chance(40),
            };
            let left = &mut prefixes[usize::from(v6)];
            if left.is_empty() {
                continue;
            }
            let to = left.remove(dice.below(left.len()));
            let odd = match dice.below(10) {
                0 => " table 100",
                1 => " mtu 1300",
                _ => "",
            };
            let via = match (is_vxlan, v6) {
                (false, _) => String::new(),
                (true, false) => format!(" via 10.9{n}.0.2"),
                (true, true) => format!(" via fd0a:{n}::2"),
            };
            setup.push(of_family(
                v6,
                &format!("route replace {to}{via} dev {name}{odd}"),
            ));
            self.inside.push(to);
        }
    }

    /// Who speaks in it.
    fn speakers(&self) -> Vec<IpAddr> {
        let of = |prefix: &&str, n: u8| {
            let network = prefix.split('/').next()?;
            let text = match network.rsplit_once('.') {
                Some((head, _)) => format!("{head}.{n}"),
                None => format!("{network}{n}"),
            };
            text.parse().ok()
        };
        let all = self.inside.iter().flat_map(|p| SPEAKERS.map(|n| of(p, n)));
        all.flatten().collect()
    }
}
