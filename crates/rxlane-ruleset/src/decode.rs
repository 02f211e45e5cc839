//! How a kernel writes expressions: attributes by number.

use crate::attribute::{attributes, be32, text};
use crate::expression::{
    Base, Expression, Extension, Given, Gives, Register, Span, Verdict, WORDS,
};

/// Attributes of an expression.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn get(&self, kind: u16) -> Option<&'a [u8]> {
        attributes(self.0).find(|(k, _)| *k == kind).map(|(_, v)| v)
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(be32)
    }

    fn half(&self, kind: u16) -> Option<u16> {
        let half = self.get(kind)?.try_into();
        half.ok().map(u16::from_be_bytes)
    }

    fn register(&self, kind: u16) -> Register {
        word(self.number(kind)?)
    }

    /// The first of a range, and the last in the next attribute.
    fn given(&self, first: u16) -> Given {
        const FLAGS: u16 = 7;
        const NETMAP: u32 = 1 << 6;
        let is_net = self.number(FLAGS).unwrap_or(0) & NETMAP != 0;
        match (self.register(first), self.register(first + 1)) {
            (None, _) => Given::Nothing,
            (register, last) if !is_net && (last.is_none() || last == register) => {
                Given::Value(register)
            }
            _ => Given::Some,
        }
    }

    fn text(&self, kind: u16) -> String {
        self.get(kind).map(text).unwrap_or_default()
    }

    /// `NFTA_DATA_VALUE`.
    fn value(&self, kind: u16) -> Vec<u8> {
        let value = self.get(kind).and_then(|data| Data(data).get(1));
        value.unwrap_or_default().to_vec()
    }

    fn span(&self) -> Span {
        let number = |kind| self.number(kind).map_or(usize::MAX, |n| n as usize);
        Span {
            base: match self.number(2) {
                Some(0) => Base::Link,
                Some(1) => Base::Network,
                Some(2) => Base::Transport,
                _ => Base::Inside,
            },
            offset: number(3),
            len: number(4).min(64),
        }
    }

    fn extension(&self) -> Extension {
        const PRESENT: u32 = 1;
        Extension {
            kind: self.get(2).and_then(|v| v.first()).copied(),
            of: self.number(6).unwrap_or(0),
            presence: self.number(5).unwrap_or(0) & PRESENT != 0,
        }
    }
}

/// Registers 1 to 4 of 16 bytes are the words of those from 8 on.
fn word(register: u32) -> Register {
    let word = match register {
        register @ 1..=4 => (register as usize - 1) * 4,
        register @ 8.. => register as usize - 8,
        0 | 5..=7 => return None,
    };
    Some(word).filter(|word| *word < WORDS)
}

