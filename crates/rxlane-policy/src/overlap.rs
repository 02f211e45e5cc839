//! Rules that cannot match, and rules of different classes that claim the same packets.

use std::ops::RangeInclusive;

use crate::PolicyError;
use crate::class::Class;
use crate::port_ranges;
use crate::prefixes::Outermost;
use crate::rule::Rule;

/// What may be done about partly overlapping rules of different classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnOverlap {
    /// Refuse them: the order of two such rules is easily got wrong.
    Refuse,
    /// Accept them: the first one wins.
    FirstMatch,
}

/// Refuses unreachable rules and, unless told otherwise, partial overlaps between classes.
///
/// A narrow rule before a wider one is the usual way to write an exception and is fine.
///
/// # Errors
/// [`PolicyError::Unreachable`] or [`PolicyError::Overlap`] for the first pair found.
pub fn check(classes: &[Class], on_overlap: OnOverlap) -> Result<(), PolicyError> {
    let rules: Vec<Compared<'_>> = classes
        .iter()
        .enumerate()
        .flat_map(|(class, c)| {
            let rules = c.rules.iter().enumerate();
            rules.map(move |(number, rule)| Compared::of(class, number, rule))
        })
        .collect();
    for (i, b) in rules.iter().enumerate() {
        for a in &rules[..i] {
            let (earlier_class, later_class) = (&classes[a.class].name, &classes[b.class].name);
            let (earlier, later) = (a.number + 1, b.number + 1);
            if a.covers(b) {
                return Err(PolicyError::Unreachable {
                    earlier_class: earlier_class.clone(),
                    earlier,
                    later_class: later_class.clone(),
                    later,
                });
            }
            if on_overlap == OnOverlap::Refuse
                && a.class != b.class
                && a.intersects(b)
                && !b.covers(a)
            {
                return Err(PolicyError::Overlap {
                    earlier_class: earlier_class.clone(),
                    earlier,
                    later_class: later_class.clone(),
                    later,
                });
            }
        }
    }
    Ok(())
}

/// A rule with its lists in an order in which they are compared fast.
struct Compared<'a> {
    class: usize,
    number: usize,
    rule: &'a Rule,
    src: Outermost,
    dst: Outermost,
    src_ports: Vec<RangeInclusive<u16>>,
    dst_ports: Vec<RangeInclusive<u16>>,
}

impl<'a> Compared<'a> {
    fn of(class: usize, number: usize, rule: &'a Rule) -> Self {
        Self {
            class,
            number,
            rule,
            src: Outermost::of(&rule.src),
            dst: Outermost::of(&rule.dst),
            src_ports: port_ranges::merged(&rule.src_ports),
            dst_ports: port_ranges::merged(&rule.dst_ports),
        }
    }

    /// Whether every packet that `other` takes is taken by this one, judged field by field.
    fn covers(&self, other: &Self) -> bool {
        let (a, b) = (self.rule, other.rule);
        list_covers(a.ports.as_deref(), b.ports.as_deref())
            && bits_cover(a.dscp, b.dscp)
            && list_covers(a.protocols.as_deref(), b.protocols.as_deref())
            && nets_cover(&self.src, &other.src)
            && nets_cover(&self.dst, &other.dst)
            && ranges_cover(&self.src_ports, &other.src_ports)
            && ranges_cover(&self.dst_ports, &other.dst_ports)
            && list_covers(a.vlans.as_deref(), b.vlans.as_deref())
            && bits_cover(a.pcp.map(u64::from), b.pcp.map(u64::from))
            && match (a.flex, b.flex) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(x), Some(y)) => {
                    x.offset == y.offset
                        && x.mask & !y.mask == 0
                        && (x.value ^ y.value) & x.mask == 0
                }
            }
    }

    /// Whether some packet can be taken by both, judged field by field.
    fn intersects(&self, other: &Self) -> bool {
        let (a, b) = (self.rule, other.rule);
        list_meets(a.ports.as_deref(), b.ports.as_deref())
            && bits_meet(a.dscp, b.dscp)
            && list_meets(a.protocols.as_deref(), b.protocols.as_deref())
            && nets_meet(&self.src, &other.src)
            && nets_meet(&self.dst, &other.dst)
            && [true, false]
                .iter()
                .any(|v4| self.allows(*v4) && other.allows(*v4))
            && ranges_meet(&self.src_ports, &other.src_ports)
            && ranges_meet(&self.dst_ports, &other.dst_ports)
            && list_meets(a.vlans.as_deref(), b.vlans.as_deref())
            && bits_meet(a.pcp.map(u64::from), b.pcp.map(u64::from))
            && match (a.flex, b.flex) {
                (Some(x), Some(y)) if x.offset == y.offset => {
                    (x.value ^ y.value) & x.mask & y.mask == 0
                }
                _ => true,
            }
    }

    /// Whether packets of an address family can match: not those of one that either end is never of.
    fn allows(&self, v4: bool) -> bool {
        [&self.src, &self.dst]
            .iter()
            .all(|nets| nets.is_empty() || nets.has(v4))
    }
}

