//! Chains of rules, however they came, and which of their rules an established packet can reach.
//!
//! A small abstract evaluation: whatever is not understood may be met.

use std::collections::{BTreeSet, HashMap};

use crate::acts::WORST;
use crate::expression::{Expression, Verdict};
use crate::hook::{Effects, Hook, Place};
use crate::meets::{Meets, Outcome};
use crate::per_packet::{PerPacket, Uses, is_excepted};
use crate::program::{BaseChain, Rule, Step, Table};
use crate::test::Tracked;

/// Of so many kinds of flows, one by one, a chain can be said to do something.
const KINDS: usize = 64;
/// In so many ways a chain is walked; then once more, for all that may come.
const WAYS: usize = 8;

impl Table {
    /// Its hooks whose rules can do something.
    pub(crate) fn hooks(&self) -> Vec<Hook> {
        let mut hooks = Vec::new();
        for (key, chain) in &self.chains {
            for base in &chain.bases {
                let effects = self.effects(key, base);
                for i in 0..base.devices.len().max(1) {
                    let device = base.devices.get(i).cloned();
                    hooks.push(Hook {
                        table: self.name.clone(),
                        chain: self.called(key).to_owned(),
                        place: base.place,
                        device,
                        effects,
                    });
                }
            }
        }
        hooks.retain(|hook| hook.effects.any());
        hooks
    }

    /// Whether something asks for connections, or translates them.
    pub(crate) fn tracks(&self) -> bool {
        self.chains.values().any(|chain| {
            let steps = chain.rules.iter().flat_map(|rule| &rule.steps);
            let mut tests = steps.filter_map(|step| match step {
                Step::If(test) => Some(test.asks_state()),
                Step::Map(map) => Some(map.iter().any(|(test, _)| test.asks_state())),
                _ => None,
            });
            let mut expressions = chain.rules.iter().flat_map(|rule| &rule.expressions);
            let of_connections =
                |e: &Expression| matches!(e, Expression::Ct { .. } | Expression::SetCt { .. });
            let mut bases = chain.bases.iter();
            bases.any(|base| base.is_nat)
                || tests.any(|asks| asks)
                || expressions.any(of_connections)
        })
    }

    pub(crate) fn called<'a>(&'a self, key: &'a str) -> &'a str {
        let name = self.chains.get(key).map_or("", |chain| &chain.name);
        if name.is_empty() { key } else { name }
    }

    /// What the rules can do that a base chain leads to.
    fn effects(&self, key: &str, base: &BaseChain) -> Effects {
        let mut effects = Effects {
            filters: base.drops,
            ..Effects::default()
        };
        let mut to_see = vec![key];
        let mut seen = BTreeSet::from([key]);
        while let Some(chain) = to_see.pop().and_then(|key| self.chains.get(key)) {
            for step in chain.rules.iter().flat_map(|rule| &rule.steps) {
                if let Step::Acts(acts) = step {
                    effects.add(*acts);
                    effects.translates |= base.is_nat && *acts == WORST;
                }
                for verdict in step.verdicts() {
                    match verdict {
                        Verdict::Drop | Verdict::Queue(_) => effects.filters = true,
                        Verdict::Jump(to) | Verdict::Goto(to) if seen.insert(to) => {
                            to_see.push(to);
                        }
                        _ => {}
                    }
                }
            }
        }
        effects
    }

    /// What packets of flows meet on their way that must see each of them: of established ones, or of those that connection tracking
    /// does not see.
    pub(crate) fn met(&self, are_tracked: bool, found: &mut Found) {
        for (key, chain) in &self.chains {
            for base in &chain.bases {
                // Of a flow that is known only the first packet has come by chains of nat.
                if base.place.is_local() || base.is_nat {
                    continue;
                }
                let mut meets = Meets {
                    v6: self.v6,
                    tracked: Some(are_tracked),
                    ..Meets::default()
                };
                for i in 0..base.devices.len().max(1) {
                    let device = base.devices.get(i);
                    match base.place {
                        Place::Ingress => meets.ingress = device.cloned(),
                        Place::Egress => meets.egress = device.cloned(),
                        _ => {}
                    }
                    let mut walk = Walk {
                        table: self,
                        handle: 0,
                        is_excepted: false,
                        base,
                        tracked: match are_tracked {
                            true => base.tracked,
                            false => Tracked::Nowhere,
                        },
                        walked: HashMap::new(),
                        found,
                    };
                    walk.chain(key, &meets);
                }
            }
        }
    }
}

