//! A thread that serves what NAPI has received and classified: the loop of the router's AF_XDP engine
//! (`rxlane_engine`), in turns with NAPI on the same core.
//!
//! Neither preempts the other. NAPI runs until the NICs' rings are empty; then the thread runs until its own are, or until it has
//! had the core for long enough while packets wait in a NIC. So a packet waits for the rest of the turn that it finds, and then
//! for all that NAPI receives with it.

use std::collections::VecDeque;

use rxlane_policy::Ps;
use rxlane_policy::poll::{PollEnd, PollList, QVector, Step};
use rxlane_policy::strategy::Place;
use rxlane_policy::throttle::{Sample, Throttle, Throttler};

use super::SimulatedCore;
use crate::SimError;
use crate::ring::Packet;
use crate::scenario::Scenario;
use crate::tally::Work;

/// Rings behind one wake-up, as the strategy groups them.
#[derive(Debug)]
struct Polled {
    qvector: QVector,
    /// Of each class, with the device that received the packet.
    rings: Vec<VecDeque<(Packet, usize)>>,
    throttler: Throttler,
    sample: Sample,
    updated: Ps,
    noticed: Ps,
    /// Throttling allows no look at it before.
    masked_until: Ps,
    listed: bool,
}

impl Polled {
    fn holds(&self) -> bool {
        self.rings.iter().any(|ring| !ring.is_empty())
    }
}

/// The thread and its rings.
#[derive(Debug)]
pub(super) struct Worker {
    polled: Vec<Polled>,
    /// Of each class at each port.
    places: Vec<Vec<Place>>,
    poll_list: PollList,
    receive: Ps,
    switch: Ps,
    give_way: Ps,
    capacity: usize,
    /// It has the core.
    runs: bool,
    /// Since when, or when it last gave way.
    since: Ps,
    /// A poll is under way.
    polls: bool,
    /// It sleeps until then because of throttling; [`Ps::NEVER`]: until a packet comes.
    pub(super) timer: Ps,
}

impl Worker {
    /// The thread of a core with so many ports; `None`: the softirq serves packets itself.
    pub(super) fn new(scenario: &Scenario, ports: usize) -> Result<Option<Self>, SimError> {
        let Some(keys) = scenario.worker else {
            return Ok(None);
        };
        let (mut polled, mut places) = (Vec::new(), Vec::new());
        let classes = scenario.traffic.class_shares().len();
        let r = &scenario.reception;
        for _ in 0..ports {
            let layout = r.strategy().layout(classes, r.device_budget, r.order)?;
            let first = polled.len();
            let here = |p: &Place| Place {
                device: first + p.device,
                ring: p.ring,
            };
            places.push(layout.places.iter().map(here).collect());
            for qvector in layout.devices {
                polled.push(Polled {
                    rings: vec![VecDeque::new(); qvector.rings()],
                    qvector: qvector.in_rounds(r.rounds),
                    throttler: scenario.interrupt.throttling.start()?,
                    sample: Sample::default(),
                    updated: Ps::ZERO,
                    noticed: Ps::ZERO,
                    masked_until: Ps::ZERO,
                    listed: false,
                });
            }
        }
        Ok(Some(Self {
            polled,
            places,
            poll_list: PollList::default(),
            receive: Ps::from_ns(keys.receive_ns),
            switch: Ps::from_ns(keys.switch_ns),
            give_way: Ps::from_us(keys.give_way_us),
            capacity: keys.ring,
            runs: false,
            since: Ps::ZERO,
            polls: false,
            timer: Ps::NEVER,
        }))
    }

    /// Packets that wait for it.
    pub(super) fn len(&self) -> u64 {
        let rings = self.polled.iter().flat_map(|p| &p.rings);
        rings.map(|ring| ring.len() as u64).sum()
    }

    /// Puts the devices on the poll list that hold packets and that throttling lets wake it. Returns when the next one may.
    fn notice(&mut self, now: Ps) -> Ps {
        let mut next = Ps::NEVER;
        for (i, polled) in self.polled.iter_mut().enumerate() {
            if polled.listed || !polled.holds() {
                continue;
            }
            if now < polled.masked_until {
                next = next.min(polled.masked_until);
                continue;
            }
            polled.noticed = now;
            polled.listed = true;
            self.poll_list.add(i as u32);
        }
        next
    }

