//! Behind which other end of a VXLAN a station is, followed for the express lane (bpf/devices/vxlan.h).
//!
//! News tell of single lines. A station has one, which another replaces; but those that stand for all that are unknown may be several, of
//! which news do not tell how many are left. Then nothing is sent to unknown stations until all lines have been read anew.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use libbpf_rs::{MapCore, MapFlags};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_system::ends::{self, Entry, Monitor};

use super::vxlan_table::{End, Key, LINUXS, put, replace, send_unknown_by_linux, tried};
use crate::DataplaneError;
use crate::lanes::program::LaneProgram;

/// Stations that the program knows (`MAX_STATIONS` of bpf/devices/bridge.h), shared by VXLANs in equal parts, so that who fills one does not
/// take them from another.
const MAX_STATIONS: usize = 65536;
/// Where not all fit they are read anew this seldom.
const AGAIN_AFTER: u32 = 30;
/// News of what went while everything was read have come after this.
const JUST_NOW: Duration = Duration::from_secs(2);

/// What is told the program of the VXLANs that are served.
#[derive(Default)]
pub(super) struct Ends {
    monitor: Option<Monitor>,
    /// Devices, and whether they learn.
    served: BTreeMap<u32, bool>,
    /// How many stations of each the program knows.
    counts: BTreeMap<u32, usize>,
    /// Whether what the program knows may not be all: news were lost, have not said all, or did not fit.
    unsure: bool,
    /// Whether not all stations fitted, and for how many looks nothing is done about that.
    overflow: Option<u32>,
    /// Whether news were lost: then nothing that the program knows can be believed.
    lost: bool,
    /// When everything was read last, and how long that took.
    read: Option<(Instant, Duration)>,
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
        if self.served == served {
            return self.follow(lane).map(drop);
        }
        if served.is_empty() {
            self.monitor = None;
        } else if self.monitor.is_none() {
            self.monitor = Some(Monitor::new()?);
        }
        self.served = served;
        self.write(lane)
    }

    /// As [`Ends::look`], with those that it follows already.
    pub(super) fn look_also(
        &mut self,
        lane: &LaneProgram,
        served: &BTreeMap<u32, bool>,
    ) -> Result<(), DataplaneError> {
        let mut all = self.served.clone();
        all.extend(served);
        self.look(lane, all)
    }

    /// Where news come, while VXLANs are served.
    pub(super) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.as_ref().map(AsFd::as_fd)
    }

    /// How many stations of a VXLAN the program is told of.
    fn quota(&self) -> usize {
        MAX_STATIONS / self.served.len().max(1)
    }

    fn write(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        self.unsure = true;
        let began = Instant::now();
        let (all, complete) = if self.served.is_empty() {
            (Vec::new(), true)
        } else {
            ends::all()?
        };
        let known = known(&all, &self.served, self.quota(), complete);
        self.counts.clear();
        for key in known.entries.keys() {
            *self.counts.entry(key.device).or_default() += 1;
        }
        replace(&lane.vxlan_ends, &known.entries)?;
        self.overflow = (!known.fits).then_some(AGAIN_AFTER);
        (self.unsure, self.lost) = (false, false);
        self.read = Some((Instant::now(), began.elapsed()));
        Ok(())
    }

    /// Whether the program must not use what it knows, until [`Ends::settle`] has read everything anew.
    pub(super) fn are_lost(&self) -> bool {
        self.lost
    }

    /// Reads everything anew where news have not said all; to be called once a second at most. Whoever floods a VXLAN with stations must not
    /// have them read again and again, so that this takes a tenth of the time at most.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(super) fn settle(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        if self.read.is_some_and(|(at, took)| at.elapsed() < 10 * took) {
            return Ok(());
        }
        match &mut self.overflow {
            _ if self.unsure => self.write(lane),
            Some(0) => self.write(lane),
            Some(looks) => {
                *looks -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Tells the program what VXLANs have learned and forgotten since the last call; whether there was something.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(super) fn follow(&mut self, lane: &LaneProgram) -> Result<bool, DataplaneError> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(false);
        };
        // As long as what is told now has not been taken in.
        let was_unsure = std::mem::replace(&mut self.unsure, true);
        let mut news = Vec::new();
        if !monitor.drain(|entry| news.push(entry))? {
            self.lost = true;
            return Ok(true);
        }
        let just_read = self.read.is_some_and(|(at, _)| at.elapsed() < JUST_NOW);
        let mut unsure = was_unsure;
        for entry in &news {
            let Some(learns) = self.served.get(&entry.device) else {
                continue;
            };
            // While a list is read an entry that goes may take another one with it, which then is no unknown station.
            unsure |= just_read && entry.gone && !learns;
            unsure |= !self.take_in(lane, entry)?;
        }
        self.unsure = unsure;
        Ok(!news.is_empty())
    }

    /// Tells the program one line; whether that says all there is about the station.
    fn take_in(&mut self, lane: &LaneProgram, entry: &Entry) -> Result<bool, BpfError> {
        let key = Key::of(entry.device, entry.mac);
        let bytes = bytemuck::bytes_of(&key);
        let there = lane
            .vxlan_ends
            .lookup(bytes, MapFlags::ANY)
            .tried(tried)?
            .map(|value| bytemuck::pod_read_unaligned::<End>(&value));
        let quota = self.quota();
        let count = self.counts.entry(entry.device).or_default();
        match became(there.as_ref(), entry) {
            // Of whom not all are known nobody is unknown.
            Became::Behind(_) if key.is_unknown() && self.overflow.is_some() => {
                put(&lane.vxlan_ends, bytes, &End::of(None, false))?;
            }
            Became::AsItWas => {}
            Became::Unknown => {
                pinned::delete(&lane.vxlan_ends, bytes)?;
                *count = count.saturating_sub(usize::from(there.is_some()));
            }
            Became::Behind(_) if there.is_none() && *count >= quota => {
                self.overflow = self.overflow.or(Some(AGAIN_AFTER));
                // It must not be taken for one that the VXLAN does not know.
                return send_unknown_by_linux(&lane.vxlan_ends, entry.device).map(|()| true);
            }
            Became::Behind(end) => {
                put(&lane.vxlan_ends, bytes, &end)?;
                *count += usize::from(there.is_none());
            }
            Became::Unsure => {
                put(&lane.vxlan_ends, bytes, &End::of(None, false))?;
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// What news say of a station.
#[derive(Debug, PartialEq, Eq)]
enum Became {
    AsItWas,
    Unknown,
    Behind(End),
    /// There are others, or may be.
    Unsure,
}

/// By what the program had of a station, and one line.
fn became(there: Option<&End>, entry: &Entry) -> Became {
    let end = End::of(entry.end, entry.ages);
    // Only frames to everybody may have several (vxlan_fdb_update_existing in drivers/net/vxlan).
    let is_one = entry.mac != [0; 6] && entry.mac[0] & 1 == 0;
    let is_same = there.is_some_and(|there| there.is_as(&end)) && end.address != LINUXS;
    match (there, entry.gone) {
        (None, true) => Became::AsItWas,
        (Some(_), true) if is_one || is_same => Became::Unknown,
        (_, false) if is_same => Became::AsItWas,
        (None, false) => Became::Behind(end),
        (_, false) if is_one => Became::Behind(end),
        _ => Became::Unsure,
    }
}

/// What the program is told of all lines.
struct Known {
    entries: BTreeMap<Key, End>,
    /// Whether these are all stations.
    fits: bool,
}

/// Of each VXLAN as many stations as its quota. Where those are not all nothing is sent to unknown ones: the others would be taken for such.
fn known(all: &[Entry], served: &BTreeMap<u32, bool>, quota: usize, complete: bool) -> Known {
    let mut stations: BTreeMap<Key, BTreeSet<(Option<Ipv4Addr>, bool)>> = BTreeMap::new();
    for entry in all.iter().filter(|e| served.contains_key(&e.device)) {
        let station = stations.entry(Key::of(entry.device, entry.mac));
        station.or_default().insert((entry.end, entry.ages));
    }
    let mut known = Known {
        entries: BTreeMap::new(),
        fits: true,
    };
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for key in stations.keys() {
        *counts.entry(key.device).or_default() += 1;
    }
    let has_all = |device: u32| complete && counts.get(&device).is_none_or(|n| *n <= quota);
    let mut left: BTreeMap<u32, usize> = served.keys().map(|device| (*device, quota)).collect();
    // Keys of a device begin with that of the unknown.
    for (key, ends) in stations {
        let left = left.entry(key.device).or_default();
        if *left == 0 {
            known.fits = false;
            continue;
        }
        *left -= 1;
        let only = ends.first().copied().filter(|_| ends.len() == 1);
        let end = match only {
            Some((end, ages)) if !key.is_unknown() || has_all(key.device) => End::of(end, ages),
            _ => End::of(None, false),
        };
        known.entries.insert(key, end);
    }
    known
}

/// See [`crate::testing::serve_tunnels`].
#[cfg(feature = "testing")]
pub(super) fn serve(
    lane: &LaneProgram,
    stations: &[(u32, [u8; 6], Ipv4Addr)],
) -> Result<(), DataplaneError> {
    let told = stations
        .iter()
        .map(|(device, mac, end)| (Key::of(*device, *mac), End::of(Some(*end), false)));
    replace(&lane.vxlan_ends, &told.collect())
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
            ages: false,
        }
    }

    fn gone(entry: Entry) -> Entry {
        Entry {
            gone: true,
            ..entry
        }
    }

    fn at(end: [u8; 4]) -> End {
        End::of(Some(end.into()), false)
    }

    fn linuxs() -> End {
        End::of(None, false)
    }

    #[test]
    fn a_station_behind_several_ends_or_an_odd_one_is_linuxs() {
        let served = [(7, true)].into();
        let one = [10, 0, 0, 2];
        let found = |all: &[Entry]| {
            let known = known(all, &served, 10, true);
            known.entries.into_values().collect::<Vec<_>>()
        };
        assert_eq!(found(&[entry(MAC, Some(one))]), [at(one)]);
        let several = [entry(MAC, Some(one)), entry(MAC, Some([10, 0, 0, 3]))];
        assert_eq!(found(&several), [linuxs()]);
        for odd in [None, Some([239, 0, 0, 1]), Some([0; 4])] {
            assert_eq!(found(&[entry(MAC, odd)]), [linuxs()]);
        }
        let of_another = Entry {
            device: 8,
            ..entry(MAC, Some(one))
        };
        assert!(found(&[of_another]).is_empty());
    }

    #[test]
    fn where_not_all_stations_fit_none_is_taken_for_unknown() {
        let served = [(6, false), (7, false)].into();
        let mut all = vec![entry([0; 6], Some([10, 0, 0, 2]))];
        all.extend((0..9).map(|n| entry([2, 0, 0, 0, 0, n], Some([10, 0, 0, 3]))));
        let of_other = |mac| Entry {
            device: 6,
            ..entry(mac, Some([10, 0, 0, 4]))
        };
        all.extend([of_other([0; 6]), of_other(MAC)]);
        let known_by = |quota, complete| known(&all, &served, quota, complete);
        let unknown = |known: &Known, device| known.entries[&Key::of(device, [0; 6])];
        let fits = known_by(10, true);
        assert!(fits.fits && unknown(&fits, 7) == at([10, 0, 0, 2]));
        let overflows = known_by(5, true);
        assert!(!overflows.fits && unknown(&overflows, 7) == linuxs());
        let of_each = |device| {
            overflows
                .entries
                .keys()
                .filter(|k| k.device == device)
                .count()
        };
        assert_eq!((of_each(6), of_each(7)), (2, 5));
        assert_eq!(unknown(&overflows, 6), at([10, 0, 0, 4]), "as it has all");
        assert_eq!(unknown(&known_by(10, false), 6), linuxs());
    }

    #[test]
    fn news_are_believed_as_far_as_they_tell_everything() {
        let (one, two) = ([10, 0, 0, 2], [10, 0, 0, 3]);
        let (at_one, at_two) = (entry(MAC, Some(one)), entry(MAC, Some(two)));
        let (first, second) = (at(one), at(two));
        assert_eq!(became(None, &at_one), Became::Behind(first));
        assert_eq!(became(None, &gone(at_one)), Became::AsItWas);
        assert_eq!(became(Some(&first), &at_two), Became::Behind(second));
        assert_eq!(
            became(Some(&first), &entry(MAC, None)),
            Became::Behind(linuxs())
        );
        assert_eq!(became(Some(&second), &gone(at_two)), Became::Unknown);
        let (by_one, by_two) = (entry([0; 6], Some(one)), entry([0; 6], Some(two)));
        assert_eq!(became(None, &by_one), Became::Behind(first));
        assert_eq!(became(None, &gone(by_one)), Became::AsItWas);
        assert_eq!(became(Some(&first), &by_one), Became::AsItWas);
        assert_eq!(became(Some(&first), &gone(by_one)), Became::Unknown);
        assert_eq!(became(Some(&first), &by_two), Became::Unsure);
        assert_eq!(became(Some(&first), &gone(by_two)), Became::Unsure);
        assert_eq!(became(Some(&linuxs()), &gone(by_two)), Became::Unsure);
        assert_eq!(became(Some(&linuxs()), &by_one), Became::Unsure);
    }
}
