//! What bridges over ports have learned, followed for the express lane (bpf/devices/bridge.h): packets of stations that are where a bridge believes
//! them to be may be express, and what is routed through the bridge leaves by the port of its next hop.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::{AsFd, BorrowedFd};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{ErrorKind, MapCore, MapFlags, MapHandle};
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_config::RouterConfig;
use rxlane_system::links::Links;
use rxlane_system::stations::{self, Monitor, Station};
use rxlane_topology::Topology;
use rxlane_topology::master::{self, MasterStatus};

use crate::DataplaneError;
use crate::clock::monotonic;
use crate::lanes::program::LaneProgram;

/// `struct station_key` of bpf/devices/bridge.h.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Key {
    bridge: u32,
    mac: [u8; 8],
}

impl Key {
    fn of(station: &Station) -> Self {
        let mut mac = [0; 8];
        mac[..6].copy_from_slice(&station.mac);
        Self {
            bridge: station.bridge,
            mac,
        }
    }
}

/// `struct station` of bpf/devices/bridge.h.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct At {
    port: u32,
    stays: u32,
    doubted_ns: u64,
}

impl At {
    /// As a bridge had it when the message was made, and by now may have it elsewhere.
    fn of(station: &Station) -> Self {
        Self {
            port: station.port.unwrap_or(0),
            stays: u32::from(station.stays),
            doubted_ns: monotonic().0,
        }
    }
}

/// Writes where a station is, unless the program knows it, which may doubt it.
fn put(map: &MapHandle, key: &[u8], at: &At) -> Result<(), BpfError> {
    let there = map.lookup(key, MapFlags::ANY).tried(tried)?;
    let there = there.map(|value| bytemuck::pod_read_unaligned::<At>(&value));
    if there.is_some_and(|there| (there.port, there.stays) == (at.port, at.stays)) {
        return Ok(());
    }
    match map.update(key, bytemuck::bytes_of(at), MapFlags::ANY) {
        // What does not fit stays with Linux.
        Err(error) if error.kind() == ErrorKind::TooBig => Ok(()),
        done => done.tried(tried),
    }
}

fn tried() -> String {
    "write map stations".into()
}

/// Stations that the program knows (`MAX_STATIONS` of bpf/devices/bridge.h); those of others are Linux's.
const MAX_STATIONS: usize = 65536;

/// The bridges over ports that are served, followed while there are some.
#[derive(Default)]
pub(crate) struct Bridges {
    monitor: Option<Monitor>,
    /// Ports of bridges, each with its bridge.
    served: BTreeMap<u32, u32>,
    /// Whether the program has been told what they have learned.
    told: bool,
}

impl Bridges {
    /// Looks for bridges over ports and for what they have learned, and tells the program.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the map cannot be written.
    pub(crate) fn look(
        &mut self,
        lane: &LaneProgram,
        config: &RouterConfig,
        devices: &Links,
        topology: &Topology,
    ) -> Result<(), DataplaneError> {
        let served = master::bridged(config, devices).filter_map(|(port, bridge)| {
            // What waits in the bridge's own queueing discipline must not be passed by.
            let direct = !topology.by_qdisc.contains_key(&bridge.ifindex);
            let is_of_port = |m: &&MasterStatus| m.port == port.name;
            let of_port = topology.masters.iter().find(is_of_port);
            let free = of_port.is_none_or(|m| m.declined.is_none());
            (direct && free).then_some((port.ifindex, bridge.ifindex))
        });
        let served = served.collect();
        // All that was learned since is known by news.
        if self.told && self.served == served {
            return self.follow(lane).map(drop);
        }
        self.served = served;
        if self.served.is_empty() {
            self.monitor = None;
        } else if self.monitor.is_none() {
            self.monitor = Some(Monitor::new()?);
        }
        self.write(lane)
    }

    fn write(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        self.told = false;
        let mut entries = BTreeMap::new();
        if !self.served.is_empty() {
            let all = stations::all()?.into_iter();
            for station in all.filter(|s| self.is_served(s)).take(MAX_STATIONS) {
                let key = bytemuck::bytes_of(&Key::of(&station)).to_vec();
                entries.insert(key, At::of(&station));
            }
        }
        // All first: whoever takes a key away while he goes through a map begins anew.
        let there: Vec<Vec<u8>> = lane.stations.keys().collect();
        for key in there.iter().filter(|key| !entries.contains_key(*key)) {
            pinned::delete(&lane.stations, key)?;
        }
        for (key, at) in &entries {
            put(&lane.stations, key, at)?;
        }
        self.told = true;
        Ok(())
    }

    fn is_served(&self, station: &Station) -> bool {
        let bridge = |port| self.served.get(&port);
        station
            .port
            .is_some_and(|port| bridge(port) == Some(&station.bridge))
    }

    /// Where news come, while bridges are served.
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.monitor.as_ref().map(AsFd::as_fd)
    }

    /// Ports from which bridges learn, of those that are served.
    pub(crate) fn teaching(&self, devices: &Links) -> BTreeSet<u32> {
        let served = self.served.keys().filter_map(|port| devices.at(*port));
        let teaching = served.filter(|d| d.teaches_master);
        teaching.map(|d| d.ifindex).collect()
    }

    /// Tells the program what bridges have learned and forgotten since the last call; whether there was something.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(crate) fn follow(&mut self, lane: &LaneProgram) -> Result<bool, DataplaneError> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(false);
        };
        let mut news = Vec::new();
        if !monitor.drain(|station| news.push(station))? {
            return self.write(lane).map(|()| true);
        }
        for station in &news {
            let key = Key::of(station);
            let key = bytemuck::bytes_of(&key);
            if !self.is_served(station) {
                pinned::delete(&lane.stations, key)?;
                continue;
            }
            put(&lane.stations, key, &At::of(station))?;
        }
        Ok(!news.is_empty())
    }
}
