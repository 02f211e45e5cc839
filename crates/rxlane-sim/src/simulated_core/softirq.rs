//! The receive softirq of NAPI: polls the devices of the poll list as the policy says.

use rxlane_policy::Ps;
use rxlane_policy::poll::{PollEnd, Step};

use super::{Departure, SimulatedCore};
use crate::ring::Packet;
use crate::tally::Work;

impl SimulatedCore {
    /// One poll of a device: Tx cleaning first (low-latency-router IV.B), then its Rx rings.
    pub(super) fn poll(&mut self, device: usize) {
        self.begin_poll(device);
        while let Some((ring, at_most)) = self.next_turn(device) {
            self.serve_some(device, ring, at_most);
            if self.truncated {
                return;
            }
        }
        self.let_the_process_run();
    }

    /// As [`SimulatedCore::poll`], a packet at a time: other cores have to see when this one asks for what they share.
    pub(super) fn poll_in_steps(&mut self, device: usize) {
        let under_way = self.sharing.turn.take().unwrap_or_else(|| {
            self.begin_poll(device);
            (0, 0)
        });
        let (ring, left) = match under_way {
            (_, 0) => match self.next_turn(device) {
                Some(turn) => turn,
                None => return self.let_the_process_run(),
            },
            turn => turn,
        };
        let served = self.serve_some(device, ring, 1);
        self.sharing.turn = Some((ring, if served == 0 { 0 } else { left - 1 }));
    }

    fn begin_poll(&mut self, device: usize) {
        self.begin_softirq_poll();
        if self.sending.delay.is_some() {
            self.clean_tx(device);
        }
        self.devices[device].qvector.begin();
    }

    /// What each poll begins with, of whatever it is one.
    pub(super) fn begin_softirq_poll(&mut self) {
        if !self.in_softirq {
            self.enter_softirq();
        }
        self.tally.polls += 1;
        if self.costs.poll > Ps::ZERO {
            self.work(self.costs.poll, Work::Poll);
        }
    }

    /// The ring whose turn it is, and how many of its packets; `None`: the poll is over.
    #[inline]
    fn next_turn(&mut self, device: usize) -> Option<(usize, u32)> {
        self.know(self.devices[device].port, self.now);
        let d = &mut self.devices[device];
        d.admit(self.now);
        let rings = &d.rings;
        match d.qvector.next(|ring| !rings[ring].is_empty()) {
            Step::Serve { ring, at_most } => {
                if self.costs.ring > Ps::ZERO {
                    self.work(self.costs.ring, Work::Poll);
                }
                Some((ring, at_most))
            }
            Step::End(outcome) => {
                self.poll_list.ended(outcome);
                if outcome == PollEnd::Drained {
                    self.unmask(device);
                    self.sharing.emptied = self.sharing.nics_move.then(|| self.devices[device].nic);
                }
                None
            }
        }
    }

    /// After a poll, threads that have waited for its end have their turn, and a process that has waited for long enough.
    pub(super) fn let_the_process_run(&mut self) {
        self.let_threads_run();
        if let Some((after, slice)) = self.scheduling.process
            && self.now >= self.softirq_since + after
            && !self.poll_list.is_empty()
        {
            let begun = self.now;
            self.work(slice, Work::Process);
            if let Some(probe) = &mut self.probe {
                probe.runs(begun, begun + slice);
            }
            self.softirq_since = self.now;
        }
    }

    pub(super) fn enter_softirq(&mut self) {
        self.in_softirq = true;
        self.softirq_since = self.now;
        if self.scheduling.mask_others || self.scheduling.threads_wait {
            self.find_next_event();
        }
        if self.costs.softirq > Ps::ZERO {
            self.work(self.costs.softirq, Work::Poll);
        }
    }

    /// Serves up to `at_most` packets of a ring. Returns how many.
    #[inline]
    pub(super) fn serve_some(&mut self, device: usize, ring: usize, at_most: u32) -> u32 {
        let port = self.devices[device].port;
        let mut served = 0;
        while served < at_most {
            self.know(port, self.now);
            served += self.serve_undisturbed(device, ring, at_most - served);
            if served == at_most {
                break;
            }
            self.know(port, self.now);
            let ring = &mut self.devices[device].rings[ring];
            ring.admit(self.now);
            let Some(packet) = ring.pop() else {
                break;
            };
            self.serve(packet, device);
            served += 1;
            if self.truncated {
                return served;
            }
        }
        debug_assert!(served <= at_most, "ring budget exceeded");
        let d = &mut self.devices[device];
        d.qvector.served(served);
        d.count(u64::from(served), u64::from(served) * self.frame);
        served
    }

    /// Serves the packets that can be served before anything else happens. It does the same as
    /// [`SimulatedCore::serve`], but does not ask for events at each packet. Most packets of a loaded core go
    /// this way.
    #[inline]
    fn serve_undisturbed(&mut self, device: usize, ring: usize, at_most: u32) -> u32 {
        if self.has_egress_stage || self.departures.is_some() {
            return 0;
        }
        let d = &mut self.devices[device];
        let limit = self
            .next_event
            .min(self.measurement.until)
            .min(self.ports[d.port].known_until);
        let ring = &mut d.rings[ring];
        let sequences = &mut self.last_sequence[d.nic][..];
        if !ring.has_room_for_all() {
            return 0;
        }
        let (mut now, mut served) = (self.now, 0);
        while served < at_most {
            let in_time = |p: &Packet| now + self.costs.service[usize::from(p.class)] < limit;
            let Some(packet) = ring.take(now, in_time) else {
                break;
            };
            let class = usize::from(packet.class);
            let end = now + self.costs.service[class];
            self.tally.count_order(packet, sequences);
            self.tally.busy[Work::Packet as usize] += self.costs.packet[class];
            self.tally.busy[Work::Stage as usize] += self.costs.stage[class];
            self.tally.classes[class].waiting.record(now - packet.at);
            self.tally.classes[class]
                .latency
                .record(end - packet.at + self.latency_offset);
            now = end;
            served += 1;
        }
        ring.settle();
        self.tally.served[d.nic] += u64::from(served);
        self.now = now;
        served
    }

