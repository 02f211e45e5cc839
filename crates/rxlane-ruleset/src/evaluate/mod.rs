//! What becomes of a flow: its packets go through the rules, as far as is known of them.
//!
//! A rule holds, does not, or that depends on something which the packets of a flow do not have in common, or which is not known. Then
//! both ways are followed.

mod asked;
mod flow;
mod loads;
mod machine;
mod packet;
mod partly;
mod stations;
mod steps;

use std::collections::{BTreeMap, HashSet};

pub use flow::{Answer, Deciding, Flow, Outcome, Stage};
use machine::{Machine, Ran};
use packet::{Packet, Tracking};
use stations::{Chains, Station, stations};

use crate::expression::Verdict;
use crate::hook::Place;
use crate::meets::Outcome as Told;
use crate::program::{BaseChain, Rule, Table};

/// Rules, and what they are asked in.
#[derive(Debug, Clone, Copy)]
pub struct Evaluator<'a> {
    /// Read with the elements of all sets.
    pub tables: &'a [Table],
    /// Names of devices, by index.
    pub devices: &'a BTreeMap<u32, String>,
}

/// As deep as the kernel lets chains call each other.
const DEPTH: usize = 16;
/// Rules that are run for an answer at most: where much is unknown, there are many ways.
const RULES: usize = 1 << 18;
/// Rules that are named of those which decide.
const NAMED: usize = 20;

impl<'a> Evaluator<'a> {
    /// What becomes of packets of a flow.
    pub fn answer(&self, flow: &Flow, stage: Stage) -> Answer {
        let mut walk = self.walk(Packet::new(flow, Stage::Opening));
        walk.run();
        if stage != Stage::Opening {
            let packet = match stage {
                Stage::Answering => Packet::answering(flow, &walk.packet),
                _ => Packet::new(flow, stage),
            };
            let seen = |is_source| walk.packet.is_translated(is_source);
            let was_translated = Some((seen(true), seen(false)));
            // Of a first packet that was dropped before, the connection is another way's.
            let is_tracked = matches!(walk.packet.tracking, Tracking::In(_) | Tracking::NotYet);
            let translated = walk.translated;
            walk = self.walk(packet);
            walk.translated = translated;
            walk.answers_tracked = is_tracked || stage != Stage::Answering;
            walk.packet.was_translated = was_translated;
            walk.run();
        }
        walk.answered()
    }

    fn walk(&self, packet: Packet) -> Walk<'a> {
        Walk {
            evaluator: *self,
            packet,
            translated: Vec::new(),
            place: Place::Ingress,
            is_sure: true,
            why_some: None,
            answers_tracked: true,
            rules: 0,
            fates: Vec::new(),
            dropped: Vec::new(),
            is_dropped: false,
            accepted: Vec::new(),
            beside: Vec::new(),
            named: HashSet::new(),
        }
    }
}

/// What may become of packets in a base chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Accept,
    Drop,
}

struct Walk<'a> {
    evaluator: Evaluator<'a>,
    packet: Packet,
    /// How the first packet was after rules of nat, at each place that has some.
    translated: Vec<(Place, Packet)>,
    place: Place,
    /// Whether all packets are at the rule that are still in the base chain, and what not all of them passed.
    is_sure: bool,
    why_some: Option<String>,
    /// Whether connection tracking has the first packet, where this is about answers.
    answers_tracked: bool,
    rules: usize,
    /// Of this base chain.
    fates: Vec<(Fate, Deciding)>,
    /// What drops packets, or may.
    dropped: Vec<Deciding>,
    /// Whether that is all packets.
    is_dropped: bool,
    accepted: Vec<Deciding>,
    beside: Vec<Deciding>,
    named: HashSet<Deciding>,
}

impl<'a> Walk<'a> {
    fn run(&mut self) {
        for station in stations(self.evaluator.tables, self.packet.v6) {
            match station {
                Station::Tracks => {
                    if self.packet.tracking == Tracking::NotYet {
                        // Answers to what nobody has tracked may be anything.
                        self.packet.tracking = match self.answers_tracked {
                            true => Tracking::In(self.packet.stage),
                            false => Tracking::Unknown,
                        };
                    }
                }
                Station::Translates(place) => self.translate(place),
                Station::Routes => {
                    self.translated_at(Place::Prerouting);
                    self.packet.hop();
                }
                Station::Chains(chains) => self.chains(&chains),
            }
            if self.is_dropped {
                return;
            }
        }
        self.translated_at(Place::Postrouting);
    }

