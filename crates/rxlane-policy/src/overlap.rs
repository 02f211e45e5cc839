//! Rules that cannot match, and rules of different classes that claim the same packets.

use std::ops::RangeInclusive;

use ipnet::IpNet;

use crate::PolicyError;
use crate::class::Class;
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
    let rules: Vec<(usize, usize, &Rule)> = classes
        .iter()
        .enumerate()
        .flat_map(|(c, class)| {
            class
                .rules
                .iter()
                .enumerate()
                .map(move |(r, rule)| (c, r, rule))
        })
        .collect();
    for (i, (later_class, later, b)) in rules.iter().enumerate() {
        for (earlier_class, earlier, a) in &rules[..i] {
            let names = (
                classes[*earlier_class].name.clone(),
                classes[*later_class].name.clone(),
            );
            if covers(a, b) {
                return Err(PolicyError::Unreachable {
                    earlier_class: names.0,
                    earlier: earlier + 1,
                    later_class: names.1,
                    later: later + 1,
                });
            }
            if on_overlap == OnOverlap::Refuse
                && earlier_class != later_class
                && intersects(a, b)
                && !covers(b, a)
            {
                return Err(PolicyError::Overlap {
                    earlier_class: names.0,
                    earlier: earlier + 1,
                    later_class: names.1,
                    later: later + 1,
                });
            }
        }
    }
    Ok(())
}

/// Whether every packet that `b` takes is taken by `a`, judged field by field.
fn covers(a: &Rule, b: &Rule) -> bool {
    list_covers(a.ports.as_deref(), b.ports.as_deref())
        && bits_cover(a.dscp, b.dscp)
        && list_covers(a.protocols.as_deref(), b.protocols.as_deref())
        && nets_cover(&a.src, &b.src)
        && nets_cover(&a.dst, &b.dst)
        && ranges_cover(&a.src_ports, &b.src_ports)
        && ranges_cover(&a.dst_ports, &b.dst_ports)
        && list_covers(a.vlans.as_deref(), b.vlans.as_deref())
        && bits_cover(a.pcp.map(u64::from), b.pcp.map(u64::from))
        && match (a.flex, b.flex) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(x), Some(y)) => {
                x.offset == y.offset && x.mask & !y.mask == 0 && (x.value ^ y.value) & x.mask == 0
            }
        }
}

/// Whether some packet can be taken by both, judged field by field.
fn intersects(a: &Rule, b: &Rule) -> bool {
    list_meets(a.ports.as_deref(), b.ports.as_deref())
        && bits_meet(a.dscp, b.dscp)
        && list_meets(a.protocols.as_deref(), b.protocols.as_deref())
        && nets_meet(&a.src, &b.src)
        && nets_meet(&a.dst, &b.dst)
        && families_meet(a, b)
        && ranges_meet(&a.src_ports, &b.src_ports)
        && ranges_meet(&a.dst_ports, &b.dst_ports)
        && list_meets(a.vlans.as_deref(), b.vlans.as_deref())
        && bits_meet(a.pcp.map(u64::from), b.pcp.map(u64::from))
        && match (a.flex, b.flex) {
            (Some(x), Some(y)) if x.offset == y.offset => {
                (x.value ^ y.value) & x.mask & y.mask == 0
            }
            _ => true,
        }
}

/// Whether packets of one address family can match both rules. They cannot when one rule needs v4 and the
/// other v6, be it for the source or the destination.
fn families_meet(a: &Rule, b: &Rule) -> bool {
    let allows = |r: &Rule, v4: bool| {
        [&r.src, &r.dst]
            .iter()
            .all(|nets| nets.is_empty() || nets.iter().any(|n| matches!(n, IpNet::V4(_)) == v4))
    };
    [true, false]
        .iter()
        .any(|v4| allows(a, *v4) && allows(b, *v4))
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

fn nets_cover(a: &[IpNet], b: &[IpNet]) -> bool {
    a.is_empty() || (!b.is_empty() && b.iter().all(|n| a.iter().any(|m| m.contains(n))))
}

fn nets_meet(a: &[IpNet], b: &[IpNet]) -> bool {
    a.is_empty()
        || b.is_empty()
        || a.iter()
            .any(|m| b.iter().any(|n| m.contains(n) || n.contains(m)))
}

fn ranges_cover(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    let inside = |r: &RangeInclusive<u16>| r.clone().all(|p| a.iter().any(|x| x.contains(&p)));
    a.is_empty() || (!b.is_empty() && b.iter().all(inside))
}

fn ranges_meet(a: &[RangeInclusive<u16>], b: &[RangeInclusive<u16>]) -> bool {
    a.is_empty()
        || b.is_empty()
        || a.iter().any(|x| {
            b.iter()
                .any(|y| x.start() <= y.end() && y.start() <= x.end())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::{Lane, Trust};

    fn class(name: &str, rules: Vec<Rule>) -> Class {
        Class {
            name: name.into(),
            rules,
            police: None,
            lane: Lane::Express { trust: Trust::All },
        }
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
