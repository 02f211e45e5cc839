//! Lists of port ranges, without what is said twice.

use std::ops::RangeInclusive;

/// The same ports in as few ranges as there can be, in order.
pub(crate) fn merged(ranges: &[RangeInclusive<u16>]) -> Vec<RangeInclusive<u16>> {
    let mut sorted: Vec<(u16, u16)> = ranges.iter().map(|r| (*r.start(), *r.end())).collect();
    sorted.sort_unstable();
    let mut merged: Vec<(u16, u16)> = Vec::new();
    for (start, end) in sorted {
        match merged.last_mut() {
            Some((_, last)) if start <= last.saturating_add(1) => *last = end.max(*last),
            _ => merged.push((start, end)),
        }
    }
    merged.into_iter().map(|(start, end)| start..=end).collect()
}

/// Whether all ports of `b` are in `a`; both are merged.
pub(crate) fn covers(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    b.iter().all(|range| {
        let after = a.partition_point(|own| own.start() <= range.start());
        after > 0 && a[after - 1].end() >= range.end()
    })
}

/// Whether a port is in both; both are merged.
pub(crate) fn meets(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    b.iter().any(|range| {
        let after = a.partition_point(|own| own.start() <= range.end());
        after > 0 && a[after - 1].end() >= range.start()
    })
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;

    fn ranges() -> impl Strategy<Value = Vec<RangeInclusive<u16>>> {
        let at = prop_oneof![0u16..20, u16::MAX - 10..=u16::MAX];
        vec((at, 0u16..5), 0..6).prop_map(|all| {
            let range = |(at, more): (u16, u16)| at..=at.saturating_add(more);
            all.into_iter().map(range).collect()
        })
    }

    proptest! {
        #[test]
        fn merged_ranges_have_the_same_ports_and_are_compared_by_them(a in ranges(), b in ranges()) {
            let has = |list: &[RangeInclusive<u16>], port| list.iter().any(|r| r.contains(&port));
            let (x, y) = (merged(&a), merged(&b));
            for port in (0..=u16::MAX).filter(|p| *p < 30 || *p > u16::MAX - 20) {
                prop_assert_eq!(has(&x, port), has(&a, port));
            }
            let all = |list: &[RangeInclusive<u16>]| list.iter().cloned().flatten().collect::<Vec<u16>>();
            prop_assert_eq!(covers(&x, &y), all(&b).iter().all(|p| has(&a, *p)));
            prop_assert_eq!(meets(&x, &y), all(&b).iter().any(|p| has(&a, *p)));
        }
    }
}