    fn chains(&mut self, chains: &Chains<'a>) {
        if chains.as_tracking && self.packet.tracking == Tracking::NotYet {
            self.packet.tracking = Tracking::Unknown;
        }
        if chains.as_translation && self.translates() {
            for is_source in [true, false] {
                self.packet.forget_end(is_source);
            }
        }
        if chains.is_unordered() {
            self.in_any_order(chains);
            return;
        }
        for (table, key, base) in &chains.all {
            self.base(table, key, base);
            if self.is_dropped {
                return;
            }
        }
    }

    /// What one of the chains changes, the others see or not.
    fn in_any_order(&mut self, chains: &Chains<'a>) {
        // Each time at least one more bit is not known.
        loop {
            let start = self.packet.clone();
            let mut all = start.clone();
            let found = (self.beside.len(), self.accepted.len(), self.dropped.len());
            let mut is_dropped = false;
            for (table, key, base) in &chains.all {
                self.packet = start.clone();
                self.base(table, key, base);
                all.join(&self.packet);
                is_dropped |= self.is_dropped;
            }
            let is_all = all == start;
            self.packet = all;
            self.is_dropped = is_dropped && is_all;
            if is_all {
                return;
            }
            self.beside.truncate(found.0);
            self.accepted.truncate(found.1);
            self.dropped.truncate(found.2);
            self.named = self.beside.iter().cloned().collect();
        }
    }

    /// Whether there are rules that translate.
    fn translates(&self) -> bool {
        self.evaluator.tables.iter().any(|table| {
            let mut bases = table.chains.values().flat_map(|chain| &chain.bases);
            bases.any(|base| base.is_nat)
        })
    }

    /// Notes how the first packet looks after rules of nat.
    fn translated_at(&mut self, place: Place) {
        if self.packet.stage == Stage::Opening {
            self.translated.push((place, self.packet.clone()));
        }
    }

    fn translate(&mut self, place: Place) {
        if matches!(self.packet.tracking, Tracking::NotYet | Tracking::Never) {
            return;
        }
        let before = self.packet.clone();
        self.translate_as_first(place);
        if self.packet.tracking == Tracking::Unknown && self.packet != before {
            self.packet.join(&before);
            // Then it goes elsewhere, or nowhere.
            self.dropped.push(Deciding {
                table: "connection tracking".into(),
                chain: "(nat)".into(),
                place,
                handle: None,
                what: "translates".into(),
                why: Some("may not know the connection".into()),
            });
        }
    }

    fn translate_as_first(&mut self, place: Place) {
        match self.packet.stage {
            Stage::Opening => {}
            Stage::Established => {
                let mut all = self.translated.iter();
                let Some((_, first)) = all.find(|(at, _)| *at == place) else {
                    return;
                };
                for is_source in [true, false] {
                    let (address, port) = (first.address(is_source), first.port(is_source));
                    self.packet.set_end(is_source, &address, &port);
                }
            }
            Stage::Answering => {
                // Answers go to whom the flow came from, and come from whom it went to.
                let is_source = place == Place::Postrouting;
                let (address, port) = self.packet.first_end(!is_source);
                self.packet.set_end(is_source, &address, &port);
            }
        }
    }

    fn base(&mut self, table: &'a Table, key: &'a str, base: &'a BaseChain) {
        self.place = base.place;
        // Of a connection only the first packet comes by rules of nat; without one none does.
        let is_known = self.packet.tracking != Tracking::Unknown;
        if base.is_nat && is_known && self.packet.tracking != Tracking::In(Stage::Opening) {
            return;
        }
        let device = match base.place {
            Place::Ingress => self.packet.ingress.as_ref(),
            Place::Egress => self.packet.egress.as_ref(),
            _ => None,
        };
        let comes_by = match (base.devices.is_empty(), device) {
            (true, _) => true,
            (false, Some(device)) => {
                if !base.devices.contains(device) {
                    return;
                }
                true
            }
            (false, None) => false,
        };
        let told = *self.packet.told(base.place == Place::Postrouting);
        if base.is_nat && told == Told::Holds {
            return;
        }
        let comes_by = comes_by && (!base.is_nat || is_known && told == Told::Fails);
        self.is_sure = comes_by;
        self.why_some = None;
        self.fates.clear();
        let before = self.packet.clone();
        let falls = self.chain(table, key, 0);
        if !comes_by {
            self.packet.join(&before);
        }
        if falls {
            let fate = if base.drops { Fate::Drop } else { Fate::Accept };
            let what = if base.drops { "drops" } else { "accepts" };
            let deciding = self.deciding(table, key, None, (what, None));
            self.fates.push((fate, deciding));
        }
        let fates = std::mem::take(&mut self.fates);
        let is_all = comes_by && fates.iter().all(|(fate, _)| *fate == Fate::Drop);
        let some_drop = fates.iter().any(|(fate, _)| *fate == Fate::Drop);
        for (fate, deciding) in fates {
            // Where some are dropped, that is also because of what lets others pass.
            let decides = fate == Fate::Drop || some_drop && deciding.why.is_some();
            let all = if decides {
                &mut self.dropped
            } else {
                &mut self.accepted
            };
            if !all.contains(&deciding) {
                all.push(deciding);
            }
        }
        self.is_dropped = is_all;
    }

