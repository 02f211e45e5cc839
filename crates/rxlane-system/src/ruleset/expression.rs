//! Expressions of nftables as steps of a rule (include/uapi/linux/netfilter/nf_tables.h).

use std::collections::BTreeMap;

use super::acts::{DISGUISES, FILTERS, MARKS, REWRITES, TRANSLATES, UNTRACKS, WORST};
use super::nft::Set;
use super::test::{Header, Test};
use super::value::Value;
use super::walk::{Step, Verdict};
use super::{COUNTERS, MARKS_ANEW, xt};
use crate::dump::{attributes, be32, text};
use crate::hook::Effects;

/// What expressions refer to.
pub(super) struct Context<'a> {
    /// Family and table of the rule.
    pub(super) table: &'a str,
    pub(super) sets: &'a BTreeMap<(String, String), Set>,
    /// Names of devices, by index.
    pub(super) devices: &'a BTreeMap<u32, String>,
}

/// Registers hold words of 32 bits.
const WORDS: usize = 20;

/// The rest of a rule: registers, and what has been found.
pub(super) struct Reader<'a> {
    pub(super) context: &'a Context<'a>,
    pub(super) registers: [Option<(Value, usize)>; WORDS],
    pub(super) steps: Vec<Step>,
}

/// Attributes of an expression.
pub(super) struct Data<'a>(pub(super) &'a [u8]);

