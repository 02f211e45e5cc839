//! What lies between the lab's ports and its addresses: tags, a tunnel, or a device of another kind, on both sides of the
//! router. The hosts have the same, so that their answers to the router are what it expects.

use std::str::FromStr;

use rxlane_system::links::mac_text;
use serde::{Deserialize, Serialize};

/// What the router's addresses are on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Over {
    /// The ports themselves.
    #[default]
    Port,
    /// A VLAN device (802.1Q) over each port.
    Vlan,
    /// One over another one (802.1ad).
    Qinq,
    /// A macvlan device over each ingress port, with a MAC address of its own, as VRRP has them.
    Macvlan,
    /// A bridge over each port.
    Bridge,
    /// A bond of one link in the place of each port.
    Bond,
    /// The ports, which belong to a VRF.
    Vrf,
    /// A tunnel of IP in IP (RFC 2003) over each port.
    Ipip,
    /// A tunnel of GRE (RFC 2784) over each port.
    Gre,
    /// A VXLAN (RFC 7348) over each port, which learns where stations are.
    Vxlan,
}

/// Names that `--over` takes.
const NAMES: [(Over, &str); 10] = [
    (Over::Port, "port"),
    (Over::Vlan, "vlan"),
    (Over::Qinq, "qinq"),
    (Over::Macvlan, "macvlan"),
    (Over::Bridge, "bridge"),
    (Over::Bond, "bond"),
    (Over::Vrf, "vrf"),
    (Over::Ipip, "ipip"),
    (Over::Gre, "gre"),
    (Over::Vxlan, "vxlan"),
];

/// VLANs of the lab: the outer and only one, and the inner one.
const VLAN: u16 = 100;
const INNER_VLAN: u16 = 20;
const TABLE: u32 = 100;
/// Bytes of the outer headers that a tunnel adds.
const IPV4: usize = 20;
/// Of VXLANs: UDP port, and the source port of test packets.
const UDP_PORT: u16 = 4789;
const SOURCE_PORT: u16 = 50_000;

/// An end of a link.
#[derive(Debug, Clone, Copy)]
pub(super) struct End<'a> {
    /// Name of the port: `in0`, `gen0`.
    pub(super) port: &'a str,
    /// Whether the router is at this end.
    pub(super) is_router: bool,
    /// 10 on the generator's side, 20 on the sink's.
    pub(super) net: u8,
    /// Number of the link.
    pub(super) link: u8,
}

impl End<'_> {
    fn is_ingress(&self) -> bool {
        self.net == 10
    }

    /// Outer addresses of a tunnel: those of this end and of the other one.
    fn outer(&self) -> [[u8; 4]; 2] {
        let (own, other) = if self.is_router { (1, 2) } else { (2, 1) };
        [own, other].map(|host| [10, self.net + 1, self.link, host])
    }

    /// Number of a VXLAN, of which the router has others.
    fn number(&self) -> u32 {
        u32::from(self.net) << 8 | u32::from(self.link)
    }

    /// MAC addresses in a VXLAN: those of this end and of the other one.
    fn stations(&self) -> [[u8; 6]; 2] {
        let (own, other) = if self.is_router { (5, 6) } else { (6, 5) };
        [own, other].map(|last| [2, 0, 0, self.net / 10, self.link, last])
    }
}

