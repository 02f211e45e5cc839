//! Tells the programs how fast links are that can be filled by what XDP sends to them (bpf/forward/link_queue.h).

use std::collections::BTreeMap;

use rxlane_bpf::layout::LinkQueue;
use rxlane_bpf::pinned;
use rxlane_policy::egress;
use rxlane_system::drivers;
use rxlane_system::links::{Link as NetDevice, Links};

use crate::DataplaneError;
use crate::lanes::overload::Shared;
use crate::port::PortState;
use crate::refusing;

/// What the programs have been told, by slot.
#[derive(Debug, Default)]
pub(crate) struct LinkQueues(BTreeMap<u8, LinkQueue>);

impl LinkQueues {
    /// Follows the speeds of links, of which nobody tells.
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn follow(
        &mut self,
        shared: &Shared,
        ports: &BTreeMap<String, PortState>,
        devices: &Links,
    ) -> Result<(), DataplaneError> {
        let there = ports.values().filter_map(|port| {
            let device = devices.at(port.ifindex?)?;
            Some((port, bits_per_s(device)))
        });
        let there: Vec<_> = there.collect();
        let mut told = BTreeMap::new();
        for (port, own) in &there {
            let others = there.iter().filter(|(other, _)| other.slot != port.slot);
            let others = others.map(|(_, speed)| *speed);
            let queue = own.filter(|_| egress::can_be_filled(*own, others));
            let queue = queue.and_then(|bits_per_s| egress::link_queue(bits_per_s).ok());
            if let Some(gcra) = queue {
                let queue = LinkQueue {
                    next: 0,
                    cost: gcra.cost,
                    limit: gcra.limit,
                };
                told.insert(port.slot, queue);
            }
        }
        for slot in self.0.keys().chain(told.keys()) {
            let now = told.get(slot).copied().unwrap_or_default();
            if self.0.get(slot).copied().unwrap_or_default() != now {
                pinned::put(
                    &shared.link_queues,
                    (*slot).into(),
                    bytemuck::bytes_of(&now),
                )?;
            }
        }
        self.0 = told;
        let in_xdp = there.iter().any(|(port, _)| port.is_in_xdp());
        refusing::count(shared, in_xdp && !self.0.is_empty())
    }
}

/// As its driver says; what devices in memory say is a name.
fn bits_per_s(device: &NetDevice) -> Option<u64> {
    let is_link = matches!(device.kind.as_deref(), None | Some("bond"));
    let asked = is_link.then(|| drivers::link_bits_per_s(&device.name).ok());
    asked.flatten().flatten()
}
