//! PPPoE sessions over ports and VLAN devices: which of them the express lane serves (bpf/devices/session.h).
//!
//! What comes in a session came in by its ppp device, and leaves through one in a session, as in Linux; discovery, and all that keeps a
//! session up, is the kernel's and its daemon's (pppd, accel-ppp).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytemuck::{Pod, Zeroable};
use libbpf_rs::MapHandle;
use rxlane_bpf::layout::PORT_HIDES_TAGS;
use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, BpfTried};
use rxlane_config::RouterConfig;
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::Topology;
use rxlane_topology::device::Checks;
use rxlane_topology::session::{AGAINST, Around, SessionStatus};
use rxlane_topology::vlan;
use tracing::warn;

use crate::DataplaneError;
use crate::device_over::{self, flags};
use crate::filters;
use crate::instance::Instance;
use crate::lanes::overload::Shared;
use crate::lanes::program::LaneProgram;
use crate::lanes::sessions::{self, FoundSession, SessionIterator};
use crate::port::PortState;
use crate::vlans;

/// Sessions that the program knows (`MAX_SESSIONS` of bpf/devices/session.h).
const MAX_SESSIONS: usize = 1024;
/// Where the kernel lists sessions of the network namespace, below a heading; it is missing where it knows none.
const LIST: &str = "/proc/thread-self/net/pppoe";

/// A ppp device with its session.
struct Session {
    device: NetDevice,
    found: FoundSession,
    under: Option<NetDevice>,
    declined: Option<String>,
}

/// The sessions of this network namespace, as they were found last.
pub(crate) struct Sessions {
    changes: MapHandle,
    /// Where the router's pins are.
    pins: PathBuf,
    iterator: Option<SessionIterator>,
    found: Vec<FoundSession>,
    /// Why none is found where there may be some.
    refused: Option<String>,
    all: Vec<Session>,
}

impl Sessions {
    /// Ready to look, where the kernel has sessions: loading may take more privileges than a daemon keeps.
    ///
    /// # Errors
    /// When the process has no descriptor left.
    pub(crate) fn open(instance: &Instance, shared: &Shared) -> Result<Self, DataplaneError> {
        let mut sessions = Self {
            changes: MapHandle::try_from(&shared.session_changes)
                .tried(|| "keep the changes of sessions".into())?,
            pins: instance.pins.clone(),
            iterator: None,
            found: Vec::new(),
            refused: None,
            all: Vec::new(),
        };
        sessions.load();
        Ok(sessions)
    }

    fn load(&mut self) {
        if !Path::new(LIST).exists() {
            return;
        }
        match SessionIterator::load(&self.changes, &self.pins) {
            Ok(iterator) => self.iterator = iterator,
            Err(error) => {
                warn!(%error, "packets in sessions of PPPoE stay with the kernel until rxlane is started again");
                self.refused = Some(format!(
                    "sessions cannot be looked for: start rxlane again, once there are some ({error})"
                ));
            }
        }
    }

    /// Looks for sessions, if there are any. Returns how often the kernel had changed one before. What goes wrong is said of each ppp
    /// device, and not a reason for doing nothing about others.
    ///
    /// # Errors
    /// When a map cannot be read.
    pub(crate) fn look(&mut self, devices: &Links) -> Result<u32, DataplaneError> {
        self.found.clear();
        let changed = sessions::changed(&self.changes)?;
        let is_any = devices.iter().any(|d| d.is_ppp)
            && std::fs::read_to_string(LIST).is_ok_and(|list| list.lines().nth(1).is_some());
        if !is_any {
            return Ok(changed);
        }
        if self.iterator.is_none() && self.refused.is_none() {
            self.load();
        }
        match self.iterator.as_ref().map(SessionIterator::read) {
            Some(Ok(found)) => self.found = found,
            Some(Err(error)) => warn!(%error, "packets in sessions of PPPoE stay with the kernel"),
            None => {}
        }
        Ok(changed)
    }

