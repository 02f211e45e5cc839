//! Expressions of nftables that ask sets, maps and objects.

use crate::acts::WORST;
use crate::expression::{Gives, Register};
use crate::nft::sets_key;
use crate::program::{Element, Step};
use crate::reader::Reader;
use crate::test::{ALTERNATIVES, Test};
use crate::value::Value;

/// What the intervals of a set ask: each begins with an element, and ends before the next one that says so, or never.
fn intervals(value: &Value, all: &[Element]) -> Option<Vec<Test>> {
    let mut found = Vec::new();
    for (at, element) in all.iter().enumerate().filter(|(_, e)| !e.is_end) {
        // What all others have is anything.
        let first = element.key.as_ref()?;
        let last = match all.get(at + 1).and_then(|next| next.key.as_ref()) {
            Some(next) => before(next)?,
            None => vec![u8::MAX; first.len()],
        };
        found.extend(value.between(first, &last)?);
        if found.len() > ALTERNATIVES {
            return None;
        }
    }
    Some(found)
}

/// The key before another one.
fn before(key: &[u8]) -> Option<Vec<u8>> {
    let mut key = key.to_vec();
    for byte in key.iter_mut().rev() {
        *byte = byte.wrapping_sub(1);
        if *byte != u8::MAX {
            return Some(key);
        }
    }
    None
}

impl Reader<'_> {
    pub(crate) fn lookup(&mut self, name: &str, from: Register, gives: Gives, inverted: bool) {
        let key = sets_key(self.context.table, name);
        let Some(set) = self.context.sets.get(&key) else {
            // A set that is not known.
            self.per_packet(format!("asks the set {name}, which is not known here"));
            return self.acts(WORST);
        };
        if set.changes {
            self.steps.push(Step::Asks(name.to_owned()));
        }
        if set.counts {
            self.per_packet(format!("counts packets in the set {name}"));
        }
        let (value, len) = self.held(from);
        let is_one = set.key_len <= len.next_multiple_of(4) && !set.is_concatenated;
        // Each of the parts may be what it depends on.
        let any = match is_one {
            true => value.compared(),
            false => Test::All(self.parts(from, set.key_len)),
        };
        let test = |key: &[u8]| match is_one && !set.is_interval {
            true => value.equals(key, self.context.devices),
            false => any.clone(),
        };
        match gives {
            Gives::Verdict => {
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
            Gives::Data(register) => {
                self.when(Test::All(vec![any.clone(), Test::Fixed]));
                self.set(register, Value::Of(any), 16);
            }
            Gives::Membership => {
                let all = set.elements.as_deref().filter(|_| is_one);
                let found = match all {
                    Some(all) if set.is_interval => intervals(&value, all),
                    Some(all) => {
                        let keys = all.iter().filter_map(|element| element.key.as_ref());
                        let equals = |key: &Vec<u8>| value.equals(key, self.context.devices);
                        Some(keys.map(equals).collect())
                    }
                    None => None,
                };
                let found = found.map_or(any, Test::Any);
                self.when(found.inverted(inverted));
            }
        }
    }

    pub(crate) fn object(&mut self, kind: Option<u32>, map: &str) {
        let kind = kind.or_else(|| {
            let key = sets_key(self.context.table, map);
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
}
