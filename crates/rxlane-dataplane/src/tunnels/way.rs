//! How packets come in and leave by the device of a tunnel, as the program has it (bpf/devices/outer.h, bpf/devices/tunnel_way.h).

use bytemuck::{Pod, Zeroable};
use rxlane_system::links::Link as NetDevice;
use rxlane_system::sysctl;
use rxlane_system::tunnels::Tunnel;

/// IPv4 headers without options, and what GRE adds without and with a key.
const OUTER: u8 = 20;
const GRE: u8 = 4;
const GRE_KEY: u8 = 4;
/// UDP, the header of RFC 7348, and Ethernet.
const VXLAN: u8 = 8 + 8 + 14;
pub(super) const GRE_PROTOCOL: u8 = 47;
pub(super) const VXLAN_PROTOCOL: u8 = 17;
/// Not to be fragmented (RFC 791).
const DF: u16 = 0x4000;
/// `INHERITS_*` of bpf/devices/tunnel_way.h.
const INHERITS_DF: u8 = 1;
const INHERITS_V6: u8 = 2;
/// What Linux has unless told otherwise: `net.ipv4.ip_default_ttl`, `net.ipv4.ip_local_port_range`.
const DEFAULT_TTL: u8 = 64;
const LOCAL_PORTS: (u16, u16) = (32768, 60999);

/// `struct tunnel_key` of bpf/devices/outer.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Key {
    local: [u8; 4],
    remote: [u8; 4],
    key: [u8; 4],
    protocol: u8,
    keyed: u8,
    port: [u8; 2],
}

impl Key {
    fn of(tunnel: &Tunnel) -> Self {
        let key = tunnel.key.unwrap_or_default();
        let common = Self {
            local: tunnel.local.octets(),
            remote: tunnel.remote.octets(),
            key: key.to_be_bytes(),
            protocol: tunnel.protocol,
            keyed: u8::from(tunnel.key.is_some()),
            port: [0; 2],
        };
        match tunnel.vxlan {
            None => common,
            Some(vxlan) => Self {
                remote: [0; 4],
                key: (key << 8).to_be_bytes(),
                port: vxlan.port.to_be_bytes(),
                ..common
            },
        }
    }
}

/// `struct tunnel_way` of bpf/devices/tunnel_way.h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Way {
    pub(super) key: Key,
    link: u32,
    room: u8,
    ttl: u8,
    tos: u8,
    by_qdisc: u8,
    flags: [u8; 2],
    inherits: u8,
    learns: u8,
    mac: [u8; 6],
    first_port: u16,
    ports: u16,
    renew_s: u16,
    sums: u8,
    pad: [u8; 3],
}

impl Way {
    /// Of a tunnel's device; what follows the network namespace is as it has it now.
    pub(super) fn of(device: &NetDevice, tunnel: &Tunnel, by_qdisc: bool) -> Self {
        let room = match (tunnel.protocol, tunnel.key) {
            (VXLAN_PROTOCOL, _) => VXLAN,
            (GRE_PROTOCOL, None) => GRE,
            (GRE_PROTOCOL, Some(_)) => GRE + GRE_KEY,
            _ => 0,
        };
        let common = Self {
            key: Key::of(tunnel),
            link: tunnel.link,
            room: OUTER + room,
            ttl: tunnel.ttl,
            tos: tunnel.tos,
            by_qdisc: u8::from(by_qdisc),
            flags: if tunnel.discovers_mtu { DF } else { 0 }.to_be_bytes(),
            inherits: INHERITS_DF,
            learns: 0,
            mac: [0; 6],
            first_port: 0,
            ports: 0,
            renew_s: 0,
            sums: 0,
            pad: [0; 3],
        };
        let Some(vxlan) = tunnel.vxlan else {
            return common;
        };
        let default_ttl = || {
            let ttl = sysctl::read("net.ipv4.ip_default_ttl");
            ttl.and_then(|ttl| ttl.try_into().ok())
                .unwrap_or(DEFAULT_TTL)
        };
        // As udp_flow_src_port (include/net/udp.h) chooses them.
        let (first, last) = match vxlan.source_ports {
            (first, last) if first < last => (first, last),
            _ => sysctl::read_pair("net.ipv4.ip_local_port_range").unwrap_or(LOCAL_PORTS),
        };
        Self {
            ttl: match tunnel.ttl {
                0 if !vxlan.inherits_ttl => default_ttl(),
                ttl => ttl,
            },
            inherits: if vxlan.inherits_df {
                INHERITS_DF | INHERITS_V6
            } else {
                0
            },
            learns: u8::from(vxlan.learns),
            mac: device.mac,
            first_port: first,
            ports: last.saturating_sub(first),
            sums: u8::from(vxlan.sums),
            // Linux enters nothing unless it sees a few packets within the time.
            renew_s: (vxlan.ageing_s / 4).clamp(1, 3600) as u16,
            // Only the end of all that are unknown is sent to by the device that a VXLAN is bound to, and that is Linux's.
            link: 0,
            ..common
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use rxlane_system::tunnels::Vxlan;

    /// GRE without a key, against which nothing speaks.
    pub(in crate::tunnels) fn gre() -> Tunnel {
        Tunnel {
            protocol: GRE_PROTOCOL,
            local: [10, 1, 0, 1].into(),
            remote: [10, 1, 0, 10].into(),
            key: None,
            link: 0,
            ttl: 64,
            tos: 0,
            discovers_mtu: true,
            besides: None,
            vxlan: None,
        }
    }

    #[test]
    fn a_vxlan_has_a_time_to_live_and_source_ports_of_its_own() {
        let vxlan = Vxlan {
            port: 4789,
            source_ports: (1000, 3000),
            learns: true,
            ageing_s: 300,
            ..Vxlan::default()
        };
        let tunnel = Tunnel {
            protocol: VXLAN_PROTOCOL,
            key: Some(42),
            ttl: 0,
            discovers_mtu: false,
            // Only the end of all that are unknown is sent to by that.
            link: 3,
            vxlan: Some(vxlan),
            ..gre()
        };
        let way = |tunnel: &Tunnel| Way::of(&NetDevice::default(), tunnel, false);
        let plain = way(&tunnel);
        assert_eq!(
            (plain.room, plain.first_port, plain.ports),
            (50, 1000, 2000)
        );
        assert_eq!((plain.key.remote, plain.key.key), ([0; 4], [0, 0, 42, 0]));
        assert_eq!((plain.link, plain.renew_s), (0, 75));
        assert!(plain.ttl != 0 && plain.learns == 1 && plain.inherits == 0);
        let inherits = Vxlan {
            inherits_ttl: true,
            inherits_df: true,
            ..vxlan
        };
        let inherits = way(&Tunnel {
            vxlan: Some(inherits),
            ..tunnel
        });
        assert_eq!((inherits.ttl, inherits.inherits), (0, 3));
    }
}
