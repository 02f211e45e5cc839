//! Tunnels over IPv4: which of them the express lane serves. What speaks against one is what Linux does to its packets besides putting
//! them into another one.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use rxlane_config::{Datapath, RouterConfig};
use rxlane_policy::tunneled::VXLAN_PORTS;
use rxlane_system::links::{Link as NetDevice, Links};
use rxlane_system::tunnels::Tunnel;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::why_not;

/// A tunnel over IPv4.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TunnelStatus {
    /// Name of its device.
    pub name: String,
    /// `ipip`, `sit`, `gre` or `vxlan`.
    pub kind: String,
    /// The other end, of a VXLAN that of stations which it does not know; `any` if there is none.
    pub remote: String,
    /// Why its packets stay with the kernel; missing if they may be express.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub declined: Option<String>,
    /// Why only flows that Linux was seen to forward (`firewall`, `established`) use it; missing if all may.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only_established: Option<String>,
    /// Why flows of `firewall` and `established` classes that come in by it stay with the kernel; missing if they may be express.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_followed: Option<String>,
}

/// What decides about all tunnels.
pub struct Around<'a> {
    /// What the router is to do.
    pub config: &'a RouterConfig,
    /// All devices.
    pub devices: &'a Links,
    /// Addresses of this network namespace, without those of VRFs.
    pub addresses: BTreeSet<Ipv4Addr>,
    /// Whether there are IPsec policies.
    pub encrypts: bool,
    /// Whether IPv4 has rules of policy routing.
    pub has_rules: bool,
}

/// A tunnel's device, and what speaks against it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TunnelDevice {
    /// The device.
    pub device: NetDevice,
    /// What makes it a tunnel.
    pub tunnel: Tunnel,
    /// Why its packets stay with the kernel.
    pub declined: Option<String>,
}

/// Tunnels that the program knows (`MAX_TUNNELS` of bpf/devices/outer.h).
pub const MAX_TUNNELS: usize = 1024;
const SIT: u8 = 41;
const GRE: u8 = 47;

/// Whether both are of the same kind, among which Linux looks: it asks what a tunnel carries only once it has found it.
fn may_be_alike(other: &Tunnel, tunnel: &Tunnel) -> bool {
    let same_kind = other.vxlan.is_some() == tunnel.vxlan.is_some()
        && (other.protocol == GRE) == (tunnel.protocol == GRE);
    other.protocol == tunnel.protocol || (other.besides.is_some() && same_kind)
}

/// Whether Linux may find the other tunnel for packets of this one: bound to the device that they come in by it is preferred even without
/// ends of its own (`ip_tunnel_lookup` in net/ipv4/ip_tunnel.c).
fn may_take(other: &Tunnel, tunnel: &Tunnel) -> bool {
    let fits = |theirs: Ipv4Addr, ours: Ipv4Addr| theirs.is_unspecified() || theirs == ours;
    other.link != 0
        && tunnel.vxlan.is_none()
        && tunnel.protocol != SIT
        && may_be_alike(other, tunnel)
        && fits(other.local, tunnel.local)
        && fits(other.remote, tunnel.remote)
        && (other.key == tunnel.key || other.besides.is_some())
}

