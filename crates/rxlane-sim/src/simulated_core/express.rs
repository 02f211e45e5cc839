//! The scheme `express`: an XDP program in the poll, which redirects, passes or drops each packet.

use std::collections::VecDeque;

use rxlane_policy::Ps;
use rxlane_policy::overload::{Moment, PollEnd, Verdict};
use rxlane_policy::poll;

use super::control::Control;
use super::parked::Parked;
use super::{SimulatedCore, windows::Windows};
use crate::SimError;
use crate::ring::Packet;
use crate::scenario::Scenario;
use crate::tally::Work;

/// The lanes of a core and what controls them.
#[derive(Debug)]
pub(super) struct Lanes {
    pub(super) control: Control,
    express_classes: usize,
    redirect: Ps,
    drop: Ps,
    flush: Ps,
    clock: Ps,
    stack_batch: usize,
    budget: u32,
}

impl Lanes {
    pub(super) fn new(scenario: &Scenario) -> Result<Self, SimError> {
        let e = &scenario.express;
        Ok(Self {
            control: Control::new(scenario)?,
            express_classes: e.classes,
            redirect: Ps::from_ns(e.redirect_ns),
            drop: Ps::from_ns(e.drop_ns),
            flush: Ps::from_ns(e.flush_ns),
            clock: Ps::from_ns(e.clock_ns),
            stack_batch: e.stack_batch,
            budget: scenario.reception.device_budget,
        })
    }
}

/// What is seen of the lanes while a poll is under way, too.
#[derive(Debug)]
pub(super) struct Deferred {
    /// Redirected in this poll, at whose end they leave.
    pub(super) batch: Vec<Packet>,
    /// Passed, and not taken by the stack yet.
    pub(super) collected: VecDeque<Packet>,
    /// Connections' packets that wait for the core.
    pub(super) parked: Parked,
    pub(super) windows: Windows,
    /// When the poll under way began, with its first packet.
    poll_began: Ps,
    /// When the last poll ended.
    poll_ended: Ps,
    /// Whether it used up its budget.
    was_full: bool,
    /// The latest times that others took, oldest first.
    taken: VecDeque<(Ps, Ps)>,
}

/// How many of them are kept: more than begin while a packet waits.
const TAKEN_KEPT: usize = 128;

impl Deferred {
    pub(super) fn new(scenario: &Scenario) -> Self {
        Self {
            batch: Vec::new(),
            collected: VecDeque::new(),
            parked: Parked::new(&scenario.express),
            windows: Windows::new(Ps::from_ns(scenario.express.window_ms * 1e6)),
            poll_began: Ps::ZERO,
            poll_ended: Ps::ZERO,
            was_full: false,
            taken: VecDeque::new(),
        }
    }

    pub(super) fn takes(&mut self, from: Ps, to: Ps) {
        if self.taken.len() == TAKEN_KEPT {
            self.taken.pop_front();
        }
        self.taken.push_back((from, to));
    }

    /// How much of the time between two points others took.
    fn taken_between(&self, from: Ps, to: Ps) -> Ps {
        let overlap = |t: &(Ps, Ps)| Ps(t.1.0.min(to.0).saturating_sub(t.0.0.max(from.0)));
        self.taken
            .iter()
            .rev()
            .take_while(|t| t.1 > from)
            .map(overlap)
            .sum()
    }
}

/// A flow's hash: any mixing function.
fn hash(flow: u16) -> u32 {
    let h = u32::from(flow).wrapping_mul(0x9e37_79b1);
    h ^ (h >> 15)
}

impl SimulatedCore {
    /// One poll of a device.
    pub(super) fn poll_express(&mut self, device: usize) {
        if !self.in_softirq {
            self.enter_softirq();
        }
        let Some(mut lanes) = self.lanes.take() else {
            return;
        };
        self.tally.polls += 1;
        if self.costs.poll > Ps::ZERO {
            self.work(self.costs.poll, Work::Poll);
        }
        let (mut work, mut express) = (0, false);
        while work < lanes.budget && !self.truncated {
            let Some(packet) = self.next_packet(device) else {
                break;
            };
            if work == 0 {
                // As a tracing program sees it: waking up is part of the gap, others are told by the scheduler, and behind a
                // full poll the stack takes what was collected.
                let ended = self.deferred.poll_ended;
                let taken = self.deferred.taken_between(ended, self.now);
                let idle = match self.deferred.was_full {
                    true => Ps::ZERO,
                    false => self.now - ended - taken,
                };
                let at = Moment {
                    now: self.now.into(),
                    others: taken.into(),
                };
                self.deferred.parked.poll_begins(&lanes.control, self.now);
                lanes
                    .control
                    .poll_begins(device as u32, at, rxlane_policy::Nanos::from(idle));
                self.deferred.poll_began = self.now;
            }
            work += 1;
            express |= packet.class == 0;
            self.serve_lane(&mut lanes, packet, work - 1, device);
        }
        if !self.deferred.batch.is_empty() && !self.truncated {
            self.work(lanes.flush, Work::Tx);
        }
        if !self.truncated {
            self.leave_express(device);
        }
        if work < lanes.budget {
            self.stack_takes(&lanes, device);
        }
        if !self.truncated {
            self.deferred.poll_ended = self.now;
            self.deferred.was_full = work >= lanes.budget;
            lanes.control.poll_ends(PollEnd {
                napi: device as u32,
                at: self.moment(),
                work,
                packets: work,
                budget: lanes.budget,
                express,
                held: self.deferred.parked.is_held(self.now),
            });
            if work < lanes.budget {
                self.poll_list.ended(poll::PollEnd::Drained);
                self.unmask(device);
            } else {
                self.poll_list.ended(poll::PollEnd::BudgetSpent);
                self.stack_takes(&lanes, device);
            }
        }
        self.lanes = Some(lanes);
        self.let_threads_run();
    }

