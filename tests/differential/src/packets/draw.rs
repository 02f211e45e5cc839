//! Packets at random: conversations that a tracker can follow, and what does not fit into any.

use std::net::IpAddr;

use super::build::{Quirk, Spec, Transport, tcp};
use super::hex;
use crate::grammar::{DSCPS, Dice, HOSTS, REMOTE, host};
use crate::neighbours::mac_of;
use crate::scenario::{Answer, Origin, Packet, Reply};
use crate::world::port_mac;

/// Times that something is sent, one after the other; what is compared lies between.
pub(super) const ROUNDS: usize = 6;

/// Packets that go out together, in order.
type Rounds = Vec<Vec<Packet>>;

/// Who begins conversations elsewhere than behind a port, and the host of a port that hands it on.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) src: IpAddr,
    pub(crate) port: usize,
    pub(crate) gateway: u8,
}

/// Draws rounds of packets.
pub fn draw(dice: &mut Dice, about: usize) -> Rounds {
    draw_from(dice, about, 1, &[])
}

/// The same, with numbers from another one on, from some places; there are none for ports.
pub(crate) fn draw_from(dice: &mut Dice, about: usize, first: u32, places: &[Place]) -> Rounds {
    let mut drawn = Drawn {
        dice,
        next: first,
        places,
        more: 0,
        rounds: vec![Vec::new(); ROUNDS],
    };
    while drawn.rounds.iter().map(Vec::len).sum::<usize>() < about {
        if drawn.dice.chance(65) {
            drawn.conversation();
        } else {
            drawn.single();
        }
    }
    drawn.rounds
}

/// So many conversations in which more is said, with numbers from another one on.
pub(crate) fn talks(dice: &mut Dice, count: usize, first: u32) -> Rounds {
    let mut drawn = Drawn {
        dice,
        next: first,
        places: &[],
        more: 3,
        rounds: vec![Vec::new(); ROUNDS],
    };
    for _ in 0..count {
        drawn.conversation();
    }
    drawn.rounds
}

pub(super) struct Drawn<'a> {
    pub(super) dice: &'a mut Dice,
    next: u32,
    places: &'a [Place],
    /// Packets that each side of a conversation sends more at a time.
    more: usize,
    rounds: Rounds,
}

/// Who talks to whom.
#[derive(Clone, Copy)]
pub(super) struct Ends {
    pub(super) port: usize,
    from_mac: [u8; 6],
    pub(super) src: IpAddr,
    pub(super) dst: IpAddr,
    dscp: u8,
}

