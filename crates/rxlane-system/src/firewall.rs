//! What netfilter does to forwarded packets: which hooks there are, and what their rules can do.
//!
//! Not what they will do to a packet: that is not decidable from outside. A chain whose rules only look and accept does
//! nothing; any other may drop, mark, rewrite or translate.

use netlink_sys::protocols::NETLINK_NETFILTER;
use rxlane_ruleset::Hook;

use crate::SystemError;
use crate::dump::{attributes, be32, dump, text};
use crate::links::Link;
use crate::ruleset;

/// `NFT_MSG_GETCHAIN` of the subsystem nf_tables, and the number in what it says of a hook.
const GET_CHAIN: u16 = 10 << 8 | 4;
const HOOK_NUMBER: u16 = 1;

/// The family of bridges (`NFPROTO_BRIDGE`).
const BRIDGE: u8 = 7;

/// All hooks on the way of packets that are forwarded between these devices.
///
/// # Errors
/// When netfilter cannot be asked, for instance without CAP_NET_ADMIN.
pub fn hooks(links: &[Link]) -> Result<Vec<Hook>, SystemError> {
    let mut hooks = ruleset::read(links)?.hooks;
    hooks.retain(|hook| !hook.place.is_local());
    Ok(hooks)
}

/// A base chain of nftables for bridges, by its name, which sees what a bridge takes for this machine or sends for it; all but those
/// for what is only bridged.
///
/// # Errors
/// When netfilter cannot be asked.
pub fn chain_of_bridges() -> Result<Option<String>, SystemError> {
    let what = "list firewall chains of bridges";
    let chains = dump(NETLINK_NETFILTER, GET_CHAIN, &[BRIDGE, 0, 0, 0], what)?;
    Ok(chains.iter().find_map(|body| chain_of_a_bridge(body)))
}

fn chain_of_a_bridge(body: &[u8]) -> Option<String> {
    const FORWARD: u32 = 2;
    let all = body.get(4..).filter(|_| body.first() == Some(&BRIDGE))?;
    let (mut table, mut chain, mut number) = (String::new(), String::new(), None);
    for (kind, value) in attributes(all) {
        match kind {
            1 => table = text(value),
            3 => chain = text(value),
            4 => {
                number = attributes(value)
                    .find(|(kind, _)| *kind == HOOK_NUMBER)
                    .and_then(|(_, value)| be32(value));
            }
            _ => {}
        }
    }
    number
        .filter(|n| *n != FORWARD)
        .map(|_| format!("bridge {table} {chain}"))
}

/// Whether ebtables of old may filter what bridges take and send: their rules cannot be listed over netlink.
pub fn has_legacy_ebtables() -> bool {
    let modules = std::fs::read_to_string("/proc/modules").unwrap_or_default();
    let tables = ["ebtable_broute ", "ebtable_filter ", "ebtable_nat "];
    modules
        .lines()
        .any(|line| tables.iter().any(|table| line.starts_with(table)))
}
