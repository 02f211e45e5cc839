//! Ports that go, come back and move while a router runs.

use std::collections::{BTreeMap, BTreeSet};

use rxlane_bpf::layout::MAX_PORTS;
use rxlane_bpf::pinned;
use rxlane_system::drivers;
use rxlane_system::links::{Event, Link, Links};
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::device::{is, with_members};
use rxlane_topology::{attachment, hook};
use tracing::{info, warn};

use super::Router;
use crate::DataplaneError;
use crate::attached::Attached;
use crate::lanes::overload;
use crate::port::PortState;
use crate::{port_links, ports, tags};

impl Router {
    /// Brings ports up to date with the devices there are: attaches what came back, forgets what went. `news`: of devices; none where
    /// some were lost.
    ///
    /// # Errors
    /// When devices cannot be listed; a port that cannot be attached is a warning.
    pub(crate) fn refresh_ports(&mut self, news: Option<&[Event]>) -> Result<(), DataplaneError> {
        if !self.follow_ports(news)? {
            return Ok(());
        }
        let config = self.state.written_config();
        info!("ports are others than the programs were made for, which are loaded anew");
        self.reload(config, self.state.options)
    }

    /// The same. Returns whether ports have become what the programs were not made for.
    pub(crate) fn follow_ports(&mut self, news: Option<&[Event]>) -> Result<bool, DataplaneError> {
        self.xdp_health.hear(news);
        let snapshot = Snapshot::read()?;
        let devices = &snapshot.links;
        let mut renamed = false;
        for (was, to) in self.state.follow_names(devices) {
            port_links::rename(&self.instance, &was, &to)?;
            renamed = true;
        }
        let mut changed = self.follow_vlans(devices)? || renamed;
        let by_vlan = attachment::by_vlan(&self.state.config.ports, devices);
        for (name, port) in &mut self.state.ports {
            let device = devices.named(name);
            let link = port_links::open_link(&self.instance, name);
            let attached = link.as_ref().and_then(pinned::link_ifindex);
            // A VLAN device may have come back by the name of a port, and another device by that of one under VLAN devices.
            let is_ours = |d: &&Link| {
                attached == Some(d.ifindex)
                    || if port.is_by_vlan() {
                        by_vlan.contains_key(name.as_str())
                    } else {
                        d.vlan.is_none()
                    }
            };
            let device = device.filter(is_ours);
            let known = port.ifindex.is_some() && device.map(|d| d.ifindex) == port.ifindex;
            if let Some(gone) = port.ifindex.take_if(|_| !known) {
                warn!(port = name, "port is gone");
                port_links::let_go(&self.instance, name, Some(gone), devices)?;
                pinned::forget(&self.lane.egress, port.egress_key(gone));
                port.mode = None;
                port.rests = false;
                changed = true;
            }
            // A bond may have got another member.
            if let Some(bond) = device.filter(|d| is(d, "bond")) {
                let all = with_members(&[bond.name.as_str()].into(), devices);
                if let Err(error) = tags::keep(&self.instance, &all) {
                    warn!(port = name, %error, "tags of its VLANs are not seen");
                }
            }
            // One that had another name for a while is still attached, and no port to the program.
            if let Some(device) = device.filter(|d| {
                let is_attached = port.rests || attached == Some(d.ifindex);
                !known || !is_attached
            }) {
                let attach = || {
                    let at_tc = self.lane.at_tc.is_some()
                        && hook::is_at_tc(&self.state.config, device, devices);
                    if !at_tc {
                        tags::keep(&self.instance, &[name.as_str()].into())?;
                    }
                    ports::attach(&self.instance, device, &self.lane, at_tc)
                };
                let lends = ports::would_lend_queues(device);
                match attach() {
                    Ok((mode, attached)) => {
                        info!(port = name, mode, "port is here");
                        port.ifindex = Some(device.ifindex);
                        port.mode = Some(mode.into());
                        changed = true;
                        if !matches!(attached, Attached::Replaced(..)) {
                            port.lent_queues = lends && mode == "native";
                        }
                        attached.settle();
                        let lent = port.lent_queues.then(|| ports::waits_for_ever(name));
                        let all = ports::warnings(device, Some(mode)).into_iter().chain(lent);
                        for warning in all {
                            if !self.state.warnings.contains(&warning) {
                                warn!("{warning}");
                                self.state.warnings.push(warning);
                            }
                        }
                        // The engine keeps the queues that it was made for.
                        if self.engine.is_none()
                            && let Ok(queues) = drivers::rx_queues(name)
                        {
                            self.state.queues.insert(name.clone(), queues);
                        }
                    }
                    Err(error) => warn!(port = name, %error, "cannot attach the port"),
                }
            }
        }
        self.insisting
            .follow(&self.instance, &self.state.ports, devices);
        // Also when only a MAC address has changed. Sessions as they are known: who looks around looks for them, too.
        self.publish(&snapshot)?;
        if changed {
            self.instance.save_state(&self.state)?;
        }
        // To the program a port is served whole or by its VLANs for as long as it is loaded, and the engine has names of its own.
        let by_vlan = |name: &str| devices.named(name).is_some_and(|d| d.vlan.is_some());
        let mut ports = self.state.ports.iter();
        let is_vlan =
            ports.any(|(name, p)| p.ifindex.is_none() && !p.is_by_vlan() && by_vlan(name));
        Ok(is_vlan || (renamed && self.engine.is_some()))
    }