/// What was met.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) per_packet: Vec<PerPacket>,
    /// Of rules whose operator does not want them to see express packets.
    pub(crate) excepted: Vec<PerPacket>,
    pub(crate) uses: Uses,
}

impl Found {
    pub(crate) fn add(&mut self, mut new: PerPacket) {
        let (place, what) = (new.place.clone(), new.what.clone());
        let same = |old: &PerPacket| old.what == what && old.place == place;
        let known = |old: &&mut PerPacket| same(old) && old.meets.covers(&new.meets);
        if let Some(old) = self.per_packet.iter_mut().find(known) {
            for rule in new.rules {
                if let Err(at) = old.rules.binary_search(&rule) {
                    old.rules.insert(at, rule);
                }
            }
            return;
        }
        // The witness asks for no more kinds of flows one by one, and nobody reads more.
        if self.per_packet.iter().filter(|old| same(old)).count() >= KINDS {
            let alike = self.per_packet.iter().filter(|old| same(old));
            new.meets = alike.fold(new.meets, |met, old| met.join(old.meets.clone()));
        }
        let meets = new.meets.clone();
        let covered = |old: &PerPacket| same(old) && meets.covers(&old.meets);
        let (covered, mut others): (Vec<_>, Vec<_>) = self.per_packet.drain(..).partition(covered);
        new.rules
            .extend(covered.into_iter().flat_map(|old| old.rules));
        new.rules.sort_unstable();
        new.rules.dedup();
        others.push(new);
        self.per_packet = others;
    }
}

/// What counts each packet that comes to it, whatever the rest of the rule asks: one that it does not see changes what becomes of
/// the next.
const COUNTING: [&str; 7] = [
    "limits packets",
    "counts bytes against a quota",
    "counts connections",
    "treats packets by turns or by chance",
    "lists who sent packets lately (recent)",
    "accounts for packets (nfacct)",
    "asks for a measured rate",
];

/// A comparison that packets of a flow differ in.
struct Varying {
    what: &'static str,
    /// Who came to it, where it counts them.
    counted: Option<Meets>,
}

impl Varying {
    fn new(what: &'static str, meets: &Meets) -> Self {
        Self {
            what,
            counted: COUNTING.contains(&what).then(|| meets.clone()),
        }
    }
}

fn counting(all: &[Varying]) -> impl Iterator<Item = &Varying> {
    all.iter().filter(|varying| varying.counted.is_some())
}

/// Whether a rule does anything but count.
fn does_something(rule: &Rule) -> bool {
    rule.steps.iter().any(|step| match step {
        Step::Then(verdict) => *verdict != Verdict::Continue,
        Step::Acts(_) | Step::Map(_) | Step::PerPacket(_) => true,
        _ => false,
    })
}

/// Where packets are after a rule.
enum Course {
    /// Some of them at the next one.
    On,
    /// None of them comes back to the base chain.
    Ended,
    /// None of them is in this chain any more.
    Returned,
}

struct Walk<'a> {
    table: &'a Table,
    /// Of the rule that is looked at.
    handle: u64,
    is_excepted: bool,
    base: &'a BaseChain,
    tracked: Tracked,
    /// With what chains have been walked, and whether no packet came out.
    walked: HashMap<&'a str, Vec<(Meets, bool)>>,
    found: &'a mut Found,
}

impl<'a> Walk<'a> {
    /// Whether no packet comes out of a chain.
    fn chain(&mut self, key: &'a str, meets: &Meets) -> bool {
        let walked = self.walked.entry(key).or_default();
        if let Some((_, ends)) = walked.iter().find(|(of, _)| of.covers(meets)) {
            return *ends;
        }
        let meets = if walked.len() < WAYS {
            meets.clone()
        } else {
            Meets {
                tracked: meets.tracked,
                ..Meets::default()
            }
        };
        let index = walked.len();
        walked.push((meets.clone(), false));
        let table = self.table;
        let rules = table.chains.get(key).map_or(&[][..], |chain| &chain.rules);
        for rule in rules {
            match self.rule(key, rule, &meets) {
                Course::On => {}
                Course::Returned => return false,
                Course::Ended => {
                    if let Some(walked) = self.walked.get_mut(key) {
                        walked[index].1 = true;
                    }
                    return true;
                }
            }
        }
        false
    }

