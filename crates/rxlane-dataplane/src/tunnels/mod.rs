//! Tunnels over IPv4 whose packets may be express: which of them, and the tables that say how (bpf/devices/outer.h, bpf/devices/tunnel.h).
//!
//! What comes in a tunnel came in by the tunnel's device, and leaves through one with an outer header, as in Linux. Outer packets are
//! those of the router itself: for classes of established flows Linux must have been seen to take and to send such ones, too.

mod vxlan_fdb;
mod vxlan_table;
mod way;

use std::collections::BTreeMap;

#[cfg(feature = "testing")]
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;

use libbpf_rs::{MapCore, MapFlags};
use rxlane_config::RouterConfig;
use rxlane_policy::class::Trust;
#[cfg(any(test, feature = "testing"))]
use rxlane_system::links::Link as NetDevice;
use rxlane_system::links::Links;
use rxlane_system::route_mtu::RouteMtu;
use rxlane_system::snapshot::Snapshot;
use rxlane_system::tunnels::Tunnel;
use rxlane_system::{addresses, rules, xfrm};
use rxlane_topology::Topology;
use rxlane_topology::device::Checks;
use rxlane_topology::tunnel::{Around, TunnelDevice, TunnelStatus};
use tracing::warn;

use crate::DataplaneError;
use crate::device_over::{self, flags};
use crate::lanes::constants::trusts;
use crate::lanes::overload::Shared;
use crate::lanes::program::LaneProgram;
use crate::lanes::tunnels::{Entries, Followed};
use rxlane_bpf::BpfTried;
use rxlane_bpf::layout::{DeviceOver, PORT_HIDES_TAGS, TUNNELS_RULED, TUNNELS_SEVERAL_HOPS};
use rxlane_bpf::pinned;
use vxlan_fdb::Ends;
use way::{GRE_PROTOCOL, VXLAN_PROTOCOL, Way};

/// The tunnels of this network namespace, as they were found last.
#[derive(Default)]
pub(crate) struct Tunnels {
    all: Vec<TunnelDevice>,
    entries: Option<Entries>,
    /// What the kernel has refused to follow, and why.
    refused: Option<(Followed, String)>,
    /// Rules about outer packets, which only flows that Linux was seen to forward heed.
    pub(crate) only_established: Option<String>,
    /// Behind which ends of VXLANs stations are.
    ends: Ends,
    /// Ways by VXLANs, which the program is not told while it is not known where stations are.
    by_ends: BTreeMap<Vec<u8>, Way>,
}

