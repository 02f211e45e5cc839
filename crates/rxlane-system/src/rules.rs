//! Rules of policy routing, and news about them.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::rule::{RuleAction, RuleAttribute, RuleFlags, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::netlink::{self, News};
use crate::routes::{TABLE_LOCAL, TABLE_MAIN};

/// Multicast groups of changes of policy rules (RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE), and of those settings of interfaces
/// that the kernel announces, forwarding among them (RTNLGRP_IPV4_NETCONF, RTNLGRP_IPV6_NETCONF).
const GROUPS: [u32; 4] = [8, 19, 24, 25];
/// Routing table without routes of its own (RT_TABLE_DEFAULT).
const TABLE_DEFAULT: u32 = 253;

/// A rule of policy routing, as far as it matters who else decides where packets go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Whether it is for IPv6.
    pub v6: bool,
    /// Lower is asked first.
    pub priority: u32,
    /// It asks for a mark that packets do not have by themselves.
    pub by_mark: bool,
    /// It asks for the interface that a packet came from.
    pub by_ingress: bool,
    /// It asks for transport ports.
    pub by_ports: bool,
    /// It passes over routes that are too general (`suppress_prefixlength`, `suppress_ifgroup`).
    pub suppresses: bool,
    /// The table that it asks, if it is one of those that every namespace begins with: all packets, the local, main or
    /// default table.
    pub stock: Option<u32>,
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let family = if self.v6 { "-6 " } else { "" };
        write!(f, "ip {family}rule {}", self.priority)
    }
}

/// All rules of the current network namespace.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<Vec<Rule>, SystemError> {
    let mut found = Vec::new();
    for family in [AddressFamily::Inet, AddressFamily::Inet6] {
        let mut message = RuleMessage::default();
        message.header.family = family;
        let request = RouteNetlinkMessage::GetRule(message);
        let (rules, unread) = netlink::dump(request, "list policy rules")?;
        for message in &rules {
            if let RouteNetlinkMessage::NewRule(rule) = message
                && rule.header.family == family
            {
                found.push(from_message(rule));
            }
        }
        found.extend((0..unread).map(|_| unreadable(family)));
    }
    Ok(found)
}

/// A rule that asks for what is not known here: for anything.
fn unreadable(family: AddressFamily) -> Rule {
    Rule {
        v6: family == AddressFamily::Inet6,
        priority: 0,
        by_mark: true,
        by_ingress: true,
        by_ports: true,
        suppresses: true,
        stock: None,
    }
}

pub(crate) fn from_message(rule: &RuleMessage) -> Rule {
    let mut found = Rule {
        v6: rule.header.family == AddressFamily::Inet6,
        priority: 0,
        by_mark: false,
        by_ingress: false,
        by_ports: false,
        suppresses: false,
        stock: stock(rule),
    };
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => found.priority = *priority,
            RuleAttribute::FwMark(_) | RuleAttribute::FwMask(_) => found.by_mark = true,
            // Also for `lo`, by which Linux asks the way back to a source (__fib_validate_source in net/ipv4/fib_frontend.c).
            RuleAttribute::Iifname(_) => found.by_ingress = true,
            RuleAttribute::SourcePortRange(_) | RuleAttribute::DestinationPortRange(_) => {
                found.by_ports = true;
            }
            // -1 is how the kernel says that there is none.
            RuleAttribute::SuppressPrefixLen(n) | RuleAttribute::SuppressIfGroup(n) => {
                found.suppresses |= *n != u32::MAX;
            }
            _ => {}
        }
    }
    found
}

/// Whether anything but the local and the main table decides about packets, IPv4 and IPv6: rules that an operator
/// added or removed, or VRFs.
///
/// # Errors
/// When netlink fails.
pub fn policy_rules() -> Result<[bool; 2], SystemError> {
    let rules = all()?;
    Ok([false, true].map(|v6| !only_main_decides(rules.iter().filter(|r| r.v6 == v6))))
}

/// Whether packets are for this host, or go where the main table says. The rules that make it so are there, nothing else
/// is, and the main table is asked before the default one. Nobody needs the latter, but in it may be routes.
fn only_main_decides<'a>(rules: impl Iterator<Item = &'a Rule>) -> bool {
    let mut by_priority: Vec<&Rule> = rules.collect();
    by_priority.sort_by_key(|r| r.priority);
    let tables: Option<Vec<u32>> = by_priority.iter().map(|r| r.stock).collect();
    let Some(tables) = tables else { return false };
    let first = |table| tables.iter().position(|t| *t == table);
    let before = |a: Option<usize>, b: Option<usize>| b.is_none_or(|b| a.is_some_and(|a| a < b));
    first(TABLE_LOCAL).is_some()
        && first(TABLE_MAIN).is_some()
        && before(first(TABLE_LOCAL), first(TABLE_MAIN))
        && before(first(TABLE_MAIN), first(TABLE_DEFAULT))
}

