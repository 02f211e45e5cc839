//! The egress link and its queueing discipline. The link decides what to send when it is free, so nothing has to be
//! decided before somebody looks: [`Egress::advance`] makes up for all the decisions since the last look.

mod bucket;
mod full;
mod red;

use std::collections::VecDeque;

use rxlane_policy::{Bps, Ps};

use crate::ring::Packet;
use crate::scenario::{Discipline, ExpressEgress, Scenario};
use bucket::TokenBucket;
use full::Full;
use red::Red;

/// A link that one core sends to.
#[derive(Debug)]
pub(super) struct Egress {
    discipline: Discipline,
    /// Highest class first, or those that flows are hashed into; disciplines with one queue have one for all.
    queues: Vec<VecDeque<Packet>>,
    /// What was redirected, in a queue of the NIC, where it has a ring of its own.
    redirected: VecDeque<Packet>,
    /// The Tx ring that the stack and redirected packets share, and how many it holds; 0: they share none.
    ring: VecDeque<Packet>,
    descriptors: usize,
    /// Which redirected packets go through the queueing discipline; none: none of them.
    full: Option<Full>,
    /// Packets of these flows can be marked.
    marks_from: u16,
    /// Whether the queue of the redirected has its turn now, if both have packets.
    redirected_next: bool,
    limit: usize,
    frame_time: Ps,
    /// When it has sent what it has decided to send.
    free: Ps,
    frame: u32,
    quanta: Vec<u32>,
    deficits: Vec<u32>,
    /// The queue whose turn it is.
    turn: usize,
    red: Option<Red>,
    bucket: Option<TokenBucket>,
}

impl Egress {
    pub(super) fn new(scenario: &Scenario, seed: u64) -> Option<Self> {
        let q = scenario.qdisc.as_ref()?;
        let queues = match q.discipline {
            Discipline::Fifo | Discipline::Red | Discipline::TokenBucket => 1,
            Discipline::Sfq => q.buckets,
            Discipline::Strict | Discipline::Drr => scenario.traffic.class_shares().len(),
        };
        let frame = scenario.traffic.frame;
        let mut quanta = q.quanta.clone();
        quanta.resize(queues, frame);
        Some(Self {
            discipline: q.discipline,
            queues: vec![VecDeque::new(); queues],
            redirected: VecDeque::new(),
            ring: VecDeque::new(),
            descriptors: q.descriptors,
            full: (scenario.express.egress == ExpressEgress::Auto)
                .then(|| Full::new(Bps(q.link_bps), frame)),
            marks_from: match scenario.tcp.as_ref().is_some_and(|tcp| tcp.ecn) {
                true => scenario.first_tcp_flow(),
                false => u16::MAX,
            },
            redirected_next: true,
            limit: q.limit,
            frame_time: Bps(q.link_bps).wire_time(frame),
            free: Ps::ZERO,
            frame,
            deficits: quanta.clone(),
            quanta,
            turn: 0,
            red: (q.discipline == Discipline::Red).then(|| Red::new(q.red, seed)),
            bucket: (q.discipline == Discipline::TokenBucket)
                .then(|| TokenBucket::new(q.rate_bps, q.burst)),
        })
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.redirected.len() + self.ring.len() + self.in_queues()
    }

    fn in_queues(&self) -> usize {
        self.queues.iter().map(VecDeque::len).sum()
    }

