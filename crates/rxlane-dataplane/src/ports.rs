//! Ports: which are there and free, and the links that hold the program on them.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::PathBuf;

use libbpf_rs::Link;
use rxlane_config::RouterConfig;
use rxlane_system::links::Link as NetDevice;
use rxlane_system::xdp::Mode;
use tracing::warn;

use crate::DataplaneError;
use crate::instance::{Instance, PortState, State};
use crate::lanes::overload::Shared;
use crate::lanes::program::LaneProgram;
use crate::layout::{Port, PortTable};
use crate::pinned;

/// Slots of the configured ports: a port keeps the one it had.
pub(crate) fn slots(
    config: &RouterConfig,
    old: Option<&State>,
) -> Result<BTreeMap<String, PortState>, DataplaneError> {
    let mut ports = BTreeMap::new();
    for (slot, name) in (0u8..).zip(&config.ports) {
        let known = old.and_then(|o| o.ports.get(name));
        let state = PortState {
            slot,
            ifindex: known.and_then(|k| k.ifindex),
            mode: known.and_then(|k| k.mode.clone()),
        };
        ports.insert(name.clone(), state);
    }
    Ok(ports)
}

/// Whether all ports are there and free.
pub(crate) fn check_ports(
    instance: &Instance,
    config: &RouterConfig,
    devices: &[NetDevice],
) -> Result<(), DataplaneError> {
    for name in &config.ports {
        let device = devices.iter().find(|d| d.name == *name);
        let device = device.ok_or_else(|| DataplaneError::NoPort(name.clone()))?;
        let ours = open_link(instance, name).and_then(|l| pinned::xdp_link_ifindex(&l))
            == Some(device.ifindex);
        if device.xdp_program != 0 && !ours {
            return Err(DataplaneError::Occupied {
                port: name.clone(),
                program: device.xdp_program,
            });
        }
    }
    Ok(())
}

pub(crate) fn link_path(instance: &Instance, port: &str) -> PathBuf {
    instance.pins.join(format!("port_{port}"))
}

pub(crate) fn open_link(instance: &Instance, port: &str) -> Option<Link> {
    let path = link_path(instance, port);
    path.exists().then(|| Link::open(path).ok())?
}

/// Puts the program on a port: by replacing ours where it is attached, else by attaching anew.
pub(crate) fn attach(
    instance: &Instance,
    device: &NetDevice,
    lane: &LaneProgram,
    fresh: Option<&mut Vec<PathBuf>>,
) -> Result<&'static str, DataplaneError> {
    let path = link_path(instance, &device.name);
    let no_xdp = |source| DataplaneError::NoXdp {
        port: device.name.clone(),
        mtu: device.mtu,
        source,
    };
    if let Some(link) = open_link(instance, &device.name)
        && pinned::xdp_link_ifindex(&link) == Some(device.ifindex)
    {
        pinned::replace_program(&link, lane.program.as_fd()).map_err(no_xdp)?;
        let mode = instance
            .load_state()
            .and_then(|s| s.ports.get(&device.name)?.mode.clone());
        return Ok(if mode.as_deref() == Some("generic") {
            "generic"
        } else {
            "native"
        });
    }
    pinned::remove_pin(&path)?;
    let (link, mode) = pinned::attach_xdp(lane.program.as_fd(), device.ifindex).map_err(no_xdp)?;
    pinned::pin(link.as_fd(), &path)?;
    if let Some(fresh) = fresh {
        fresh.push(path);
    }
    if mode == Mode::Generic {
        warn!(
            port = device.name,
            "the driver has no native XDP; using generic mode"
        );
    }
    Ok(mode.name())
}

pub(crate) fn write_ports(
    shared: &Shared,
    ports: &BTreeMap<String, PortState>,
    devices: &[NetDevice],
) -> Result<(), DataplaneError> {
    let mut table: PortTable = bytemuck::Zeroable::zeroed();
    for (name, port) in ports {
        let Some(device) = devices.iter().find(|d| Some(d.ifindex) == port.ifindex) else {
            continue;
        };
        let entry = Port {
            ifindex: device.ifindex,
            mac: device.mac,
            slot: port.slot,
            pad: 0,
        };
        if !table.insert(entry) {
            return Err(DataplaneError::PortTable(name.clone()));
        }
    }
    pinned::put(&shared.ports, 0, bytemuck::bytes_of(&table))
}

pub(crate) fn write_egress(
    lane: &LaneProgram,
    ports: &BTreeMap<String, PortState>,
) -> Result<(), DataplaneError> {
    for ifindex in ports.values().filter_map(|p| p.ifindex) {
        pinned::put(&lane.egress, ifindex, &ifindex.to_ne_bytes())?;
    }
    Ok(())
}