impl Over {
    fn name(self) -> &'static str {
        NAMES.iter().find(|(o, _)| *o == self).map_or("", |n| n.1)
    }

    /// The router's end of a port's wire.
    pub(crate) fn wire(self, port: &str) -> String {
        match self {
            Self::Bond => format!("{port}m"),
            _ => port.to_owned(),
        }
    }

    /// Whether frames have tags, which devices must leave in them, as on a wire.
    pub(super) fn is_tagged(self) -> bool {
        matches!(self, Self::Vlan | Self::Qinq)
    }

    /// Whether the lab has IPv6: not in tunnels that carry IPv4 alone.
    pub(super) fn has_ipv6(self) -> bool {
        self != Self::Ipip
    }

    /// The VRF that routes are of, as `ip route` has it.
    pub(super) fn of_vrf(self) -> &'static str {
        match self {
            Self::Vrf => " table 100",
            _ => "",
        }
    }

    /// The device that an end has its addresses on.
    pub(super) fn device(self, end: &End<'_>) -> String {
        let port = end.port;
        match self {
            Self::Vlan => format!("{port}.{VLAN}"),
            Self::Qinq => format!("{port}.{VLAN}.{INNER_VLAN}"),
            Self::Ipip | Self::Gre | Self::Vxlan => format!("{port}.t"),
            Self::Bridge if end.is_router => format!("{port}.br"),
            Self::Macvlan if end.is_router && end.is_ingress() => format!("{port}.mv"),
            _ => port.to_owned(),
        }
    }

    /// The router's MAC address on a side, which test packets are sent to.
    pub(crate) fn router_mac(self, side: u8, link: u8) -> [u8; 6] {
        let own = u8::from(self == Self::Macvlan && side == 1);
        [2, 0, 0, side, link, 1 + 2 * own]
    }

    /// Commands for `ip -batch` that make an end's devices over its wire, and lead to them.
    pub(super) fn made(self, end: &End<'_>) -> String {
        let (port, device) = (end.port, self.device(end));
        let [own, other] = end.outer().map(std::net::Ipv4Addr::from);
        let side = if end.is_ingress() { 1 } else { 2 };
        let mac = mac_text(self.router_mac(side, end.link));
        let wire = self.wire(port);
        match self {
            Self::Vlan => {
                format!("link add link {port} name {device} type vlan id {VLAN}\n")
            }
            // A VLAN device comes up only over one that is up.
            Self::Qinq => format!(
                "link set {port} up\nlink add link {port} name {port}.{VLAN} type vlan proto 802.1ad id {VLAN}\n\
                 link set {port}.{VLAN} up\n\
                 link add link {port}.{VLAN} name {device} type vlan id {INNER_VLAN}\n"
            ),
            Self::Ipip | Self::Gre => format!(
                "addr add {own}/24 dev {port}\n\
                 link add {device} type {self} local {own} remote {other} ttl 64\n"
            ),
            Self::Vxlan => format!(
                "addr add {own}/24 dev {port}\n\
                 link add {device} address {} type vxlan id {} local {own} remote {other} dstport {UDP_PORT} ttl 64\n",
                mac_text(end.stations()[0]),
                end.number(),
            ),
            Self::Bridge if end.is_router => format!(
                "link add {device} address {mac} type bridge\nlink set {port} master {device}\n"
            ),
            Self::Macvlan if device != port => {
                format!(
                    "link add link {port} name {device} address {mac} type macvlan mode bridge\n"
                )
            }
            Self::Bond if end.is_router => format!(
                "link add {port} address {mac} type bond mode balance-xor miimon 100\n\
                 link set {wire} down\nlink set {wire} master {port}\n"
            ),
            // The first link makes the VRF of all.
            Self::Vrf if end.is_router && end.is_ingress() && end.link == 0 => format!(
                "link add lab type vrf table {TABLE}\nlink set lab up\nlink set {port} master lab\n"
            ),
            Self::Vrf if end.is_router => format!("link set {port} master lab\n"),
            _ => String::new(),
        }
    }

    /// What is between the MAC addresses and the IP header of a test packet that a host sends to the router, and that is `len` bytes long.
    pub(crate) fn between(self, side: u8, link: u8, len: usize) -> Vec<u8> {
        let host = End {
            port: "",
            is_router: false,
            net: side * 10,
            link,
        };
        let tag = |kind: [u8; 2], vlan: u16| [kind, vlan.to_be_bytes()].concat();
        let ip = vec![8, 0];
        match self {
            Self::Vlan => [tag([0x81, 0], VLAN), ip].concat(),
            Self::Qinq => [tag([0x88, 0xa8], VLAN), tag([0x81, 0], INNER_VLAN), ip].concat(),
            Self::Ipip => [ip, outer(&host, len, 4)].concat(),
            Self::Gre => [ip.clone(), outer(&host, len, 47), vec![0, 0], ip].concat(),
            Self::Vxlan => [ip.clone(), outer(&host, len, 17), framed(&host, len), ip].concat(),
            _ => ip,
        }
    }

    /// Bytes that it adds to each packet.
    pub(crate) fn added_bytes(self) -> usize {
        self.between(1, 0, 0).len() - 2
    }
}