    /// What speaks against each session that was found, by what devices there are now.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn assess(
        &mut self,
        ports: &BTreeMap<String, PortState>,
        config: &RouterConfig,
        devices: &Links,
    ) -> Result<(), DataplaneError> {
        self.all.clear();
        if self.found.is_empty() {
            return Ok(());
        }
        let modes = ports.iter();
        let modes = modes.filter_map(|(name, port)| Some((name.as_str(), port.mode.as_deref()?)));
        let around = Around {
            config,
            devices,
            modes: modes.collect(),
            vlans: vlan::express(&config.ports, devices),
            filtered: filters::under_sessions(&self.found, devices)?,
        };
        let mut links = BTreeMap::new();
        for found in &self.found {
            *links.entry(found.ifindex).or_insert(0) += 1;
        }
        for found in &self.found {
            let Some(device) = devices.at(found.ifindex) else {
                continue;
            };
            let under = devices.at(found.device);
            let declined = if links[&found.ifindex] > 1 {
                Some(AGAINST[0].to_owned())
            } else if self.all.len() >= MAX_SESSIONS {
                Some(format!("there are more than {MAX_SESSIONS} sessions"))
            } else {
                match under {
                    Some(under) => around.why_not(device, under, found.against),
                    None => Some("the device under it is gone".into()),
                }
            };
            self.all.push(Session {
                device: device.clone(),
                found: *found,
                under: under.cloned(),
                declined,
            });
        }
        Ok(())
    }

    /// What a router does about sessions, by what was assessed last.
    pub(crate) fn status(&self) -> Vec<SessionStatus> {
        let status = |session: &Session| SessionStatus {
            name: session.device.name.clone(),
            device: session.under.as_ref().map(|d| d.name.clone()),
            id: u16::from_be_bytes(session.found.id),
            declined: session.declined.clone(),
        };
        let refused = self.refused.iter().map(|why| SessionStatus {
            name: "ppp".into(),
            device: None,
            id: 0,
            declined: Some(why.clone()),
        });
        self.all.iter().map(status).chain(refused).collect()
    }

    /// The devices of sessions that are served.
    pub(crate) fn served(&self) -> Vec<String> {
        let served = self.all.iter().filter(|s| s.declined.is_none());
        served.map(|session| session.device.name.clone()).collect()
    }

    /// Tells the program by which sessions packets come in, and adds to the ways of VLAN devices those of sessions.
    ///
    /// # Errors
    /// When the map cannot be written.
    pub(crate) fn write(
        &self,
        lane: &LaneProgram,
        snapshot: &Snapshot,
        topology: &Topology,
        ways: &mut BTreeMap<Vec<u8>, vlans::Way>,
    ) -> Result<(), BpfError> {
        let mut entries = BTreeMap::new();
        for session in self.all.iter().filter(|s| s.declined.is_none()) {
            let (device, found) = (&session.device, &session.found);
            let Some(under) = &session.under else {
                continue;
            };
            let key = Key {
                device: under.ifindex,
                id: found.id,
                sender: found.remote,
            };
            let own = flags(Checks::of(device, None, snapshot));
            let entry = device_over::entry(device, &snapshot.links, own & !PORT_HIDES_TAGS);
            entries.insert(bytemuck::bytes_of(&key).to_vec(), entry);
            let of_vlan = ways.get(under.ifindex.to_ne_bytes().as_slice()).copied();
            let mut way = of_vlan.unwrap_or_else(|| vlans::Way::of_port(under));
            way.session = vlans::SessionPush {
                there: 1,
                pad: 0,
                id: found.id,
                to: found.remote,
                from: under.mac,
            };
            way.by_qdisc |= u8::from(topology.by_qdisc.contains_key(&device.ifindex));
            ways.insert(device.ifindex.to_ne_bytes().to_vec(), way);
        }
        pinned::replace(&lane.sessions, &entries)
    }
}

/// `struct session_key` of bpf/devices/session.h.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Key {
    device: u32,
    id: [u8; 2],
    sender: [u8; 6],
}

/// See [`crate::testing::serve_session`].
#[cfg(feature = "testing")]
pub(crate) fn serve(
    lane: &LaneProgram,
    ifindex: u32,
    id: u16,
    sender: [u8; 6],
) -> Result<(), DataplaneError> {
    let key = Key {
        device: ifindex,
        id: id.to_be_bytes(),
        sender,
    };
    let entry = rxlane_bpf::layout::DeviceOver::seen_as_itself(ifindex);
    let entries = BTreeMap::from([(bytemuck::bytes_of(&key).to_vec(), entry)]);
    Ok(pinned::replace(&lane.sessions, &entries)?)
}

/// See [`crate::testing::send_in_session`].
#[cfg(feature = "testing")]
pub(crate) fn send(
    lane: &LaneProgram,
    ifindex: u32,
    port: &NetDevice,
    tags: &[u16],
    id: u16,
    remote: [u8; 6],
) -> Result<(), DataplaneError> {
    let mut way = vlans::Way::of_port(port);
    way.push_tags(tags);
    way.session = vlans::SessionPush {
        there: 1,
        pad: 0,
        id: id.to_be_bytes(),
        to: remote,
        from: port.mac,
    };
    let ways = BTreeMap::from([(ifindex.to_ne_bytes().to_vec(), way)]);
    Ok(pinned::replace(&lane.vlan_ways, &ways)?)
}
