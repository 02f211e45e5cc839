//! Packets at random: conversations that a tracker can follow, and what does not fit into any.

use std::net::IpAddr;

use super::build::{Quirk, Spec, Transport, tcp};
use super::hex;
use crate::grammar::{DSCPS, Dice, HOSTS, REMOTE, host};
use crate::neighbours::mac_of;
use crate::scenario::{Answer, Origin, Packet, Reply};
use crate::world::port_mac;

/// Times that something is sent, one after the other; what is compared lies between.
const ROUNDS: usize = 6;

/// Packets that go out together, in order.
type Rounds = Vec<Vec<Packet>>;

/// Draws rounds of packets.
pub fn draw(dice: &mut Dice, about: usize) -> Rounds {
    let mut drawn = Drawn {
        dice,
        next: 1,
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

struct Drawn<'a> {
    dice: &'a mut Dice,
    next: u32,
    rounds: Rounds,
}

/// Who talks to whom.
#[derive(Clone, Copy)]
struct Ends {
    port: usize,
    from_mac: [u8; 6],
    src: IpAddr,
    dst: IpAddr,
    dscp: u8,
}

impl Drawn<'_> {
    fn number(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn push(&mut self, round: usize, port: usize, what: String, spec: &Spec) -> u32 {
        let hex = hex(&spec.frame());
        self.rounds[round.min(ROUNDS - 1)].push(Packet {
            number: spec.number,
            what,
            origin: Origin::Frame { port, hex },
        });
        spec.number
    }

    /// Ends that make sense: from a host of one port, or from somewhere behind it, to another port's.
    fn ends(&mut self) -> Ends {
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

    fn spec(&mut self, ends: Ends, transport: Transport) -> Spec {
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
    fn source_port(&self) -> u16 {
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
            for _ in 0..self.dice.below(4) {
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
            for _ in 0..1 + self.dice.below(4) {
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

    /// One packet that is unusual in one or two respects.
    fn single(&mut self) {
        let mut ends = self.ends();
        let dport = self.dice.pick(&[53, 5004, 80, 443]);
        let transport = match self.dice.below(10) {
            0..5 => Transport::Udp(self.source_port(), dport),
            5..9 => {
                let flags = self
                    .dice
                    .pick(&[0, 1, 2, 4, 16, 17, 18, 20, 24, 0x29, 0xc2]);
                Transport::Tcp(self.source_port(), dport, flags, self.dice.any_u32(), 1)
            }
            _ => Transport::Echo(self.dice.chance(20), self.source_port(), 1),
        };
        let mut what = String::new();
        for _ in 0..1 + usize::from(self.dice.chance(20)) {
            if self.dice.chance(50) {
                what += &self.odd_address(&mut ends);
            }
        }
        let mut spec = self.spec(ends, transport);
        if what.is_empty() || self.dice.chance(15) {
            what += &self.oddity(&mut spec);
        }
        let round = self.dice.below(ROUNDS);
        let line = format!("{:?} {} > {}: {what}", spec.transport, spec.src, spec.dst);
        self.push(round, ends.port, line, &spec);
    }

    /// Changes an address to one that is seldom right.
    fn odd_address(&mut self, ends: &mut Ends) -> String {
        let v6 = ends.src.is_ipv6();
        let spoofed = host(self.dice.below(3), v6, self.dice.below(4) as u8);
        let own = format!("{}1", spoofed.trim_end_matches(|c| c != '.' && c != ':'));
        let any: &[&str] = if v6 {
            &[
                "ff02::1",
                "::1",
                "::",
                "fe80::10",
                "ff0e::5",
                "::ffff:10.3.0.10",
                "2001:db8:1::7",
            ]
        } else {
            &[
                "224.0.0.5",
                "239.1.1.1",
                "255.255.255.255",
                "127.0.0.1",
                "0.0.0.0",
                "169.254.1.1",
                "10.2.0.255",
                "10.3.0.0",
                "240.0.0.1",
                "0.1.2.3",
                "198.51.100.7",
            ]
        };
        let special = self.dice.pick(any).to_owned();
        let (text, source) = match self.dice.below(6) {
            0 | 1 => (spoofed, true),
            2 => (own, true),
            3 => (own, false),
            4 => (special, true),
            _ => (special, false),
        };
        if let Ok(address) = text.parse::<IpAddr>() {
            if source {
                ends.src = address;
            } else {
                ends.dst = address;
            }
        }
        format!("{} {text} ", if source { "from" } else { "to" })
    }

    /// Changes something else.
    fn oddity(&mut self, spec: &mut Spec) -> String {
        let quirk = match self.dice.below(16) {
            0 => Quirk::HeaderSum,
            1 => Quirk::TransportSum,
            2 => Quirk::TooShort,
            3 => Quirk::Padding(1 + self.dice.below(40) as u8),
            4 => Quirk::RouterAlert,
            5 => Quirk::Options,
            6 | 7 => Quirk::FirstFragment,
            8 => Quirk::LaterFragment,
            9 => Quirk::Vlan(self.dice.pick(&[0, 10, 0xe000])),
            10 => Quirk::Version,
            11 => {
                spec.ttl = self.dice.pick(&[0, 1, 2]);
                return format!("TTL {}", spec.ttl);
            }
            12 => {
                spec.to_mac =
                    self.dice
                        .pick(&[[2, 9, 9, 9, 9, 9], [0xff; 6], [1, 0, 0x5e, 0, 0, 1]]);
                return "another MAC".into();
            }
            13 | 14 => {
                spec.payload_bytes = self.dice.pick(&[1220, 1252, 1260, 1350, 1472, 1900]);
                return format!("{} bytes", spec.payload_bytes);
            }
            _ => {
                spec.payload_bytes = self.dice.below(12);
                return "short".into();
            }
        };
        spec.quirks.push(quirk);
        format!("{quirk:?}")
    }
}
