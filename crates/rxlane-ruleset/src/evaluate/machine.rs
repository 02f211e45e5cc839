//! The machine that runs rules of nftables, on packets of which some bits are known.

use std::collections::BTreeMap;

use super::flow::Stage;
use super::packet::{Packet, Tracking};
use super::partly::Partly;
use crate::expression::{Expression, Given, Register, Span, Verdict, WORDS};
use crate::hook::Place;
use crate::meets::Outcome;
use crate::program::{Rule, Table};
use crate::xt;

/// What a rule came to.
#[derive(Debug, Default)]
pub(crate) struct Ran {
    /// What it may say.
    pub(crate) verdicts: Vec<Verdict>,
    /// Whether packets may go on to the next rule, whatever the verdicts.
    pub(crate) goes_on: bool,
    /// What is asked of which the answer is not known, or not the same for all packets.
    pub(crate) why: Option<String>,
    /// What it does with them beside.
    pub(crate) beside: Vec<String>,
}

pub(crate) struct Machine<'a> {
    pub(crate) table: &'a Table,
    pub(crate) devices: &'a BTreeMap<u32, String>,
    pub(crate) place: Place,
    pub(crate) packet: &'a mut Packet,
    /// Whether all packets of the flow come to the rule that are not gone.
    pub(crate) is_sure: bool,
    registers: Partly,
    /// Why words of registers are not known.
    whys: [Option<&'static str>; WORDS],
    pub(crate) ran: Ran,
}

/// Goes on to the next expression, or ends the rule.
pub(crate) enum Then {
    Next,
    End,
}

pub(crate) const NOT_SAID: &str = "asks what is not known of the flow";
pub(crate) const NOT_EVALUATED: &str = "asks what is not evaluated here";

impl<'a> Machine<'a> {
    pub(crate) fn new(
        table: &'a Table,
        devices: &'a BTreeMap<u32, String>,
        place: Place,
        packet: &'a mut Packet,
        is_sure: bool,
    ) -> Self {
        Self {
            table,
            devices,
            place,
            packet,
            is_sure,
            registers: Partly::unknown(WORDS * 4),
            whys: [None; WORDS],
            ran: Ran::default(),
        }
    }

    pub(crate) fn run(mut self, rule: &Rule) -> Ran {
        if rule.expressions.is_empty() {
            return match self.steps(&rule.steps) {
                Then::Next => self.ended(),
                Then::End => self.ran,
            };
        }
        for expression in &rule.expressions {
            if let Then::End = self.expression(expression) {
                return self.ran;
            }
        }
        self.ended()
    }

    fn ended(mut self) -> Ran {
        self.ran.goes_on = true;
        self.ran
    }

    pub(super) fn is_certain(&self) -> bool {
        self.ran.why.is_none()
    }

    /// Something that packets must have to get further.
    pub(crate) fn when(&mut self, outcome: Outcome, why: &str) -> Then {
        match outcome {
            Outcome::Holds => Then::Next,
            Outcome::May => {
                self.ran.why.get_or_insert_with(|| why.to_owned());
                Then::Next
            }
            Outcome::Fails => {
                self.ran.goes_on = true;
                Then::End
            }
        }
    }

    pub(crate) fn then(&mut self, verdict: Verdict) -> Then {
        self.ran.verdicts.push(verdict);
        self.ran.goes_on = !self.is_certain();
        Then::End
    }

    pub(crate) fn beside(&mut self, what: impl Into<String>) -> Then {
        self.ran.beside.push(what.into());
        Then::Next
    }