    fn deciding(
        &self,
        table: &Table,
        key: &str,
        rule: Option<&Rule>,
        (what, why): (&str, Option<&str>),
    ) -> Deciding {
        Deciding {
            table: table.name.clone(),
            chain: table.called(key).to_owned(),
            place: self.place,
            handle: rule.map(|rule| rule.handle),
            what: what.to_owned(),
            why: why.map(str::to_owned).or_else(|| self.why_some.clone()),
        }
    }

    /// Whether packets may come out of a chain.
    fn chain(&mut self, table: &'a Table, key: &str, depth: usize) -> bool {
        let Some(chain) = table.chains.get(key).filter(|_| depth <= DEPTH) else {
            return true;
        };
        let mut falls = false;
        for rule in &chain.rules {
            self.rules += 1;
            if self.rules > RULES {
                let why = "is one of too many ways through the rules";
                let deciding = self.deciding(table, key, Some(rule), ("drops", Some(why)));
                self.fates.push((Fate::Drop, deciding));
                return true;
            }
            let ran = self.ran(table, rule);
            let why = ran.why.as_deref();
            for what in &ran.beside {
                let deciding = self.deciding(table, key, Some(rule), (what, why));
                if self.named.insert(deciding.clone()) {
                    self.beside.push(deciding);
                }
            }
            if !ran.verdicts.is_empty() && self.why_some.is_none() {
                self.why_some.clone_from(&ran.why);
            }
            let mut goes_on = ran.goes_on;
            let is_one = ran.verdicts.len() == 1 && !ran.goes_on;
            let fates_before = self.fates.len();
            for verdict in &ran.verdicts {
                let ends = |walk: &mut Self, fate, what: &str| {
                    let deciding = walk.deciding(table, key, Some(rule), (what, why));
                    walk.fates.push((fate, deciding));
                };
                match verdict {
                    Verdict::Accept => ends(self, Fate::Accept, "accepts"),
                    Verdict::Drop => ends(self, Fate::Drop, "drops"),
                    Verdict::Queue(_) => {
                        // User space says, of each packet.
                        ends(self, Fate::Drop, "queues packets to user space");
                        ends(self, Fate::Accept, "queues packets to user space");
                    }
                    Verdict::Continue => goes_on = true,
                    Verdict::Return => falls = true,
                    Verdict::Jump(to) | Verdict::Goto(to) => {
                        self.is_sure &= is_one;
                        let comes_out = self.chain(table, to, depth + 1);
                        match verdict {
                            Verdict::Jump(_) => goes_on |= comes_out,
                            _ => falls |= comes_out,
                        }
                    }
                }
            }
            if !goes_on {
                return falls;
            }
            // Some packets may be gone, with what they were given until here.
            self.is_sure &= !falls && self.fates.len() == fates_before;
        }
        true
    }

    fn ran(&mut self, table: &'a Table, rule: &Rule) -> Ran {
        let (devices, place, is_sure) = (self.evaluator.devices, self.place, self.is_sure);
        Machine::new(table, devices, place, &mut self.packet, is_sure).run(rule)
    }

    fn answered(mut self) -> Answer {
        let outcome = match (self.is_dropped, self.dropped.is_empty()) {
            (true, _) => Outcome::Drop,
            (false, false) => Outcome::Depends,
            (false, true) => Outcome::Accept,
        };
        let mut because = match outcome {
            Outcome::Accept => std::mem::take(&mut self.accepted),
            _ => std::mem::take(&mut self.dropped),
        };
        because.truncate(NAMED);
        if outcome != Outcome::Depends {
            // Whatever some of them met, all end alike.
            because.iter_mut().for_each(|deciding| deciding.why = None);
        }
        Answer {
            outcome,
            tracked: match self.packet.tracking {
                Tracking::In(_) => Some(true),
                Tracking::NotYet | Tracking::Never => Some(false),
                Tracking::Unknown => None,
            },
            because,
            beside: self.beside,
        }
    }
}