    /// Takes in a packet at `now`, up to which [`Egress::advance`] has been called. Returns the one that is dropped for want of
    /// room: this one, or with `sfq` one of whoever has most waiting.
    pub(super) fn enter(
        &mut self,
        mut packet: Packet,
        mut redirected: bool,
        now: Ps,
    ) -> Option<Packet> {
        let mut idle = Ps::ZERO;
        if self.len() == 0 {
            idle = now - self.free.min(now);
            self.free = self.free.max(now);
        }
        let waits = self.in_queues() > 0;
        if let Some(full) = &mut self.full {
            let has_room = self.ring.len() < self.descriptors;
            redirected &= full.redirects(packet.class, has_room, waits, now);
        }
        if self.descriptors > 0 && (redirected || !waits) {
            // What is redirected, and finds no descriptor, is refused; the stack's waits in front.
            match put(&mut self.ring, packet, self.descriptors) {
                Some(refused) if !redirected => packet = refused,
                other => return other,
            }
        }
        if redirected {
            return put(&mut self.redirected, packet, self.limit);
        }
        if let Some(red) = &mut self.red {
            let missed = idle.0 as f64 / self.frame_time.0.max(1) as f64;
            if !red.admits(self.queues[0].len(), missed) {
                if packet.flow < self.marks_from {
                    return Some(packet);
                }
                packet.marked = true;
            }
        }
        if self.discipline == Discipline::Sfq {
            return self.enter_bucket(packet);
        }
        let last = self.queues.len() - 1;
        let queue = usize::from(packet.class).min(last);
        put(&mut self.queues[queue], packet, self.limit)
    }

    fn enter_bucket(&mut self, packet: Packet) -> Option<Packet> {
        let hash = u32::from(packet.flow).wrapping_mul(0x9e37_79b1) >> 8;
        let bucket = hash as usize % self.queues.len();
        self.queues[bucket].push_back(packet);
        if self.queues.iter().map(VecDeque::len).sum::<usize>() <= self.limit {
            return None;
        }
        self.queues
            .iter_mut()
            .max_by_key(|q| q.len())
            .and_then(VecDeque::pop_back)
    }

    /// Begins to send all whose time comes before `now`, and says of each when its last bit has left.
    pub(super) fn advance(&mut self, now: Ps, mut sent: impl FnMut(Packet, Ps)) {
        loop {
            let begins = match &self.bucket {
                Some(bucket) => bucket.ready(self.free, self.frame),
                None => self.free,
            };
            if begins >= now {
                return;
            }
            let Some(packet) = self.next() else { return };
            if let Some(bucket) = &mut self.bucket {
                bucket.take(begins, self.frame);
            }
            self.free = begins + self.frame_time;
            sent(packet, self.free);
            while self.ring.len() < self.descriptors
                && let Some(waiting) = self.next_of_queues()
            {
                self.ring.push_back(waiting);
            }
        }
    }

    /// The two queues of the NIC take turns, where it has two.
    fn next(&mut self) -> Option<Packet> {
        if self.descriptors > 0 {
            return self.ring.pop_front();
        }
        let stack_waits = self.queues.iter().any(|q| !q.is_empty());
        let redirected = !self.redirected.is_empty() && (self.redirected_next || !stack_waits);
        self.redirected_next = !redirected;
        if redirected {
            return self.redirected.pop_front();
        }
        self.next_of_queues()
    }

    /// What the queueing discipline sends next.
    fn next_of_queues(&mut self) -> Option<Packet> {
        if self.in_queues() == 0 {
            return None;
        }
        match self.discipline {
            Discipline::Fifo | Discipline::Strict | Discipline::Red | Discipline::TokenBucket => {
                self.queues.iter_mut().find_map(VecDeque::pop_front)
            }
            Discipline::Drr | Discipline::Sfq => self.next_in_turn(),
        }
    }

    /// Something waits, and all frames are as long.
    fn next_in_turn(&mut self) -> Option<Packet> {
        loop {
            let turn = self.turn;
            if self.deficits[turn] >= self.frame
                && let Some(packet) = self.queues[turn].pop_front()
            {
                self.deficits[turn] -= self.frame;
                return Some(packet);
            }
            // What has nothing to send saves nothing for later.
            if self.queues[turn].is_empty() {
                self.deficits[turn] = 0;
            }
            self.turn = (turn + 1) % self.queues.len();
            self.deficits[self.turn] += self.quanta[self.turn];
        }
    }
}

/// Returns the packet if there is no room for it.
fn put(queue: &mut VecDeque<Packet>, packet: Packet, limit: usize) -> Option<Packet> {
    if queue.len() >= limit {
        return Some(packet);
    }
    queue.push_back(packet);
    None
}
