//! Tunnels over IPv4 that are network devices: IP in IP, IPv6 in IPv4 (`sit`), GRE, VXLAN.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use netlink_packet_core::Nla;
use netlink_packet_route::link::{
    GreEncapType, GreIOFlags, InfoData, InfoGre, InfoIpTunnel, InfoKind, InfoVxlan, LinkInfo,
    TunnelEncapType, VxlanDf,
};
use serde::Serialize;

/// `IFLA_GRE_IGNORE_DF` of include/uapi/linux/if_tunnel.h.
const GRE_IGNORE_DF: u16 = 19;
/// `SIT_ISATAP` of include/uapi/linux/if_tunnel.h.
const ISATAP: u16 = 1;
/// Protocols of what is inside, as the outer header has them.
const IP_IN_IP: u8 = 4;
const IPV6_IN_IP: u8 = 41;
const GRE: u8 = 47;
const UDP: u8 = 17;

/// What makes a device a tunnel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Tunnel {
    /// Protocol of the outer header: 4, 41 or 47, or 17 of a VXLAN; 0 where the tunnel carries more than one.
    pub protocol: u8,
    /// Source of what is sent; unspecified: chosen for each packet.
    pub local: Ipv4Addr,
    /// The other end; unspecified: there are many. That of a VXLAN is only for stations that it does not know, and may be a group.
    pub remote: Ipv4Addr,
    /// The key of GRE in both directions, or the number of a VXLAN (VNI).
    pub key: Option<u32>,
    /// Index of the device that outer packets must leave through; 0: any.
    pub link: u32,
    /// TTL of outer packets; 0: that of the packet inside, of a VXLAN only if it says so.
    pub ttl: u8,
    /// Type of service of outer packets; 1: that of the packet inside.
    pub tos: u8,
    /// Whether outer packets must not be fragmented, whatever is inside.
    pub discovers_mtu: bool,
    /// What it does besides, which forwarding by these values would not.
    pub besides: Option<&'static str>,
    /// What else there is about a VXLAN.
    pub vxlan: Option<Vxlan>,
}

/// What only a VXLAN has (RFC 7348).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Vxlan {
    /// UDP port that it sends to and takes packets at.
    pub port: u16,
    /// First and last source port of what it sends; both 0: those that sockets of the network namespace get.
    pub source_ports: (u16, u16),
    /// Whether it learns from what comes in where stations are.
    pub learns: bool,
    /// After so many seconds without use Linux forgets what was learned; 0: never.
    pub ageing_s: u32,
    /// Whether outer packets have a checksum of UDP, as they do unless told otherwise.
    pub sums: bool,
    /// Whether the TTL is that of the packet inside. If not, 0 is that of the network namespace (`net.ipv4.ip_default_ttl`).
    pub inherits_ttl: bool,
    /// Whether outer packets must not be fragmented if the one inside says so, or is of IPv6.
    pub inherits_df: bool,
}

impl Tunnel {
    fn new(protocol: u8) -> Self {
        Self {
            protocol,
            local: Ipv4Addr::UNSPECIFIED,
            remote: Ipv4Addr::UNSPECIFIED,
            key: None,
            link: 0,
            ttl: 0,
            tos: 0,
            discovers_mtu: false,
            besides: None,
            vxlan: None,
        }
    }

    /// The tunnel that the kernel describes, if it is one of these.
    pub(crate) fn of(infos: &[LinkInfo]) -> Option<Self> {
        let kind = |kind: InfoKind| infos.contains(&LinkInfo::Kind(kind));
        infos.iter().find_map(|info| match info {
            LinkInfo::Data(InfoData::GreTun(all)) => Some(of_gre(all)),
            LinkInfo::Data(InfoData::Vxlan(all)) => Some(of_vxlan(all)),
            LinkInfo::Data(InfoData::IpTunnel(all)) if kind(InfoKind::IpIp) => {
                Some(of_ip(all, IP_IN_IP))
            }
            LinkInfo::Data(InfoData::IpTunnel(all)) if kind(InfoKind::SitTun) => {
                Some(of_ip(all, IPV6_IN_IP))
            }
            _ => None,
        })
    }
}

/// The prefix of all tunnels that are given none (RFC 3056), of which none with another end makes use.
const SIX_TO_FOUR: Ipv6Addr = Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0);