impl<'a> Data<'a> {
    fn get(&self, kind: u16) -> Option<&'a [u8]> {
        attributes(self.0).find(|(k, _)| *k == kind).map(|(_, v)| v)
    }

    pub(super) fn number(&self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(be32)
    }

    pub(super) fn text(&self, kind: u16) -> String {
        self.get(kind).map(text).unwrap_or_default()
    }

    /// `NFTA_DATA_VALUE`.
    fn value(&self, kind: u16) -> Option<&'a [u8]> {
        Data(self.get(kind)?).get(1)
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(context: &'a Context<'a>) -> Self {
        Self {
            context,
            registers: [const { None }; WORDS],
            steps: Vec::new(),
        }
    }

    /// The next expression of the rule.
    pub(super) fn read(&mut self, name: &str, bytes: &[u8]) {
        let data = Data(bytes);
        match name {
            "counter" | "last" | "flow_offload" => {}
            "meta" => self.meta(&data),
            "ct" => self.ct(&data),
            "payload" => self.payload(&data),
            "exthdr" => self.exthdr(&data),
            "bitwise" => self.bitwise(&data),
            "byteorder" => self.opaque(data.number(1), data.number(2)),
            "cmp" => self.cmp(&data),
            "range" => self.range(&data),
            "lookup" => self.lookup(&data),
            "immediate" => match data.get(2).and_then(|d| Data(d).get(2)) {
                Some(verdict) => self.steps.extend(verdict_of(verdict)),
                None => self.set(data.number(1), Value::Of(Test::Fixed), 16),
            },
            "fib" | "rt" | "xfrm" | "osf" => self.set(data.number(1), Value::Of(Test::Fixed), 16),
            "socket" | "tunnel" => self.set(data.number(2), Value::Of(Test::Fixed), 16),
            "hash" => {
                // Of registers, or symmetric: of addresses and ports.
                let len = data.number(3).unwrap_or(4).min(64) as usize;
                let of = data
                    .number(1)
                    .map(|from| Test::All(self.parts(Some(from), len)));
                self.set(data.number(2), Value::Of(of.unwrap_or(Test::Fixed)), 4);
            }
            "numgen" => {
                let by_turns = Test::Varies("treats packets by turns or by chance");
                self.set(data.number(1), Value::Of(by_turns), 4);
            }
            "inner" => {
                // What it loads, and where to, is in the expression inside.
                let looks = Value::Of(Test::Varies("looks into packets"));
                self.registers = std::array::from_fn(|_| Some((looks.clone(), 16)));
            }
            "limit" => self.when(Test::Varies("limits packets")),
            "quota" => self.when(Test::Varies("counts bytes against a quota")),
            "connlimit" => self.when(Test::Varies("counts connections")),
            "objref" => self.objref(&data),
            "dynset" => {
                let set = data.text(1);
                self.per_packet(format!("fills the set {set}"));
                self.when(Test::Fixed);
            }
            "log" => self.per_packet(match data.get(1) {
                Some(&[a, b]) => format!("logs packets to group {}", u16::from_be_bytes([a, b])),
                _ => "logs packets".into(),
            }),
            "queue" => {
                let number = match data.get(1) {
                    Some(&[a, b]) => format!(" (queue {})", u16::from_be_bytes([a, b])),
                    _ => String::new(),
                };
                self.per_packet(format!("queues packets to user space{number}"));
                self.acts(FILTERS);
                self.then(Verdict::Drop);
            }
            "dup" => {
                self.per_packet("copies packets (dup)".into());
                self.acts(FILTERS);
            }
            "fwd" => {
                self.per_packet("sends packets elsewhere (fwd)".into());
                self.then(Verdict::Drop);
            }
            "reject" => self.then(Verdict::Drop),
            "notrack" => self.acts(UNTRACKS),
            "tproxy" => self.acts(MARKS),
            "nat" | "masq" | "redir" => {
                self.acts(TRANSLATES);
                self.then(Verdict::Accept);
            }
            "match" => {
                let revision = data.number(2).unwrap_or(u32::MAX);
                let steps = xt::matches(&data.text(1), revision, data.get(3).unwrap_or(&[]));
                self.steps.extend(steps);
            }
            "target" => {
                let revision = data.number(2).unwrap_or(u32::MAX);
                let steps = xt::target(&data.text(1), revision, data.get(3).unwrap_or(&[]));
                self.steps.extend(steps);
            }
            _ => {
                self.per_packet(format!("does what is not known here ({name})"));
                self.acts(WORST);
                self.when(Test::Fixed);
                self.registers = [const { None }; WORDS];
            }
        }
    }

    pub(super) fn per_packet(&mut self, what: String) {
        self.steps.push(Step::PerPacket(what));
    }

    pub(super) fn acts(&mut self, effects: Effects) {
        self.steps.push(Step::Acts(effects));
    }

    fn then(&mut self, verdict: Verdict) {
        self.steps.push(Step::Then(verdict));
    }

    pub(super) fn when(&mut self, test: Test) {
        self.steps.push(Step::If(test));
    }

    pub(super) fn set(&mut self, register: Option<u32>, value: Value, len: usize) {
        if let Some(at) = word(register).filter(|at| *at < WORDS) {
            self.registers[at] = Some((value, len));
        }
    }

    pub(super) fn held(&self, register: Option<u32>) -> (Value, usize) {
        let held = word(register).and_then(|at| self.registers.get(at)?.clone());
        held.unwrap_or((Value::Of(Test::Fixed), 0))
    }

    /// A register becomes something that depends on another one.
    fn opaque(&mut self, from: Option<u32>, to: Option<u32>) {
        let (value, len) = self.held(from);
        self.set(to, Value::Of(value.compared()), len);
    }

    /// Whether it is seen if these bytes of the network header are rewritten: types of service, TTL or hop limit, addresses, and the
    /// checksum that follows.
    fn is_seen(&self, offset: usize, end: usize) -> bool {
        let within = |all: &[(usize, usize)]| all.iter().any(|(a, b)| *a <= offset && end <= *b);
        let v4 = within(&[(0, 2), (8, 9), (10, 12), (12, 20)]);
        let v6 = within(&[(0, 2), (7, 8), (8, 40)]);
        match self.context.table.split(' ').next() {
            Some("ip") => v4,
            Some("ip6") => v6,
            _ => v4 && v6,
        }
    }

    /// Whether types of service, TTLs or hop limits are among these bytes of the network header.
    fn is_given_by_others(&self, offset: usize, end: usize) -> bool {
        let has = |at: usize| offset <= at && at < end;
        let (v4, v6) = (has(1) || has(8), has(0) || has(1) || has(7));
        match self.context.table.split(' ').next() {
            Some("ip") => v4,
            Some("ip6") => v6,
            _ => v4 || v6,
        }
    }

    /// What a register holds is given to a packet or its connection.
    fn gives(&mut self, register: Option<u32>) {
        let (value, _) = self.held(register);
        let test = value.compared();
        if test.varies() {
            self.when(test);
        }
        self.acts(MARKS);
    }

    fn meta(&mut self, data: &Data<'_>) {
        if let source @ Some(_) = data.number(3) {
            return self.gives(source);
        }
        let (value, len) = match data.number(2) {
            Some(0) => (Value::Of(Test::Varies("asks for the length of packets")), 4),
            Some(1) => (Value::EtherType, 2),
            Some(4) => (Value::DeviceIndex { ingress: true }, 4),
            Some(5) => (Value::DeviceIndex { ingress: false }, 4),
            Some(6) => (Value::DeviceName { ingress: true }, 16),
            Some(7) => (Value::DeviceName { ingress: false }, 16),
            Some(15) => (Value::NfProto, 1),
            Some(16) => (Value::Protocol, 1),
            Some(20) => (Value::Of(Test::Varies("asks for the CPU")), 4),
            Some(24) => (Value::Of(Test::Varies("asks for chance")), 4),
            Some(30..=32) => (Value::Of(Test::Varies("asks for the time")), 8),
            _ => (Value::Of(Test::Fixed), 16),
        };
        self.set(data.number(1), value, len);
    }

    fn ct(&mut self, data: &Data<'_>) {
        if let source @ Some(_) = data.number(4) {
            return self.gives(source);
        }
        let counts = COUNTERS;
        let value = match data.number(2) {
            Some(0) => Value::State { mask: u32::MAX },
            Some(4) => Value::Of(Test::Varies("asks for security marks of connections")),
            Some(5) => Value::Of(Test::Varies("asks when connections expire")),
            Some(13) => Value::Of(Test::Varies("asks for labels of connections")),
            Some(14..=16) => Value::Of(Test::Varies(counts)),
            _ => Value::Of(Test::Fixed),
        };
        self.set(data.number(1), value, 4);
    }

    fn payload(&mut self, data: &Data<'_>) {
        let number = |kind| data.number(kind).map_or(usize::MAX, |n| n as usize);
        let (base, offset, len) = (data.number(2), number(3), number(4).min(64));
        let end = offset.saturating_add(len);
        if data.number(5).is_some() {
            // A flow's addresses and ports are seen to be as they were or not. So are types of service and TTLs, but a packet that is given
            // another one looks like those of its flow that came with it, which other rules may treat in another way.
            if base == Some(1) && self.is_given_by_others(offset, end) {
                self.per_packet(MARKS_ANEW.into());
            }
            let is_seen = match base {
                Some(1) => self.is_seen(offset, end),
                Some(2) => end <= 4,
                _ => false,
            };
            if !is_seen {
                self.per_packet("rewrites bytes of packets".into());
            }
            return self.acts(DISGUISES);
        }
        let header = match base {
            Some(0) => {
                if offset < 12 && end > 6 {
                    self.steps.push(Step::SourceMac);
                }
                let value = if (offset, len) == (12, 2) {
                    Value::EtherType
                } else {
                    Value::Of(Test::Fixed)
                };
                return self.set(data.number(1), value, len);
            }
            Some(1) => Header::Network,
            Some(2) => Header::Transport,
            _ => {
                let looks = Value::Of(Test::Varies("looks into packets"));
                return self.set(data.number(1), looks, len);
            }
        };
        let mask = vec![u8::MAX; len];
        let value = Value::Bytes {
            header,
            offset,
            mask,
        };
        self.set(data.number(1), value, len);
    }

    /// Options of IP and extension headers are in no packet that is asked about; of options of TCP some are in SYNs alone.
    fn exthdr(&mut self, data: &Data<'_>) {
        let kind = data.get(2).and_then(|v| v.first()).copied();
        let of_tcp = data.number(6) == Some(1);
        let absent = !of_tcp && data.number(6) != Some(3) || matches!(kind, Some(2..=4));
        if data.number(7).is_some() || data.number(1).is_none() {
            if !absent {
                self.per_packet("rewrites options of TCP".into());
            }
            return self.acts(REWRITES);
        }
        const PRESENT: u32 = 1;
        let asks_presence = data.number(5).unwrap_or(0) & PRESENT != 0;
        let value = match absent {
            true if asks_presence => Test::Fixed,
            true => return self.when(Test::Fails),
            false => Test::Varies("asks for options of TCP"),
        };
        self.set(data.number(1), Value::Of(value), 4);
    }

    fn bitwise(&mut self, data: &Data<'_>) {
        let (value, len) = self.held(data.number(1));
        let masked = match (data.number(6).unwrap_or(0), data.value(4), data.value(5)) {
            (0, Some(mask), Some(xor)) if xor.iter().all(|b| *b == 0) => value.masked(mask),
            _ => Value::Of(value.compared()),
        };
        self.set(data.number(2), masked, len);
    }

    fn cmp(&mut self, data: &Data<'_>) {
        let (value, _) = self.held(data.number(1));
        let wanted = data.value(3).unwrap_or(&[]);
        let test = match data.number(2) {
            Some(0) => value.equals(wanted, self.context.devices),
            Some(1) => value.equals(wanted, self.context.devices).not(),
            Some(op @ 2..=5) => match (value.port(), <[u8; 2]>::try_from(wanted)) {
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
                        4 => from(source, port.checked_add(1)),
                        _ => from(source, Some(port)),
                    }
                }
                _ => value.compared(),
            },
            _ => value.compared(),
        };
        self.when(test);
    }

    fn range(&mut self, data: &Data<'_>) {
        let (value, _) = self.held(data.number(1));
        let bound = |kind| <[u8; 2]>::try_from(data.value(kind)?).ok();
        let bounds = bound(3).zip(bound(4));
        let test = match (value.port(), bounds) {
            (Some(source), Some((first, last))) => Test::Ports {
                source,
                range: (u16::from_be_bytes(first), u16::from_be_bytes(last)),
            },
            _ => value.compared(),
        };
        self.when(test.inverted(data.number(2) == Some(1)));
    }
}

