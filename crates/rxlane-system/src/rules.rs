//! Rules of policy routing, and news about them.

use std::os::fd::{AsFd, BorrowedFd};

use netlink_packet_route::rule::{RuleAttribute, RuleMessage};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};

use crate::SystemError;
use crate::netlink::{self, News};
use crate::routes::{TABLE_LOCAL, TABLE_MAIN};

/// Multicast groups of changes of policy rules (RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE).
const RULE_GROUPS: [u32; 2] = [8, 19];
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
    /// One of those that every namespace begins with: all packets, the local, main or default table.
    pub stock: bool,
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
        netlink::dump(request, "list policy rules", |message| {
            if let RouteNetlinkMessage::NewRule(rule) = message
                && rule.header.family == family
            {
                found.push(from_message(&rule));
            }
        })?;
    }
    Ok(found)
}

pub(crate) fn from_message(rule: &RuleMessage) -> Rule {
    let mut found = Rule {
        v6: rule.header.family == AddressFamily::Inet6,
        priority: 0,
        by_mark: false,
        by_ingress: false,
        by_ports: false,
        suppresses: false,
        stock: is_stock(rule),
    };
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Priority(priority) => found.priority = *priority,
            RuleAttribute::FwMark(_) | RuleAttribute::FwMask(_) => found.by_mark = true,
            RuleAttribute::Iifname(name) => found.by_ingress |= name != "lo",
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
/// added, or VRFs.
///
/// # Errors
/// When netlink fails.
pub fn policy_rules() -> Result<[bool; 2], SystemError> {
    let rules = all()?;
    Ok([false, true].map(|v6| rules.iter().any(|r| r.v6 == v6 && !r.stock)))
}

/// The rules that every namespace begins with: all packets, one of three tables.
fn is_stock(rule: &RuleMessage) -> bool {
    let header = &rule.header;
    let mut table = u32::from(header.table);
    let mut selects = header.src_len != 0 || header.dst_len != 0 || header.tos != 0;
    for attribute in &rule.attributes {
        match attribute {
            RuleAttribute::Table(t) => table = *t,
            RuleAttribute::Priority(_)
            | RuleAttribute::SuppressPrefixLen(_)
            | RuleAttribute::SuppressIfGroup(_)
            | RuleAttribute::Protocol(_) => {}
            _ => selects = true,
        }
    }
    !selects && [TABLE_LOCAL, TABLE_MAIN, TABLE_DEFAULT].contains(&table)
}

/// A subscription to changes of policy rules.
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
            news: News::of(&RULE_GROUPS)?,
        })
    }

    /// Whether anything has changed since the last call.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn changed(&mut self) -> Result<bool, SystemError> {
        let mut any = false;
        let complete = self.news.drain(|_| any = true)?;
        Ok(any || !complete)
    }
}

impl AsFd for RuleMonitor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.news.as_fd()
    }
}