fn of_ip(all: &[InfoIpTunnel], usual: u8) -> Tunnel {
    let mut tunnel = Tunnel::new(usual);
    let v4 = |address: &IpAddr| match address {
        IpAddr::V4(v4) => *v4,
        IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
    };
    for setting in all {
        match setting {
            InfoIpTunnel::Local(address) => tunnel.local = v4(address),
            InfoIpTunnel::Remote(address) => tunnel.remote = v4(address),
            InfoIpTunnel::Link(index) => tunnel.link = *index,
            InfoIpTunnel::Ttl(ttl) => tunnel.ttl = *ttl,
            InfoIpTunnel::Tos(tos) => tunnel.tos = *tos,
            InfoIpTunnel::PMtuDisc(discovers) => tunnel.discovers_mtu = *discovers,
            InfoIpTunnel::Protocol(protocol) => tunnel.protocol = u8::from(*protocol),
            InfoIpTunnel::EncapType(TunnelEncapType::None) => {}
            InfoIpTunnel::EncapType(_) => tunnel.besides = Some("is itself put into UDP (encap)"),
            InfoIpTunnel::CollectMetadata => {
                tunnel.besides = Some("gets its ends from each route (external)");
            }
            InfoIpTunnel::FwMark(mark) if *mark != 0 => {
                tunnel.besides = Some("gives its packets a mark (fwmark)");
            }
            InfoIpTunnel::Ipv6SitFlags(flags) if *flags & ISATAP != 0 => {
                tunnel.besides = Some("finds other ends by their neighbours (ISATAP)");
            }
            InfoIpTunnel::Ipv6RdPrefix(prefix) if *prefix != SIX_TO_FOUR => {
                tunnel.besides = Some("finds other ends by their addresses (6rd)");
            }
            InfoIpTunnel::Ipv6RdRelayPrefixLen(length) if *length != 0 => {
                tunnel.besides = Some("finds other ends by their addresses (6rd)");
            }
            _ => {}
        }
    }
    // What `ip link` makes unless told otherwise carries other protocols as well, in outer packets of those protocols.
    if tunnel.protocol == 0 {
        tunnel.protocol = usual;
    } else if tunnel.protocol != usual {
        tunnel.besides = Some("carries another protocol (mode)");
    }
    tunnel
}

fn of_gre(all: &[InfoGre]) -> Tunnel {
    let mut tunnel = Tunnel::new(GRE);
    let (mut flags, mut keys) = ([GreIOFlags::empty(); 2], [0; 2]);
    for setting in all {
        match setting {
            InfoGre::Local(address) => tunnel.local = *address,
            InfoGre::Remote(address) => tunnel.remote = *address,
            InfoGre::Link(index) => tunnel.link = *index,
            InfoGre::Ttl(ttl) => tunnel.ttl = *ttl,
            InfoGre::Tos(tos) => tunnel.tos = *tos,
            InfoGre::PathMTUDiscovery(discovers) => tunnel.discovers_mtu = *discovers,
            InfoGre::IFlags(of) => flags[0] = *of,
            InfoGre::OFlags(of) => flags[1] = *of,
            InfoGre::IKey(key) => keys[0] = *key,
            InfoGre::OKey(key) => keys[1] = *key,
            InfoGre::EncapType(GreEncapType::None) => {}
            InfoGre::EncapType(_) => tunnel.besides = Some("is itself put into UDP (encap)"),
            InfoGre::CollectMetadata => {
                tunnel.besides = Some("gets its ends from each route (external)");
            }
            InfoGre::FwMask(mark) if *mark != 0 => {
                tunnel.besides = Some("gives its packets a mark (fwmark)");
            }
            InfoGre::Other(other) if other.kind() == GRE_IGNORE_DF => {
                let mut value = vec![0; other.value_len()];
                other.emit_value(&mut value);
                if value.first().is_some_and(|ignores| *ignores != 0) {
                    tunnel.besides = Some("forgets what must not be fragmented (ignore-df)");
                }
            }
            _ => {}
        }
    }
    if (flags[0] | flags[1]).difference(GreIOFlags::Key) != GreIOFlags::empty() {
        tunnel.besides = Some("has checksums or sequence numbers");
    } else if flags[0] != flags[1] || keys[0] != keys[1] {
        tunnel.besides = Some("has other keys in either direction");
    } else if flags[0].contains(GreIOFlags::Key) {
        tunnel.key = Some(keys[0]);
    }
    tunnel
}