impl Tunnels {
    /// What speaks against each tunnel, by what devices there are now.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub(crate) fn assess(
        &mut self,
        config: &RouterConfig,
        devices: &Links,
    ) -> Result<(), DataplaneError> {
        self.all.clear();
        if devices.iter().all(|d| d.tunnel.is_none()) {
            return Ok(());
        }
        // An address of a VRF is the router's own only to what comes in there.
        let of_others = devices.iter().filter(|d| d.master.is_some());
        let of_others = of_others.map(|d| d.name.clone()).collect();
        let around = Around {
            config,
            devices,
            addresses: addresses::own_ipv4(&of_others)?,
            encrypts: xfrm::are_there()?,
            has_rules: rules::policy_rules()?[0],
        };
        self.all = around.assess();
        Ok(())
    }

    /// Follows what Linux takes out of tunnels, where a class asks for that and there are some.
    pub(crate) fn follow(&mut self, config: &RouterConfig, shared: &Shared, lane: &LaneProgram) {
        let asks = trusts(config, Trust::asks_linux) && self.are_served().next().is_some();
        let Some(witness) = lane.witness.as_ref().filter(|_| asks) else {
            self.entries = None;
            return;
        };
        let there = Followed::of_this_kernel();
        let is_followed = self.entries.as_ref().is_some_and(|e| e.followed == there);
        let is_refused = self
            .refused
            .as_ref()
            .is_some_and(|(what, _)| *what == there);
        if is_followed || is_refused {
            return;
        }
        match Entries::follow(there, &shared.tunnels, witness) {
            Ok(entries) => self.entries = Some(entries),
            Err(error) => {
                warn!(%error, "established flows that come in tunnels stay with the kernel until rxlane is started again");
                self.refused = Some((there, error.to_string()));
            }
        }
    }

    /// Why Linux is not seen to take packets out of a tunnel, where a class asks for that.
    fn not_followed(&self, tunnel: &Tunnel) -> Option<String> {
        match (&self.entries, &self.refused) {
            (Some(entries), _) if entries.followed.covers(tunnel.protocol) => None,
            (Some(_), _) => Some("the kernel's types lack the function that takes packets out of it (CONFIG_DEBUG_INFO_BTF_MODULES)".into()),
            (None, Some((_, why))) => Some(why.clone()),
            (None, None) => None,
        }
    }

    /// What a router does about tunnels, by what was assessed last.
    pub(crate) fn status(&self) -> Vec<TunnelStatus> {
        let status = |a: &TunnelDevice| TunnelStatus {
            name: a.device.name.clone(),
            kind: kind(&a.tunnel).into(),
            remote: if a.tunnel.remote.is_unspecified() {
                "any".into()
            } else {
                a.tunnel.remote.to_string()
            },
            declined: a.declined.clone(),
            only_established: match a.declined {
                None => self.only_established.clone(),
                Some(_) => None,
            },
            not_followed: match a.declined {
                None => self.not_followed(&a.tunnel),
                Some(_) => None,
            },
        };
        self.all.iter().map(status).collect()
    }

    /// What keeps packets out of all tunnels ([`TUNNELS_SEVERAL_HOPS`], [`TUNNELS_RULED`]).
    pub(crate) fn obstacles(&self, routes: &RouteMtu) -> u8 {
        let bit = |bit: u8, there: bool| if there { bit } else { 0 };
        bit(TUNNELS_SEVERAL_HOPS, routes.have_several_hops())
            | bit(TUNNELS_RULED, self.only_established.is_some())
    }

    fn are_served(&self) -> impl Iterator<Item = &TunnelDevice> {
        self.all.iter().filter(|a| a.declined.is_none())
    }

    /// The devices of tunnels that are served.
    pub(crate) fn served(&self) -> Vec<String> {
        self.are_served().map(|a| a.device.name.clone()).collect()
    }

    /// Tells the programs about the tunnels that are served.
    ///
    /// # Errors
    /// When netlink fails, or a map cannot be written.
    pub(crate) fn write(
        &mut self,
        shared: &Shared,
        lane: &LaneProgram,
        snapshot: &Snapshot,
        topology: &Topology,
    ) -> Result<(), DataplaneError> {
        let (mut entries, mut ways) = (BTreeMap::new(), BTreeMap::new());
        let (mut by_ends, mut vxlans) = (BTreeMap::new(), BTreeMap::new());
        for TunnelDevice { device, tunnel, .. } in self.are_served() {
            let own = flags(Checks::of(device, None, snapshot));
            let entry = DeviceOver {
                unfollowed: u8::from(self.not_followed(tunnel).is_some()),
                ..device_over::entry(device, &snapshot.links, own & !PORT_HIDES_TAGS)
            };
            let by_qdisc = topology.by_qdisc.contains_key(&device.ifindex);
            let way = Way::of(device, tunnel, by_qdisc);
            entries.insert(bytemuck::bytes_of(&way.key).to_vec(), entry);
            let key = device.ifindex.to_ne_bytes().to_vec();
            if let Some(vxlan) = tunnel.vxlan {
                vxlans.insert(device.ifindex, vxlan.learns);
                by_ends.insert(key, way);
            } else {
                ways.insert(key, way);
            }
        }
        // While packets of a VXLAN are let in and out it must be known where they come from and go.
        self.ends.look_also(lane, &vxlans)?;
        if !self.ends.are_lost() {
            ways.extend(by_ends.clone());
        }
        self.by_ends = by_ends;
        pinned::replace(&lane.tunnel_ways, &ways)?;
        pinned::replace(&shared.tunnels, &entries)?;
        self.ends.look(lane, vxlans)?;
        self.leave_lost_to_linux(lane)
    }

    /// Where news of what VXLANs learn come, while some are served.
    pub(crate) fn news(&self) -> Option<BorrowedFd<'_>> {
        self.ends.news()
    }

    /// Tells the program what VXLANs have learned and forgotten since the last call; whether there was something.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(crate) fn hear_of_ends(&mut self, lane: &LaneProgram) -> Result<bool, DataplaneError> {
        let were_news = self.ends.follow(lane)?;
        self.leave_lost_to_linux(lane)?;
        Ok(were_news)
    }

    /// Without a way the program takes nothing out of a VXLAN and puts nothing into it.
    fn leave_lost_to_linux(&self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        if !self.ends.are_lost() {
            return Ok(());
        }
        for ifindex in self.by_ends.keys() {
            pinned::delete(&lane.tunnel_ways, ifindex)?;
        }
        Ok(())
    }

    /// Reads what VXLANs know where news have not said all of it.
    ///
    /// # Errors
    /// When netlink fails, or the map cannot be written.
    pub(crate) fn settle_ends(&mut self, lane: &LaneProgram) -> Result<(), DataplaneError> {
        let were_lost = self.ends.are_lost();
        self.ends.settle(lane)?;
        if were_lost && !self.ends.are_lost() {
            for (ifindex, way) in &self.by_ends {
                let put = lane
                    .tunnel_ways
                    .update(ifindex, bytemuck::bytes_of(way), MapFlags::ANY);
                put.tried(|| "write map tunnel_ways".into())?;
            }
        }
        Ok(())
    }

    /// Another program knows nothing of them yet.
    pub(crate) fn forget_ends(&mut self) {
        self.ends = Ends::default();
        self.by_ends.clear();
    }
}

