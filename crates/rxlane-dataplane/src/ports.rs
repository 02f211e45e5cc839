//! Ports: which are there and free, and the links that hold the program on them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use rxlane_bpf::layout::MAX_PORTS;
use rxlane_bpf::pinned;
use rxlane_config::{Datapath, RouterConfig};
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::xdp::Mode;
use rxlane_system::{drivers, tcx};
use rxlane_topology::attachment;
use rxlane_topology::device::{hides_tags, is};
use rxlane_topology::hook::AT_TC;
use tracing::warn;

use crate::DataplaneError;
use crate::attached::Attached;
use crate::foreign::Foreign;
use crate::instance::Instance;
use crate::lanes::program::LaneProgram;
use crate::port::PortState;
use crate::port_links;
use crate::state::State;

/// Slots of the ports of a configuration: a port keeps the one it had, and a new one gets none that an old port has, because the
/// old program counts there until the last link has changed over.
pub(crate) fn slots(
    config: &RouterConfig,
    old: Option<&State>,
    devices: &Links,
) -> Result<BTreeMap<String, PortState>, DataplaneError> {
    let known = |name: &str| old.and_then(|o| o.ports.get(name));
    let taken: Vec<u8> = old.map_or_else(Vec::new, |o| o.ports.values().map(|p| p.slot).collect());
    let mut free = (0..MAX_PORTS as u8).filter(|slot| !taken.contains(slot));
    let by_vlan = attachment::by_vlan(&config.ports, devices);
    let is_vlan = |name: &String| devices.named(name).is_some_and(|d| d.vlan.is_some());
    let whole = config.ports.iter().filter(|name| !is_vlan(name));
    let whole = whole.map(|name| (name.as_str(), BTreeSet::new()));
    let mut ports = BTreeMap::new();
    for (name, vlans) in whole.chain(by_vlan) {
        let before = known(name);
        let slot = match before {
            Some(port) => port.slot,
            None => free
                .next()
                .ok_or(DataplaneError::TooManyPorts(MAX_PORTS + 1))?,
        };
        let state = PortState {
            slot,
            ifindex: before.and_then(|port| port.ifindex),
            mode: before.and_then(|port| port.mode.clone()),
            vlans,
            lent_queues: before.is_some_and(|port| port.lent_queues),
            hands_over: before.is_some_and(|port| port.hands_over),
            rests: false,
        };
        ports.insert(name.to_owned(), state);
    }
    Ok(ports)
}

/// Whether all ports that are there are free.
pub(crate) fn check_ports(
    instance: &Instance,
    config: &RouterConfig,
    devices: &Links,
) -> Result<(), DataplaneError> {
    attachment::check(config, devices)?;
    for device in attachment::points(&config.ports, devices) {
        if device.xdp_program != 0 && port_links::link_on(instance, device).is_none() {
            return Err(occupied(device));
        }
    }
    Ok(())
}

fn occupied(device: &NetDevice) -> DataplaneError {
    DataplaneError::Occupied {
        port: device.name.clone(),
        program: Box::new(Foreign::find(&device.name, device.xdp_program)),
    }
}

/// Puts the program on a port: by replacing ours where it is attached, else by attaching anew. `at_tc`: where the kernel can.
pub(crate) fn attach(
    instance: &Instance,
    device: &NetDevice,
    lane: &LaneProgram,
    at_tc: bool,
) -> Result<(&'static str, Attached), DataplaneError> {
    let path = instance.port_link(&device.name);
    let no_xdp = |source| DataplaneError::NoXdp {
        port: device.name.clone(),
        mtu: device.mtu,
        source,
    };
    let at_tc = lane.at_tc.as_ref().filter(|_| at_tc);
    let was = port_links::link_on(instance, device);
    if let Some((pin, _)) = was.as_ref().filter(|(pin, _)| *pin != path) {
        pinned::rename_pin(pin, &path)?;
    }
    let was = was.map(|(_, link)| (pinned::is_tcx(&link), link));
    let was = match was {
        Some((was_at_tc, link)) if was_at_tc == at_tc.is_some() => {
            let before = pinned::program_of(&link);
            let program = at_tc.unwrap_or(&lane.program);
            pinned::replace_program(&link, program.as_fd()).map_err(no_xdp)?;
            let mode = match (was_at_tc, device.xdp_is_generic) {
                (true, _) => AT_TC,
                (false, true) => Mode::Generic.name(),
                (false, false) => Mode::Native.name(),
            };
            return Ok((mode, Attached::Replaced(link, before)));
        }
        was => was,
    };
    // A port that came back may have been given to somebody else.
    let is_ours = was.as_ref().is_some_and(|(was_at_tc, _)| !was_at_tc);
    if device.xdp_program != 0 && !is_ours {
        return Err(occupied(device));
    }
    let link = at_tc.map(|program| tcx::attach(program.as_fd(), device.ifindex));
    if let Some(Err(error)) = &link {
        warn!(port = device.name, %error, "it cannot be served at tc ingress, and is in XDP");
    }
    let (link, mode) = match link {
        Some(Ok(link)) => (link, AT_TC),
        _ => pinned::attach_xdp(lane.program.as_fd(), device.ifindex)
            .map(|(link, mode)| (link, mode.name()))
            .map_err(no_xdp)?,
    };
    if mode == Mode::Generic.name() {
        warn!(
            port = device.name,
            "the driver has no native XDP; using generic mode"
        );
    }
    // Both are at work for a moment: what one has served the other does not see.
    let attached = match was {
        Some((_, was)) => {
            let beside = path.with_file_name("moving");
            pinned::remove_pin(&beside)?;
            pinned::pin(link.as_fd(), &beside)?;
            pinned::rename_pin(&beside, &path)?;
            pinned::remove_pin(&beside)?;
            Attached::Moved(path, was)
        }
        None => {
            pinned::detach(&path)?;
            pinned::pin(link.as_fd(), &path)?;
            Attached::Fresh(path)
        }
    };
    Ok((mode, attached))
}

