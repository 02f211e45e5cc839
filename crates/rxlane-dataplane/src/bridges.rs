//! What bridges over ports have learned, followed for the express lane (bpf/bridge.h): packets of stations that are where a bridge believes
//! them to be may be express, and what is routed through the bridge leaves by the port of its next hop.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::{ErrorKind, MapCore, MapFlags};
use rxlane_config::RouterConfig;
use rxlane_system::links::Link as NetDevice;
use rxlane_system::stations::{self, Monitor, Station};

use crate::DataplaneError;
use crate::error::BpfTried;
use crate::lanes::program::LaneProgram;
use crate::{attach_points, masters, pinned, qdiscs, vlans};

/// `struct station_key` of bpf/bridge.h.
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

/// `struct station` of bpf/bridge.h.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct At {
    port: u32,
    stays: u32,
    doubted_s: u32,
}

impl At {
    /// Behind a port; what the program doubts it goes on doubting.
    fn of(station: &Station, lane: &LaneProgram) -> Result<Self, DataplaneError> {
        let key = Key::of(station);
        let there = lane
            .stations
            .lookup(bytemuck::bytes_of(&key), MapFlags::ANY)
            .tried(tried)?;
        let there = there.map(|value| bytemuck::pod_read_unaligned::<Self>(&value));
        Ok(Self {
            port: station.port.unwrap_or(0),
            stays: u32::from(station.stays),
            doubted_s: there.map_or(0, |there| there.doubted_s),
        })
    }
}

fn tried() -> String {
    "write map stations".into()
}

/// Stations that the program knows (`MAX_STATIONS` of bpf/bridge.h); those of others are Linux's.
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
        devices: &[NetDevice],
    ) -> Result<(), DataplaneError> {
        let by_qdisc = qdiscs::in_the_way(&config.egress, devices)?;
        let filtered = masters::filtered(config, devices)?;
        let ports = attach_points::whole(&config.ports, devices);
        let served = ports.filter_map(|port| {
            let bridge = masters::bridge_of(port, config, devices)?;
            // What waits in the bridge's own queueing discipline must not be passed by.
            let direct = !by_qdisc.contains_key(&bridge.ifindex);
            let free = direct && !filtered.contains_key(&port.ifindex);
            free.then_some((port.ifindex, bridge.ifindex))
        });
        let served = served.collect();
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

    fn write(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        self.told = false;
        let mut entries = BTreeMap::new();
        if !self.served.is_empty() {
            let all = stations::all()?.into_iter();
            for station in all.filter(|s| self.is_served(s)).take(MAX_STATIONS) {
                let at = At::of(&station, lane)?;
                entries.insert(bytemuck::bytes_of(&Key::of(&station)).to_vec(), at);
            }
        }
        vlans::replace(&lane.stations, &entries)?;
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

    /// Tells the program what bridges have learned and forgotten since the last call.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(crate) fn follow(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        let Some(monitor) = &mut self.monitor else {
            return Ok(());
        };
        let mut news = Vec::new();
        if !monitor.drain(|station| news.push(station))? {
            return self.write(lane);
        }
        for station in &news {
            let key = Key::of(station);
            let key = bytemuck::bytes_of(&key);
            if !self.is_served(station) {
                pinned::delete(&lane.stations, key)?;
                continue;
            }
            let at = At::of(station, lane)?;
            match lane
                .stations
                .update(key, bytemuck::bytes_of(&at), MapFlags::ANY)
            {
                // What does not fit stays with Linux.
                Err(error) if error.kind() == ErrorKind::TooBig => {}
                done => done.tried(tried)?,
            }
        }
        Ok(())
    }
}