    /// The time, and what others had of it since the poll began, as the scheduler tells.
    fn moment(&self) -> Moment {
        let others = self
            .deferred
            .taken_between(self.deferred.poll_began, self.now);
        Moment {
            now: self.now.into(),
            others: others.into(),
        }
    }

    fn next_packet(&mut self, device: usize) -> Option<Packet> {
        self.know(self.devices[device].port, self.now);
        let ring = &mut self.devices[device].rings[0];
        ring.admit(self.now);
        ring.pop()
    }

    fn serve_lane(&mut self, lanes: &mut Lanes, packet: Packet, before: u32, device: usize) {
        let class = usize::from(packet.class);
        // From here on, wherever the measurement begins or ends.
        self.in_service = true;
        self.tally.classes[class]
            .waiting
            .record(self.now - packet.at);
        let stack = class >= lanes.express_classes;
        let queues = stack && self.may_wait(&lanes.control, &packet);
        if queues && self.deferred.parked.takes_all() {
            self.park(packet, device);
            return;
        }
        let verdict = if class == 0 {
            Verdict::Pass
        } else {
            let at = self.moment();
            let (verdict, read) = lanes
                .control
                .packet(class, stack, hash(packet.flow), before, at);
            if read && lanes.clock > Ps::ZERO {
                self.work(lanes.clock, Work::Poll);
            }
            verdict
        };
        match verdict {
            Verdict::Drop if queues => self.park(packet, device),
            Verdict::Drop => {
                self.work(lanes.drop, Work::Packet);
                if !self.truncated {
                    self.tally.early_dropped[class] += 1;
                    let saved = if stack {
                        self.costs.service[class]
                    } else {
                        lanes.redirect
                    };
                    self.deferred.windows.dropped(self.now, saved);
                }
            }
            Verdict::Pass if stack => {
                let whole = self.costs.service[class];
                // Up to here it is as with one that is dropped.
                let first = if lanes.stack_batch > 1 {
                    lanes.drop.min(whole)
                } else {
                    whole
                };
                self.work(first, Work::Packet);
                if !self.truncated {
                    self.deferred.collected.push_back(packet);
                }
            }
            Verdict::Pass => {
                self.work(lanes.redirect, Work::Packet);
                // What the end of the run cuts off counts as in service or as redirected, not as both.
                if !self.truncated {
                    self.deferred.batch.push(packet);
                }
            }
        }
        if !self.truncated {
            self.in_service = false;
            if self.deferred.collected.len() >= lanes.stack_batch {
                self.stack_takes(lanes, device);
            }
        }
    }

    /// The stack serves what has been collected, of which a part has been served already where it collects at all.
    fn stack_takes(&mut self, lanes: &Lanes, device: usize) {
        while !self.truncated {
            let Some(packet) = self.deferred.collected.pop_front() else {
                break;
            };
            if lanes.stack_batch > 1 {
                let whole = self.costs.service[usize::from(packet.class)];
                self.in_service = true;
                self.work(whole - lanes.drop.min(whole), Work::Packet);
                if self.truncated {
                    break;
                }
                self.in_service = false;
            }
            self.leave(packet, device, false);
        }
    }

    fn leave_express(&mut self, device: usize) {
        let mut batch = std::mem::take(&mut self.deferred.batch);
        for packet in batch.drain(..) {
            self.leave(packet, device, true);
        }
        // Its memory is used again.
        self.deferred.batch = batch;
    }

    /// A packet leaves the core now.
    pub(super) fn leave(&mut self, packet: Packet, device: usize, redirected: bool) {
        let class = usize::from(packet.class);
        let nic = self.devices[device].nic;
        self.tally.served[nic] += 1;
        self.tally.flow_served[usize::from(packet.flow)] += 1;
        self.tally.count_order(packet, &mut self.last_sequence[nic]);
        let waited = self.now - packet.at;
        let latency_offset = self.latency_offset;
        if self.link.is_none() {
            let tally = &mut self.tally.classes[class];
            tally.latency.record(waited + latency_offset);
            self.tell_sender(packet, self.now);
        }
        if class == 0 {
            let own = waited - self.deferred.taken_between(packet.at, self.now);
            self.tally.classes[class].own_wait.record(own);
        }
        if self.link.is_some() {
            self.send_to_link(packet, redirected);
        }
    }
}
