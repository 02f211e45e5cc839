//! Doors for tests and fuzzers: what is made of the kernel's datagrams, without a kernel.

use std::collections::BTreeMap;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use rxlane_ruleset::legacy::{self, Version};
use rxlane_ruleset::{PerPacket, Ruleset, nft};

use crate::datagram::{self, Raw};
use crate::neighbours::Neighbour;
use crate::netlink::Message;
use crate::rules::Rule;
use crate::ruleset;
use crate::{SystemError, ends, genl, links, neighbours, netlink, routes, rules};
use crate::{route_mtu, tc, xfrm};

/// `NFT_MSG_NEWCHAIN` and others of the subsystem nf_tables.
const NEW_CHAIN: u16 = 10 << 8 | 3;
const NEW_RULE: u16 = 10 << 8 | 6;
const NEW_SET: u16 = 10 << 8 | 9;
const NEW_ELEMENTS: u16 = 10 << 8 | 12;

fn raw(datagram: &[u8]) -> impl Iterator<Item = Raw<'_>> {
    datagram::messages(datagram).flatten()
}

fn parsed(datagram: &[u8]) -> impl Iterator<Item = Message> {
    raw(datagram).filter_map(|message| netlink::parsed(message).ok())
}

/// News of routes.
pub fn routes(datagram: &[u8]) -> Vec<routes::Event> {
    raw(datagram)
        .filter_map(|message| routes::event(message).ok()?)
        .collect()
}

/// News of neighbours.
pub fn neighbours(datagram: &[u8]) -> Vec<Neighbour> {
    parsed(datagram).filter_map(neighbours::became).collect()
}

/// News of ends of VXLANs.
pub fn ends(datagram: &[u8]) -> Vec<ends::Entry> {
    parsed(datagram).filter_map(ends::became).collect()
}

/// News of devices.
pub fn links(datagram: &[u8]) -> Vec<links::Event> {
    parsed(datagram).filter_map(links::event).collect()
}

/// Policy rules.
pub fn rules(datagram: &[u8]) -> Vec<Rule> {
    parsed(datagram)
        .filter_map(|message| match message.payload {
            NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewRule(rule)) => {
                Some(rules::from_message(&rule))
            }
            _ => None,
        })
        .collect()
}

/// What the firewall amounts to, from its chains, rules, sets and elements.
pub fn firewall(datagram: &[u8]) -> Ruleset {
    let of = |wanted| {
        let all = raw(datagram).filter(move |message| message.kind == wanted);
        all.map(|message| message.body).collect::<Vec<&[u8]>>()
    };
    let (rules, chains) = (of(NEW_RULE), of(NEW_CHAIN));
    let (sets, elements) = (of(NEW_SET), of(NEW_ELEMENTS));
    let devices = BTreeMap::from([(1, "lo".to_owned()), (2, "lan0".to_owned())]);
    Ruleset::of(&nft::tables(&rules, &chains, &sets, &elements, &devices))
}

/// A table of legacy iptables, as the kernel hands it over, of either version of IP; what it amounts to, if it can be read.
pub fn iptables(bytes: &[u8]) -> [Option<Ruleset>; 2] {
    Version::BOTH.map(|version| {
        let mut copy = bytes.to_vec();
        legacy::without_counters(version, &mut copy);
        assert_eq!(copy.len(), bytes.len());
        let table = legacy::table(version, "mangle", bytes)?;
        Some(Ruleset::of(&[table]))
    })
}

/// What must see every packet among filters of traffic control.
pub fn actions(datagram: &[u8]) -> Vec<PerPacket> {
    let of = |message: Raw<'_>| ruleset::of_filter("lan0", "ingress", message.body);
    raw(datagram).filter_map(of).collect()
}

/// Digests of elements of sets, as of nftables and as of ipset.
pub fn elements(datagram: &[u8]) -> Vec<(u64, u64)> {
    let of = |message: Raw<'_>| {
        (
            ruleset::of_nftables(message.body),
            ruleset::of_ipset(message.body),
        )
    };
    raw(datagram).map(of).collect()
}

/// Which of the IPsec policies are for forwarded packets.
pub fn policies(datagram: &[u8]) -> Vec<bool> {
    raw(datagram)
        .map(|message| xfrm::forwards(message.body))
        .collect()
}

/// Kinds of the filters of traffic control.
pub fn filters(datagram: &[u8]) -> Vec<String> {
    raw(datagram)
        .map(|message| tc::kind(message.body))
        .collect()
}

/// The smallest MTU that a route asks for, IPv4 and IPv6.
pub fn smallest_mtu(datagram: &[u8]) -> [Option<u32>; 2] {
    let mut smallest = [None; 2];
    for message in raw(datagram) {
        route_mtu::note(&mut smallest, message.body);
    }
    smallest
}

/// Numbers in the answers of a generic netlink family, of attributes up to 16.
///
/// # Errors
/// An answer that cannot be read.
pub fn generic(datagram: &[u8]) -> Result<Vec<Vec<u64>>, SystemError> {
    let answers = raw(datagram).map(|message| genl::parsed::<genl::Command>(message, "of a test"));
    let numbers = answers.map(|answer| {
        let all = answer?.payload.attributes;
        Ok((0..16).filter_map(|kind| genl::find(&all, kind)).collect())
    });
    numbers.collect()
}
