//! VLAN tags that devices take out of received frames.
//!
//! A frame of a VLAN whose tag was taken out looks like one without: an XDP program would route it as if it belonged to the
//! port. So ports leave tags where they are as long as a router is attached. What was turned off stands in a file, from before
//! it is done until it is undone, so that a killed daemon's successor or `rxlane detach` can turn it on again. Network managers turn it on
//! while a router runs (`ethtool -K PORT rxvlan on`): that is looked for. Large receive offload is treated alike.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_system::SystemError;
use rxlane_system::links::{self, Links};
use rxlane_system::offloads::{self, MERGES, STRIPS_TAGS};
use rxlane_topology::device::with_members;
use tracing::{info, warn};

use crate::DataplaneError;
use crate::instance::Instance;
use crate::port::PortState;
use crate::port_links;

/// What was turned off, by port.
type TurnedOff = BTreeMap<String, BTreeSet<String>>;

/// Has these ports leave tags in frames. Returns those that had to be changed.
///
/// # Errors
/// [`DataplaneError::TagsTaken`] where a driver insists; then all ports are as they were.
pub(crate) fn keep(
    instance: &Instance,
    ports: &BTreeSet<&str>,
) -> Result<Vec<String>, DataplaneError> {
    let mut changed = Vec::new();
    for port in ports {
        match keep_one(instance, port) {
            Ok(false) => {}
            Ok(true) => changed.push((*port).to_owned()),
            Err(error) => {
                changed.push((*port).to_owned());
                give_back(instance, |port| changed.iter().any(|c| c == port));
                return Err(error);
            }
        }
    }
    Ok(changed)
}

/// Whether a device leaves tags in frames now.
pub(crate) fn are_left(device: &str) -> bool {
    offloads::active(device)
        .is_ok_and(|active| STRIPS_TAGS.iter().all(|feature| !active.contains(*feature)))
}

/// What a device has on that must be off.
fn unwanted(device: &str) -> Result<BTreeSet<String>, SystemError> {
    let mut active = offloads::active(device)?;
    active.retain(|feature| feature == MERGES || strips_tags(feature));
    Ok(active)
}

fn strips_tags(feature: &str) -> bool {
    STRIPS_TAGS.contains(&feature)
}

/// What the operator should know of a device that insists.
pub(crate) fn insists(device: &str) -> Option<String> {
    let on = unwanted(device).unwrap_or_default();
    let costs = match on.iter().any(|feature| strips_tags(feature)) {
        true => {
            "takes VLAN tags out of received frames, so that express packets that come in there stay with the kernel"
        }
        false => "makes one packet of several that come in, which nobody can forward",
    };
    let all: Vec<&str> = on.iter().map(String::as_str).collect();
    let off = all.iter().map(|feature| format!(" {feature} off"));
    (!on.is_empty()).then(|| {
        format!(
            "port `{device}` {costs} ({}): somebody has turned that on, and its driver refuses to turn it off while rxlane runs; stop rxlane, then ethtool -K {device}{}",
            all.join(", "),
            off.collect::<String>()
        )
    })
}

/// What ports have on that must be off, and cannot be turned off.
#[derive(Debug, Default)]
pub(crate) struct Insisting(BTreeMap<String, BTreeSet<String>>);

impl Insisting {
    /// Turns off again what others have turned on, and says where that cannot be done.
    pub(crate) fn follow(
        &mut self,
        instance: &Instance,
        ports: &BTreeMap<String, PortState>,
        devices: &Links,
    ) {
        let here = ports.iter().filter(|(_, port)| port.is_in_xdp());
        let here = here.map(|(name, _)| name.as_str()).collect();
        let on = with_members(&here, devices);
        self.0.retain(|port, _| on.contains(port.as_str()));
        for port in on {
            // Whoever is gone is heard of otherwise.
            let Ok(active) = unwanted(port) else { continue };
            let known = self.0.get(port);
            if known.map_or(active.is_empty(), |known| *known == active) {
                continue;
            }
            if !active.is_empty() {
                let all: Vec<&str> = active.iter().map(String::as_str).collect();
                warn!(port, "somebody has turned {} on", all.join(" and "));
                if let Err(error) = keep_one(instance, port) {
                    warn!(port, "{error}");
                }
            }
            let Ok(active) = unwanted(port) else { continue };
            if let Some(why) = insists(port) {
                warn!("{why}");
                self.0.insert(port.to_owned(), active);
            } else if self.0.remove(port).is_some() {
                info!(port, "leaves frames as they came again");
            }
        }
    }
}

fn keep_one(instance: &Instance, port: &str) -> Result<bool, DataplaneError> {
    let on = unwanted(port)?;
    if on.is_empty() {
        return Ok(false);
    }
    let mut turned_off: TurnedOff = instance.load_turned_off();
    turned_off
        .entry(port.into())
        .or_default()
        .extend(on.iter().cloned());
    instance.save_turned_off(&turned_off)?;
    for feature in &on {
        // Whether it took effect is asked below, for a driver may also accept and ignore it.
        if let Err(error) = offloads::set(port, feature, false) {
            warn!(port, %error, "cannot turn {feature} off");
        }
    }
    match unwanted(port)?.into_iter().find(|on| strips_tags(on)) {
        None => {
            info!(
                port,
                "leaves VLAN tags in frames, as long as rxlane is attached"
            );
            Ok(true)
        }
        Some(feature) => Err(DataplaneError::TagsTaken {
            port: port.into(),
            feature,
        }),
    }
}

/// Turns on again what was turned off for these ports. A device that is gone or refuses is a warning: the router can do
/// without.
pub(crate) fn give_back(instance: &Instance, which: impl Fn(&str) -> bool) {
    let mut turned_off = instance.load_turned_off();
    let all: Vec<String> = turned_off.keys().filter(|p| which(p)).cloned().collect();
    if all.is_empty() {
        return;
    }
    let devices = links::all().unwrap_or_default();
    for port in &all {
        let device = port_links::called_now(instance, port, &devices);
        for feature in turned_off.remove(port).unwrap_or_default() {
            if let Err(error) = offloads::set(&device, &feature, true) {
                warn!(port, %error, "cannot turn {feature} on again");
            }
        }
    }
    if let Err(error) = instance.save_turned_off(&turned_off) {
        warn!(%error, "what was turned on again will be turned on once more");
    }
}
