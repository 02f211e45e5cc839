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
/// For so long after it was seen with packets the ring counts as not empty (`RING_QUIET_NS` of bpf/overload/overload.bpf.c).
const QUIET: Ps = Ps(1_000_000_000);

/// The ring, and who waits in it.
#[derive(Debug)]
pub(super) struct Parked {
    packets: VecDeque<(Packet, usize)>,
    room: usize,
    /// Classifying has been part of the poll.
    classify: Ps,
    queue: Ps,
    park: Park,
    /// When a poll last ended with packets in the ring.
    busy: Option<Ps>,
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
            busy: None,
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

    /// Whether the guard must stay, at the end of a poll: what waits, or has just waited, must not be overtaken.
    pub(super) fn is_held(&mut self, now: Ps) -> bool {
        if !self.is_empty() {
            self.busy = Some(now);
        }
        self.busy.is_some_and(|busy| now - busy <= QUIET)
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
            let class = usize::from(packet.class);
            self.tally.early_dropped[class] += 1;
            let saved = self.costs.service[class];
            self.deferred.windows.dropped(self.now, saved);
        }
    }

    /// The thread's turn. Whoever polls sleeps meanwhile, so that the guard takes it for idle time, and stays because the ring is not empty.
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
            self.work(cost, Work::Packet);
            if self.truncated {
                return;
            }
            self.in_service = false;
            self.leave(packet, device, false);
        }
    }
}
