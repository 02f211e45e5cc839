//! VLAN tags that devices take out of received frames.
//!
//! A frame of a VLAN whose tag was taken out looks like one without: an XDP program would route it as if it belonged to the
//! port. So ports leave tags where they are as long as a router is attached. What was turned off stands in a file, from before
//! it is done until it is undone, so that a killed daemon's successor or `rxlane detach` can turn it on again.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_system::offloads::{self, STRIPS_TAGS};
use tracing::{info, warn};

use crate::DataplaneError;
use crate::instance::Instance;

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

fn keep_one(instance: &Instance, port: &str) -> Result<bool, DataplaneError> {
    let taken = || -> Result<BTreeSet<String>, DataplaneError> {
        let mut active = offloads::active(port)?;
        active.retain(|feature| STRIPS_TAGS.contains(&feature.as_str()));
        Ok(active)
    };
    let on = taken()?;
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
    match taken()?.into_iter().next() {
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
pub(crate) fn give_back(instance: &Instance, ports: impl Fn(&str) -> bool) {
    let mut turned_off = instance.load_turned_off();
    let all: Vec<String> = turned_off.keys().filter(|p| ports(p)).cloned().collect();
    for port in &all {
        for feature in turned_off.remove(port).unwrap_or_default() {
            if let Err(error) = offloads::set(port, &feature, true) {
                warn!(port, %error, "cannot turn {feature} on again");
            }
        }
    }
    if !all.is_empty()
        && let Err(error) = instance.save_turned_off(&turned_off)
    {
        warn!(%error, "what was turned on again will be turned on once more");
    }
}
