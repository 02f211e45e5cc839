//! Expressions of nftables that ask sets, maps and objects.

use super::acts::WORST;
use super::expression::{Data, Reader, word};
use super::nft::sets_key;
use super::test::Test;
use super::value::Value;
use super::walk::Step;

impl Reader<'_> {
    pub(super) fn lookup(&mut self, data: &Data<'_>) {
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
            true => value.equals(key, self.context.devices),
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
                    Test::Any(
                        keys.map(|key| value.equals(key, self.context.devices))
                            .collect(),
                    )
                });
                self.when(found.inverted(data.number(5).unwrap_or(0) & INVERTED != 0));
            }
        }
    }

    /// What comparisons of registers ask that hold a key.
    pub(super) fn parts(&self, register: Option<u32>, key_len: usize) -> Vec<Test> {
        let start = word(register).unwrap_or(0);
        let all = self.registers.iter().skip(start).take(key_len.div_ceil(4));
        let parts = all.flatten().map(|(value, _)| value.compared());
        parts.chain([Test::Fixed]).collect()
    }

    pub(super) fn objref(&mut self, data: &Data<'_>) {
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
}
