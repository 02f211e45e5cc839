//! What a device does to received frames before anybody sees them (`ethtool --show-features`,
//! Documentation/networking/netdev-features.rst).

use std::collections::BTreeSet;

use netlink_packet_core::DefaultNla;

use crate::SystemError;
use crate::ethtool::header;
use crate::genl::{Family, inside, nest, text};

/// The features by which a device takes VLAN tags out of received frames. It hands them over beside the frame, where an XDP
/// program does not see them.
pub const STRIPS_TAGS: [&str; 2] = ["rx-vlan-hw-parse", "rx-vlan-stag-hw-parse"];

/// The feature by which a device makes one packet of several before anybody sees them, which whoever forwards cannot undo. Linux turns it
/// off where it forwards (`dev_disable_lro` in net/core/dev.c), and does not when somebody turns it on later.
pub const MERGES: &str = "rx-lro";

const FEATURES_GET: u8 = 11;
const FEATURES_SET: u8 = 12;
/// Attributes of both commands.
const WANTED: u16 = 3;
const ACTIVE: u16 = 4;
/// Attributes of a set of bits, and of a bit in it.
const BITS: u16 = 3;
const BIT: u16 = 1;
const BIT_NAME: u16 = 2;
const BIT_VALUE: u16 = 3;

/// The features of a device that are on.
///
/// # Errors
/// When there is no such device.
pub fn active(device: &str) -> Result<BTreeSet<String>, SystemError> {
    let answer = Family::open("ethtool")?.ask(FEATURES_GET, vec![header(device)])?;
    let bits = inside(&inside(&answer, ACTIVE), BITS);
    let name = |bit: &DefaultNla| text(&inside(std::slice::from_ref(bit), BIT), BIT_NAME);
    Ok(bits.iter().filter_map(name).collect())
}

/// Turns a feature on or off. A device may leave it as it is: [`active`] tells.
///
/// # Errors
/// When there is no such device or feature, or the device cannot change it.
pub fn set(device: &str, feature: &str, on: bool) -> Result<(), SystemError> {
    let mut name = feature.as_bytes().to_vec();
    name.push(0);
    let mut bit = vec![DefaultNla::new(BIT_NAME, name)];
    if on {
        bit.push(DefaultNla::new(BIT_VALUE, Vec::new()));
    }
    let wanted = nest(WANTED, &[nest(BITS, &[nest(BIT, &bit)])]);
    Family::open("ethtool")?
        .ask(FEATURES_SET, vec![header(device), wanted])
        .map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_device_has_features_and_no_tags() {
        let on = active("lo").expect("every device has features");
        assert!(on.contains("rx-checksum"), "{on:?}");
        assert!(STRIPS_TAGS.iter().all(|tags| !on.contains(*tags)));
    }
}