impl Expression {
    /// By its name and attributes.
    pub(crate) fn of(name: &str, bytes: &[u8]) -> Self {
        const INVERTED: u32 = 1;
        let data = Data(bytes);
        match name {
            "counter" | "last" => Self::Counter,
            "flow_offload" => Self::Offload,
            "meta" => {
                let key = data.number(2).unwrap_or(u32::MAX);
                match data.number(3) {
                    Some(_) => Self::SetMeta {
                        key,
                        from: data.register(3),
                    },
                    None => Self::Meta {
                        key,
                        to: data.register(1),
                    },
                }
            }
            "ct" => {
                let key = data.number(2).unwrap_or(u32::MAX);
                match data.number(4) {
                    Some(_) => Self::SetCt {
                        key,
                        from: data.register(4),
                    },
                    None => Self::Ct {
                        key,
                        direction: data.get(3).and_then(|v| v.first()).copied(),
                        to: data.register(1),
                    },
                }
            }
            "payload" => match data.number(5) {
                Some(_) => Self::SetPayload {
                    span: data.span(),
                    from: data.register(5),
                },
                None => Self::Payload {
                    span: data.span(),
                    to: data.register(1),
                },
            },
            "exthdr" if data.number(7).is_some() || data.number(1).is_none() => {
                Self::SetExtension(data.extension())
            }
            "exthdr" => Self::Extension {
                extension: data.extension(),
                to: data.register(1),
            },
            "bitwise" => {
                let (from, to) = (data.register(1), data.register(2));
                match (data.number(6).unwrap_or(0), data.get(4), data.get(5)) {
                    (0, Some(_), Some(_)) => Self::Mask {
                        from,
                        to,
                        mask: data.value(4),
                        xor: data.value(5),
                    },
                    _ => Self::Bits { from, to },
                }
            }
            "byteorder" => Self::ByteOrder {
                from: data.register(1),
                to: data.register(2),
                len: data.number(4).unwrap_or(0) as usize,
                size: data.number(5).unwrap_or(0) as usize,
            },
            "cmp" => Self::Compare {
                from: data.register(1),
                op: data.number(2).unwrap_or(u32::MAX),
                with: data.value(3),
            },
            "range" => Self::Range {
                from: data.register(1),
                inverted: data.number(2) == Some(1),
                first: data.value(3),
                last: data.value(4),
            },
            "lookup" => Self::Lookup {
                set: data.text(1),
                from: data.register(2),
                gives: match data.number(3) {
                    None => Gives::Membership,
                    Some(0) => Gives::Verdict,
                    Some(_) => Gives::Data(data.register(3)),
                },
                inverted: data.number(5).unwrap_or(0) & INVERTED != 0,
            },
            "immediate" => match data.get(2).and_then(|d| Data(d).get(2)) {
                Some(verdict) => Self::Verdict(verdict_of(verdict)),
                None => Self::Value {
                    to: data.register(1),
                    bytes: data.value(2),
                },
            },
            "fib" | "rt" => Self::Asks {
                what: "asks routing tables",
                to: data.register(1),
            },
            "xfrm" => Self::Asks {
                what: "asks for IPsec",
                to: data.register(1),
            },
            "osf" => Self::Asks {
                what: "guesses operating systems",
                to: data.register(1),
            },
            "socket" | "tunnel" => Self::Asks {
                what: "asks for sockets or tunnels",
                to: data.register(2),
            },
            "hash" => Self::Hash {
                from: data.register(1),
                len: data.number(3).unwrap_or(4).min(64) as usize,
                to: data.register(2),
            },
            "numgen" => Self::ByTurns {
                to: data.register(1),
            },
            "inner" => Self::Inner,
            "limit" => Self::Limit,
            "quota" => Self::Quota,
            "connlimit" => Self::ConnectionLimit,
            "objref" => Self::Object {
                kind: data.number(1),
                map: data.text(4),
            },
            "dynset" => Self::Dynset { set: data.text(1) },
            "log" => Self::Log {
                group: data.half(1),
            },
            "queue" => Self::Verdict(Verdict::Queue(data.half(1))),
            "dup" => Self::Dup,
            "fwd" => Self::Forward,
            "reject" => Self::Reject,
            "notrack" => Self::Notrack,
            "tproxy" => Self::Tproxy,
            "nat" => Self::Nat {
                source: data.number(1) == Some(0),
                address: data.given(3),
                port: data.given(5),
            },
            "masq" => Self::Nat {
                source: true,
                address: Given::Some,
                port: data.given(2),
            },
            "redir" => Self::Redirect,
            "match" => Self::Match {
                name: data.text(1),
                revision: data.number(2).unwrap_or(u32::MAX),
                data: data.get(3).unwrap_or_default().to_vec(),
            },
            "target" => Self::Target {
                name: data.text(1),
                revision: data.number(2).unwrap_or(u32::MAX),
                data: data.get(3).unwrap_or_default().to_vec(),
            },
            other => Self::Unknown(other.into()),
        }
    }
}

/// What a verdict (`NFTA_DATA_VERDICT`) says.
pub(crate) fn verdict_of(bytes: &[u8]) -> Verdict {
    let data = Data(bytes);
    let chain = || data.text(2);
    match data.number(1).map(|code| code as i32) {
        Some(1) => Verdict::Accept,
        Some(-1 | -2) => Verdict::Continue,
        Some(-3) => Verdict::Jump(chain()),
        Some(-4) => Verdict::Goto(chain()),
        Some(-5) => Verdict::Return,
        Some(code) if code & 0xff == 3 => Verdict::Queue(Some((code >> 16) as u16)),
        _ => Verdict::Drop,
    }
}
