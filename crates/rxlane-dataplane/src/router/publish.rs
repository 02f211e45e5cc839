//! Tells the programs of devices while a router runs: from one snapshot, and from the topology that people are told. A start and a reload
//! do the same for a new program (changeover.rs).

use rxlane_system::links::Links;
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::Topology;
use tracing::{info, warn};

use super::Router;
use crate::DataplaneError;
use crate::lanes::{fast, polls};
use crate::named_vlans::NamedVlans;
use crate::{filters, macvlans, port, port_table, port_warnings, vlans};

impl Router {
    /// Tells the program of all devices. Asks what sees packets of ports of bridges before, which takes reading the whole ruleset; where
    /// that cannot be read, devices are told of by what was known.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or a map cannot be written.
    pub(crate) fn publish(&mut self, snapshot: &Snapshot) -> Result<(), DataplaneError> {
        let filtered = filters::of_bridges(&self.state.config, &snapshot.links);
        let asked = filtered.map(|filtered| self.filtered = filtered);
        self.write_ports(snapshot)?;
        self.write_devices(snapshot)?;
        Ok(asked?)
    }

    /// Tells the program about ports, and where packets may leave. What follows from the devices is the router's [`Topology`] from now on.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or a map cannot be written.
    pub(crate) fn write_ports(&mut self, snapshot: &Snapshot) -> Result<(), DataplaneError> {
        let devices = &snapshot.links;
        let topology = Topology::compile(&self.state.config, snapshot, &self.filtered);
        let is_news = topology != self.state.topology;
        self.state.topology = topology;
        self.unsaved |= is_news;
        let in_xdp = port::any_in_xdp(&self.state.ports);
        polls::follow(&self.instance, &self.shared.cpus, in_xdp)?;
        self.follow_fast(devices)?;
        self.link_queues
            .follow(&self.shared, &self.state.ports, devices)?;
        let (state, teaching) = (&self.state, self.bridges.teaching(devices));
        let (ports, config, topology) = (&state.ports, &state.config, &state.topology);
        port_table::write_ports(&self.shared, ports, config, snapshot, topology, &teaching)?;
        let mut mute = port_table::write_egress(&self.lane, ports, snapshot, topology)?;
        // The engine's sockets do without.
        if self.engine.is_some() {
            mute.clear();
        }
        for device in devices {
            let name = &device.name;
            match (self.mute.contains(name), mute.contains(name)) {
                (false, true) => warn!("{}", port_warnings::takes_no_frames(device)),
                (true, false) => info!(port = name, "takes frames from XDP again"),
                _ => {}
            }
        }
        self.mute = mute;
        if self.unsaved {
            match self.instance.save_state(&self.state) {
                Ok(()) => self.unsaved = false,
                // Tried again each second; packets do not wait for it.
                Err(error) if is_news => {
                    warn!(%error, "rxlane status shows devices as they were");
                }
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Has packets that are to leave through queueing disciplines leave by the fast lane, while there are any: of classes that want it, and
    /// of ports that refuse, or have.
    fn follow_fast(&mut self, devices: &Links) -> Result<(), DataplaneError> {
        let state = &mut self.state;
        let lanes = self.engine.is_none() && !state.options.observe && state.features.tcx;
        let any = fast::any_class(&state.config) || self.refusing.is_any();
        let (instance, shared) = (&self.instance, &self.shared);
        let ports = &mut state.ports;
        self.fast
            .follow(instance, shared, ports, devices, lanes && any)
    }

    /// Tells the program about devices over ports, and those that ports belong to, by the topology of [`Router::write_ports`].
    ///
    /// # Errors
    /// When the kernel cannot be asked, or a map cannot be written.
    fn write_devices(&mut self, snapshot: &Snapshot) -> Result<(), DataplaneError> {
        let (state, devices) = (&self.state, &snapshot.links);
        let (ports, config, topology) = (&state.ports, &state.config, &state.topology);
        self.sessions.assess(ports, config, devices)?;
        let mut vlans = vlans::Tables::of(ports, config, snapshot, topology);
        self.sessions
            .write(&self.lane, snapshot, topology, &mut vlans.ways)?;
        vlans.write(&self.lane)?;
        NamedVlans::of(&config.ports, devices).write(&self.lane)?;
        macvlans::write(&self.lane, ports, config, snapshot)?;
        self.tunnels.assess(config, devices)?;
        self.tunnels.follow(config, &self.shared, &self.lane);
        self.tunnels
            .write(&self.shared, &self.lane, snapshot, topology)?;
        self.bridges.look(&self.lane, config, devices, topology)
    }
}
