//! The egress link and its queueing discipline. The link decides what to send when it is free, so nothing has to be
//! decided before somebody looks: [`Egress::advance`] makes up for all the decisions since the last look.

use std::collections::VecDeque;

use rxlane_policy::{Bps, Ps};

use crate::ring::Packet;
use crate::scenario::{Discipline, Scenario};

/// A link that one core sends to.
#[derive(Debug)]
pub(super) struct Egress {
    discipline: Discipline,
    /// Highest class first; `fifo` has one for all.
    queues: Vec<VecDeque<Packet>>,
    /// What was redirected, in a queue of the NIC.
    redirected: VecDeque<Packet>,
    /// Whether the queue of the redirected has its turn now, if both have packets.
    redirected_next: bool,
    limit: usize,
    frame_time: Ps,
    /// When it has sent what it has decided to send.
    free: Ps,
    frame: u32,
    quanta: Vec<u32>,
    deficits: Vec<u32>,
    /// The class whose turn it is.
    turn: usize,
}

impl Egress {
    pub(super) fn new(scenario: &Scenario) -> Option<Self> {
        let q = scenario.qdisc.as_ref()?;
        let classes = match q.discipline {
            Discipline::Fifo => 1,
            Discipline::Strict | Discipline::Drr => scenario.traffic.class_shares().len(),
        };
        let frame = scenario.traffic.frame;
        let mut quanta = q.quanta.clone();
        quanta.resize(classes, frame);
        Some(Self {
            discipline: q.discipline,
            queues: vec![VecDeque::new(); classes],
            redirected: VecDeque::new(),
            redirected_next: true,
            limit: q.limit,
            frame_time: Bps(q.link_bps).wire_time(frame),
            free: Ps::ZERO,
            frame,
            deficits: quanta.clone(),
            quanta,
            turn: 0,
        })
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.redirected.len() + self.queues.iter().map(VecDeque::len).sum::<usize>()
    }

    /// Takes in a packet at `now`, up to which [`Egress::advance`] has been called. False: there is no room.
    pub(super) fn enter(&mut self, packet: Packet, redirected: bool, now: Ps) -> bool {
        if self.len() == 0 {
            self.free = self.free.max(now);
        }
        let queue = if redirected {
            &mut self.redirected
        } else {
            let last = self.queues.len() - 1;
            &mut self.queues[usize::from(packet.class).min(last)]
        };
        if queue.len() >= self.limit {
            return false;
        }
        queue.push_back(packet);
        true
    }

    /// Begins to send all whose time comes before `now`, and says of each when its last bit has left.
    pub(super) fn advance(&mut self, now: Ps, mut sent: impl FnMut(Packet, Ps)) {
        while self.free < now {
            let Some(packet) = self.next() else { return };
            self.free += self.frame_time;
            sent(packet, self.free);
        }
    }

    /// The two queues of the NIC take turns.
    fn next(&mut self) -> Option<Packet> {
        let stack_waits = self.queues.iter().any(|q| !q.is_empty());
        let redirected = !self.redirected.is_empty() && (self.redirected_next || !stack_waits);
        self.redirected_next = !redirected;
        if redirected {
            return self.redirected.pop_front();
        }
        if !stack_waits {
            return None;
        }
        match self.discipline {
            Discipline::Fifo | Discipline::Strict => {
                self.queues.iter_mut().find_map(VecDeque::pop_front)
            }
            Discipline::Drr => self.next_in_turn(),
        }
    }

    /// Something waits, and all frames are as long.
    fn next_in_turn(&mut self) -> Option<Packet> {
        loop {
            let class = self.turn;
            if self.deficits[class] >= self.frame
                && let Some(packet) = self.queues[class].pop_front()
            {
                self.deficits[class] -= self.frame;
                return Some(packet);
            }
            // What has nothing to send saves nothing for later.
            if self.queues[class].is_empty() {
                self.deficits[class] = 0;
            }
            self.turn = (class + 1) % self.queues.len();
            self.deficits[self.turn] += self.quanta[self.turn];
        }
    }
}
