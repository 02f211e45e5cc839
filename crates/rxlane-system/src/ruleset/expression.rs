//! Expressions of nftables as steps of a rule (include/uapi/linux/netfilter/nf_tables.h).

use std::collections::BTreeMap;

use super::nft::{Set, sets_key};
use super::test::{Header, Test};
use super::walk::{Step, Verdict};
use super::xt;
use crate::dump::{attributes, be32, text};
use crate::firewall::Effects;

/// What expressions refer to.
pub(super) struct Context<'a> {
    /// Family and table of the rule.
    pub(super) table: &'a str,
    pub(super) sets: &'a BTreeMap<(String, String), Set>,
    /// Names of devices, by index.
    pub(super) devices: &'a BTreeMap<u32, String>,
}

/// What a register holds.
#[derive(Debug, Clone)]
enum Value {
    State {
        mask: u32,
    },
    Protocol,
    NfProto,
    EtherType,
    DeviceIndex {
        ingress: bool,
    },
    DeviceName {
        ingress: bool,
    },
    Bytes {
        header: Header,
        offset: usize,
        mask: Vec<u8>,
    },
    /// Something of which every comparison has this answer.
    Of(Test),
}

/// Registers hold words of 32 bits.
const WORDS: usize = 20;

/// The rest of a rule: registers, and what has been found.
pub(super) struct Reader<'a> {
    context: &'a Context<'a>,
    registers: [Option<(Value, usize)>; WORDS],
    pub(super) steps: Vec<Step>,
}

/// Attributes of an expression.
struct Data<'a>(&'a [u8]);