fn of_vxlan(all: &[InfoVxlan]) -> Tunnel {
    let mut tunnel = Tunnel::new(UDP);
    let mut vxlan = Vxlan::default();
    for setting in all {
        match setting {
            InfoVxlan::Id(number) => tunnel.key = Some(*number),
            InfoVxlan::Local(address) => tunnel.local = *address,
            InfoVxlan::Group(address) => tunnel.remote = *address,
            InfoVxlan::Link(index) => tunnel.link = *index,
            InfoVxlan::Ttl(ttl) => tunnel.ttl = *ttl,
            InfoVxlan::Tos(tos) => tunnel.tos = *tos,
            InfoVxlan::Port(port) => vxlan.port = *port,
            InfoVxlan::PortRange(range) => vxlan.source_ports = *range,
            InfoVxlan::Learning(learns) => vxlan.learns = *learns,
            InfoVxlan::TtlInherit(inherits) => vxlan.inherits_ttl = *inherits != 0,
            InfoVxlan::TtlInheritFlag => vxlan.inherits_ttl = true,
            InfoVxlan::Df(VxlanDf::Unset) => {}
            InfoVxlan::Df(VxlanDf::Set) => tunnel.discovers_mtu = true,
            InfoVxlan::Df(VxlanDf::Inherit) => vxlan.inherits_df = true,
            InfoVxlan::Group6(_) | InfoVxlan::Local6(_) => {
                tunnel.besides = Some("lies on IPv6");
            }
            InfoVxlan::CollectMetadata(true) => {
                tunnel.besides = Some("gets its ends from each route (external)");
            }
            InfoVxlan::UDPCsum(sums) => vxlan.sums = *sums,
            InfoVxlan::RemCsumTX(true) | InfoVxlan::RemCsumRX(true) => {
                tunnel.besides = Some("leaves checksums to the other end (remcsum)");
            }
            InfoVxlan::Ageing(seconds) => vxlan.ageing_s = *seconds,
            InfoVxlan::Proxy(true) => tunnel.besides = Some("answers for others (proxy)"),
            InfoVxlan::Rsc(true) => tunnel.besides = Some("routes by itself (rsc)"),
            InfoVxlan::Gbp => tunnel.besides = Some("carries marks (gbp)"),
            InfoVxlan::Gpe => tunnel.besides = Some("carries other protocols (gpe)"),
            InfoVxlan::Vnifilter(true) => {
                tunnel.besides = Some("has several numbers (vnifilter)");
            }
            _ => {}
        }
    }
    if vxlan.inherits_ttl {
        tunnel.ttl = 0;
    }
    tunnel.vxlan = Some(vxlan);
    tunnel
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gre(more: &[InfoGre]) -> Tunnel {
        let mut all = vec![
            InfoGre::Local([10, 0, 0, 1].into()),
            InfoGre::Remote([10, 0, 0, 2].into()),
            InfoGre::PathMTUDiscovery(true),
            InfoGre::Ttl(64),
        ];
        all.extend_from_slice(more);
        let infos = [
            LinkInfo::Kind(InfoKind::GreTun),
            LinkInfo::Data(InfoData::GreTun(all)),
        ];
        Tunnel::of(&infos).expect("a tunnel")
    }

    #[test]
    fn a_tunnel_is_what_its_settings_say() {
        let plain = gre(&[]);
        assert_eq!((plain.protocol, plain.key, plain.ttl), (47, None, 64));
        assert!(plain.discovers_mtu && plain.besides.is_none());
        let key = GreIOFlags::Key;
        let keyed = [
            InfoGre::IFlags(key),
            InfoGre::OFlags(key),
            InfoGre::IKey(7),
            InfoGre::OKey(7),
        ];
        assert_eq!(gre(&keyed).key, Some(7));
        let infos = [
            LinkInfo::Kind(InfoKind::SitTun),
            LinkInfo::Data(InfoData::IpTunnel(vec![
                InfoIpTunnel::Local(IpAddr::from([10, 0, 0, 1])),
                InfoIpTunnel::Ipv6RdPrefix(SIX_TO_FOUR),
                InfoIpTunnel::Ipv6RdPrefixLen(16),
                InfoIpTunnel::Ipv6RdRelayPrefixLen(0),
                InfoIpTunnel::Tos(1),
            ])),
        ];
        let sit = Tunnel::of(&infos).expect("a tunnel");
        assert_eq!((sit.protocol, sit.tos, sit.besides), (41, 1, None));
        assert_eq!(sit.remote, Ipv4Addr::UNSPECIFIED);
    }

    #[test]
    fn a_tunnel_that_may_carry_anything_carries_what_its_kind_does() {
        let of = |kind: InfoKind, protocol: u8| {
            let infos = [
                LinkInfo::Kind(kind),
                LinkInfo::Data(InfoData::IpTunnel(vec![InfoIpTunnel::Protocol(
                    protocol.into(),
                )])),
            ];
            let tunnel = Tunnel::of(&infos).expect("a tunnel");
            (tunnel.protocol, tunnel.besides.is_some())
        };
        assert_eq!(of(InfoKind::IpIp, 0), (4, false));
        assert_eq!(of(InfoKind::IpIp, 4), (4, false));
        assert_eq!(of(InfoKind::SitTun, 0), (41, false));
        assert_eq!(of(InfoKind::SitTun, 41), (41, false));
        let rapid = Tunnel::of(&[
            LinkInfo::Kind(InfoKind::SitTun),
            LinkInfo::Data(InfoData::IpTunnel(vec![InfoIpTunnel::Ipv6RdPrefix(
                "2001:db8::".parse().expect("a prefix"),
            )])),
        ]);
        let besides = rapid.and_then(|t| t.besides).unwrap_or_default();
        assert!(besides.contains("6rd"), "{besides}");
        for (kind, other) in [(InfoKind::SitTun, 4), (InfoKind::IpIp, 137)] {
            assert!(of(kind, other).1, "{other}");
        }
    }

    fn vxlan(more: &[InfoVxlan]) -> Tunnel {
        let mut all = vec![
            InfoVxlan::Id(42),
            InfoVxlan::Local([10, 0, 0, 1].into()),
            InfoVxlan::Port(4789),
            InfoVxlan::Learning(true),
            InfoVxlan::TtlInherit(0),
            InfoVxlan::UDPCsum(true),
        ];
        all.extend_from_slice(more);
        let infos = [
            LinkInfo::Kind(InfoKind::Vxlan),
            LinkInfo::Data(InfoData::Vxlan(all)),
        ];
        Tunnel::of(&infos).expect("a tunnel")
    }

    #[test]
    fn a_vxlan_is_what_its_settings_say() {
        let plain = vxlan(&[]);
        let own = plain.vxlan.expect("a VXLAN");
        assert_eq!((plain.protocol, plain.key, plain.ttl), (17, Some(42), 0));
        assert!(own.learns && !own.inherits_ttl && !own.inherits_df && !plain.discovers_mtu);
        assert_eq!((own.port, own.sums, plain.besides), (4789, true, None));
        let inherits = vxlan(&[
            InfoVxlan::Ttl(9),
            InfoVxlan::TtlInherit(1),
            InfoVxlan::Df(VxlanDf::Inherit),
        ]);
        let own = inherits.vxlan.expect("a VXLAN");
        assert!(own.inherits_ttl && own.inherits_df && inherits.ttl == 0);
        for (setting, why) in [
            (InfoVxlan::RemCsumTX(true), "remcsum"),
            (InfoVxlan::Gpe, "gpe"),
            (InfoVxlan::CollectMetadata(true), "external"),
            (
                InfoVxlan::Local6("fd00::1".parse().expect("an address")),
                "IPv6",
            ),
        ] {
            let besides = vxlan(&[setting]).besides.unwrap_or_default();
            assert!(besides.contains(why), "{besides}");
        }
    }

    #[test]
    fn what_a_tunnel_does_besides_is_found() {
        let key = GreIOFlags::Key;
        for (more, why) in [
            (vec![InfoGre::OFlags(GreIOFlags::Seq)], "sequence numbers"),
            (vec![InfoGre::IFlags(GreIOFlags::Checksum)], "checksums"),
            (vec![InfoGre::IFlags(key), InfoGre::IKey(7)], "other keys"),
            (vec![InfoGre::CollectMetadata], "external"),
            (vec![InfoGre::EncapType(GreEncapType::Fou)], "encap"),
            (vec![InfoGre::FwMask(1)], "fwmark"),
        ] {
            let besides = gre(&more).besides.unwrap_or_default();
            assert!(besides.contains(why), "{besides}");
        }
    }
}