/// The outer header of a packet in a tunnel, in a frame of `len` bytes.
fn outer(from: &End<'_>, len: usize, protocol: u8) -> Vec<u8> {
    let [own, other] = from.outer();
    let length = len.saturating_sub(14) as u16;
    let mut header = [0u8; IPV4];
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[6] = 0x40;
    header[8] = 64;
    header[9] = protocol;
    header[12..16].copy_from_slice(&own);
    header[16..].copy_from_slice(&other);
    let check = rxlane_policy::headers::ipv4_checksum(&header);
    header[10..12].copy_from_slice(&check.to_be_bytes());
    header.to_vec()
}

/// What a frame of `len` bytes has behind the outer header in a VXLAN, but for the type of the packet inside.
fn framed(from: &End<'_>, len: usize) -> Vec<u8> {
    let [own, other] = from.stations();
    let length = len.saturating_sub(14 + IPV4) as u16;
    let udp = [SOURCE_PORT, UDP_PORT, length, 0].map(u16::to_be_bytes);
    let header = [0x0800_0000, from.number() << 8].map(u32::to_be_bytes);
    [udp.concat(), header.concat(), [other, own].concat()].concat()
}

impl std::fmt::Display for Over {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = NAMES.iter().find(|(_, name)| *name == text);
        found.map(|(over, _)| *over).ok_or_else(|| {
            let names = NAMES.map(|(_, name)| name).join(", ");
            format!("`{text}` is nothing that a lab can be over: use one of {names}")
        })
    }
}

impl From<Over> for String {
    fn from(over: Over) -> Self {
        over.to_string()
    }
}

impl TryFrom<String> for Over {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rxlane_policy::headers::ipv4_checksum;

    #[test]
    fn names_are_read_as_they_are_written() {
        for (over, name) in NAMES {
            assert_eq!(name.parse(), Ok(over));
            assert_eq!(over.to_string(), name);
        }
        assert!("token-ring".parse::<Over>().unwrap_err().contains("qinq"));
    }

    #[test]
    fn what_is_added_is_tags_or_an_outer_header_that_is_as_long_as_the_frame() {
        let added = NAMES.map(|(over, _)| over.added_bytes());
        assert_eq!(added, [0, 4, 8, 0, 0, 0, 0, 20, 24, 50]);
        let gre = Over::Gre.between(2, 3, 124);
        assert_eq!(gre[..2], [8, 0]);
        assert_eq!(gre[4..6], [0, 110], "of the frame without Ethernet");
        assert_eq!(gre[14..22], [10, 21, 3, 2, 10, 21, 3, 1]);
        assert_eq!(ipv4_checksum(&gre[2..22]), 0, "its checksum holds");
        assert_eq!(gre[22..], [0, 0, 8, 0]);
        let vxlan = Over::Vxlan.between(2, 3, 124);
        assert_eq!(vxlan[22..30], [0xc3, 0x50, 0x12, 0xb5, 0, 90, 0, 0]);
        assert_eq!(vxlan[30..38], [8, 0, 0, 0, 0, 20, 3, 0]);
        assert_eq!(vxlan[38..44], [2, 0, 0, 2, 3, 5], "to the router's station");
        assert_eq!(
            Over::Qinq.between(1, 0, 124),
            [0x88, 0xa8, 0, 100, 0x81, 0, 0, 20, 8, 0]
        );
    }
}
