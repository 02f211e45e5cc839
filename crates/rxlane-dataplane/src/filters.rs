//! What sees packets of devices themselves, before and after Linux routes them: hooks of devices, filters of traffic control, and what
//! bridges ask.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_config::RouterConfig;
use rxlane_ruleset::{Hook, Place};
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::{SystemError, firewall, sysctl, tc};
use rxlane_topology::master;

use crate::lanes::sessions::FoundSession;
use crate::port_links;

/// Ports of bridges whose packets are filtered before the bridge has them or after it has sent them, with what does so. The witness of
/// `established` sees a flow at the bridge, and not by which of its ports it came in.
///
/// # Errors
/// When the kernel cannot be asked.
pub(crate) fn of_bridges(
    config: &RouterConfig,
    devices: &Links,
) -> Result<BTreeMap<u32, String>, SystemError> {
    let ports = master::bridged(config, devices).map(|(port, _)| port);
    let ports: Vec<&NetDevice> = ports.collect();
    if ports.is_empty() {
        return Ok(BTreeMap::new());
    }
    // Rules of IP that a bridge asks may tell its ports apart (`physdev`).
    let hooks = firewall::hooks(devices)?;
    let early = hooks.iter().find(|hook| hook.place == Place::Prerouting);
    let calls = ["iptables", "ip6tables"].map(|name| format!("net.bridge.bridge-nf-call-{name}"));
    let calls = calls.into_iter().find(|name| sysctl::read(name) == Some(1));
    let all = match (early, calls) {
        _ if firewall::has_legacy_ebtables() => {
            Some("ebtables may filter what bridges take, by rules that cannot be read".to_owned())
        }
        (Some(hook), Some(name)) if ports.len() > 1 => Some(format!(
            "the chain {hook} may tell ports of bridges apart ({name})"
        )),
        _ => {
            let chain = firewall::chain_of_bridges()?;
            chain.map(|chain| format!("the chain {chain} sees what bridges take and send"))
        }
    };
    let (mut found, ours) = (BTreeMap::new(), port_links::ours());
    for port in ports {
        let own = seen_at(port, &hooks, &ours)?;
        if let Some(why) = all.clone().or(own) {
            found.insert(port.ifindex, why);
        }
    }
    Ok(found)
}

/// What sees packets of a device itself: a hook of it, or a filter of traffic control, but programs that links of `ours` hold.
///
/// # Errors
/// When the kernel cannot be asked.
fn seen_at(
    device: &NetDevice,
    hooks: &[Hook],
    ours: &[u32],
) -> Result<Option<String>, SystemError> {
    let name = &device.name;
    let hook = hooks.iter().find(|h| h.device.as_ref() == Some(name));
    let filters = tc::filters(device.ifindex, ours)?;
    Ok(match (hook, filters.first()) {
        (Some(hook), _) => Some(format!("the chain {hook} sees packets of `{name}`")),
        (_, Some(filter)) => Some(format!("`{name}` has a filter ({filter})")),
        _ => None,
    })
}

/// What sees frames of devices under sessions, there or further below: devices under VLANs, members of bonds.
///
/// # Errors
/// When the kernel cannot be asked.
pub(crate) fn under_sessions(
    found: &[FoundSession],
    devices: &Links,
) -> Result<BTreeMap<u32, String>, SystemError> {
    let (hooks, ours) = (firewall::hooks(devices)?, port_links::ours());
    let mut all = BTreeMap::new();
    for root in found.iter().map(|f| f.device).collect::<BTreeSet<u32>>() {
        let mut to_ask = vec![root];
        let mut asked = BTreeSet::new();
        while let Some(ifindex) = to_ask.pop() {
            let Some(device) = devices.at(ifindex) else {
                continue;
            };
            if !asked.insert(ifindex) {
                continue;
            }
            let members = devices.members(ifindex);
            to_ask.extend(members.map(|d| d.ifindex).chain(device.under));
            if let Some(why) = seen_at(device, &hooks, &ours)? {
                all.insert(root, why);
                break;
            }
        }
    }
    Ok(all)
}
