//! A flow that talks through a router.

use std::net::IpAddr;
use std::time::Duration;

use rxlane_ruleset::evaluate::Flow;

use crate::OracleError;
use crate::grammar::Dice;
use crate::packets::{Quirk, Spec, Transport, mac_text, number_in, tcp};
use crate::scenario::{PORTS, Statement};
use crate::wire;
use crate::world::{World, port_mac};

/// How long something may be late that should come; each time that a difference is looked at again ten times as long.
const LATE: Duration = Duration::from_millis(5);
/// Hosts of each network: `.10` and so on.
const HOSTS: u8 = 4;
const PROTOCOLS: [u8; 6] = [17, 17, 17, 6, 6, 0];

fn host_mac(port: usize, host: u8) -> [u8; 6] {
    [2, 0, 0, 0, 0x10 + port as u8, host]
}

fn host(port: usize, host: u8, v6: bool) -> IpAddr {
    let net = port as u8 + 1;
    match v6 {
        false => IpAddr::from([10, net, 0, 10 + host]),
        true => IpAddr::from([
            0xfd00 + u16::from(net),
            0,
            0,
            0,
            0,
            0,
            0,
            0x10 + u16::from(host),
        ]),
    }
}

/// Addresses of the router, and its neighbours.
pub(super) fn setup() -> Vec<Statement> {
    let mut lines = Vec::new();
    for (port, name) in PORTS.iter().enumerate().take(2) {
        let net = port + 1;
        lines.push(format!("addr add 10.{net}.0.1/24 dev {name}"));
        lines.push(format!("addr add fd0{net}::1/64 dev {name} nodad"));
        for n in 0..HOSTS {
            let mac = mac_text(host_mac(port, n));
            for v6 in [false, true] {
                let host = host(port, n, v6);
                lines.push(format!(
                    "neigh replace {host} lladdr {mac} dev {name} nud permanent"
                ));
            }
        }
    }
    lines.into_iter().map(Statement::Ip).collect()
}

pub(super) struct Talk<'a> {
    world: &'a World,
    /// Numbers of the ports that it comes in and leaves by.
    from: usize,
    to: usize,
    /// A packet as it is sent first.
    spec: Spec,
    protocol: u8,
    ports: (u16, u16),
    /// What an answer has: the ends as the receiver saw them, turned around.
    back: Option<(IpAddr, IpAddr, (u16, u16))>,
    number: u32,
    is_short: bool,
    late: Duration,
}

impl<'a> Talk<'a> {
    pub(super) fn draw(world: &'a World, dice: &mut Dice) -> Self {
        let (from, to) = if dice.chance(70) { (1, 0) } else { (0, 1) };
        let v6 = dice.chance(35);
        let (a, b) = (
            dice.below(HOSTS.into()) as u8,
            dice.below(HOSTS.into()) as u8,
        );
        let spec = Spec {
            to_mac: port_mac(from),
            from_mac: host_mac(from, a),
            src: host(from, a, v6),
            dst: host(to, b, v6),
            dscp: dice.pick(&[0, 0, 46, 8, 34]),
            ttl: dice.pick(&[64, 64, 17, 255]),
            transport: Transport::Other(0),
            number: 0,
            payload_bytes: 32,
            quirks: Vec::new(),
        };
        let mut talk = Self {
            world,
            from,
            to,
            spec,
            protocol: dice.pick(&PROTOCOLS),
            ports: (0, dice.pick(&super::grammar::PORTS_TO)),
            back: None,
            number: dice.any_u32(),
            is_short: false,
            late: LATE,
        };
        talk.renew(dice);
        talk
    }

    /// Waits longer from now on: a machine that stood still has dropped nothing.
    pub(super) fn be_patient(&mut self) {
        self.late *= 10;
    }

    /// The same with other ports: a connection that is not known yet.
    pub(super) fn renew(&mut self, dice: &mut Dice) {
        let low = dice.chance(30);
        self.ports.0 = match low {
            true => 1 + dice.below(1000) as u16,
            false => 1024 + dice.below(60_000) as u16,
        };
        self.back = None;
        if !self.has_ports() {
            // Without ports two hosts have one connection of a protocol; these are nobody's.
            self.protocol = 142 + dice.below(100) as u8;
        }
    }

    fn has_ports(&self) -> bool {
        matches!(self.protocol, 6 | 17)
    }