    /// Receives, processes and sends a packet.
    #[inline]
    pub(super) fn serve(&mut self, packet: Packet, device: usize) {
        let class = usize::from(packet.class);
        self.in_service = true;
        self.take_giant_lock();
        let waited = self.now - packet.at;
        if let Some(estimator) = &mut self.devices[device].estimator {
            estimator.packet(packet.at.into(), self.now.into());
        }
        self.work(self.costs.packet[class], Work::Packet);
        if !self.truncated && self.wait_for_protocol(packet, device, waited) {
            self.give_giant_lock();
            return;
        }
        let mut stage = self.costs.stage[class];
        if let Some(served) = &mut self.served {
            stage += served.next(class);
        }
        if stage > Ps::ZERO {
            self.work(stage, Work::Stage);
        }
        self.give_giant_lock();
        if !self.truncated {
            self.finish_service(packet, device, waited);
        }
    }

    /// A packet has been served. It needs what cores share, or leaves.
    #[inline]
    pub(super) fn finish_service(&mut self, packet: Packet, device: usize, waited: Ps) {
        if !self.begin_shared_step(packet, device, waited) {
            self.depart(packet, device, waited);
        }
    }

    /// A packet has been served, and leaves the core.
    #[inline]
    pub(super) fn depart(&mut self, packet: Packet, device: usize, waited: Ps) {
        let class = usize::from(packet.class);
        self.in_service = false;
        let nic = self.devices[device].nic;
        self.tally.served[nic] += 1;
        self.tally.classes[class].waiting.record(waited);
        self.tally.count_order(packet, &mut self.last_sequence[nic]);
        if let Some(departures) = &mut self.departures {
            departures.push(Departure {
                at: self.now,
                nic,
                flow: packet.flow,
                sequence: packet.sequence,
            });
        }
        if self.link.is_some() {
            self.send_to_link(packet, false);
            return;
        }
        let mut left = self.now;
        if self.application.is_some() {
            self.application_works(left, true);
            if let Some(application) = &mut self.application
                && !application.enter(packet)
            {
                self.tally.socket_dropped += 1;
            }
            return;
        }
        if let Some(delay) = self.sending.delay {
            match self.transmit(device, class, delay) {
                Some(sent) => left = sent,
                None => {
                    self.tally.tx_dropped[class] += 1;
                    return;
                }
            }
        }
        self.tell_sender(packet, left);
        self.tally.classes[class]
            .latency
            .record(left - packet.at + self.latency_offset);
    }

    /// Sends the packet just served through the egress NIC, whose vector will get the Tx completion. Returns
    /// when the packet has left the wire, or `None` when the Tx ring is full.
    fn transmit(&mut self, device: usize, class: usize, delay: Ps) -> Option<Ps> {
        let d = &mut self.devices[self.sending.egress[device]];
        let ring = class.min(d.tx_taken.len() - 1);
        if d.tx_taken[ring] >= self.sending.descriptors {
            return None;
        }
        d.tx_taken[ring] += 1;
        let sent = self.now.max(d.wire_free) + self.sending.wire;
        d.wire_free = sent;
        let at = sent + delay;
        d.completions.push_back((at, ring));
        if !d.masked {
            let irq_at = (at + self.interrupts.delivery).max(d.throttle_until);
            if irq_at < d.irq_at {
                d.irq_at = irq_at;
                d.tentative = false;
                self.next_event = self.next_event.min(irq_at);
            }
        }
        Some(sent)
    }

    /// A packet leaves the core for a link that may be busy.
    pub(super) fn send_to_link(&mut self, packet: Packet, redirected: bool) {
        self.link_sends();
        if let Some(link) = &mut self.link
            && let Some(dropped) = link.enter(packet, redirected, self.now)
        {
            self.tally.qdisc_dropped[usize::from(dropped.class)] += 1;
        }
    }

    /// Makes up for what the link has sent up to now.
    pub(super) fn link_sends(&mut self) {
        self.link_sends_until(self.now);
    }

    /// The same up to `t`, before which nothing more goes there.
    pub(super) fn link_sends_until(&mut self, t: Ps) {
        let Some(mut link) = self.link.take() else {
            return;
        };
        let offset = self.latency_offset;
        link.advance(t, |packet, left| {
            self.tell_sender(packet, left);
            let tally = &mut self.tally;
            let class = usize::from(packet.class);
            tally.sent[class] += 1;
            tally.classes[class]
                .latency
                .record(left - packet.at + offset);
        });
        self.link = Some(link);
    }

    pub(super) fn clean_tx(&mut self, device: usize) {
        let now = self.now;
        let limit = self.sending.work_limit;
        let d = &mut self.devices[device];
        let mut cleaned = 0;
        while cleaned < limit
            && let Some((at, ring)) = d.completions.front().copied().filter(|c| c.0 <= now)
        {
            d.completions.pop_front();
            d.cleaned_last = at;
            d.tx_taken[ring] -= 1;
            cleaned += 1;
        }
        if cleaned > 0 {
            self.work(self.costs.tx_clean * u64::from(cleaned), Work::Tx);
        }
    }
}
