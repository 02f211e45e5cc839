//! Making, changing and deleting network devices.

use netlink_packet_core::{NLM_F_CREATE, NLM_F_EXCL};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::{
    InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};

use crate::SystemError;
use crate::netlink;

/// Makes a veth pair; its ends are down, because neither can be brought up before the other is there.
///
/// # Errors
/// When netlink fails, or a name is taken.
pub fn create_veth(name: &str, peer: &str) -> Result<(), SystemError> {
    let end = |name: &str| {
        let mut end = LinkMessage::default();
        end.attributes.push(LinkAttribute::IfName(name.to_owned()));
        end
    };
    let mut message = end(name);
    message.attributes.push(LinkAttribute::LinkInfo(vec![
        LinkInfo::Kind(InfoKind::Veth),
        LinkInfo::Data(InfoData::Veth(InfoVeth::Peer(end(peer)))),
    ]));
    netlink::change(
        RouteNetlinkMessage::NewLink(message),
        NLM_F_CREATE | NLM_F_EXCL,
        &format!("create the device `{name}`"),
    )
}

/// Brings a device up.
///
/// # Errors
/// When netlink fails, or there is none.
pub fn set_up(ifindex: u32) -> Result<(), SystemError> {
    let mut message = LinkMessage::default();
    message.header.index = ifindex;
    message.header.flags = LinkFlags::Up;
    message.header.change_mask = LinkFlags::Up;
    netlink::change(
        RouteNetlinkMessage::SetLink(message),
        0,
        &format!("bring device {ifindex} up"),
    )
}

/// Sets the largest IP packet that a device takes.
///
/// # Errors
/// When netlink fails, there is none, or it takes no packets of that size.
pub fn set_mtu(ifindex: u32, mtu: u32) -> Result<(), SystemError> {
    let mut message = LinkMessage::default();
    message.header.index = ifindex;
    message.attributes.push(LinkAttribute::Mtu(mtu));
    netlink::change(
        RouteNetlinkMessage::SetLink(message),
        0,
        &format!("set the MTU of device {ifindex} to {mtu}"),
    )
}

/// Deletes a device.
///
/// # Errors
/// When netlink fails, or there is none.
pub fn delete(ifindex: u32) -> Result<(), SystemError> {
    let mut message = LinkMessage::default();
    message.header.index = ifindex;
    netlink::change(
        RouteNetlinkMessage::DelLink(message),
        0,
        &format!("delete device {ifindex}"),
    )
}
