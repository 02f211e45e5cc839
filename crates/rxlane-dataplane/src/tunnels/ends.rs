//! Behind which other end of a VXLAN a station is, followed for the express lane (bpf/vxlan.h).
//!
//! News tell of single lines. A station has one, which another replaces; but those that stand for all that are unknown may be several, of which news do not
//! tell how many are left. Then nothing is sent to unknown stations until all lines have been read anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use rxlane_system::ends::{self, Entry, Monitor};

use crate::DataplaneError;
use crate::error::BpfTried;
use crate::lanes::program::LaneProgram;
use crate::vlans;

/// `struct station_key` of bpf/bridge.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
struct Key {
    device: u32,
    mac: [u8; 8],
}

impl Key {
    fn of(device: u32, mac: [u8; 6]) -> Self {
        let mut all = [0; 8];
        all[..6].copy_from_slice(&mac);
        Self { device, mac: all }
    }
}

/// Stations that the program knows (`MAX_STATIONS` of bpf/bridge.h).
const MAX_STATIONS: usize = 65536;
/// A station behind several ends, or behind one that the lane does not send to (`SEVERAL_ENDS` of bpf/vxlan.h).
const LINUXS: [u8; 4] = [255; 4];

/// What is told the program of the VXLANs that are served.
#[derive(Default)]
pub(super) struct Ends {
    monitor: Option<Monitor>,
    /// Devices, and whether they learn.
    served: BTreeMap<u32, bool>,
    /// Whether the program has been told what they know.
    told: bool,
    /// Whether news have not said all.
    unsure: bool,
}

impl Ends {
    /// Follows these VXLANs from now on, each with whether it learns.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the map cannot be written.
    pub(super) fn look(
        &mut self,
        lane: &LaneProgram,
        served: BTreeMap<u32, bool>,
    ) -> Result<(), DataplaneError> {
        // All that was learned since is known by news.
        if self.told && self.served == served {
            return self.follow(lane);
        }
        self.served = served;
        if self.served.is_empty() {
            self.monitor = None;
        } else if self.monitor.is_none() {
            self.monitor = Some(Monitor::new()?);
        }
        self.write(lane)
    }

    /// Where news come, while VXLANs are served.
    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.as_ref().map(AsFd::as_fd)
    }

    fn write(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        self.told = false;
        let all = if self.served.is_empty() {
            Vec::new()
        } else {
            ends::all()?
        };
        vlans::replace(&lane.vxlan_ends, &known(&all, &self.served))?;
        (self.told, self.unsure) = (true, false);
        Ok(())
    }

    /// Reads everything anew where news have not said all; to be called once a second at most, since who moves often asks for it.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(super) fn settle(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        if self.unsure {
            self.write(lane)
        } else {
            Ok(())
        }
    }

    /// Tells the program what VXLANs have learned and forgotten since the last call.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(super) fn follow(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(());
        };
        let mut news = Vec::new();
        if !monitor.drain(|entry| news.push(entry))? {
            return self.write(lane);
        }
        for entry in &news {
            if !self.served.contains_key(&entry.device) {
                continue;
            }
            let key = Key::of(entry.device, entry.mac);
            let key = bytemuck::bytes_of(&key);
            let there = lane.vxlan_ends.lookup(key, MapFlags::ANY).tried(tried)?;
            match became(there.as_deref(), entry) {
                Became::AsItWas => {}
                Became::Unknown => delete(lane, key)?,
                Became::Behind(end) => match lane.vxlan_ends.update(key, &end, MapFlags::ANY) {
                    Err(error) if error.kind() == ErrorKind::TooBig => {
                        self.unsure = true;
                        forget_unknown(lane, entry.device)?;
                    }
                    done => done.tried(tried)?,
                },
                Became::Unsure => {
                    let linuxs = lane.vxlan_ends.update(key, &LINUXS, MapFlags::ANY);
                    linuxs.tried(tried)?;
                    self.unsure = true;
                }
            }
        }
        Ok(())
    }
}

fn tried() -> String {
    "write map vxlan_ends".into()
}

fn delete(lane: &LaneProgram, key: &[u8]) -> Result<(), DataplaneError> {
    match lane.vxlan_ends.delete(key) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.tried(tried),
    }
}

/// A station that does not fit into the table must not be taken for one that the VXLAN does not know.
fn forget_unknown(lane: &LaneProgram, device: u32) -> Result<(), DataplaneError> {
    delete(lane, bytemuck::bytes_of(&Key::of(device, [0; 6])))
}

/// What news say of a station.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    AsItWas,
    Unknown,
    Behind([u8; 4]),
    /// There are others, or may be.
    Unsure,
}

/// By what the program had of a station, and one line.
fn became(there: Option<&[u8]>, entry: &Entry) -> Became {
    let end = told_as(entry.end);
    // Only frames to everybody may have several (vxlan_fdb_update_existing in drivers/net/vxlan).
    let is_one = entry.mac != [0; 6] && entry.mac[0] & 1 == 0;
    match (there, entry.gone) {
        (_, true) if is_one => Became::Unknown,
        (_, false) if is_one => Became::Behind(end),
        (None, true) => Became::AsItWas,
        (None, false) => Became::Behind(end),
        (Some(end_there), false) if end_there == end && end != LINUXS => Became::AsItWas,
        (Some(end_there), true) if end_there == end && end != LINUXS => Became::Unknown,
        _ => Became::Unsure,
    }
}

