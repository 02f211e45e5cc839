//! Packets that fit into no conversation, and are unusual in one or two respects.

use std::net::IpAddr;

use super::build::{Quirk, Spec, Transport};
use super::draw::{Drawn, Ends, ROUNDS};
use crate::grammar::host;

impl Drawn<'_> {
    /// One packet that is unusual in one or two respects.
    pub(super) fn single(&mut self) {
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
