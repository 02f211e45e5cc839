//! Network devices: what there is, and news about them.

mod change;
mod index;

use std::io;
use std::os::fd::AsFd;

use netlink_packet_core::NetlinkPayload;
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    AfSpecInet, AfSpecInet6, AfSpecUnspec, BondPortState, BridgePortState, InfoBondPort,
    InfoBridge, InfoBridgePort, InfoData, InfoKind, InfoMacVlan, InfoMacVtap, InfoPortData,
    InfoVlan, LinkAttribute, LinkFlags, LinkInfo, LinkLayerType, LinkMessage, LinkXdp, MacVlanMode,
    Prop, VlanFlags, VlanProtocol, VlanQosMapping, XdpAttached,
};

use crate::netlink::{self, Message, News};
use crate::tunnels::Tunnel;
use crate::{SystemError, Tried};
pub use change::{create_veth, delete, set_mtu, set_up};
pub use index::Links;
use serde::{Deserialize, Serialize};

/// Multicast group of link changes (RTNLGRP_LINK).
const LINK_GROUP: u32 = 1;

/// A network device.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Link {
    /// Index, unique within the namespace.
    pub ifindex: u32,
    /// Name of the interface.
    pub name: String,
    /// Other names that it is found by (`ip link property add altname`).
    pub alt_names: Vec<String>,
    /// Hardware address; zeros where the device has none of 6 bytes.
    pub mac: [u8; 6],
    /// Largest IP packet, bytes.
    pub mtu: u32,
    /// Whether it is set up, whatever the carrier says.
    pub up: bool,
    /// Whether its carrier is there.
    pub carrier: bool,
    /// Whether its link is one of PPP.
    pub is_ppp: bool,
    /// Kind of a virtual device, such as `veth`.
    pub kind: Option<String>,
    /// Index of the bridge, bond, team or VRF that it belongs to.
    pub master: Option<u32>,
    /// Whether its bond or bridge takes packets from it: no backup of a bond, and no port that the spanning tree blocks.
    pub serves_master: bool,
    /// Whether its bridge learns from what comes in by it where stations are.
    pub teaches_master: bool,
    /// Whether it is a bridge that tells VLANs apart (`vlan_filtering`).
    pub filters_vlans: bool,
    /// Index of the device under it, in the same namespace.
    pub under: Option<u32>,
    /// The same, if it may take that device's own packets: those to its MAC address.
    pub takes_from: Option<u32>,
    /// What makes it a VLAN device, if it is one.
    pub vlan: Option<Vlan>,
    /// What makes it a tunnel over IPv4, if it is one.
    pub tunnel: Option<Tunnel>,
    /// Its setting `rp_filter` of IPv4.
    pub rp_filter: u8,
    /// Whether IPv6 is off on it (`disable_ipv6`).
    pub no_ipv6: bool,
    /// Id of an XDP program that is attached without being asked for here; 0 for none.
    pub xdp_program: u32,
    /// Whether that runs on skbs, behind the driver.
    pub xdp_is_generic: bool,
    /// Packets that it has received.
    pub received: u64,
    /// Packets that found no descriptor in an Rx ring, where its driver counts them.
    pub missed: u64,
}

/// Of a VLAN device (`ip link add type vlan`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Vlan {
    /// VLAN id, 0 to 4094.
    pub id: u16,
    /// Whether its tags are service tags (IEEE 802.1ad) and not customer tags (802.1Q).
    pub service: bool,
    /// Whether tags stay beside frames until they leave (`reorder_hdr`), as they do unless somebody asks otherwise.
    pub reorders: bool,
    /// Priorities that received packets get, by code point (`ingress-qos-map`); others get 0.
    pub ingress_priorities: Vec<(u32, u32)>,
    /// Code points of sent frames, by priority of the packet (`egress-qos-map`); others get 0.
    pub egress_priorities: Vec<(u32, u32)>,
}

/// News about a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// It appeared or changed.
    Changed(Box<Link>),
    /// It is gone.
    Gone(u32),
}