    fn rule(&mut self, key: &'a str, rule: &'a Rule, meets: &Meets) -> Course {
        (self.handle, self.is_excepted) = (rule.handle, is_excepted(&rule.comment));
        let mut meets = meets.clone();
        let (mut is_certain, mut varies) = (true, Vec::<Varying>::new());
        let tracked = self.tracked;
        for step in &rule.steps {
            match step {
                Step::If(test) => {
                    let met = test.meet(&meets, tracked);
                    match met.outcome {
                        Outcome::Fails => {
                            if does_something(rule) {
                                self.vary(key, counting(&varies), &meets);
                            }
                            return Course::On;
                        }
                        Outcome::Holds => {}
                        Outcome::May => is_certain = false,
                    }
                    varies.extend(met.varies.map(|what| Varying::new(what, &meets)));
                    meets = met.meets;
                }
                Step::PerPacket(what) => {
                    self.per_packet(key, what.clone(), &meets);
                    self.vary(key, counting(&varies), &meets);
                }
                Step::SourceMac => self.found.uses.source_mac = true,
                Step::Asks(set) => {
                    let set = (self.table.name.clone(), set.clone());
                    self.found.uses.sets.insert(set);
                }
                Step::AsksIpset(index) => {
                    self.found.uses.ipsets.insert(*index);
                }
                Step::Acts(acts) => {
                    if acts.marks || acts.rewrites || acts.filters {
                        self.vary(key, &varies, &meets);
                    }
                }
                Step::Then(verdict) => {
                    if *verdict != Verdict::Continue {
                        self.vary(key, &varies, &meets);
                    }
                    let course = self.verdict(key, verdict, &meets);
                    return if is_certain { course } else { Course::On };
                }
                Step::Map(map) => {
                    for (test, verdict) in map {
                        let met = test.meet(&meets, tracked);
                        if met.outcome == Outcome::Fails {
                            continue;
                        }
                        self.vary(key, &varies, &met.meets);
                        let of_this = met.varies.map(|what| Varying::new(what, &meets));
                        self.vary(key, &of_this, &met.meets);
                        let course = self.verdict(key, verdict, &met.meets);
                        (self.handle, self.is_excepted) = (rule.handle, is_excepted(&rule.comment));
                        if met.outcome == Outcome::Holds {
                            return if is_certain { course } else { Course::On };
                        }
                    }
                    return Course::On;
                }
            }
        }
        Course::On
    }

    fn verdict(&mut self, key: &'a str, verdict: &'a Verdict, meets: &Meets) -> Course {
        match verdict {
            Verdict::Accept | Verdict::Drop => Course::Ended,
            Verdict::Queue(number) => {
                let number = number.map_or_else(String::new, |n| format!(" (queue {n})"));
                let what = format!("queues packets to user space{number}");
                self.per_packet(key, what, meets);
                Course::Ended
            }
            Verdict::Continue => Course::On,
            Verdict::Return => Course::Returned,
            Verdict::Jump(to) if self.chain(to, meets) => Course::Ended,
            Verdict::Jump(_) => Course::On,
            Verdict::Goto(to) if self.chain(to, meets) => Course::Ended,
            Verdict::Goto(_) => Course::Returned,
        }
    }

    fn vary<'v>(&mut self, key: &str, all: impl IntoIterator<Item = &'v Varying>, meets: &Meets) {
        for varying in all {
            let meets = varying.counted.as_ref().unwrap_or(meets);
            self.per_packet(key, varying.what.to_owned(), meets);
        }
    }

    fn per_packet(&mut self, key: &str, what: String, meets: &Meets) {
        let table = &self.table.name;
        let (chain, at) = (self.table.called(key), self.base.place.name());
        let new = PerPacket {
            what,
            place: format!("the chain {table} {chain} at {at}"),
            meets: meets.clone(),
            rules: vec![self.handle],
        };
        match self.is_excepted && new.records() {
            true if !self.found.excepted.contains(&new) => self.found.excepted.push(new),
            true => {}
            false => self.found.add(new),
        }
    }
}
