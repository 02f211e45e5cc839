//! VLAN devices that `ports` names instead of the port under them: which of them a frame is of (bpf/devices/vlan.h, `enter_named`).

use std::collections::BTreeMap;

use rxlane_bpf::BpfError;
use rxlane_bpf::pinned;
use rxlane_system::links::{Links, Vlan};
use rxlane_topology::device::{MAX_TAGS, chain};

use crate::lanes::program::LaneProgram;
use crate::vlans::{self, Key};

/// Those of a configuration, each with its position in `ports`. Whether its packets may be express is another matter: they have a class.
#[derive(Debug, Clone, Default)]
pub struct NamedVlans {
    by_tags: BTreeMap<Key, u8>,
    /// Bonds by their members, where frames come in.
    bonds: BTreeMap<u32, u32>,
}

/// Bytes of the two addresses, of a tag, and of its protocol identifier.
const ADDRESSES: usize = 12;
const TAG: usize = 4;

impl NamedVlans {
    /// Those that are there.
    pub fn of(ports: &[String], devices: &Links) -> Self {
        let mut named = Self::default();
        for (position, name) in (0u8..).zip(ports) {
            let device = devices.named(name);
            let Some(device) = device.filter(|d| d.vlan.is_some()) else {
                continue;
            };
            let (chain, port) = chain(device, devices);
            let tags: Vec<&Vlan> = chain.iter().filter_map(|d| d.vlan.as_ref()).collect();
            if let Some(port) = port.filter(|_| tags.len() <= MAX_TAGS) {
                let key = vlans::key(port.ifindex, &tags);
                named.by_tags.insert(key, position);
                let members = devices.members(port.ifindex);
                let members = members.map(|d| (d.ifindex, port.ifindex));
                named.bonds.extend(members);
            }
        }
        named
    }

    /// The position in `ports` of the device that a frame is of, or of one under that; `None` if none of these is named.
    pub fn position(&self, ifindex: u32, frame: &[u8]) -> Option<u8> {
        let word = |at: usize| {
            let tag = frame.get(at..at + TAG)?;
            let is = |id: u16| tag[..2] == id.to_be_bytes();
            let id = u16::from_be_bytes([tag[2], tag[3]]);
            (is(0x8100) || is(0x88a8)).then(|| vlans::word(id, is(0x88a8)))
        };
        let port = *self.bonds.get(&ifindex).unwrap_or(&ifindex);
        let outer = word(ADDRESSES)?;
        let of = |tags: u32| self.by_tags.get(&Key { port, tags }).copied();
        of(outer).or_else(|| of(outer | word(ADDRESSES + TAG)? << 16))
    }

    /// Tells the program.
    ///
    /// # Errors
    /// When the map cannot be written.
    pub(crate) fn write(&self, lane: &LaneProgram) -> Result<(), BpfError> {
        let entry =
            |(key, position): (&Key, &u8)| (bytemuck::bytes_of(key).to_vec(), u32::from(*position));
        let entries = self.by_tags.iter().map(entry).collect();
        pinned::replace(&lane.named_vlans, &entries)
    }

    /// One, whatever devices there are.
    #[cfg(feature = "testing")]
    pub(crate) fn of_tags(port: u32, ids: &[u16], position: u8) -> Self {
        let tag = |id: &u16| Vlan {
            id: *id,
            ..Vlan::default()
        };
        let tags: Vec<Vlan> = ids.iter().map(tag).collect();
        let key = vlans::key(port, &tags.iter().collect::<Vec<_>>());
        Self {
            by_tags: [(key, position)].into(),
            bonds: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rxlane_system::links::Link as NetDevice;

    #[test]
    fn a_frame_is_of_the_device_with_its_outer_tags_and_of_no_other() {
        let device = |ifindex, name: &str| NetDevice {
            ifindex,
            name: name.into(),
            ..NetDevice::default()
        };
        let vlan = |ifindex, name: &str, under, id, service| NetDevice {
            under: Some(under),
            vlan: Some(Vlan {
                id,
                service,
                ..Vlan::default()
            }),
            ..device(ifindex, name)
        };
        let devices = Links::from([
            device(1, "lan0"),
            vlan(2, "lan0.20", 1, 20, false),
            vlan(3, "lan0.7", 1, 7, true),
            vlan(4, "lan0.7.8", 3, 8, false),
            device(5, "wan0"),
            vlan(6, "bond0.9", 7, 9, false),
            device(7, "bond0"),
            NetDevice {
                master: Some(7),
                ..device(8, "eth1")
            },
        ]);
        let ports = ["wan0", "lan0.7.8", "lan0.20", "bond0.9"].map(String::from);
        let named = NamedVlans::of(&ports, &devices);
        let frame = |words: &[u16]| {
            let mut frame = vec![0; ADDRESSES];
            frame.extend(words.iter().flat_map(|word| word.to_be_bytes()));
            frame
        };
        for (ifindex, words, position) in [
            (1, &[0x8100, 20, 0x0800][..], Some(2)),
            // Its code point is no part of it, and what is over it is of it.
            (1, &[0x8100, 0xa014, 0x8100, 3, 0x0800], Some(2)),
            (1, &[0x88a8, 20, 0x0800], None),
            (1, &[0x8100, 21, 0x0800], None),
            (1, &[0x0800, 0x4500], None),
            (1, &[0x88a8, 7, 0x8100, 8, 0x0800], Some(1)),
            (1, &[0x88a8, 7, 0x8100, 9, 0x0800], None),
            (1, &[0x88a8, 7, 0x0800], None),
            (1, &[0x8100], None),
            (5, &[0x8100, 20, 0x0800], None),
            (8, &[0x8100, 9, 0x0800], Some(3)),
        ] {
            assert_eq!(
                named.position(ifindex, &frame(words)),
                position,
                "{words:x?}"
            );
        }
    }
}
