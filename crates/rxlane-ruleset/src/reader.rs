//! Rules of nftables as steps: what they ask of packets, and what they do.

use std::collections::BTreeMap;

use crate::acts::{DISGUISES, FILTERS, MARKS, REWRITES, TRANSLATES, UNTRACKS, WORST};
use crate::expression::{Base, Expression, Extension, Register, Span, Verdict, WORDS};
use crate::hook::Effects;
use crate::per_packet::{COUNTERS, MARKS_ANEW};
use crate::program::{Set, Step};
use crate::test::{Header, Test};
use crate::value::Value;
use crate::xt;

/// What expressions refer to.
pub(crate) struct Context<'a> {
    /// Family and table of the rule.
    pub(crate) table: &'a str,
    pub(crate) sets: &'a BTreeMap<(String, String), Set>,
    /// Names of devices, by index.
    pub(crate) devices: &'a BTreeMap<u32, String>,
}

/// The rest of a rule: registers, and what has been found.
pub(crate) struct Reader<'a> {
    pub(crate) context: &'a Context<'a>,
    registers: [Option<(Value, usize)>; WORDS],
    pub(crate) steps: Vec<Step>,
    /// What a register was just found to be at least.
    at_least: Option<(Register, Vec<u8>)>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            registers: [const { None }; WORDS],
            steps: Vec::new(),
            at_least: None,
        }
    }

    /// The next expression of the rule.
    pub(crate) fn read(&mut self, expression: &Expression) {
        let at_least = self.at_least.take();
        match expression {
            Expression::Counter | Expression::Offload => {}
            Expression::Meta { key, to } => self.meta(*key, *to),
            Expression::SetMeta { from, .. } | Expression::SetCt { from, .. } => self.gives(*from),
            Expression::Ct { key, to, .. } => self.ct(*key, *to),
            Expression::Payload { span, to } => self.payload(*span, *to),
            Expression::SetPayload { span, .. } => self.rewrites(*span),
            Expression::Extension { extension, to } => self.extension(*extension, *to),
            Expression::SetExtension(extension) => {
                if !extension.is_absent() {
                    self.per_packet("rewrites options of TCP".into());
                }
                self.acts(REWRITES);
            }
            Expression::Mask {
                from,
                to,
                mask,
                xor,
            } if xor.iter().all(|b| *b == 0) => {
                let (value, len) = self.held(*from);
                self.set(*to, value.masked(mask), len);
            }
            Expression::Mask { from, to, .. }
            | Expression::Bits { from, to }
            | Expression::ByteOrder { from, to, .. } => {
                let (value, len) = self.held(*from);
                self.set(*to, Value::Of(value.compared()), len);
            }
            Expression::Compare { from, op, with } => {
                self.compare(*from, *op, with);
                // Both ends of a range, as `nft` writes it.
                const AT_MOST: u32 = 3;
                const AT_LEAST: u32 = 5;
                match (*op, at_least) {
                    (AT_LEAST, _) => self.at_least = Some((*from, with.clone())),
                    (AT_MOST, Some((of, least))) if of == *from => {
                        let (value, _) = self.held(*from);
                        if let Some(within) = value.between(&least, with) {
                            self.when(Test::Any(within));
                        }
                    }
                    _ => {}
                }
            }
            Expression::Range {
                from,
                inverted,
                first,
                last,
            } => self.range(*from, *inverted, first, last),
            Expression::Lookup {
                set,
                from,
                gives,
                inverted,
            } => self.lookup(set, *from, *gives, *inverted),
            Expression::Verdict(verdict) => self.then(verdict.clone()),
            Expression::Value { to, .. } | Expression::Asks { to, .. } => {
                self.set(*to, Value::Of(Test::Fixed), 16);
            }
            Expression::Hash { from, len, to } => {
                let of = from.map(|_| Test::All(self.parts(*from, *len)));
                self.set(*to, Value::Of(of.unwrap_or(Test::Fixed)), 4);
            }
            Expression::ByTurns { to } => {
                let by_turns = Test::Varies("treats packets by turns or by chance");
                self.set(*to, Value::Of(by_turns), 4);
            }
            Expression::Inner => {
                let looks = Value::Of(Test::Varies("looks into packets"));
                self.registers = std::array::from_fn(|_| Some((looks.clone(), 16)));
            }
            Expression::Limit => self.when(Test::Varies("limits packets")),
            Expression::Quota => self.when(Test::Varies("counts bytes against a quota")),
            Expression::ConnectionLimit => self.when(Test::Varies("counts connections")),
            Expression::Object { kind, map } => self.object(*kind, map),
            Expression::Dynset { set } => {
                self.per_packet(format!("fills the set {set}"));
                self.when(Test::Fixed);
            }
            Expression::Log { group } => self.per_packet(match group {
                Some(group) => format!("logs packets to group {group}"),
                None => "logs packets".into(),
            }),
            Expression::Dup => {
                self.per_packet("copies packets (dup)".into());
                self.acts(FILTERS);
            }
            Expression::Forward => {
                self.per_packet("sends packets elsewhere (fwd)".into());
                self.then(Verdict::Drop);
            }
            Expression::Reject => self.then(Verdict::Drop),
            Expression::Notrack => self.acts(UNTRACKS),
            Expression::Tproxy => self.acts(MARKS),
            Expression::Nat { .. } | Expression::Redirect => {
                self.acts(TRANSLATES);
                self.then(Verdict::Accept);
            }
            Expression::Match {
                name,
                revision,
                data,
            } => self.steps.extend(xt::matches(name, *revision, data)),
            Expression::Target {
                name,
                revision,
                data,
            } => self.steps.extend(xt::target(name, *revision, data)),
            Expression::Unknown(name) => {
                self.per_packet(format!("does what is not known here ({name})"));
                self.acts(WORST);
                self.when(Test::Fixed);
                self.registers = [const { None }; WORDS];
            }
        }
    }

    pub(crate) fn per_packet(&mut self, what: String) {
        self.steps.push(Step::PerPacket(what));
    }

    pub(crate) fn acts(&mut self, effects: Effects) {
        self.steps.push(Step::Acts(effects));
    }

    fn then(&mut self, verdict: Verdict) {
        self.steps.push(Step::Then(verdict));
    }

    pub(crate) fn when(&mut self, test: Test) {
        self.steps.push(Step::If(test));
    }

    pub(crate) fn set(&mut self, register: Register, value: Value, len: usize) {
        if let Some(at) = register {
            self.registers[at] = Some((value, len));
        }
    }

    pub(crate) fn held(&self, register: Register) -> (Value, usize) {
        let held = register.and_then(|at| self.registers[at].clone());
        held.unwrap_or((Value::Of(Test::Fixed), 0))
    }

    /// What comparisons of registers ask that hold a key.
    pub(crate) fn parts(&self, register: Register, key_len: usize) -> Vec<Test> {
        let start = register.unwrap_or(0);
        let all = self.registers.iter().skip(start).take(key_len.div_ceil(4));
        let parts = all.flatten().map(|(value, _)| value.compared());
        parts.chain([Test::Fixed]).collect()
    }

    /// What a register holds is given to a packet or its connection.
    fn gives(&mut self, register: Register) {
        let (value, _) = self.held(register);
        let test = value.compared();
        if test.varies() {
            self.when(test);
        }
        self.acts(MARKS);
    }

    fn meta(&mut self, key: u32, to: Register) {
        let (value, len) = match key {
            0 => (Value::Of(Test::Varies("asks for the length of packets")), 4),
            1 => (Value::EtherType, 2),
            4 => (Value::DeviceIndex { ingress: true }, 4),
            5 => (Value::DeviceIndex { ingress: false }, 4),
            6 => (Value::DeviceName { ingress: true }, 16),
            7 => (Value::DeviceName { ingress: false }, 16),
            15 => (Value::NfProto, 1),
            16 => (Value::Protocol, 1),
            20 => (Value::Of(Test::Varies("asks for the CPU")), 4),
            24 => (Value::Of(Test::Varies("asks for chance")), 4),
            30..=32 => (Value::Of(Test::Varies("asks for the time")), 8),
            _ => (Value::Of(Test::Fixed), 16),
        };
        self.set(to, value, len);
    }

    fn ct(&mut self, key: u32, to: Register) {
        let value = match key {
            0 => Value::State { mask: u32::MAX },
            4 => Value::Of(Test::Varies("asks for security marks of connections")),
            5 => Value::Of(Test::Varies("asks when connections expire")),
            13 => Value::Of(Test::Varies("asks for labels of connections")),
            14..=16 => Value::Of(Test::Varies(COUNTERS)),
            _ => Value::Of(Test::Fixed),
        };
        self.set(to, value, 4);
    }

    fn payload(&mut self, span: Span, to: Register) {
        let (offset, len) = (span.offset, span.len);
        let header = match span.base {
            Base::Link => {
                if offset < 12 && span.end() > 6 {
                    self.steps.push(Step::SourceMac);
                }
                let value = if (offset, len) == (12, 2) {
                    Value::EtherType
                } else {
                    Value::Of(Test::Fixed)
                };
                return self.set(to, value, len);
            }
            Base::Network => Header::Network,
            Base::Transport => Header::Transport,
            Base::Inside => {
                let looks = Value::Of(Test::Varies("looks into packets"));
                return self.set(to, looks, len);
            }
        };
        let mask = vec![u8::MAX; len];
        let value = Value::Bytes {
            header,
            offset,
            mask,
        };
        self.set(to, value, len);
    }

    /// A flow's addresses and ports are seen to be as they were or not. So are types of service and TTLs, but a packet that is given
    /// another one looks like those of its flow that came with it, which other rules may treat in another way.
    fn rewrites(&mut self, span: Span) {
        if span.base == Base::Network && self.is_given_by_others(span) {
            self.per_packet(MARKS_ANEW.into());
        }
        let is_seen = match span.base {
            Base::Network => self.is_seen(span),
            Base::Transport => span.end() <= 4,
            Base::Link | Base::Inside => false,
        };
        if !is_seen {
            self.per_packet("rewrites bytes of packets".into());
        }
        self.acts(DISGUISES);
    }

    /// Whether it is seen if these bytes of the network header are rewritten: types of service, TTL or hop limit, addresses, and the
    /// checksum that follows.
    fn is_seen(&self, span: Span) -> bool {
        let within = |all: &[(usize, usize)]| {
            let mut all = all.iter();
            all.any(|(a, b)| *a <= span.offset && span.end() <= *b)
        };
        let v4 = within(&[(0, 2), (8, 9), (10, 12), (12, 20)]);
        let v6 = within(&[(0, 2), (7, 8), (8, 40)]);
        match self.context.table.split(' ').next() {
            Some("ip") => v4,
            Some("ip6") => v6,
            _ => v4 && v6,
        }
    }

    /// Whether types of service, TTLs or hop limits are among these bytes of the network header.
    fn is_given_by_others(&self, span: Span) -> bool {
        let has = |at: usize| span.offset <= at && at < span.end();
        let (v4, v6) = (has(1) || has(8), has(0) || has(1) || has(7));
        match self.context.table.split(' ').next() {
            Some("ip") => v4,
            Some("ip6") => v6,
            _ => v4 || v6,
        }
    }

    fn extension(&mut self, extension: Extension, to: Register) {
        let value = match extension.is_absent() {
            true if extension.presence => Test::Fixed,
            true => return self.when(Test::Fails),
            false => Test::Varies("asks for options of TCP"),
        };
        self.set(to, Value::Of(value), 4);
    }

    fn compare(&mut self, from: Register, op: u32, with: &[u8]) {
        let (value, _) = self.held(from);
        let test = match op {
            0 => value.equals(with, self.context.devices),
            1 => value.equals(with, self.context.devices).not(),
            op @ 2..=5 => match (value.port(), <[u8; 2]>::try_from(with)) {
                (Some(source), Ok(bytes)) => {
                    let port = u16::from_be_bytes(bytes);
                    let below = |last| Test::Ports {
                        source,
                        range: (0, last),
                    };
                    let less = port.checked_sub(1).map_or(Test::Fails, below);
                    match op {
                        2 => less,
                        3 => below(port),
                        4 => ports_from(source, port.checked_add(1)),
                        _ => ports_from(source, Some(port)),
                    }
                }
                _ => value.compared(),
            },
            _ => value.compared(),
        };
        self.when(test);
    }

    fn range(&mut self, from: Register, inverted: bool, first: &[u8], last: &[u8]) {
        let (value, _) = self.held(from);
        let within = value.between(first, last);
        let test = within.map_or_else(|| value.compared(), Test::Any);
        self.when(test.inverted(inverted));
    }
}

impl Extension {
    /// Options of IP and extension headers are in no packet that is asked about; of options of TCP some are in SYNs alone.
    pub(crate) fn is_absent(self) -> bool {
        const TCP: u32 = 1;
        const SCTP: u32 = 3;
        self.of != TCP && self.of != SCTP || matches!(self.kind, Some(2..=4))
    }
}

fn ports_from(source: bool, first: Option<u16>) -> Test {
    first.map_or(Test::Fails, |first| Test::Ports {
        source,
        range: (first, u16::MAX),
    })
}