/// What `ip link` calls it.
fn kind(tunnel: &Tunnel) -> &'static str {
    match tunnel.protocol {
        4 => "ipip",
        GRE_PROTOCOL => "gre",
        VXLAN_PROTOCOL => "vxlan",
        _ => "sit",
    }
}

/// See [`crate::testing::serve_tunnels`].
#[cfg(feature = "testing")]
pub(crate) fn serve(
    shared: &Shared,
    lane: &LaneProgram,
    tunnels: &[(u32, [u8; 6], Tunnel)],
    stations: &[(u32, [u8; 6], Ipv4Addr)],
) -> Result<(), DataplaneError> {
    let (mut entries, mut ways) = (BTreeMap::new(), BTreeMap::new());
    for (ifindex, mac, tunnel) in tunnels {
        let device = NetDevice {
            mac: *mac,
            ..NetDevice::default()
        };
        let way = Way::of(&device, tunnel, false);
        let entry = DeviceOver::seen_as_itself(*ifindex);
        entries.insert(bytemuck::bytes_of(&way.key).to_vec(), entry);
        ways.insert(ifindex.to_ne_bytes().to_vec(), way);
    }
    vxlan_fdb::serve(lane, stations)?;
    pinned::replace(&shared.tunnels, &entries)?;
    Ok(pinned::replace(&lane.tunnel_ways, &ways)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(refused: Option<&str>) -> TunnelStatus {
        let nothing = Followed {
            ip: false,
            sit: false,
            vxlan: false,
        };
        let tunnels = Tunnels {
            all: vec![TunnelDevice {
                device: NetDevice::default(),
                tunnel: way::tests::gre(),
                declined: None,
            }],
            refused: refused.map(|why| (nothing, why.to_owned())),
            ..Tunnels::default()
        };
        tunnels.status().remove(0)
    }

    #[test]
    fn a_kernel_that_lets_nobody_follow_what_it_takes_out_of_tunnels_is_named_as_the_reason() {
        assert_eq!(found(None).not_followed, None);
        let refused = found(Some("not permitted"));
        assert_eq!(refused.not_followed.as_deref(), Some("not permitted"));
    }

    #[test]
    fn packets_are_taken_out_of_tunnels_by_functions_of_their_kinds() {
        let only_ip = Followed {
            ip: true,
            sit: false,
            vxlan: false,
        };
        assert!(only_ip.covers(4) && only_ip.covers(GRE_PROTOCOL));
        assert!(!only_ip.covers(41) && !only_ip.covers(VXLAN_PROTOCOL));
    }
}
