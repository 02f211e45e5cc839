//! Ports: which are there and free, and the links that hold the program on them.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use rxlane_config::{Datapath, Egress, RouterConfig};
use rxlane_system::addresses;
use rxlane_system::drivers;
use rxlane_system::links::Link as NetDevice;
use rxlane_system::sysctl;
use rxlane_system::xdp::{self, Mode};
use rxlane_system::{tc, tcx};
use tracing::warn;

use crate::DataplaneError;
use crate::attach_points;
use crate::changeover::Attached;
use crate::foreign::Foreign;
use crate::hooks::{self, AT_TC};
use crate::instance::{Instance, PortState, State};
use crate::lanes::overload::Shared;
use crate::lanes::program::LaneProgram;
use crate::layout::{
    MAX_PORTS, PORT_HIDES_TAGS, PORT_LOOSE, PORT_NO_IPV6, PORT_OTHER_MACS, PORT_QDISC, PORT_STRICT,
    PORT_TAKES_PIECES, Port, PortTable,
};
use crate::macvlans;
use crate::masters;
use crate::pinned;
use crate::port_links;
use crate::qdiscs;
use crate::refusing;
use crate::tags;

/// Slots of the ports of a configuration: a port keeps the one it had, and a new one gets none that an old port has, because the
/// old program counts there until the last link has changed over.
pub(crate) fn slots(
    config: &RouterConfig,
    old: Option<&State>,
    devices: &[NetDevice],
) -> Result<BTreeMap<String, PortState>, DataplaneError> {
    let known = |name: &str| old.and_then(|o| o.ports.get(name));
    let taken: Vec<u8> = old.map_or_else(Vec::new, |o| o.ports.values().map(|p| p.slot).collect());
    let mut free = (0..MAX_PORTS as u8).filter(|slot| !taken.contains(slot));
    let by_vlan = attach_points::by_vlan(&config.ports, devices);
    let is_vlan = |name: &String| devices.iter().any(|d| d.name == *name && d.vlan.is_some());
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
    devices: &[NetDevice],
) -> Result<(), DataplaneError> {
    attach_points::check(config, devices)?;
    let by_vlan = attach_points::by_vlan(&config.ports, devices);
    let whole = attach_points::whole(&config.ports, devices);
    let under = devices
        .iter()
        .filter(|d| by_vlan.contains_key(d.name.as_str()));
    for device in whole.chain(under) {
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

/// Tells the program about ports, and by which devices the packets of each come in.
///
/// # Errors
/// When the kernel cannot be asked, or the table is full.
pub(crate) fn write_ports(
    shared: &Shared,
    ports: &BTreeMap<String, PortState>,
    config: &RouterConfig,
    devices: &[NetDevice],
    teaching: &BTreeSet<u32>,
) -> Result<(), DataplaneError> {
    let by_qdisc = qdiscs::in_the_way(&config.egress, devices)?;
    // Others pass them by.
    let meets = |port: &PortState| port.hands_over || hooks::is_at_tc_now(port);
    let any_meets = ports.values().any(meets);
    let with_bands = any_meets.then(tc::with_bands).transpose()?;
    let with_bands = with_bands.unwrap_or_default();
    let addressed = addresses::devices_with_ipv4()?;
    let whole = ports.iter().filter(|(_, port)| !port.is_by_vlan());
    let names: Vec<String> = whole.map(|(name, _)| name.clone()).collect();
    let others = macvlans::served(&names, devices);
    let has_ipv4 = |device: &NetDevice| addressed.contains(&device.ifindex);
    let mut table: PortTable = bytemuck::Zeroable::zeroed();
    for (name, port) in ports {
        let Some(device) = devices.iter().find(|d| Some(d.ifindex) == port.ifindex) else {
            continue;
        };
        let mode = port.mode.as_deref();
        let master = masters::taken_by(device, config, devices);
        let comes_in_by = master.unwrap_or(device);
        let own = flags(device, mode, has_ipv4(device));
        let of_master = master.map_or(own, |master| flags(master, None, has_ipv4(master)));
        let has_others = others
            .iter()
            .any(|(_, port)| port.ifindex == device.ifindex)
            || master.is_some_and(|master| master.mac != device.mac);
        let entry = Port {
            ifindex: device.ifindex,
            device: device.ifindex,
            master: master.map_or(0, |master| master.ifindex),
            seen_as: masters::seen_as(comes_in_by, devices),
            mac: device.mac,
            slot: port.slot,
            // Whether tags are hidden is a matter of the port, as is what leaves there.
            flags: (of_master & !PORT_HIDES_TAGS)
                | (own & PORT_HIDES_TAGS)
                | (u8::from(mode != Some(AT_TC) && !tags::are_left(name)) * PORT_HIDES_TAGS)
                | (u8::from(!port.is_by_vlan() && by_qdisc.contains_key(&device.ifindex))
                    * PORT_QDISC)
                | (u8::from(xdp::sends_pieces(device.ifindex)) * PORT_TAKES_PIECES)
                | (u8::from(has_others) * PORT_OTHER_MACS),
            lacks_checksums: u8::from(lacks_checksums(device)),
            teaches: u8::from(teaching.contains(&device.ifindex)),
            may_wait: u8::from(refusing::may_wait(config, name)),
            has_bands: u8::from(with_bands.contains(&device.ifindex)),
            at_tc: u8::from(mode == Some(AT_TC)),
            hands_over: u8::from(port.hands_over),
            pad: [0; 2],
        };
        let members = masters::members(device, mode, config, devices);
        let members = members.filter(|member| !ports.contains_key(&member.name));
        if !table.insert(entry) {
            return Err(DataplaneError::PortTable(name.clone()));
        }
        for member in members.filter(|member| tags::are_left(&member.name)) {
            // One that finds no place in the table stays with Linux.
            let _ = table.insert(Port {
                ifindex: member.ifindex,
                lacks_checksums: u8::from(lacks_checksums(member)),
                ..entry
            });
        }
    }
    pinned::put(&shared.ports, 0, bytemuck::bytes_of(&table))
}

/// Settings of a port that the program must know. Of `rp_filter` the greater of two values holds
/// (Documentation/networking/ip-sysctl.rst), and a port without an IPv4 address is strict where others are loose
/// (`__fib_validate_source` in net/ipv4/fib_frontend.c).
pub(crate) fn flags(port: &NetDevice, mode: Option<&str>, has_ipv4: bool) -> u8 {
    let v4 = |interface| sysctl::of_interface("ipv4", interface, "rp_filter").unwrap_or(0);
    let v6_off = sysctl::of_interface("ipv6", &port.name, "disable_ipv6") == Some(1);
    let filter = v4("all").max(v4(&port.name));
    let strict = filter == 1 || (filter == 2 && !has_ipv4);
    (u8::from(strict) * PORT_STRICT)
        | (u8::from(filter == 2 && !strict) * PORT_LOOSE)
        | (u8::from(v6_off) * PORT_NO_IPV6)
        | (u8::from(hides_tags(port.kind.as_deref(), mode)) * PORT_HIDES_TAGS)
}

/// Whether the device gets its packets from another one in the kernel, which has moved their VLAN tags out of the frames
/// (`skb_vlan_untag` in net/core/skbuff.c), where XDP does not see them. A bond is one unless XDP is native: then it runs on
/// the bond's members.
pub(crate) fn hides_tags(kind: Option<&str>, mode: Option<&str>) -> bool {
    const OVER_OTHERS: [&str; 8] = [
        "bridge", "macvlan", "macvtap", "ipvlan", "ipvtap", "vlan", "team", "macsec",
    ];
    kind.is_some_and(|kind| {
        OVER_OTHERS.contains(&kind) || (kind == "bond" && mode != Some("native"))
    })
}

/// Whether senders on this machine may have left checksums to the device, which makes none (`NETIF_F_HW_CSUM` of veth, and of a tap by
/// `TUNSETOFFLOAD`).
fn lacks_checksums(device: &NetDevice) -> bool {
    matches!(device.kind.as_deref(), Some("veth" | "tun"))
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
pub(crate) fn unserved_queues(state: &State, devices: &[NetDevice]) -> Vec<String> {
    let has_engine = matches!(state.config.datapath, Datapath::Afxdp(_));
    let told = |(port, now): (&String, &u32)| {
        let served = state.queues.get(port).filter(|served| now > served)?;
        let is_veth = |d: &NetDevice| d.name == *port && d.kind.as_deref() == Some("veth");
        let whose = if devices.iter().any(is_veth) {
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

/// The devices that the express lane may send to: ports whose drivers take frames from it, and whose qdiscs need not see them. Returns
/// the ports whose drivers should take frames, and do not.
pub(crate) fn write_egress(
    lane: &LaneProgram,
    ports: &BTreeMap<String, PortState>,
    ways: &BTreeMap<String, Egress>,
    devices: &[NetDevice],
) -> Result<BTreeSet<String>, DataplaneError> {
    let by_qdisc = qdiscs::in_the_way(ways, devices)?;
    let mut mute = BTreeSet::new();
    // What comes in elsewhere leaves as the stack's packets do.
    let any_in_xdp = hooks::any_in_xdp(ports);
    for (name, port) in ports {
        let Some(ifindex) = port.ifindex else {
            continue;
        };
        let generic = port.mode.as_deref() == Some("generic");
        let there = devices.iter().any(|d| d.ifindex == ifindex);
        let key = port.egress_key(ifindex);
        let sends = !there || generic || xdp::sends(ifindex);
        if !sends && any_in_xdp {
            mute.insert(name.clone());
        }
        if there && !generic && !by_qdisc.contains_key(&ifindex) && sends {
            pinned::put(&lane.egress, key, &ifindex.to_ne_bytes())?;
        } else {
            pinned::forget(&lane.egress, key);
        }
    }
    Ok(mute)
}

#[cfg(test)]
mod tests {
    use super::hides_tags;

    #[test]
    fn a_bond_hides_tags_unless_xdp_runs_on_its_members() {
        assert!(!hides_tags(Some("bond"), Some("native")));
        for mode in [None, Some("generic")] {
            assert!(hides_tags(Some("bond"), mode));
        }
    }

    #[test]
    fn bridges_hide_tags_and_devices_of_their_own_do_not() {
        assert!(hides_tags(Some("bridge"), Some("generic")));
        for kind in [None, Some("veth")] {
            assert!(!hides_tags(kind, Some("generic")));
        }
    }
}
