//! The neighbours that express packets go to.
//!
//! Linux asks a neighbour whether it is still there when somebody sends to it after its entry has become stale
//! (RFC 4861, 7.3; `neigh_event_send` in net/core/neighbour.c, for ARP too). A look-up from XDP sends nothing that Linux
//! would notice, so a host that only express packets go to could be replaced by another and never be found again. The
//! XDP program therefore notes where it sends, and the daemon says so to the kernel once a second.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytemuck::Zeroable;
use libbpf_rs::MapHandle;
use rxlane_bpf::layout::{NextHop, NextHops};
use rxlane_bpf::pinned;

use crate::DataplaneError;

/// What was noted when it was last looked at, by core.
#[derive(Debug, Default)]
pub(crate) struct Noted(Vec<NextHops>);

impl Noted {
    /// The neighbours that packets went to since the last call: device and address.
    pub(crate) fn used_since(
        &mut self,
        map: &MapHandle,
    ) -> Result<BTreeSet<(u32, IpAddr)>, DataplaneError> {
        Ok(self.changed(pinned::get_percpu(map, 0)?))
    }

    fn changed(&mut self, now: Vec<NextHops>) -> BTreeSet<(u32, IpAddr)> {
        self.0.resize(now.len(), NextHops::zeroed());
        let pairs = now.iter().zip(&self.0);
        let used = pairs
            .flat_map(|(now, before)| now.at.iter().zip(&before.at))
            .filter(|(now, before)| now != before && now.ifindex != 0)
            .map(|(now, _)| (now.ifindex, address(now)))
            .collect();
        self.0 = now;
        used
    }
}

fn address(hop: &NextHop) -> IpAddr {
    let [a, b, c, d, ..] = hop.address;
    match hop.v6 {
        0 => Ipv4Addr::new(a, b, c, d).into(),
        _ => Ipv6Addr::from(hop.address).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(places: &[(usize, u32, [u8; 4])]) -> Vec<NextHops> {
        let mut hops = NextHops::zeroed();
        for (place, used_ticks, v4) in places {
            let hop = &mut hops.at[*place];
            hop.used_ticks = *used_ticks;
            hop.ifindex = 3;
            hop.address[..4].copy_from_slice(v4);
        }
        vec![hops, NextHops::zeroed()]
    }

    #[test]
    fn a_neighbour_is_in_use_only_as_long_as_packets_go_to_it() {
        let mut seen = Noted::default();
        let two = noted(&[(1, 10, [10, 0, 0, 1]), (9, 11, [10, 0, 0, 2])]);
        let a: IpAddr = [10, 0, 0, 1].into();
        let b: IpAddr = [10, 0, 0, 2].into();
        assert_eq!(seen.changed(two.clone()), [(3, a), (3, b)].into());
        assert_eq!(seen.changed(two), [].into());
        let later = noted(&[(1, 10, [10, 0, 0, 1]), (9, 12, [10, 0, 0, 2])]);
        assert_eq!(seen.changed(later), [(3, b)].into());
    }
}