/// What the program is told of these lines. Where not all fit there is none of all that are unknown: those that did not fit
/// would be taken for such.
fn known(all: &[Entry], served: &BTreeMap<u32, bool>) -> BTreeMap<Vec<u8>, [u8; 4]> {
    let mut stations: BTreeMap<Key, BTreeSet<Option<Ipv4Addr>>> = BTreeMap::new();
    for entry in all.iter().filter(|e| served.contains_key(&e.device)) {
        let station = stations.entry(Key::of(entry.device, entry.mac));
        station.or_default().insert(entry.end);
    }
    let fits = stations.len() <= MAX_STATIONS;
    let told = stations
        .into_iter()
        .filter(|(key, _)| fits || key.mac != [0; 8])
        .take(MAX_STATIONS);
    let told = told.map(|(key, ends)| {
        let only = ends.first().copied().flatten();
        let end = told_as(only.filter(|_| ends.len() == 1));
        (bytemuck::bytes_of(&key).to_vec(), end)
    });
    told.collect()
}

/// Nothing is sent to groups.
fn told_as(end: Option<Ipv4Addr>) -> [u8; 4] {
    end.filter(|end| !end.is_multicast())
        .map_or(LINUXS, |end| end.octets())
}

/// See [`crate::testing::serve_tunnels`].
#[cfg(feature = "testing")]
pub(super) fn serve(
    lane: &LaneProgram,
    stations: &[(u32, [u8; 6], Ipv4Addr)],
) -> Result<(), DataplaneError> {
    let told = stations.iter().map(|(device, mac, end)| {
        let key = Key::of(*device, *mac);
        (bytemuck::bytes_of(&key).to_vec(), end.octets())
    });
    vlans::replace(&lane.vxlan_ends, &told.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 9];

    fn entry(mac: [u8; 6], end: Option<[u8; 4]>) -> Entry {
        Entry {
            device: 7,
            mac,
            end: end.map(Ipv4Addr::from),
            gone: false,
        }
    }

    fn gone(entry: Entry) -> Entry {
        Entry {
            gone: true,
            ..entry
        }
    }

    #[test]
    fn a_station_behind_several_ends_or_an_odd_one_is_linuxs() {
        let served = [(7, true)].into();
        let one = [10, 0, 0, 2];
        let found = |all: &[Entry]| known(all, &served).into_values().collect::<Vec<_>>();
        assert_eq!(found(&[entry(MAC, Some(one))]), [one]);
        let several = [entry(MAC, Some(one)), entry(MAC, Some([10, 0, 0, 3]))];
        assert_eq!(found(&several), [LINUXS]);
        assert_eq!(found(&[entry(MAC, None)]), [LINUXS]);
        assert_eq!(found(&[entry([0; 6], Some([239, 0, 0, 1]))]), [LINUXS]);
        let of_another = Entry {
            device: 8,
            ..entry(MAC, Some(one))
        };
        assert!(found(&[of_another]).is_empty());
    }

    #[test]
    fn where_not_all_stations_fit_none_is_taken_for_unknown() {
        let mut all = vec![entry([0; 6], Some([10, 0, 0, 2]))];
        for n in 0..MAX_STATIONS {
            let [.., a, b, c] = n.to_be_bytes();
            all.push(entry([2, 0, 0, a, b, c], Some([10, 0, 0, 3])));
        }
        let found = known(&all, &[(7, false)].into());
        assert_eq!(found.len(), MAX_STATIONS);
        assert!(found.values().all(|end| *end == [10, 0, 0, 3]));
    }

    #[test]
    fn news_are_believed_as_far_as_they_tell_everything() {
        let (one, two) = ([10, 0, 0, 2], [10, 0, 0, 3]);
        let (at_one, at_two) = (entry(MAC, Some(one)), entry(MAC, Some(two)));
        assert_eq!(became(None, &at_one), Became::Behind(one));
        assert_eq!(became(Some(&one), &at_two), Became::Behind(two));
        assert_eq!(
            became(Some(&one), &entry(MAC, None)),
            Became::Behind(LINUXS)
        );
        assert_eq!(became(Some(&two), &gone(at_two)), Became::Unknown);
        let (by_one, by_two) = (entry([0; 6], Some(one)), entry([0; 6], Some(two)));
        assert_eq!(became(None, &by_one), Became::Behind(one));
        assert_eq!(became(None, &gone(by_one)), Became::AsItWas);
        assert_eq!(became(Some(&one), &by_one), Became::AsItWas);
        assert_eq!(became(Some(&one), &gone(by_one)), Became::Unknown);
        assert_eq!(became(Some(&one), &by_two), Became::Unsure);
        assert_eq!(became(Some(&one), &gone(by_two)), Became::Unsure);
        assert_eq!(became(Some(&LINUXS), &gone(by_two)), Became::Unsure);
        assert_eq!(became(Some(&LINUXS), &by_one), Became::Unsure);
    }
}