fn from_message(message: &LinkMessage) -> Option<Link> {
    let mut link = Link {
        ifindex: message.header.index,
        up: message.header.flags.contains(LinkFlags::Up),
        is_ppp: message.header.link_layer_type == LinkLayerType::Ppp,
        // As the kernel has it where it marks routes (nh_netdev_event, fib_netdev_event).
        carrier: message
            .header
            .flags
            .intersects(LinkFlags::Running | LinkFlags::LowerUp),
        ..Link::default()
    };
    let (mut under, mut elsewhere, mut takes) = (None, false, false);
    for attribute in &message.attributes {
        match attribute {
            LinkAttribute::IfName(name) => link.name.clone_from(name),
            LinkAttribute::PropList(all) => {
                link.alt_names
                    .extend(all.iter().filter_map(|prop| match prop {
                        Prop::AltIfName(name) => Some(name.clone()),
                        _ => None,
                    }));
            }
            LinkAttribute::Mtu(mtu) => link.mtu = *mtu,
            LinkAttribute::Controller(index) => link.master = Some(*index).filter(|i| *i != 0),
            LinkAttribute::Address(bytes) => {
                link.mac = bytes.as_slice().try_into().unwrap_or_default()
            }
            LinkAttribute::Link(index) => under = Some(*index),
            LinkAttribute::LinkNetNsId(_) => elsewhere = true,
            LinkAttribute::LinkInfo(infos) => {
                takes = takes_all(infos);
                link.vlan = vlan_of(infos);
                link.tunnel = Tunnel::of(infos);
                for info in infos {
                    match info {
                        LinkInfo::Kind(kind) => link.kind = Some(kind_name(kind)),
                        LinkInfo::PortData(of_port) => {
                            link.serves_master = serves(of_port);
                            link.teaches_master = teaches(of_port);
                        }
                        LinkInfo::Data(InfoData::Bridge(all)) => {
                            link.filters_vlans = all.contains(&InfoBridge::VlanFiltering(true));
                        }
                        _ => {}
                    }
                }
            }
            LinkAttribute::AfSpecUnspec(families) => {
                (link.rp_filter, link.no_ipv6) = settings_of(families);
            }
            LinkAttribute::Stats64(counted) => {
                link.received = counted.rx_packets;
                // Drivers count the same packets in the one, the other, or both.
                link.missed = missed(counted.rx_missed_errors, counted.rx_fifo_errors);
            }
            LinkAttribute::Xdp(xdp) => {
                for x in xdp {
                    match x {
                        LinkXdp::ProgId(id) => link.xdp_program = *id,
                        LinkXdp::Attached(how) => {
                            link.xdp_is_generic = *how == XdpAttached::SocketBuffer;
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    if let Some(tunnel) = link.tunnel.as_mut().filter(|_| elsewhere) {
        tunnel.besides = Some("sends and takes its packets in another network namespace");
    }
    link.under = under.filter(|_| !elsewhere);
    link.takes_from = link.under.filter(|_| takes);
    (!link.name.is_empty()).then_some(link)
}

/// `rp_filter` of IPv4, and whether IPv6 is off.
fn settings_of(families: &[AfSpecUnspec]) -> (u8, bool) {
    let v4 = families.iter().find_map(|family| match family {
        AfSpecUnspec::Inet(all) => all.iter().find_map(|setting| match setting {
            AfSpecInet::DevConf(settings) => Some(settings.rp_filter),
            _ => None,
        }),
        _ => None,
    });
    let v6 = families.iter().find_map(|family| match family {
        AfSpecUnspec::Inet6(all) => all.iter().find_map(|setting| match setting {
            AfSpecInet6::DevConf(settings) => Some(settings.disable_ipv6),
            _ => None,
        }),
        _ => None,
    });
    let rp_filter = v4.map_or(0, |value| value.clamp(0, u8::MAX.into()) as u8);
    (rp_filter, v6.is_some_and(|off| off != 0))
}

/// Whether a device sees the packets of the one under it before that one's own protocols do (`netdev_rx_handler_register`),
/// and does not leave those alone that are for its MAC address.
fn takes_all(infos: &[LinkInfo]) -> bool {
    let has = |kind: &InfoKind| infos.contains(&LinkInfo::Kind(kind.clone()));
    // In their other modes macvlan and macvtap devices have a MAC address of their own, and take what is for that.
    let takes = |info: &LinkInfo| match info {
        LinkInfo::Data(InfoData::MacVlan(all)) => all.iter().any(|i| {
            use MacVlanMode::{Passthrough, Source};
            matches!(i, InfoMacVlan::Mode(Passthrough | Source))
        }),
        LinkInfo::Data(InfoData::MacVtap(all)) => all.iter().any(|i| {
            use MacVlanMode::{Passthrough, Source};
            matches!(i, InfoMacVtap::Mode(Passthrough | Source))
        }),
        _ => false,
    };
    infos.iter().any(takes)
        || [InfoKind::IpVlan, InfoKind::IpVtap, InfoKind::MacSec]
            .iter()
            .any(has)
}

/// Whether a bond or bridge takes packets from a device, by what the kernel says of it as a member.
fn serves(member: &InfoPortData) -> bool {
    match member {
        InfoPortData::BondPort(all) => {
            all.contains(&InfoBondPort::BondPortState(BondPortState::Active))
        }
        // Where stations must be let in by name (`locked`), those that nobody hears of any more are shut out.
        InfoPortData::BridgePort(all) => {
            all.contains(&InfoBridgePort::State(BridgePortState::Forwarding))
                && !all.contains(&InfoBridgePort::Locked(true))
        }
        _ => false,
    }
}

fn teaches(member: &InfoPortData) -> bool {
    match member {
        InfoPortData::BridgePort(all) => {
            serves(member) && all.contains(&InfoBridgePort::Learning(true))
        }
        _ => false,
    }
}

fn vlan_of(infos: &[LinkInfo]) -> Option<Vlan> {
    let settings = infos.iter().find_map(|info| match info {
        LinkInfo::Data(InfoData::Vlan(settings)) => Some(settings),
        _ => None,
    })?;
    let pairs = |all: &[VlanQosMapping]| {
        let pair = |m: &VlanQosMapping| match m {
            VlanQosMapping::Mapping(from, to) => Some((*from, *to)),
            _ => None,
        };
        all.iter().filter_map(pair).collect()
    };
    let mut vlan = Vlan::default();
    for setting in settings {
        match setting {
            InfoVlan::Id(id) => vlan.id = *id,
            InfoVlan::Protocol(protocol) => vlan.service = *protocol == VlanProtocol::Ieee8021Ad,
            InfoVlan::Flags((flags, _)) => vlan.reorders = flags.contains(VlanFlags::ReorderHdr),
            InfoVlan::IngressQos(all) => vlan.ingress_priorities = pairs(all),
            InfoVlan::EgressQos(all) => vlan.egress_priorities = pairs(all),
            _ => {}
        }
    }
    Some(vlan)
}

fn kind_name(kind: &InfoKind) -> String {
    match kind {
        InfoKind::Other(name) => name.clone(),
        known => format!("{known:?}").to_lowercase(),
    }
}

/// Packets that found no descriptor in an Rx ring: drivers count them in either of two statistics, some in both.
pub fn missed(rx_missed_errors: u64, rx_fifo_errors: u64) -> u64 {
    rx_missed_errors.max(rx_fifo_errors)
}

/// All devices of the current network namespace.
///
/// # Errors
/// When netlink fails.
pub fn all() -> Result<Links, SystemError> {
    let request = RouteNetlinkMessage::GetLink(LinkMessage::default());
    let (found, _) = netlink::dump(request, "list network devices")?;
    let links = found.iter().filter_map(|message| match message {
        RouteNetlinkMessage::NewLink(m) => from_message(m),
        _ => None,
    });
    Ok(links.collect::<Vec<_>>().into())
}

/// The device of that name.
///
/// # Errors
/// When netlink fails or there is no such device.
pub fn by_name(name: &str) -> Result<Link, SystemError> {
    all()?
        .into_iter()
        .find(|l| l.name == name)
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "no such network device"))
        .tried(|| format!("find `{name}`"))
}

/// A MAC address as everybody writes it.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Devices that have an address of this machine: link-local ones may be on several.
///
/// # Errors
/// When the kernel refuses to list addresses.
pub fn with_address(address: std::net::IpAddr) -> Result<Vec<String>, SystemError> {
    let all = nix::ifaddrs::getifaddrs().tried(|| "list addresses".into())?;
    let of = |interface: &nix::ifaddrs::InterfaceAddress| {
        let storage = interface.address.as_ref()?;
        let v4 = storage.as_sockaddr_in().map(|a| a.ip().into());
        v4.or_else(|| storage.as_sockaddr_in6().map(|a| a.ip().into()))
    };
    Ok(all
        .into_iter()
        .filter(|interface| of(interface) == Some(address))
        .map(|interface| interface.interface_name)
        .collect())
}

/// A subscription to link changes.
pub struct Monitor {
    news: News,
}

impl Monitor {
    /// Subscribes in the current network namespace.
    ///
    /// # Errors
    /// When netlink fails.
    pub fn new() -> Result<Self, SystemError> {
        Ok(Self {
            news: News::of(&[LINK_GROUP])?,
        })
    }

    /// What has happened since the last call. `None`: news were lost, list the devices anew.
    ///
    /// # Errors
    /// When netlink fails otherwise.
    pub fn drain(&mut self) -> Result<Option<Vec<Event>>, SystemError> {
        let mut events = Vec::new();
        let complete = self.news.drain(|message| events.extend(event(message)))?;
        Ok(complete.then_some(events))
    }
}

/// What a message of the kernel's says about a device.
pub(crate) fn event(message: Message) -> Option<Event> {
    match message.payload {
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::NewLink(m)) => {
            from_message(&m).map(Box::new).map(Event::Changed)
        }
        NetlinkPayload::InnerMessage(RouteNetlinkMessage::DelLink(m)) => {
            Some(Event::Gone(m.header.index))
        }
        _ => None,
    }
}

impl AsFd for Monitor {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.news.as_fd()
    }
}
