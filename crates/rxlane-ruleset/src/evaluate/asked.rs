//! Which elements of a set a key may find, and what that does.

use super::machine::{Machine, Then};
use super::partly::Partly;
use crate::expression::{Gives, Register};
use crate::meets::Outcome;
use crate::program::{Element, Set};

/// What is found.
pub(crate) struct Found<'a> {
    /// One of these; one alone is certain unless there may be none.
    pub(crate) elements: Vec<&'a Element>,
    pub(crate) may_be_none: bool,
}

impl Set {
    /// None where it is not known what it holds.
    pub(crate) fn find(&self, key: &Partly) -> Option<Found<'_>> {
        let elements = self.elements.as_deref()?;
        let (all, rest) = elements.split_at(elements.partition_point(|e| e.key.is_some()));
        let otherwise = rest.first();
        let is_ranges = self.is_interval && self.parts.len() > 1;
        let exact = match key.bytes() {
            Some(key) if is_ranges => all
                .iter()
                .find(|e| self.lies_in(e, &Partly::known(key)) == Outcome::Holds),
            Some(key) => {
                let of = |e: &Element| e.key.as_deref().is_some_and(|k| k <= key);
                let last = all[..all.partition_point(of)].last();
                let holds = |e: &&Element| match self.is_interval {
                    true => !e.is_end,
                    false => e.key.as_deref() == Some(key),
                };
                last.filter(holds)
            }
            None => {
                let may = |e: &&Element| match is_ranges {
                    true => self.lies_in(e, key) != Outcome::Fails,
                    false if self.is_interval => !e.is_end,
                    false => e
                        .key
                        .as_ref()
                        .is_some_and(|k| key.equals(k) != Outcome::Fails),
                };
                let found: Vec<&Element> = all.iter().filter(may).chain(otherwise).collect();
                return Some(Found {
                    may_be_none: otherwise.is_none() || found.is_empty(),
                    elements: found,
                });
            }
        };
        let found = exact.or(otherwise);
        Some(Found {
            elements: found.into_iter().collect(),
            may_be_none: found.is_none(),
        })
    }

    /// Whether each part of a key lies in that of an element.
    fn lies_in(&self, element: &Element, key: &Partly) -> Outcome {
        let Some(first) = &element.key else {
            return Outcome::Fails;
        };
        let last = element.last.as_ref().unwrap_or(first);
        let (mut at, mut outcome) = (0, Outcome::Holds);
        for len in &self.parts {
            let of = |all: &[u8]| all.get(at..at + len).unwrap_or_default().to_vec();
            match key.get(at, *len).lies_within(&of(first), &of(last)) {
                Outcome::Fails => return Outcome::Fails,
                Outcome::May => outcome = Outcome::May,
                Outcome::Holds => {}
            }
            at += len.next_multiple_of(4);
        }
        outcome
    }
}

impl Machine<'_> {
    pub(super) fn lookup(
        &mut self,
        name: &str,
        from: Register,
        gives: Gives,
        inverted: bool,
    ) -> Then {
        let Some(set) = self.table.sets.get(name) else {
            return self.worst(format!("asks the set {name}, which is not known here"));
        };
        let key = self.held(from, set.key_len);
        let why = self.why(from, set.key_len);
        let found = set.find(&key).filter(|_| !set.is_dynamic && !set.counts);
        let Some(found) = found else {
            let why = if set.counts {
                "counts packets in a set"
            } else {
                "asks a set that packets fill, or whose elements were not read"
            };
            if gives == Gives::Verdict {
                return self.worst(why.into());
            }
            if let Gives::Data(to) = gives {
                self.unknown(to, why);
            }
            return self.when(Outcome::May, why);
        };
        let outcome = match (found.elements.len(), found.may_be_none) {
            (0, _) => Outcome::Fails,
            (_, false) => Outcome::Holds,
            (_, true) => Outcome::May,
        };
        match gives {
            Gives::Membership => self.when(outcome.inverted(inverted), why),
            Gives::Data(to) => {
                let data: Vec<&Vec<u8>> = found
                    .elements
                    .iter()
                    .filter_map(|e| e.data.as_ref())
                    .collect();
                match data[..] {
                    [data] if found.elements.len() == 1 => self.set(to, &Partly::known(data), why),
                    _ => self.unknown(to, why),
                };
                self.when(outcome, why)
            }
            Gives::Verdict => {
                let all_came = self.is_certain();
                if found.elements.len() > 1 || outcome == Outcome::May {
                    self.when(Outcome::May, why);
                }
                let verdicts = found.elements.iter().filter_map(|e| e.verdict.clone());
                self.ran.verdicts.extend(verdicts);
                // What finds nothing goes on.
                self.ran.goes_on = outcome != Outcome::Holds || !all_came;
                Then::End
            }
        }
    }
}
