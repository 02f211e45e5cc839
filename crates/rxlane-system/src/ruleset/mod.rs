//! How a kernel is asked for its rules; `rxlane-ruleset` says what they amount to.

use netlink_sys::protocols::NETLINK_NETFILTER;
use rxlane_ruleset::legacy::{self, Version};
use rxlane_ruleset::nft::{self, Elements};
use rxlane_ruleset::{Hook, Ruleset, Table};

use crate::SystemError;
use crate::dump::dump;
use crate::links::Link;

mod programs;
mod sockopt;
mod tc_match;
mod traffic_control;
mod unannounced;

pub use traffic_control::per_packet_at;
pub use unannounced::Unannounced;
#[cfg(feature = "testing")]
pub(crate) use {
    traffic_control::of_filter,
    unannounced::{of_ipset, of_nftables},
};

const SUBSYSTEM: u16 = 10;
const GET_CHAIN: u16 = SUBSYSTEM << 8 | 4;
const GET_RULE: u16 = SUBSYSTEM << 8 | 7;
const GET_SET: u16 = SUBSYSTEM << 8 | 10;
const GET_ELEMENTS: u16 = SUBSYSTEM << 8 | 13;

/// Reads all rules of the current network namespace, which has these devices.
///
/// # Errors
/// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
pub fn read(links: &[Link]) -> Result<Ruleset, SystemError> {
    let (tables, unread) = tables(links, Elements::ThatDecide)?;
    let mut all = Ruleset::of(&tables);
    all.hooks.extend(unread);
    for (hook, per_packet) in programs::netfilter()? {
        all.hooks.push(hook);
        all.per_packet.push(per_packet);
    }
    Ok(all)
}

/// All tables of the current network namespace, and the hooks of those that cannot be read.
///
/// # Errors
/// When netfilter cannot be asked.
pub fn tables(links: &[Link], elements: Elements) -> Result<(Vec<Table>, Vec<Hook>), SystemError> {
    let (legacy, unread) = read_legacy()?;
    let tables = read_nft(links, elements)?;
    Ok((tables.into_iter().chain(legacy).collect(), unread))
}

fn read_nft(links: &[Link], which: Elements) -> Result<Vec<Table>, SystemError> {
    let all = |kind, what| dump(NETLINK_NETFILTER, kind, &[0; 4], what);
    let rules = all(GET_RULE, "list firewall rules")?;
    let chains = all(GET_CHAIN, "list firewall chains")?;
    let sets = all(GET_SET, "list firewall sets")?;
    let mut elements = Vec::new();
    for body in &sets {
        if let Some(request) = nft::asks_elements(body, which) {
            let what = "list elements of firewall sets";
            elements.extend(dump(NETLINK_NETFILTER, GET_ELEMENTS, &request, what)?);
        }
    }
    let devices = links.iter().map(|l| (l.ifindex, l.name.clone()));
    Ok(nft::tables(
        &rules,
        &chains,
        &sets,
        &elements,
        &devices.collect(),
    ))
}

/// Tables of iptables, and what the names of those stand for that cannot be read.
fn read_legacy() -> Result<(Vec<Table>, Vec<Hook>), SystemError> {
    let (mut tables, mut unread) = (Vec::new(), Vec::new());
    for version in Version::BOTH {
        let names = sockopt::tables(version);
        if names.is_empty() {
            continue;
        }
        let socket = sockopt::socket_of(version)?;
        for name in names {
            let mut blob = Vec::new();
            let read = sockopt::blob_of(version, &socket, &name, &mut blob);
            match read
                .ok()
                .and_then(|()| legacy::table(version, &name, &blob))
            {
                Some(table) => tables.push(table),
                None => unread.push(legacy::unread(version, &name)),
            }
        }
    }
    Ok((tables, unread))
}