fn from(source: bool, first: Option<u16>) -> Test {
    first.map_or(Test::Fails, |first| Test::Ports {
        source,
        range: (first, u16::MAX),
    })
}

/// Registers 1 to 4 of 16 bytes are the words of those from 8 on.
pub(super) fn word(register: Option<u32>) -> Option<usize> {
    match register? {
        register @ 1..=4 => Some((register as usize - 1) * 4),
        register @ 8.. => Some(register as usize - 8),
        _ => None,
    }
}

/// What a verdict (`NFTA_DATA_VERDICT`) says.
pub(super) fn verdict_of(bytes: &[u8]) -> Vec<Step> {
    let data = Data(bytes);
    let chain = || data.text(2);
    let verdict = match data.number(1).map(|code| code as i32) {
        Some(1) => Verdict::Accept,
        Some(-1 | -2) => Verdict::Continue,
        Some(-3) => Verdict::Jump(chain()),
        Some(-4) => Verdict::Goto(chain()),
        Some(-5) => Verdict::Return,
        Some(code) if code & 0xff == 3 => {
            let what = format!(
                "queues packets to user space (queue {})",
                code >> 16 & 0xffff
            );
            return vec![Step::PerPacket(what), Step::Then(Verdict::Drop)];
        }
        _ => Verdict::Drop,
    };
    vec![Step::Then(verdict)]
}
