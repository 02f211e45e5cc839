//! Connections' packets that wait for an overloaded core: a ring of that core, which a thread of the core serves while no
//! device is to be polled (a CPUMAP of the polling core).

use std::collections::VecDeque;

use rxlane_policy::Ps;
use rxlane_policy::overload::Park;

use super::SimulatedCore;
use super::control::Control;
use crate::ring::Packet;
use crate::scenario::Express;
use crate::tally::Work;

/// Packets that the thread serves before it lets polls go first (`CPUMAP_BATCH` in kernel/bpf/cpumap.c).
const BATCH: usize = 8;

/// The ring, and who waits in it.
#[derive(Debug)]
pub(super) struct Parked {
    packets: VecDeque<(Packet, usize)>,
    room: usize,
    /// Classifying has been part of the poll.
    classify: Ps,
    queue: Ps,
    park: Park,
    /// All packets of connections wait, in the poll under way.
    takes_all: bool,
}

impl Parked {
    pub(super) fn new(express: &Express) -> Self {
        Self {
            packets: VecDeque::new(),
            room: express.tcp_ring,
            classify: Ps::from_ns(express.drop_ns),
            queue: Ps::from_ns(express.queue_ns),
            park: Park::default(),
            takes_all: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn takes_all(&self) -> bool {
        self.takes_all
    }

    pub(super) fn poll_begins(&mut self, control: &Control, now: Ps) {
        let empty = self.is_empty();
        self.takes_all = control.parks(&mut self.park, now.into(), empty);
    }
}

impl SimulatedCore {
    /// Whether a packet of the stack waits rather than being shed.
    pub(super) fn may_wait(&self, control: &Control, packet: &Packet) -> bool {
        let is_tcp = self.senders.as_ref().is_some_and(|s| s.has(packet));
        is_tcp && self.deferred.parked.room > 0 && control.queues()
    }

    /// Puts a packet into the ring, where there is room.
    pub(super) fn park(&mut self, packet: Packet, device: usize) {
        self.work(self.deferred.parked.classify, Work::Packet);
        if self.truncated {
            return;
        }
        self.in_service = false;
        let parked = &mut self.deferred.parked;
        if parked.packets.len() < parked.room {
            parked.packets.push_back((packet, device));
        } else {
            self.tally.early_dropped[usize::from(packet.class)] += 1;
        }
    }

    /// The thread's turn, which the guard sees as time that others had.
    pub(super) fn serve_parked(&mut self) {
        self.leave_softirq();
        for _ in 0..BATCH {
            let Some((packet, device)) = self.deferred.parked.packets.pop_front() else {
                break;
            };
            self.in_service = true;
            let (parked, whole) = (
                &self.deferred.parked,
                self.costs.service[usize::from(packet.class)],
            );
            let cost = whole - parked.classify.min(whole) + parked.queue;
            let (begun, taken) = (self.now, self.tally.busy[Work::Other as usize]);
            self.work(cost, Work::Packet);
            // Others have told of theirs.
            let others = self.tally.busy[Work::Other as usize] - taken;
            self.deferred.takes(begun, self.now - others, true);
            if self.truncated {
                return;
            }
            self.in_service = false;
            self.leave(packet, device, false);
        }
    }
}
