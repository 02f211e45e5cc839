//! Expressions of nftables that ask sets, maps and objects.

use crate::acts::WORST;
use crate::expression::{Gives, Register};
use crate::nft::sets_key;
use crate::program::Step;
use crate::reader::Reader;
use crate::test::Test;
use crate::value::Value;

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
                let keys = set.elements.as_ref().filter(|_| is_one && !set.is_interval);
                let found = keys.map_or(any.clone(), |all| {
                    let keys = all.iter().filter_map(|element| element.key.as_ref());
                    Test::Any(
                        keys.map(|key| value.equals(key, self.context.devices))
                            .collect(),
                    )
                });
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