/// The table of a rule for all packets, if it is one of those that every namespace begins with.
fn stock(rule: &RuleMessage) -> Option<u32> {
    let header = &rule.header;
    let mut table = u32::from(header.table);
    let mut selects = header.src_len != 0 || header.dst_len != 0 || header.tos != 0;
    // Inverted, a rule for all packets is one for none; other flags are unknown here.
    selects |= header.action != RuleAction::ToTable
        || !header.flags.difference(RuleFlags::Permanent).is_empty();
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Table(t) => table = *t,
            RuleAttribute::Priority(_) | RuleAttribute::Protocol(_) => {}
            // -1 is how the kernel says that there is none.
            RuleAttribute::SuppressPrefixLen(n) | RuleAttribute::SuppressIfGroup(n) => {
                selects |= *n != u32::MAX;
            }
            _ => selects = true,
        }
    }
    let known = [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT].contains(&table);
    (known && !selects).then_some(table)
}

/// A subscription to changes of policy rules and of settings.
pub struct RuleMonitor {
    news: News,
}

impl RuleMonitor {
    /// Subscribes in the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&GROUPS)?,
        })
    }

    /// Whether anything has changed since the last call.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn changed(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        // What changed is looked at, not what the news say.
        let complete = self.news.drain_raw(|_| {
            any = true;
            Ok(())
        })?;
        Ok(any || !complete)
    }
}

impl AsFd for RuleMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(priority: u32, stock: Option<u32>) -> Rule {
        Rule {
            v6: false,
            priority,
            by_mark: false,
            by_ingress: false,
            by_ports: false,
            suppresses: false,
            stock,
        }
    }

    #[test]
    fn the_main_table_decides_only_with_the_rules_that_every_namespace_begins_with() {
        let stock = [
            rule(0, Some(TABLE_LOCAL)),
            rule(32766, Some(TABLE_MAIN)),
            rule(32767, Some(TABLE_DEFAULT)),
        ];
        let with = |more: Rule| [stock.to_vec(), vec![more]].concat();
        assert!(only_main_decides(stock.iter()));
        assert!(only_main_decides(stock[..2].iter()), "no default table");
        assert!(only_main_decides(with(rule(100, Some(TABLE_LOCAL))).iter()));
        for (rules, what) in [
            (stock[..1].to_vec(), "main is gone"),
            (stock[1..].to_vec(), "local is gone"),
            (with(rule(100, None)), "a rule more"),
            (with(rule(100, Some(TABLE_DEFAULT))), "default before main"),
            (
                vec![rule(9, Some(TABLE_LOCAL)), rule(8, Some(TABLE_MAIN))],
                "main before local",
            ),
            (Vec::new(), "none"),
        ] {
            assert!(!only_main_decides(rules.iter()), "{what}");
        }
    }

    #[test]
    fn a_rule_that_suppresses_inverts_or_refuses_is_not_stock() {
        let mut plain = RuleMessage::default();
        plain.header.action = RuleAction::ToTable;
        plain.header.table = TABLE_MAIN as u8;
        plain.attributes = vec![
            RuleAttribute::Priority(32766),
            RuleAttribute::SuppressPrefixLen(u32::MAX),
        ];
        assert_eq!(stock(&plain), Some(TABLE_MAIN));
        let mut suppresses = plain.clone();
        suppresses.attributes[1] = RuleAttribute::SuppressPrefixLen(0);
        let mut inverts = plain.clone();
        inverts.header.flags = RuleFlags::Invert;
        let mut refuses = plain.clone();
        refuses.header.action = RuleAction::Prohibit;
        for rule in [suppresses, inverts, refuses] {
            assert_eq!(stock(&rule), None, "{rule:?}");
        }
    }

    #[test]
    fn a_rule_for_what_comes_from_the_router_itself_decides_about_the_way_back_to_a_source() {
        for name in ["wan0", "lo"] {
            let mut message = RuleMessage::default();
            message.attributes.push(RuleAttribute::Iifname(name.into()));
            assert!(from_message(&message).by_ingress, "{name}");
        }
    }
}