impl Drawn<'_> {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    pub(super) fn push(&mut self, round: usize, port: usize, what: String, spec: &Spec) -> u32 {
        let hex = hex(&spec.frame());
        self.rounds[round.min(ROUNDS - 1)].push(Packet {
            number: spec.number,
            what,
            origin: Origin::Frame { port, hex },
        });
        spec.number
    }

    /// Ends that make sense: from a host of one port, or from somewhere behind it, to another port's.
    pub(super) fn ends(&mut self) -> Ends {
        if !self.places.is_empty() {
            return self.ends_of_places();
        }
        let v6 = self.dice.chance(40);
        let port = self.dice.pick(&[1, 1, 1, 2, 0]);
        let mut gateway = self.dice.below(usize::from(HOSTS) - 1) as u8;
        let mut src = host(port, v6, gateway);
        if self.dice.chance(15) {
            gateway = 0;
            src = self.remote(v6);
        }
        let dst = if self.dice.chance(50) {
            let to = (port + 1 + self.dice.below(2)) % 3;
            host(to, v6, self.dice.below(usize::from(HOSTS)) as u8)
        } else {
            self.remote(v6)
        };
        let address = |text: &str| text.parse().unwrap_or(IpAddr::from([10, 2, 0, 10]));
        let (src, dst) = (address(&src), address(&dst));
        let neighbour = address(&host(port, v6, gateway));
        Ends {
            port,
            from_mac: mac_of(port, neighbour),
            src,
            dst,
            dscp: self.dscp(),
        }
    }

    /// From one of the places, to a host, to somewhere behind one, or to another place.
    fn ends_of_places(&mut self) -> Ends {
        let Place { src, port, gateway } = self.dice.pick(self.places);
        let v6 = src.is_ipv6();
        let to = self.dice.below(3);
        let text = match self.dice.below(100) {
            0..55 => host(to, v6, self.dice.below(usize::from(HOSTS)) as u8),
            55..70 => self.remote(v6),
            _ => {
                let same = self.places.iter().filter(|p| p.src.is_ipv6() == v6);
                let same: Vec<&Place> = same.collect();
                self.dice.pick(&same).src.to_string()
            }
        };
        let neighbour = host(port, v6, gateway);
        Ends {
            port,
            from_mac: mac_of(port, neighbour.parse().unwrap_or(src)),
            src,
            dst: text.parse().unwrap_or(src),
            dscp: self.dscp(),
        }
    }

    /// An address in a remote prefix.
    fn remote(&mut self, v6: bool) -> String {
        let prefix = self.dice.pick(&REMOTE[usize::from(v6)]);
        let network = prefix.split('/').next().unwrap_or_default();
        let n = self.dice.pick(&[7, 9, 200]);
        if v6 {
            format!("{network}{n}")
        } else {
            let bytes = network.rsplit_once('.').map_or(network, |(head, _)| head);
            format!("{bytes}.{n}")
        }
    }

    fn dscp(&mut self) -> u8 {
        if self.dice.chance(80) {
            self.dice.pick(&DSCPS)
        } else {
            self.dice.below(64) as u8
        }
    }

    pub(super) fn spec(&mut self, ends: Ends, transport: Transport) -> Spec {
        let payload_bytes = match self.dice.below(100) {
            0..80 => 24 + self.dice.below(200),
            80..95 => 500 + self.dice.below(700),
            _ => 1210 + self.dice.below(260),
        };
        let quirks = if ends.src.is_ipv4() && self.dice.chance(50) {
            vec![Quirk::DontFragment]
        } else {
            Vec::new()
        };
        Spec {
            to_mac: port_mac(ends.port),
            from_mac: ends.from_mac,
            src: ends.src,
            dst: ends.dst,
            dscp: ends.dscp,
            ttl: self.dice.pick(&[64, 64, 64, 64, 128, 255, 3, 2]),
            transport,
            number: self.number(),
            payload_bytes,
            quirks,
        }
    }

    /// Source ports are unique, so that NAT need not invent any.
    pub(super) fn source_port(&self) -> u16 {
        20_000 + (self.next % 40_000) as u16
    }

    fn answer(&mut self, round: usize, to: u32, dscp: u8, reply: Reply) {
        let answer = Answer {
            to,
            reply,
            dscp,
            ttl: 64,
            payload_bytes: 24 + self.dice.below(300),
            bare: false,
        };
        let number = self.number();
        let what = match reply {
            Reply::Same { flags, .. } => format!("answer to {to}, TCP flags {flags:#04x}"),
            Reply::Unreachable => format!("port unreachable about {to}"),
        };
        self.rounds[round.min(ROUNDS - 1)].push(Packet {
            number,
            what,
            origin: Origin::Answer(answer),
        });
    }

    fn conversation(&mut self) {
        let ends = self.ends();
        let start = self.dice.below(2);
        match self.dice.below(100) {
            0..45 => self.udp(ends, start),
            45..85 => self.tcp(ends, start),
            85..95 => self.echo(ends, start),
            _ => self.other(ends, start),
        }
    }

    fn udp(&mut self, ends: Ends, start: usize) {
        let ports = (self.source_port(), self.dice.pick(&[53, 5004, 5060, 9999]));
        let transport = Transport::Udp(ports.0, ports.1);
        let line = |what: &str| format!("UDP {} > {} {what}", ends.src, ends.dst);
        let spec = self.spec(ends, transport.clone());
        let first = self.push(start, ends.port, line("opens"), &spec);
        let same = Reply::Same {
            flags: 0,
            seq: 0,
            ack: 0,
        };
        let answered = self.dice.chance(85);
        for round in start + 1..ROUNDS {
            if answered && (round == start + 1 || self.dice.chance(60)) {
                self.answer(round, first, ends.dscp, same);
            }
            for _ in 0..self.more + self.dice.below(4) {
                let spec = self.spec(ends, transport.clone());
                self.push(round, ends.port, line("goes on"), &spec);
            }
        }
        if self.dice.chance(10) {
            self.answer(ROUNDS - 1, first, ends.dscp, Reply::Unreachable);
        }
    }

    fn tcp(&mut self, ends: Ends, start: usize) {
        let ports = (self.source_port(), self.dice.pick(&[80, 443, 22]));
        let (mut mine, mut theirs) = (self.dice.any_u32(), self.dice.any_u32());
        let line = |what: &str| format!("TCP {} > {} {what}", ends.src, ends.dst);
        let segment = |flags, seq, ack| Transport::Tcp(ports.0, ports.1, flags, seq, ack);
        // Only data carries the number; a payload in a SYN is legal and not taken.
        let mut syn = self.spec(ends, segment(tcp::SYN, mine, 0));
        syn.payload_bytes = 8;
        let first = self.push(start, ends.port, line("SYN"), &syn);
        mine = mine.wrapping_add(1);
        let synack = Reply::Same {
            flags: tcp::SYN | tcp::ACK,
            seq: theirs,
            ack: mine,
        };
        theirs = theirs.wrapping_add(1);
        self.answer(start + 1, first, ends.dscp, synack);
        for round in start + 2..ROUNDS {
            for _ in 0..1 + self.more + self.dice.below(4) {
                let flags = self.dice.pick(&[tcp::ACK, tcp::ACK | tcp::PSH]);
                let spec = self.spec(ends, segment(flags, mine, theirs));
                mine = mine.wrapping_add(spec.payload_bytes as u32);
                self.push(round, ends.port, line("data"), &spec);
            }
            if self.dice.chance(70) {
                let data = Reply::Same {
                    flags: tcp::ACK,
                    seq: theirs,
                    ack: mine,
                };
                self.answer(round, first, ends.dscp, data);
                if let Some(Packet {
                    origin: Origin::Answer(a),
                    ..
                }) = self.rounds[round].last()
                {
                    theirs = theirs.wrapping_add(a.payload_bytes as u32);
                }
            }
            if self.dice.chance(12) {
                let odd = [tcp::FIN | tcp::ACK, tcp::RST, 0, tcp::SYN, 0x29, 0xff];
                let flags = self.dice.pick(&odd);
                let spec = self.spec(ends, segment(flags, mine, theirs));
                self.push(round, ends.port, line("odd flags"), &spec);
            }
        }
    }

    fn echo(&mut self, ends: Ends, start: usize) {
        let id = self.source_port();
        let line = format!("echo {} > {}", ends.src, ends.dst);
        let same = Reply::Same {
            flags: 0,
            seq: 0,
            ack: 0,
        };
        for round in start..ROUNDS - 1 {
            let spec = self.spec(ends, Transport::Echo(false, id, round as u16));
            let number = self.push(round, ends.port, line.clone(), &spec);
            self.answer(round + 1, number, ends.dscp, same);
        }
    }

    fn other(&mut self, ends: Ends, start: usize) {
        let protocol = self.dice.pick(&[47, 50, 51, 132, 200, 4, 41]);
        let line = format!("protocol {protocol} {} > {}", ends.src, ends.dst);
        for round in start..ROUNDS {
            let spec = self.spec(ends, Transport::Other(protocol));
            self.push(round, ends.port, line.clone(), &spec);
        }
    }
}