/// What the operator should know of a port; `mode` is that of XDP, where it is known.
pub(crate) fn warnings(device: &NetDevice, mode: Option<&str>) -> Vec<String> {
    let (name, kind) = (&device.name, device.kind.as_deref());
    let mut found = Vec::new();
    if kind == Some("veth") && mode != Some(AT_TC) {
        found.push(format!(
            "port `{name}` is a veth: what hosts behind it offload (segments, checksums) goes by Linux, until they do not (ethtool -K IF tx off tso off gso off)"
        ));
    }
    if hides_tags(kind, mode.or(Some("native"))) {
        found.push(format!(
            "port `{name}` lies over other devices, which hide VLAN tags from XDP: express packets that come in there stay with the kernel"
        ));
    } else if mode == Some("generic") {
        found.push(format!(
            "port `{name}`: the driver has no native XDP; generic mode works on skbs and protects much less"
        ));
    }
    found
}

/// Of a port that has [lent queues](PortState::lent_queues).
pub(crate) fn waits_for_ever(port: &str) -> String {
    format!(
        "port `{port}` is a virtio-net with queues to spare, of which its driver gives some to XDP and gets none back: detach before the device is taken out of the machine, which would wait for it for ever"
    )
}

/// Whether the device, to which no program is attached yet, could not go any more while one is: `virtnet_xdp_set`
/// (drivers/net/virtio_net.c) takes a queue for each core if there are so many, and `netif_set_real_num_rx_queues`
/// (net/core/dev.c) forgets those of a device that is leaving.
pub(crate) fn would_lend_queues(device: &NetDevice) -> bool {
    let cores = libbpf_rs::num_possible_cpus().unwrap_or(1);
    device.kind.is_none()
        && drivers::driver(&device.name).is_ok_and(|d| d.as_deref() == Some("virtio_net"))
        && drivers::spare_queues(&device.name).is_ok_and(|spare| spare as usize >= cores)
}

/// Rx queues of the ports that there are.
pub(crate) fn rx_queues(ports: &BTreeMap<String, PortState>) -> BTreeMap<String, u32> {
    let queues = |name: &String| Some((name.clone(), drivers::rx_queues(name).ok()?));
    ports.keys().filter_map(queues).collect()
}

/// Ports that have been given more Rx queues, which nobody announces: the engine has no sockets there, and a veth runs no program
/// there (`veth_set_channels` in drivers/net/veth.c; Linux 6.18).
pub(crate) fn unserved_queues(state: &State, devices: &Links) -> Vec<String> {
    let has_engine = matches!(state.config.datapath, Datapath::Afxdp(_));
    let told = |(port, now): (&String, &u32)| {
        let served = state.queues.get(port).filter(|served| now > served)?;
        let whose = if devices.named(port).is_some_and(|d| is(d, "veth")) {
            "is Linux's, because a veth runs no XDP program there"
        } else if has_engine {
            "goes by the XDP lanes, without the engine's budgets"
        } else {
            return None;
        };
        Some(format!(
            "port `{port}` has {now} Rx queues, and had {served} when rxlane was attached: what comes in by the others {whose}; `rxlane reload` serves all"
        ))
    };
    rx_queues(&state.ports).iter().filter_map(told).collect()
}