    pub(super) fn flow(&self) -> Flow {
        Flow {
            ingress: Some(PORTS[self.from].into()),
            egress: Some(PORTS[self.to].into()),
            source: self.spec.src,
            destination: self.spec.dst,
            protocol: self.protocol,
            ports: self.has_ports().then_some(self.ports),
            tos: Some(self.spec.dscp << 2),
            ttl: Some(self.spec.ttl),
            source_mac: Some(self.spec.from_mac),
        }
    }

    fn turned(&self) -> (IpAddr, IpAddr, (u16, u16)) {
        let (from, to) = self.ports;
        self.back
            .unwrap_or((self.spec.dst, self.spec.src, (to, from)))
    }

    /// The first packet, and whether it arrives.
    pub(super) fn open(&mut self) -> Result<bool, OracleError> {
        self.send(false, tcp::SYN, (1000, 0))
    }

    /// The answer, and what TCP has after it; whether all arrives.
    pub(super) fn establish(&mut self) -> Result<bool, OracleError> {
        if !self.send(true, tcp::SYN | tcp::ACK, (5000, 1001))? {
            return Ok(false);
        }
        Ok(self.protocol != 6 || self.send(false, tcp::ACK, (1001, 5001))?)
    }

    /// Packets of different lengths that differ in what packets of a flow differ in.
    pub(super) fn go_on(&mut self) -> Result<Vec<bool>, OracleError> {
        self.several(false, (1001, 5001))
    }

    pub(super) fn come_back(&mut self) -> Result<Vec<bool>, OracleError> {
        self.several(true, (5001, 1001))
    }

    fn several(&mut self, back: bool, numbers: (u32, u32)) -> Result<Vec<bool>, OracleError> {
        let mut all = Vec::new();
        for n in 0..3 {
            self.is_short = n == 1;
            self.spec.quirks = match n {
                2 => vec![Quirk::DontFragment],
                _ => Vec::new(),
            };
            let flags = if n == 2 {
                tcp::ACK | tcp::PSH
            } else {
                tcp::ACK
            };
            all.push(self.send(back, flags, numbers)?);
        }
        self.is_short = false;
        self.spec.quirks = Vec::new();
        Ok(all)
    }

    fn send(&mut self, back: bool, flags: u8, (seq, ack): (u32, u32)) -> Result<bool, OracleError> {
        self.number = self.number.wrapping_add(1);
        let mut spec = self.spec.clone();
        let mut ports = self.ports;
        let (mut from, mut to) = (self.from, self.to);
        if back {
            (spec.src, spec.dst, ports) = self.turned();
            (from, to) = (to, from);
            spec.from_mac = host_mac(from, 0);
            spec.to_mac = port_mac(from);
        }
        spec.transport = match self.protocol {
            17 => Transport::Udp(ports.0, ports.1),
            6 => Transport::Tcp(ports.0, ports.1, flags, seq, ack),
            other => Transport::Other(other),
        };
        spec.number = self.number;
        spec.payload_bytes = if self.is_short { 12 } else { 120 };
        let wires = self.world.wires();
        while wires[to].receive()?.is_some() {}
        wires[from].send(&spec.frame())?;
        let mut found = self.received(to)?;
        // What is dropped is not waited for, but for what may be late.
        if found.is_none() && wire::wait(wires[to..=to].iter(), self.late) {
            found = self.received(to)?;
        }
        if let (Some(frame), false) = (&found, back) {
            self.back = seen(frame);
        }
        Ok(found.is_some())
    }

    fn received(&self, at: usize) -> Result<Option<Vec<u8>>, OracleError> {
        while let Some(frame) = self.world.wires()[at].receive()? {
            if number_in(&frame) == Some(self.number) {
                return Ok(Some(frame));
            }
        }
        Ok(None)
    }
}

/// The ends of a packet, turned around.
fn seen(frame: &[u8]) -> Option<(IpAddr, IpAddr, (u16, u16))> {
    let v6 = frame.get(12..14)? == [0x86, 0xdd];
    let address = |at: usize| -> Option<IpAddr> {
        if v6 {
            let bytes: [u8; 16] = frame.get(at..at + 16)?.try_into().ok()?;
            return Some(bytes.into());
        }
        let bytes: [u8; 4] = frame.get(at..at + 4)?.try_into().ok()?;
        Some(bytes.into())
    };
    let (source, destination, transport) = match v6 {
        true => (address(22)?, address(38)?, 54),
        false => (address(26)?, address(30)?, 34),
    };
    let port = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    let ports = (port(transport + 2)?, port(transport)?);
    Some((destination, source, ports))
}