    fn drained(&mut self, device: usize, now: Ps) {
        let polled = &mut self.polled[device];
        polled.listed = false;
        polled.sample.elapsed = (now - polled.updated).into();
        polled.updated = now;
        let interval = polled.throttler.update(std::mem::take(&mut polled.sample));
        polled.masked_until = polled.noticed + interval.into();
    }
}

impl SimulatedCore {
    /// NAPI's poll of a NIC, a turn of the thread, or an idle time.
    pub(super) fn step_beside_worker(&mut self) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        if !worker.runs {
            if let Some(device) = self.poll_list.first() {
                return self.receive(device as usize);
            }
            let timer = worker.notice(self.now);
            if worker.poll_list.is_empty() {
                worker.timer = timer;
                self.find_next_event();
                return self.idle();
            }
            worker.runs = true;
            let switch = worker.switch;
            self.work(switch, Work::Poll);
            if let Some(worker) = &mut self.worker {
                worker.since = self.now;
            }
            return;
        }
        if self.now >= worker.since + worker.give_way {
            worker.since = self.now;
            if !self.poll_list.is_empty() {
                worker.runs = false;
                return;
            }
        }
        worker.notice(self.now);
        match worker.poll_list.first() {
            Some(device) => self.worker_turn(device as usize),
            None => worker.runs = false,
        }
    }

    /// One poll of a NIC: its packets go to the rings of their classes.
    fn receive(&mut self, device: usize) {
        self.begin_softirq_poll();
        self.devices[device].qvector.begin();
        let port = self.devices[device].port;
        loop {
            self.know(port, self.now);
            let d = &mut self.devices[device];
            d.admit(self.now);
            let rings = &d.rings;
            match d.qvector.next(|ring| !rings[ring].is_empty()) {
                Step::Serve { ring, .. } => {
                    let Some(packet) = d.rings[ring].pop() else {
                        return;
                    };
                    d.qvector.served(1);
                    self.hand_over(packet, device);
                    if self.truncated {
                        return;
                    }
                }
                Step::End(outcome) => {
                    self.poll_list.ended(outcome);
                    if outcome == PollEnd::Drained {
                        self.unmask(device);
                    }
                    return;
                }
            }
        }
    }

    /// NAPI's work for a packet.
    fn hand_over(&mut self, packet: Packet, device: usize) {
        self.in_service = true;
        let receive = self.worker.as_ref().map_or(Ps::ZERO, |w| w.receive);
        self.work(receive, Work::Packet);
        let Some(worker) = self.worker.as_mut().filter(|_| !self.truncated) else {
            return;
        };
        self.in_service = false;
        let place = worker.places[self.devices[device].port][usize::from(packet.class)];
        let ring = &mut worker.polled[place.device].rings[place.ring];
        if ring.len() < worker.capacity {
            ring.push_back((packet, device));
        } else {
            self.tally.backlog_dropped += 1;
        }
    }

    /// A turn of a ring.
    fn worker_turn(&mut self, device: usize) {
        let Some(worker) = &mut self.worker else {
            return;
        };
        let polled = &mut worker.polled[device];
        let begins = !std::mem::replace(&mut worker.polls, true);
        if begins {
            polled.qvector.begin();
            self.tally.polls += 1;
            self.work(self.costs.poll, Work::Poll);
        }
        let Some(worker) = &mut self.worker else {
            return;
        };
        let polled = &mut worker.polled[device];
        let rings = &polled.rings;
        match polled.qvector.next(|ring| !rings[ring].is_empty()) {
            Step::Serve { ring, at_most } => self.serve_turn(device, ring, at_most),
            Step::End(outcome) => {
                worker.polls = false;
                worker.poll_list.ended(outcome);
                if outcome == PollEnd::Drained {
                    worker.drained(device, self.now);
                }
            }
        }
    }

    fn serve_turn(&mut self, device: usize, ring: usize, at_most: u32) {
        self.work(self.costs.ring, Work::Poll);
        let mut served = 0;
        while served < at_most && !self.truncated {
            let Some(worker) = &mut self.worker else {
                return;
            };
            let Some((packet, nic)) = worker.polled[device].rings[ring].pop_front() else {
                break;
            };
            self.serve(packet, nic);
            served += 1;
        }
        let bytes = u64::from(served) * self.frame;
        if let Some(worker) = &mut self.worker {
            let polled = &mut worker.polled[device];
            polled.qvector.served(served);
            polled.sample.packets += u64::from(served);
            polled.sample.bytes += bytes;
        }
    }
}