    /// Packets become something else; where not all of them do, what is in common stays known.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Packet)) -> Then {
        let before = self.packet.clone();
        change(self.packet);
        if !(self.is_sure && self.is_certain()) {
            self.packet.join(&before);
        }
        Then::Next
    }

    /// Nothing is known of what this does.
    pub(crate) fn worst(&mut self, what: String) -> Then {
        self.ran.why.get_or_insert(what);
        self.ran.verdicts.push(Verdict::Drop);
        self.registers = Partly::unknown(WORDS * 4);
        self.whys = [Some(NOT_EVALUATED); WORDS];
        self.change(|packet| {
            packet.network = Partly::unknown(packet.network.len());
            packet.transport = Partly::unknown(packet.transport.len());
            packet.mark = Partly::unknown(4);
        })
    }

    pub(super) fn held(&self, register: Register, len: usize) -> Partly {
        register.map_or_else(
            || Partly::unknown(len),
            |word| self.registers.get(word * 4, len),
        )
    }

    /// Why a register is not known.
    pub(super) fn why(&self, register: Register, len: usize) -> &'static str {
        let start = register.unwrap_or(0);
        let words = self.whys.iter().skip(start).take(len.div_ceil(4));
        words.flatten().next().unwrap_or(&NOT_SAID)
    }

    /// Loads fill up their last word with zeros.
    pub(super) fn set(&mut self, register: Register, value: &Partly, why: &'static str) -> Then {
        if let Some(word) = register {
            let len = value.len().next_multiple_of(4);
            let mut whole = Partly::known(&vec![0; len]);
            whole.put(0, value);
            self.registers.put(word * 4, &whole);
            let why = value.bytes().is_none().then_some(why);
            let words = self.whys.iter_mut().skip(word);
            words.take(len / 4).for_each(|at| *at = why);
        }
        Then::Next
    }

    pub(super) fn unknown(&mut self, register: Register, why: &'static str) -> Then {
        self.set(register, &Partly::unknown(16), why)
    }

    fn expression(&mut self, expression: &Expression) -> Then {
        match expression {
            Expression::Counter => self.beside("counts packets"),
            Expression::Offload => self.beside("has a flowtable take the flow"),
            Expression::Meta { key, to } => self.meta(*key, *to),
            Expression::SetMeta { key, from } => {
                const MARK: u32 = 3;
                if *key != MARK {
                    return self.beside("sets a priority, a class or the like");
                }
                let mark = self.held(*from, 4);
                self.change(|packet| packet.mark = mark);
                self.beside("marks packets")
            }
            Expression::Ct { key, direction, to } => self.ct(*key, *direction, *to),
            Expression::SetCt { key, .. } => {
                const ZONE: u32 = 17;
                if *key == ZONE {
                    self.change(|packet| packet.tracking = Tracking::Unknown);
                }
                self.beside("sets a mark, a label, a zone or the like of connections")
            }
            Expression::Payload { span, to } => {
                let value = self.packet.load(*span);
                let why = self.packet.why(*span);
                self.set(*to, &value, why)
            }
            Expression::SetPayload { span, from } => {
                let value = self.held(*from, span.len);
                let span: Span = *span;
                self.change(|packet| packet.store(span, &value));
                self.beside("rewrites packets")
            }
            Expression::Extension { extension, to } => {
                const TCP_OPTION: u32 = 1;
                const TCP: u8 = 6;
                let asks_tcp = extension.of == TCP_OPTION;
                let opens = self.packet.stage == Stage::Opening;
                let is_absent = match asks_tcp {
                    true => self.packet.protocol != TCP || extension.is_absent() && !opens,
                    false => extension.is_absent(),
                };
                match (is_absent, extension.presence) {
                    (true, true) => self.set(*to, &Partly::known(&[0]), NOT_SAID),
                    (true, false) => self.when(Outcome::Fails, NOT_SAID),
                    (false, _) => self.unknown(*to, "asks for options of TCP"),
                }
            }
            Expression::SetExtension(_) => self.beside("rewrites options"),
            Expression::Mask {
                from,
                to,
                mask,
                xor,
            } => {
                let why = self.why(*from, mask.len());
                let value = self.held(*from, mask.len()).masked(mask, xor);
                self.set(*to, &value, why)
            }
            Expression::Bits { to, .. } => self.unknown(*to, NOT_EVALUATED),
            Expression::ByteOrder {
                from,
                to,
                len,
                size,
            } => {
                let why = self.why(*from, *len);
                let size = if cfg!(target_endian = "little") {
                    *size
                } else {
                    1
                };
                let value = self.held(*from, (*len).min(64)).swapped(size);
                self.set(*to, &value, why)
            }
            Expression::Compare { from, op, with } => {
                let held = self.held(*from, with.len());
                let why = self.why(*from, with.len());
                self.when(compared(&held, *op, with), why)
            }
            Expression::Range {
                from,
                inverted,
                first,
                last,
            } => {
                let held = self.held(*from, first.len());
                let why = self.why(*from, first.len());
                self.when(held.lies_within(first, last).inverted(*inverted), why)
            }
            Expression::Lookup {
                set,
                from,
                gives,
                inverted,
            } => self.lookup(set, *from, *gives, *inverted),
            Expression::Value { to, bytes } => self.set(*to, &Partly::known(bytes), NOT_SAID),
            Expression::Verdict(verdict) => self.then(verdict.clone()),
            Expression::Asks { what, to } => self.unknown(*to, what),
            Expression::Hash { to, .. } => self.unknown(*to, "spreads flows by a hash"),
            Expression::ByTurns { to } => self.unknown(*to, "treats packets by turns or by chance"),
            Expression::Inner => {
                self.registers = Partly::unknown(WORDS * 4);
                self.whys = [Some("looks into packets"); WORDS];
                Then::Next
            }
            Expression::Limit => self.when(Outcome::May, "limits packets"),
            Expression::Quota => self.when(Outcome::May, "counts bytes against a quota"),
            Expression::ConnectionLimit => self.when(Outcome::May, "counts connections"),
            Expression::Object { kind, map } => {
                let of_map = || self.table.sets.get(map).map(|set| set.objects);
                match kind.or_else(of_map) {
                    Some(1) => self.beside("counts packets"),
                    Some(2) => self.when(Outcome::May, "counts bytes against a quota"),
                    Some(4) => self.when(Outcome::May, "limits packets"),
                    Some(5) => self.when(Outcome::May, "counts connections"),
                    Some(3 | 6..=9) => Then::Next,
                    _ => self.worst("uses an object that is not known here".into()),
                }
            }
            Expression::Dynset { set } => {
                self.beside(format!("fills the set {set}"));
                self.when(Outcome::May, "fills a set, which may be full")
            }
            Expression::Log { group } => match group {
                Some(group) => self.beside(format!("logs packets to group {group}")),
                None => self.beside("logs packets"),
            },
            Expression::Dup => self.beside("copies packets"),
            Expression::Forward => {
                self.beside("sends packets elsewhere");
                self.then(Verdict::Drop)
            }
            Expression::Reject => self.then(Verdict::Drop),
            Expression::Notrack => {
                self.change(|packet| {
                    if packet.tracking == Tracking::NotYet {
                        packet.tracking = Tracking::Never;
                    }
                });
                self.beside("keeps packets from connection tracking")
            }
            Expression::Tproxy => self.worst("gives packets to sockets of this machine".into()),
            Expression::Redirect => {
                self.beside("sends packets to this machine");
                self.then(Verdict::Drop)
            }
            Expression::Nat {
                source,
                address,
                port,
            } => self.translate(*source, *address, *port),
            Expression::Match {
                name,
                revision,
                data,
            } => self.steps(&xt::matches(name, *revision, data)),
            Expression::Target {
                name,
                revision,
                data,
            } => self.steps(&xt::target(name, *revision, data)),
            Expression::Unknown(name) => {
                self.worst(format!("does what is not known here ({name})"))
            }
        }
    }

    fn translate(&mut self, is_source: bool, address: Given, port: Given) -> Then {
        let len = self.packet.address(is_source).len();
        let given = |machine: &Self, given, len| match given {
            Given::Nothing => None,
            Given::Value(register) => Some(machine.held(register, len)),
            Given::Some => Some(Partly::unknown(len)),
        };
        let address = given(self, address, len);
        // A source port that another flow has is another one then.
        let port = given(self, port, 2).or_else(|| is_source.then(|| Partly::unknown(2)));
        self.change(|packet| {
            *packet.told(is_source) = Outcome::Holds;
            if let Some(address) = &address {
                packet.set_address(is_source, address);
            }
            if let Some(port) = port.filter(|_| packet.has_ports()) {
                packet.transport.put(if is_source { 0 } else { 2 }, &port);
            }
        });
        let what = if is_source { "source" } else { "destination" };
        self.beside(format!("translates the {what}"));
        self.then(Verdict::Accept)
    }
}

fn compared(held: &Partly, op: u32, with: &[u8]) -> Outcome {
    use std::cmp::Ordering::{Greater, Less};
    let known = |holds: bool| {
        if holds {
            Outcome::Holds
        } else {
            Outcome::Fails
        }
    };
    match (op, held.order(with)) {
        (0, _) => held.equals(with),
        (1, _) => held.equals(with).inverted(true),
        (2, Some(order)) => known(order == Less),
        (3, Some(order)) => known(order != Greater),
        (4, Some(order)) => known(order == Greater),
        (5, Some(order)) => known(order != Less),
        _ => Outcome::May,
    }
}