fn list_covers<T: PartialEq>(a: Option<&[T]>, b: Option<&[T]>) -> bool {
    match (a, b) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(x), Some(y)) => y.iter().all(|v| x.contains(v)),
    }
}

fn list_meets<T: PartialEq>(a: Option<&[T]>, b: Option<&[T]>) -> bool {
    match (a, b) {
        (Some(x), Some(y)) => y.iter().any(|v| x.contains(v)),
        _ => true,
    }
}

fn bits_cover(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (None, _) => true,
        (Some(_), None) => false,
        (Some(x), Some(y)) => y & !x == 0,
    }
}

fn bits_meet(a: Option<u64>, b: Option<u64>) -> bool {
    match (a, b) {
        (Some(x), Some(y)) => x & y != 0,
        _ => true,
    }
}

fn nets_cover(a: &Outermost, b: &Outermost) -> bool {
    a.is_empty() || (!b.is_empty() && a.covers(b))
}

fn nets_meet(a: &Outermost, b: &Outermost) -> bool {
    a.is_empty() || b.is_empty() || a.meets(b)
}

fn ranges_cover(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    a.is_empty() || (!b.is_empty() && port_ranges::covers(a, b))
}

fn ranges_meet(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    a.is_empty() || b.is_empty() || port_ranges::meets(a, b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Lane, Trust};

    fn class(name: &str, rules: Vec<Rule>) -> Class {
        Class::new(name, Lane::express(Trust::All)).with_rules(rules)
    }

    fn ef() -> Rule {
        Rule {
            dscp: Some(1 << 46),
            ..Rule::default()
        }
    }

    fn from(prefix: &str) -> Rule {
        Rule {
            src: vec![prefix.parse().unwrap()],
            ..Rule::default()
        }
    }

    #[test]
    fn a_rule_behind_a_wider_one_is_unreachable() {
        let narrow = Rule {
            src: vec!["10.1.0.0/16".parse().unwrap()],
            ..ef()
        };
        let classes = [class("a", vec![ef()]), class("b", vec![narrow])];
        assert!(matches!(
            check(&classes, OnOverlap::FirstMatch),
            Err(PolicyError::Unreachable { .. })
        ));
    }

    #[test]
    fn an_exception_before_a_wider_rule_is_fine() {
        let classes = [
            class("a", vec![from("10.1.0.0/16")]),
            class("b", vec![from("10.0.0.0/8")]),
        ];
        assert_eq!(check(&classes, OnOverlap::Refuse), Ok(()));
    }

    #[test]
    fn a_partial_overlap_between_classes_is_refused_unless_allowed() {
        let classes = [class("a", vec![ef()]), class("b", vec![from("10.0.0.0/8")])];
        assert!(matches!(
            check(&classes, OnOverlap::Refuse),
            Err(PolicyError::Overlap { .. })
        ));
        assert_eq!(check(&classes, OnOverlap::FirstMatch), Ok(()));
    }

    #[test]
    fn rules_of_different_families_do_not_overlap() {
        let classes = [
            class("a", vec![from("10.0.0.0/8")]),
            class("b", vec![from("2001:db8::/32")]),
        ];
        assert_eq!(check(&classes, OnOverlap::Refuse), Ok(()));
    }
}