    /// Attaches a port as for a VLAN device of that name, which need not be there.
    #[cfg(feature = "testing")]
    pub(crate) fn attach_by_vlan(&mut self, port: &str, vlan: &str) -> Result<(), DataplaneError> {
        let found = [(port, BTreeSet::from([vlan.to_owned()]))].into();
        self.add_by_vlan(&found)?;
        let snapshot = Snapshot::read()?;
        let device = snapshot.links.named(port);
        let device = device.ok_or_else(|| DataplaneError::NoPort(port.into()))?;
        tags::keep(&self.instance, &[port].into())?;
        let (mode, _) = ports::attach(&self.instance, device, &self.lane, false)?;
        if let Some(port) = self.state.ports.get_mut(port) {
            port.ifindex = Some(device.ifindex);
            port.mode = Some(mode.into());
        }
        self.write_ports(&snapshot)
    }

    /// Finds the ports under VLAN devices that are named. One that all of them have left for another port is given back; one whose VLAN
    /// devices are only gone stays attached, where nothing is served then, because taking a program away and putting it back takes some
    /// links down. Returns whether there are other ports now.
    fn follow_vlans(&mut self, devices: &Links) -> Result<bool, DataplaneError> {
        let found = attachment::by_vlan(&self.state.config.ports, devices);
        let before = self.state.ports.clone();
        self.add_by_vlan(&found)?;
        let mut left = Vec::new();
        for (name, port) in self.state.ports.iter_mut().filter(|(_, p)| p.is_by_vlan()) {
            let here = found.get(name.as_str());
            let is_there = |vlan: &String| devices.named(vlan).is_some();
            // Those that are gone are still expected here.
            port.vlans
                .retain(|vlan| here.is_some_and(|h| h.contains(vlan)) || !is_there(vlan));
            if port.vlans.is_empty() {
                left.push(name.clone());
            }
        }
        for name in &left {
            let port = self.state.ports.remove(name);
            self.leave(name, port.and_then(|port| port.ifindex), devices)?;
        }
        Ok(self.state.ports != before)
    }

    /// Gives each of these ports a place, and notes the VLAN devices that stand for it.
    fn add_by_vlan(
        &mut self,
        found: &BTreeMap<&str, BTreeSet<String>>,
    ) -> Result<(), DataplaneError> {
        for (name, vlans) in found {
            match self.state.ports.get_mut(*name) {
                Some(port) if port.is_by_vlan() => port.vlans.extend(vlans.iter().cloned()),
                // Its name was that of a port, which may come back.
                Some(_) => warn!(
                    port = name,
                    "stays with the kernel: its name is that of a port; reload to have its VLANs served"
                ),
                None => {
                    let taken = |slot: &u8| self.state.ports.values().any(|p| p.slot == *slot);
                    let Some(slot) = (0..MAX_PORTS as u8).find(|slot| !taken(slot)) else {
                        warn!(port = name, "cannot attach the port: there are {MAX_PORTS}");
                        continue;
                    };
                    // To the program a slot that no port had when it was loaded is one of VLAN devices.
                    overload::reset_port(&self.shared, slot)?;
                    let state = PortState {
                        slot,
                        vlans: vlans.clone(),
                        ..PortState::default()
                    };
                    self.state.ports.insert((*name).to_owned(), state);
                }
            }
        }
        Ok(())
    }

    /// Gives a port back that no VLAN device stands for any more.
    fn leave(
        &self,
        name: &str,
        ifindex: Option<u32>,
        devices: &Links,
    ) -> Result<(), DataplaneError> {
        info!(
            port = name,
            "is given back: no VLAN device that is named lies over it"
        );
        pinned::detach(&self.instance.port_link(name))?;
        if let Some(ifindex) = ifindex {
            pinned::forget(
                &self.lane.egress,
                ifindex | rxlane_bpf::layout::EGRESS_BY_VLAN,
            );
        }
        let ports: BTreeSet<&str> = self.state.ports.keys().map(String::as_str).collect();
        let on = with_members(&ports, devices);
        tags::give_back(&self.instance, |port| !on.contains(port));
        Ok(())
    }
}
