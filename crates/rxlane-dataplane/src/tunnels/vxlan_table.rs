//! The program's table of stations in VXLANs, each with the other end that it is behind (bpf/devices/vxlan.h).

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};

use crate::DataplaneError;
use crate::clock::monotonic;

/// `struct station_key` of bpf/devices/bridge.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Key {
    pub(super) device: u32,
    mac: [u8; 8],
}

impl Key {
    pub(super) fn of(device: u32, mac: [u8; 6]) -> Self {
        let mut all = [0; 8];
        all[..6].copy_from_slice(&mac);
        Self { device, mac: all }
    }

    /// Whether it stands for all stations that are unknown.
    pub(super) fn is_unknown(&self) -> bool {
        self.mac == [0; 8]
    }
}

/// `struct vxlan_end` of bpf/devices/vxlan.h, of which the program writes the rest: when Linux has seen the station in use, and when it was heard
/// from another end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct End {
    pub(super) address: [u8; 4],
    ages: u32,
    left_s: [u32; 2],
    doubted_ns: u64,
}

impl End {
    /// Nothing is sent to groups, and what goes nowhere is dropped by Linux.
    pub(super) fn of(address: Option<Ipv4Addr>, ages: bool) -> Self {
        let address = address.filter(|end| !end.is_multicast() && !end.is_unspecified());
        Self {
            address: address.map_or(LINUXS, |end| end.octets()),
            ages: u32::from(ages),
            left_s: [0; 2],
            doubted_ns: 0,
        }
    }

    pub(super) fn is_as(&self, other: &Self) -> bool {
        (self.address, self.ages) == (other.address, other.ages)
    }
}

/// A station behind several ends, or behind one that the lane does not send to (`SEVERAL_ENDS` of bpf/devices/vxlan.h).
pub(super) const LINUXS: [u8; 4] = [255; 4];

pub(super) fn tried() -> String {
    "write map vxlan_ends".into()
}

/// Writes where Linux had a station when it sent the message, which by now may have it elsewhere.
pub(super) fn put(map: &MapHandle, key: &[u8], end: &End) -> Result<(), BpfError> {
    let end = End {
        doubted_ns: monotonic().0,
        ..*end
    };
    map.update(key, bytemuck::bytes_of(&end), MapFlags::ANY)
        .tried(tried)
}

pub(super) fn send_unknown_by_linux(map: &MapHandle, device: u32) -> Result<(), BpfError> {
    let key = Key::of(device, [0; 6]);
    match map.update(
        bytemuck::bytes_of(&key),
        bytemuck::bytes_of(&End::of(None, false)),
        MapFlags::EXIST,
    ) {
        // Nothing is sent to them as it is.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        done => done.tried(tried),
    }
}

/// Makes the map hold these entries. What the program has written about those that stay is kept. While it is changed no station is taken
/// for an unknown one: the ends of those are taken away first, and given last.
pub(super) fn replace(map: &MapHandle, wanted: &BTreeMap<Key, End>) -> Result<(), DataplaneError> {
    let (unknown, known): (Vec<_>, Vec<_>) = wanted.iter().partition(|(key, _)| key.is_unknown());
    let (last, first): (Vec<_>, Vec<_>) = unknown
        .into_iter()
        .partition(|(_, end)| end.address != LINUXS);
    let there = map
        .keys()
        .map(|key| bytemuck::pod_read_unaligned::<Key>(&key));
    let (mut gone, others): (Vec<Key>, Vec<Key>) = there
        .filter(|key| !wanted.contains_key(key))
        .partition(Key::is_unknown);
    for (key, end) in first {
        put_new(map, key, end)?;
    }
    gone.extend(others);
    for key in gone {
        pinned::delete(map, bytemuck::bytes_of(&key))?;
    }
    for (key, end) in known.into_iter().chain(last) {
        put_new(map, key, end)?;
    }
    Ok(())
}

fn put_new(map: &MapHandle, key: &Key, end: &End) -> Result<(), BpfError> {
    let key = bytemuck::bytes_of(key);
    let there = map.lookup(key, MapFlags::ANY).tried(tried)?;
    let there = there.map(|value| bytemuck::pod_read_unaligned::<End>(&value));
    if there.is_some_and(|there| there.is_as(end)) {
        return Ok(());
    }
    put(map, key, end)
}