impl<'a> Data<'a> {
    fn get(&self, kind: u16) -> Option<&'a [u8]> {
        attributes(self.0).find(|(k, _)| *k == kind).map(|(_, v)| v)
    }

    fn number(&self, kind: u16) -> Option<u32> {
        self.get(kind).and_then(be32)
    }

    fn text(&self, kind: u16) -> String {
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
            "fib" | "rt" | "socket" | "xfrm" | "tunnel" | "osf" => {
                let register = if name == "fib" { 1 } else { 2 };
                let register = data.number(register).or_else(|| data.number(1));
                self.set(register, Value::Of(Test::Fixed), 16);
            }
            "hash" => self.set(data.number(2), Value::Of(Test::Fixed), 4),
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
            "notrack" | "tproxy" => self.acts(MARKS),
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
            }
        }
    }

    fn per_packet(&mut self, what: String) {
        self.steps.push(Step::PerPacket(what));
    }

    fn acts(&mut self, effects: Effects) {
        self.steps.push(Step::Acts(effects));
    }

    fn then(&mut self, verdict: Verdict) {
        self.steps.push(Step::Then(verdict));
    }

    fn when(&mut self, test: Test) {
        self.steps.push(Step::If(test));
    }

    fn set(&mut self, register: Option<u32>, value: Value, len: usize) {
        if let Some(at) = word(register).filter(|at| *at < WORDS) {
            self.registers[at] = Some((value, len));
        }
    }

    fn held(&self, register: Option<u32>) -> (Value, usize) {
        let held = word(register).and_then(|at| self.registers.get(at)?.clone());
        held.unwrap_or((Value::Of(Test::Fixed), 0))
    }

    /// A register becomes something that depends on another one.
    fn opaque(&mut self, from: Option<u32>, to: Option<u32>) {
        let (value, len) = self.held(from);
        self.set(to, Value::Of(value.compared()), len);
    }

    fn meta(&mut self, data: &Data<'_>) {
        if data.number(3).is_some() {
            return self.acts(MARKS);
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
        if data.number(4).is_some() {
            return self.acts(MARKS);
        }
        let counts = "asks for counters of connections";
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
            // A flow's addresses, ports, type of service and TTL are seen to be as they were or not.
            let is_seen = match base {
                Some(1) => end <= 2 || offset >= 6 && end <= 10 || offset >= 8 && end <= 40,
                Some(2) => end <= 4,
                _ => false,
            };
            if !is_seen {
                self.per_packet("rewrites bytes of packets".into());
            }
            return self.acts(REWRITES);
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
            Some(0) => self.equals(&value, wanted),
            Some(1) => self.equals(&value, wanted).not(),
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

    fn lookup(&mut self, data: &Data<'_>) {
        const INVERTED: u32 = 1;
        let name = data.text(1);
        let key = sets_key(self.context.table, &name);
        let Some(set) = self.context.sets.get(&key) else {
            // A set that is not known.
            self.per_packet(format!("asks the set {name}, which is not known here"));
            return self.acts(WORST);
        };
        if set.changes {
            self.steps.push(Step::Asks(name.clone()));
        }
        if set.counts {
            self.per_packet(format!("counts packets in the set {name}"));
        }
        let (value, len) = self.held(data.number(2));
        let is_one = set.key_len <= len.next_multiple_of(4) && !set.is_concatenated;
        // Each of the parts may be what it depends on.
        let any = match is_one {
            true => value.compared(),
            false => Test::All(self.parts(data.number(2), set.key_len)),
        };
        let test = |key: &[u8]| match is_one && !set.is_interval {
            true => self.equals(&value, key),
            false => any.clone(),
        };
        match data.number(3) {
            // `NFT_REG_VERDICT`.
            Some(0) => {
                let elements = set.elements.iter().flatten();
                let map = elements.filter_map(|element| {
                    let verdict = element.verdict.clone()?;
                    let test = element
                        .key
                        .as_ref()
                        .map_or_else(|| any.clone(), |k| test(k));
                    Some((test, verdict))
                });
                let map = map.collect();
                self.steps.push(Step::Map(map));
            }
            Some(register) => {
                self.when(Test::All(vec![any.clone(), Test::Fixed]));
                self.set(Some(register), Value::Of(any), 16);
            }
            None => {
                let keys = set.elements.as_ref().filter(|_| is_one && !set.is_interval);
                let found = keys.map_or(any.clone(), |all| {
                    let keys = all.iter().filter_map(|element| element.key.as_ref());
                    Test::Any(keys.map(|key| self.equals(&value, key)).collect())
                });
                self.when(found.inverted(data.number(5).unwrap_or(0) & INVERTED != 0));
            }
        }
    }

    /// What comparisons of registers ask that hold a key.
    fn parts(&self, register: Option<u32>, key_len: usize) -> Vec<Test> {
        let start = word(register).unwrap_or(0);
        let all = self.registers.iter().skip(start).take(key_len.div_ceil(4));
        let parts = all.flatten().map(|(value, _)| value.compared());
        parts.chain([Test::Fixed]).collect()
    }

    fn objref(&mut self, data: &Data<'_>) {
        let kind = data.number(1).or_else(|| {
            let key = sets_key(self.context.table, &data.text(4));
            self.context.sets.get(&key).map(|set| set.objects)
        });
        match kind {
            Some(2) => self.when(Test::Varies("counts bytes against a quota")),
            Some(4) => self.when(Test::Varies("limits packets")),
            Some(5) => self.when(Test::Varies("counts connections")),
            // Counters, helpers and timeouts of connections, tunnels, security marks, expectations.
            Some(1 | 3 | 6..=9) => {}
            _ => {
                self.per_packet("uses an object that is not known here".into());
                self.acts(WORST);
                self.when(Test::Fixed);
            }
        }
    }

    /// Whether a register holds this.
    fn equals(&self, value: &Value, wanted: &[u8]) -> Test {
        let word = || <[u8; 4]>::try_from(wanted).ok().map(u32::from_ne_bytes);
        match value {
            Value::State { mask } => {
                word().map_or(Test::Fixed, |is| Test::State { mask: *mask, is })
            }
            Value::Protocol => wanted.first().map_or(Test::Fixed, |p| Test::Protocol(*p)),
            Value::NfProto => match wanted.first() {
                Some(2) => Test::Version { v6: false },
                Some(10) => Test::Version { v6: true },
                _ => Test::Fails,
            },
            Value::EtherType => match wanted.get(..2) {
                Some([0x08, 0x00]) => Test::Version { v6: false },
                Some([0x86, 0xdd]) => Test::Version { v6: true },
                // Frames with a tag.
                Some([0x81, 0x00] | [0x88, 0xa8]) => Test::Fixed,
                _ => Test::Fails,
            },
            Value::DeviceIndex { ingress } => {
                let name = word().and_then(|index| self.context.devices.get(&index));
                name.map_or(Test::Fixed, |name| Test::Device {
                    ingress: *ingress,
                    name: name.clone(),
                })
            }
            // Without its zero it is the beginning of a name.
            Value::DeviceName { ingress } => match wanted.iter().position(|b| *b == 0) {
                Some(len) => Test::Device {
                    ingress: *ingress,
                    name: text(&wanted[..len]),
                },
                None => Test::Fixed,
            },
            Value::Bytes {
                header,
                offset,
                mask,
            } => {
                let len = wanted.len().min(mask.len());
                Test::Bytes {
                    header: *header,
                    offset: *offset,
                    mask: mask[..len].to_vec(),
                    are: Some(wanted[..len].to_vec()),
                }
            }
            Value::Of(test) => test.clone(),
        }
    }
}

impl Value {
    /// What a comparison asks of which nothing else is known.
    fn compared(&self) -> Test {
        match self {
            Self::Bytes {
                header,
                offset,
                mask,
            } => Test::Bytes {
                header: *header,
                offset: *offset,
                mask: mask.clone(),
                are: None,
            },
            Self::Of(test) => test.clone(),
            _ => Test::Fixed,
        }
    }

    fn masked(self, by: &[u8]) -> Self {
        match self {
            Self::State { mask } => match <[u8; 4]>::try_from(by) {
                Ok(by) => Self::State {
                    mask: mask & u32::from_ne_bytes(by),
                },
                Err(_) => Self::Of(Test::Fixed),
            },
            Self::Bytes {
                header,
                offset,
                mut mask,
            } => {
                for (at, byte) in mask.iter_mut().enumerate() {
                    *byte &= by.get(at).copied().unwrap_or(0);
                }
                Self::Bytes {
                    header,
                    offset,
                    mask,
                }
            }
            other => Self::Of(other.compared()),
        }
    }

    /// Whether it is a source port or a destination port, if it is one.
    fn port(&self) -> Option<bool> {
        match self {
            Self::Bytes {
                header: Header::Transport,
                offset: offset @ (0 | 2),
                mask,
            } if **mask == [u8::MAX; 2] => Some(*offset == 0),
            _ => None,
        }
    }
}

fn from(source: bool, first: Option<u16>) -> Test {
    first.map_or(Test::Fails, |first| Test::Ports {
        source,
        range: (first, u16::MAX),
    })
}

/// Registers 1 to 4 of 16 bytes are the words of those from 8 on.
fn word(register: Option<u32>) -> Option<usize> {
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

const NONE: Effects = Effects {
    filters: false,
    marks: false,
    rewrites: false,
    translates: false,
};
pub(super) const FILTERS: Effects = Effects {
    filters: true,
    ..NONE
};
pub(super) const MARKS: Effects = Effects {
    marks: true,
    ..NONE
};
pub(super) const REWRITES: Effects = Effects {
    rewrites: true,
    ..NONE
};
pub(super) const TRANSLATES: Effects = Effects {
    translates: true,
    ..NONE
};
/// Of what is not known.
pub(super) const WORST: Effects = Effects {
    filters: true,
    marks: true,
    rewrites: true,
    translates: false,
};
