//! Lists of prefixes, of which a block list has tens of thousands: nothing here compares each with each.

use ipnet::IpNet;

use crate::bits::RuleSet;

/// Most prefixes that the rules and `trust` of all classes may name together; the programs' tables have as many places.
pub const MAX_PREFIXES: usize = 100_000;

/// One entry for each prefix that is named. It has the numbers that are named with it and with shorter prefixes around it, and those
/// of `everywhere`. All prefixes that contain an address are nested, so the entry of the longest has the numbers of all of them.
pub fn nested(
    named: impl IntoIterator<Item = (IpNet, usize)>,
    everywhere: RuleSet,
) -> Vec<(IpNet, RuleSet)> {
    let mut named: Vec<_> = named
        .into_iter()
        .map(|(net, number)| (net.trunc(), number))
        .collect();
    // What contains a prefix comes before it.
    named.sort_unstable();
    let mut entries: Vec<(IpNet, RuleSet)> = Vec::new();
    let mut around: Vec<usize> = Vec::new();
    for (net, number) in named {
        match entries.last_mut() {
            Some((last, set)) if *last == net => set.insert(number),
            _ => {
                while around.last().is_some_and(|i| !entries[*i].0.contains(&net)) {
                    around.pop();
                }
                let mut set = around.last().map_or(everywhere, |i| entries[*i].1);
                set.insert(number);
                around.push(entries.len());
                entries.push((net, set));
            }
        }
    }
    entries
}

/// A list of prefixes without those that lie in others of it, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Outermost(Vec<IpNet>);

impl Outermost {
    pub(crate) fn of(nets: &[IpNet]) -> Self {
        let mut sorted: Vec<IpNet> = nets.iter().map(IpNet::trunc).collect();
        sorted.sort_unstable();
        let mut outermost: Vec<IpNet> = Vec::new();
        for net in sorted {
            if !outermost.last().is_some_and(|last| last.contains(&net)) {
                outermost.push(net);
            }
        }
        Self(outermost)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether one of them contains the prefix. Only the last that begins before it can.
    fn contains(&self, net: &IpNet) -> bool {
        let after = self.0.partition_point(|own| own <= net);
        after > 0 && self.0[after - 1].contains(net)
    }

    /// Whether each prefix of `other` lies in one of these.
    pub(crate) fn covers(&self, other: &Self) -> bool {
        other.0.iter().all(|net| self.contains(net))
    }

    /// Whether an address lies in both.
    pub(crate) fn meets(&self, other: &Self) -> bool {
        let (few, many) = if self.0.len() < other.0.len() {
            (self, other)
        } else {
            (other, self)
        };
        few.0.iter().any(|net| {
            let after = many.0.partition_point(|own| own <= net);
            many.contains(net) || many.0.get(after).is_some_and(|next| net.contains(next))
        })
    }

    /// Whether it has prefixes of IPv4, or of IPv6.
    pub(crate) fn has(&self, v4: bool) -> bool {
        let of = |net: &IpNet| matches!(net, IpNet::V4(_)) == v4;
        // Those of IPv4 come first.
        self.0.first().is_some_and(of) || self.0.last().is_some_and(of)
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    /// Few bits, so that prefixes lie in one another.
    fn net() -> impl Strategy<Value = IpNet> {
        prop_oneof![
            (0u8..8, 0u8..=8).prop_map(|(a, len)| format!("{}.0.0.0/{len}", a << 5)),
            (0u8..8, 0u8..=8).prop_map(|(a, len)| format!("{:x}00::/{len}", u16::from(a) << 5)),
        ]
        .prop_map(|text| text.parse::<IpNet>().unwrap().trunc())
    }

    proptest! {
        #[test]
        fn lists_are_compared_as_if_each_prefix_were_compared_with_each(
            a in vec(net(), 0..6),
            b in vec(net(), 0..6),
        ) {
            let (all_of_a, all_of_b) = (Outermost::of(&a), Outermost::of(&b));
            let covers = b.iter().all(|n| a.iter().any(|m| m.contains(n)));
            prop_assert_eq!(all_of_a.covers(&all_of_b), covers);
            let meets = a.iter().any(|m| b.iter().any(|n| m.contains(n) || n.contains(m)));
            prop_assert_eq!(all_of_a.meets(&all_of_b), meets);
            for v4 in [true, false] {
                let has = a.iter().any(|n| matches!(n, IpNet::V4(_)) == v4);
                prop_assert_eq!(all_of_a.has(v4), has);
            }
        }

        #[test]
        fn an_entry_has_the_numbers_of_all_prefixes_around_it(
            named in vec((net(), 0usize..200), 0..12),
        ) {
            let everywhere: RuleSet = [255].into_iter().collect();
            let entries = nested(named.clone(), everywhere);
            for (net, set) in &entries {
                let around = named.iter().filter(|(wider, _)| wider.contains(net));
                let numbers: RuleSet = around.map(|(_, number)| *number).chain([255]).collect();
                prop_assert_eq!(*set, numbers, "{}", net);
            }
            let mut nets: Vec<IpNet> = named.into_iter().map(|(net, _)| net).collect();
            nets.sort();
            nets.dedup();
            prop_assert_eq!(entries.into_iter().map(|(net, _)| net).collect::<Vec<_>>(), nets);
        }
    }
}