impl Around<'_> {
    /// What speaks against each tunnel.
    pub fn assess(&self) -> Vec<TunnelDevice> {
        let mut served = 0;
        let mut all = Vec::new();
        for device in self.devices {
            let Some(tunnel) = device.tunnel else {
                continue;
            };
            // Modules make one of their own, which has no ends and is for whatever no other tunnel takes.
            if tunnel.local.is_unspecified() && tunnel.remote.is_unspecified() && !device.up {
                continue;
            }
            let declined = self.why_not(device, &tunnel, served);
            served += usize::from(declined.is_none());
            all.push(TunnelDevice {
                device: device.clone(),
                tunnel,
                declined,
            });
        }
        all
    }

    /// `served`: how many tunnels are.
    fn why_not(&self, device: &NetDevice, tunnel: &Tunnel, served: usize) -> Option<String> {
        let name = &device.name;
        let reason = |holds: bool, why: String| holds.then_some(why);
        let own = |why: &str| format!("`{name}` {why}");
        let engine = matches!(self.config.datapath, Datapath::Afxdp(_));
        // Where stations of a VXLAN are, each of its frames tells.
        let ends = match tunnel.vxlan {
            Some(_) => [tunnel.local; 2],
            None => [tunnel.local, tunnel.remote],
        };
        let port = tunnel.vxlan.map(|vxlan| vxlan.port);
        let mut others = self.devices.iter().filter(|d| d.ifindex != device.ifindex);
        let of_other = others.clone().find(|other| {
            let same = |t: &Tunnel| {
                let ends = |t: &Tunnel| (t.local, t.remote, t.key);
                let number = |t: &Tunnel| (t.key, t.vxlan.map(|vxlan| vxlan.port));
                let same = match tunnel.vxlan {
                    Some(_) => number(t) == number(tunnel),
                    None => ends(t) == ends(tunnel),
                };
                may_be_alike(t, tunnel) && same
            };
            other.tunnel.as_ref().is_some_and(same)
        });
        let taker = others.find(|d| d.tunnel.is_some_and(|t| may_take(&t, tunnel)));
        let link = self.devices.at(tunnel.link);
        reason(engine, "the engine leaves tunnels to the kernel".into())
            .or_else(|| tunnel.besides.map(own))
            .or_else(|| {
                let open = ends.iter().any(|a| a.is_unspecified() || a.is_multicast());
                let what = match tunnel.vxlan {
                    Some(_) => "has no address of its own (local)",
                    None => "has not both ends set (local, remote)",
                };
                reason(open, own(what))
            })
            .or_else(|| {
                let other = port.filter(|port| !VXLAN_PORTS.contains(port));
                other.map(|port| {
                    own(&format!(
                        "uses UDP port {port}: the lane looks at 4789 and 8472"
                    ))
                })
            })
            .or_else(|| {
                let odd = tunnel.tos & 1 == 1 && tunnel.tos != 1;
                reason(odd, own("has an odd type of service"))
            })
            .or_else(|| {
                let local = tunnel.local;
                let gone = !self.addresses.contains(&local);
                reason(
                    gone,
                    format!("{local} is no address of this router, or one of a VRF"),
                )
            })
            .or_else(|| of_other.map(|other| format!("`{}` has the same ends and key", other.name)))
            .or_else(|| taker.map(|other| format!("`{}` may take its packets", other.name)))
            .or_else(|| {
                // Linux remembers the way of the first packet for those that follow, whatever their type of service (ipip6_tunnel_xmit in
                // net/ipv6/sit.c); it does not do so for tunnels of other kinds.
                let remembered = tunnel.protocol == SIT && tunnel.tos == 1 && self.has_rules;
                let why = "takes over types of service (tos inherit), which rules of policy routing (ip rule) may ask for";
                reason(remembered, own(why))
            })
            .or_else(|| {
                // Linux takes packets only from there (ipip6_tunnel_lookup in net/ipv6/sit.c).
                let bound = tunnel.link != 0 && tunnel.protocol == SIT;
                reason(bound, own("is bound to a device (dev)"))
            })
            .or_else(|| {
                let enslaved = link.is_some_and(|d| d.master.is_some());
                let of_vrf = link.is_some_and(|d| d.kind.as_deref() == Some("vrf"));
                reason(
                    enslaved || of_vrf,
                    own("is bound to a device that belongs to another, or to a VRF"),
                )
            })
            .or_else(|| {
                let why = "there are IPsec policies (ip xfrm policy)";
                reason(self.encrypts, why.into())
            })
            .or_else(|| {
                let master = device.master.is_some();
                reason(master, own("belongs to another device"))
            })
            .or_else(|| why_not(device, self.devices))
            .or_else(|| {
                let full = served >= MAX_TUNNELS;
                reason(full, format!("there are more than {MAX_TUNNELS} tunnels"))
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rxlane_system::tunnels::Vxlan;

    /// GRE without a key, against which nothing speaks.
    fn tunnel() -> Tunnel {
        Tunnel {
            protocol: 47,
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

    fn device(ifindex: u32, name: &str, tunnel: Tunnel) -> NetDevice {
        NetDevice {
            ifindex,
            name: name.into(),
            mtu: 1476,
            up: true,
            tunnel: Some(tunnel),
            ..NetDevice::default()
        }
    }

    fn declined(devices: &[NetDevice], datapath: &str, encrypts: bool) -> Option<String> {
        declined_beside(devices, datapath, encrypts, false)
    }

    fn declined_beside(
        devices: &[NetDevice],
        datapath: &str,
        encrypts: bool,
        has_rules: bool,
    ) -> Option<String> {
        let text =
            format!("ports = [\"wan0\"]\n{datapath}[[class]]\nname = \"all\"\nlane = \"stack\"\n");
        let config = rxlane_config::parse(&text).unwrap();
        let around = Around {
            config: &config,
            devices: &Links::from(devices.to_vec()),
            addresses: [Ipv4Addr::new(10, 1, 0, 1)].into(),
            encrypts,
            has_rules,
        };
        let tunnel = devices[0].tunnel.unwrap();
        around.why_not(&devices[0], &tunnel, 0)
    }

    #[test]
    fn a_tunnel_between_two_addresses_is_served() {
        assert_eq!(declined(&[device(5, "gre1", tunnel())], "", false), None);
        let other = Tunnel {
            key: Some(7),
            ..tunnel()
        };
        let two = [device(5, "gre1", tunnel()), device(6, "gre2", other)];
        assert_eq!(declined(&two, "", false), None);
    }

    #[test]
    fn sit_that_takes_over_types_of_service_is_linuxs_where_rules_may_ask_for_them() {
        let with = |protocol, tos| {
            let tunnel = Tunnel {
                protocol,
                tos,
                ..tunnel()
            };
            [device(5, "sit1", tunnel)]
        };
        let said = declined_beside(&with(41, 1), "", false, true).unwrap_or_default();
        assert!(said.contains("tos inherit"), "{said}");
        assert_eq!(declined_beside(&with(41, 1), "", false, false), None);
        assert_eq!(declined_beside(&with(41, 0x10), "", false, true), None);
        assert_eq!(declined_beside(&with(47, 1), "", false, true), None);
    }

    fn vxlan(number: u32, port: u16) -> Tunnel {
        Tunnel {
            protocol: 17,
            remote: Ipv4Addr::UNSPECIFIED,
            key: Some(number),
            vxlan: Some(Vxlan {
                port,
                ..Vxlan::default()
            }),
            ..tunnel()
        }
    }

    #[test]
    fn a_vxlan_needs_an_address_a_known_port_and_a_number_of_its_own() {
        let one = device(5, "vx1", vxlan(42, 4789));
        assert_eq!(declined(std::slice::from_ref(&one), "", false), None);
        let others = [vxlan(43, 4789), vxlan(42, 8472), tunnel()];
        for other in others {
            let two = [one.clone(), device(6, "other", other)];
            assert_eq!(declined(&two, "", false), None);
        }
        let twin = Tunnel {
            local: [10, 1, 0, 9].into(),
            ..vxlan(42, 4789)
        };
        let open = Tunnel {
            local: Ipv4Addr::UNSPECIFIED,
            ..vxlan(42, 4789)
        };
        for (devices, why) in [
            (vec![one, device(6, "vx2", twin)], "`vx2` has the same"),
            (vec![device(5, "vx1", vxlan(42, 5000))], "UDP port 5000"),
            (vec![device(5, "vx1", open)], "no address of its own"),
        ] {
            let said = declined(&devices, "", false).unwrap_or_default();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn a_tunnel_that_does_more_or_is_not_alone_is_linuxs() {
        let with = |change: fn(&mut Tunnel)| {
            let mut tunnel = tunnel();
            change(&mut tunnel);
            vec![device(5, "gre1", tunnel)]
        };
        let mut bridged = device(5, "gre1", tunnel());
        bridged.master = Some(9);
        let two = vec![device(5, "gre1", tunnel()), device(6, "gre2", tunnel())];
        let open = Tunnel {
            local: Ipv4Addr::UNSPECIFIED,
            remote: Ipv4Addr::UNSPECIFIED,
            link: 2,
            ..tunnel()
        };
        let mpls = Tunnel {
            protocol: 137,
            besides: Some("carries another protocol (mode)"),
            ..open
        };
        let ip = Tunnel {
            protocol: 4,
            ..tunnel()
        };
        let with_mpls = vec![device(5, "ipip1", ip), device(6, "mpls1", mpls)];
        let with_open = vec![device(5, "gre1", tunnel()), device(6, "gre3", open)];
        for (devices, datapath, encrypts, why) in [
            (
                with(|t| t.remote = Ipv4Addr::UNSPECIFIED),
                "",
                false,
                "both ends",
            ),
            (
                with(|t| t.remote = [224, 0, 0, 9].into()),
                "",
                false,
                "both ends",
            ),
            (
                with(|t| t.besides = Some("is odd")),
                "",
                false,
                "`gre1` is odd",
            ),
            (with(|t| t.tos = 5), "", false, "odd type"),
            (
                with(|t| t.local = [10, 9, 0, 1].into()),
                "",
                false,
                "no address",
            ),
            (two, "", false, "`gre2` has the same"),
            (with_open, "", false, "`gre3` may take"),
            (with_mpls, "", false, "`mpls1` may take"),
            (
                with(|t| (t.protocol, t.link) = (41, 2)),
                "",
                false,
                "is bound to a device",
            ),
            (with(|_| {}), "", true, "IPsec"),
            (
                with(|_| {}),
                "datapath = \"afxdp\"\n",
                false,
                "the engine leaves",
            ),
            (vec![bridged], "", false, "belongs to another"),
        ] {
            let said = declined(&devices, datapath, encrypts).unwrap_or_default();
            assert!(said.contains(why), "{said}");
        }
    }
}
