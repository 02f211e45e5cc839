//! What rules of nftables load of packets and their connections, beside bytes.

use super::flow::Stage;
use super::machine::{Machine, NOT_EVALUATED, NOT_SAID, Then};
use super::packet::{Packet, Tracking};
use super::partly::Partly;
use crate::expression::{Base, Register, Span};
use crate::fields::fields;
use crate::meets::{Meets, Outcome};
use crate::test::{Header, Test};

const IPV4: u8 = 2;
const NETDEV: u8 = 5;
const IPV6: u8 = 10;

impl Packet {
    /// Why bytes are not known.
    pub(super) fn why(&self, span: Span) -> &'static str {
        let header = match span.base {
            Base::Link => return NOT_SAID,
            Base::Network => Header::Network,
            Base::Transport => Header::Transport,
            Base::Inside => return "looks into packets",
        };
        let meets = Meets {
            v6: Some(self.v6),
            protocol: Some(self.protocol),
            ..Meets::default()
        };
        let asked = fields(header, span.offset, &vec![u8::MAX; span.len], None, &meets);
        let why = asked.into_iter().find_map(|test| match test {
            Test::Varies(why) => Some(why),
            _ => None,
        });
        why.unwrap_or(NOT_SAID)
    }
}

impl Machine<'_> {
    /// `enum nft_meta_keys`.
    pub(super) fn meta(&mut self, key: u32, to: Register) -> Then {
        let is_netdev = self.table.name.starts_with("netdev ");
        let version = if self.packet.v6 { IPV6 } else { IPV4 };
        let known = match key {
            1 => Partly::known(if self.packet.v6 {
                &[0x86, 0xdd]
            } else {
                &[0x08, 0x00]
            }),
            3 => self.packet.mark.clone(),
            4 | 5 => self.device_index(key == 4),
            6 | 7 => self.device_name(key == 6),
            // Of sockets, which forwarded packets do not have.
            10 | 11 | 23 => return self.when(Outcome::Fails, NOT_SAID),
            15 => Partly::known(&[if is_netdev { NETDEV } else { version }]),
            16 => Partly::known(&[self.packet.protocol]),
            // `PACKET_HOST`.
            19 => Partly::known(&[0]),
            _ => Partly::unknown(16),
        };
        let why = match key {
            0 => "asks for the length of packets",
            20 => "asks for the CPU",
            24 => "asks for chance",
            25 => "asks for IPsec",
            30..=32 => "asks for the time",
            3..=7 => NOT_SAID,
            _ => NOT_EVALUATED,
        };
        self.set(to, &known, why)
    }

    fn device_index(&self, ingress: bool) -> Partly {
        let name = self.packet.device(self.place, ingress);
        let index = match name {
            Some("") => Some(0),
            Some(name) => {
                let mut all = self.devices.iter();
                all.find(|(_, n)| *n == name).map(|(index, _)| *index)
            }
            None => None,
        };
        Partly::said(index.map(u32::to_ne_bytes).as_ref().map(|b| &b[..]), 4)
    }

    fn device_name(&self, ingress: bool) -> Partly {
        let name = self.packet.device(self.place, ingress).map(|name| {
            let mut bytes = name.as_bytes().to_vec();
            bytes.resize(16, 0);
            bytes
        });
        Partly::said(name.as_deref(), 16)
    }

    /// `enum nft_ct_keys`.
    pub(super) fn ct(&mut self, key: u32, direction: Option<u8>, to: Register) -> Then {
        const STATE: u32 = 0;
        let tracking = self.packet.tracking;
        if key == STATE {
            let state = self.packet.state();
            return self.set(to, &state, NOT_SAID);
        }
        if matches!(tracking, Tracking::NotYet | Tracking::Never) {
            return self.when(Outcome::Fails, NOT_SAID);
        }
        const STATUS: u32 = 2;
        if key == STATUS {
            let status = self.packet.status();
            return self.set(to, &status, "asks for the status of connections");
        }
        let ends = self.packet.original().filter(|_| direction == Some(0));
        let known = match (key, ends) {
            (1, _) => match tracking {
                Tracking::In(stage) => Some(Partly::known(&[u8::from(stage == Stage::Answering)])),
                _ => None,
            },
            (7, _) => Some(Partly::known(&[if self.packet.v6 { IPV6 } else { IPV4 }])),
            (8 | 19 | 21, Some((source, _, _))) => Some(source.clone()),
            (9 | 20 | 22, Some((_, destination, _))) => Some(destination.clone()),
            (10, _) => Some(Partly::known(&[self.packet.protocol])),
            (11, Some((_, _, ports))) => Some(ports.get(0, 2)),
            (12, Some((_, _, ports))) => Some(ports.get(2, 2)),
            _ => None,
        };
        let why = match key {
            1 => NOT_SAID,
            3 => "asks for marks of connections",
            5 => "asks when connections expire",
            13 => "asks for labels of connections",
            14..=16 => "asks for counters of connections",
            _ => NOT_EVALUATED,
        };
        self.set(to, &known.unwrap_or_else(|| Partly::unknown(16)), why)
    }
}
