//! The receive softirq of NAPI: polls the devices of the poll list as the policy says.

use rxlane_policy::Ps;
use rxlane_policy::poll::{PollEnd, Step};

use super::{Departure, SimulatedCore};
use crate::ring::Packet;
use crate::tally::Work;

impl SimulatedCore {
    /// One poll of a device: Tx cleaning first (low-latency-router IV.B), then its Rx rings.
    pub(super) fn poll(&mut self, device: usize) {
        if !self.in_softirq {
            self.enter_softirq();
        }
        self.tally.polls += 1;
        if self.costs.poll > Ps::ZERO {
            self.work(self.costs.poll, Work::Poll);
        }
        if self.tx_delay.is_some() {
            self.clean_tx(device);
        }
        let port = self.devices[device].port;
        self.devices[device].qvector.begin();
        loop {
            self.know(port, self.now);
            let d = &mut self.devices[device];
            d.admit(self.now);
            let rings = &d.rings;
            match d.qvector.next(|ring| !rings[ring].is_empty()) {
                Step::Serve { ring, at_most } => {
                    self.serve_ring(device, ring, at_most);
                    if self.cut {
                        return;
                    }
                }
                Step::End(outcome) => {
                    self.poll_list.ended(outcome);
                    if outcome == PollEnd::Drained {
                        self.unmask(device);
                    }
                    break;
                }
            }
        }
        if let Some((after, slice)) = self.process
            && self.now >= self.softirq_since + after
            && !self.poll_list.is_empty()
        {
            self.work(slice, Work::Process);
            self.softirq_since = self.now;
        }
    }

    pub(super) fn enter_softirq(&mut self) {
        self.in_softirq = true;
        self.softirq_since = self.now;
        if self.mask_others {
            self.find_next_event();
        }
        if self.costs.softirq > Ps::ZERO {
            self.work(self.costs.softirq, Work::Poll);
        }
    }

    #[inline]
    fn serve_ring(&mut self, device: usize, ring: usize, at_most: u32) {
        if self.costs.ring > Ps::ZERO {
            self.work(self.costs.ring, Work::Poll);
        }
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
            if self.cut {
                return;
            }
        }
        debug_assert!(served <= at_most, "ring budget exceeded");
        let d = &mut self.devices[device];
        d.qvector.served(served);
        d.count(u64::from(served), u64::from(served) * self.frame);
    }

    /// Serves the packets that can be served before anything else happens. It does the same as
    /// [`SimulatedCore::serve`], but does not ask for events at each packet. Most packets of a loaded core go
    /// this way.
    #[inline]
    fn serve_undisturbed(&mut self, device: usize, ring: usize, at_most: u32) -> u32 {
        if self.tx_delay.is_some() || self.tandem.is_some() || self.departures.is_some() {
            return 0;
        }
        let d = &mut self.devices[device];
        let limit = self
            .next_event
            .min(self.until)
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
        let waited = self.now - packet.at;
        self.in_service = true;
        self.work(self.costs.packet[class], Work::Packet);
        let stage = self.costs.stage[class];
        if stage > Ps::ZERO {
            self.work(stage, Work::Stage);
        }
        if self.cut {
            return;
        }
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
        let mut left = self.now;
        if let Some(tandem) = &mut self.tandem {
            self.tally.delivered += tandem.depart_until(left);
            match tandem.enter(left) {
                Some(departure) => left = departure,
                None => {
                    self.tally.socket_dropped += 1;
                    return;
                }
            }
        }
        if let Some(delay) = self.tx_delay {
            match self.transmit(device, delay) {
                Some(sent) => left = sent,
                None => {
                    self.tally.tx_dropped += 1;
                    return;
                }
            }
        }
        self.tally.classes[class]
            .latency
            .record(left - packet.at + self.latency_offset);
    }

    /// Sends the packet just served through the egress NIC, whose vector will get the Tx completion. Returns
    /// when the packet has left the wire, or `None` when the Tx ring is full.
    fn transmit(&mut self, device: usize, delay: Ps) -> Option<Ps> {
        let d = &mut self.devices[self.egress[device]];
        if d.completions.len() >= self.tx_descriptors {
            return None;
        }
        let sent = self.now.max(d.wire_free) + self.wire;
        d.wire_free = sent;
        let at = sent + delay;
        d.completions.push_back(at);
        if !d.masked {
            let irq_at = (at + self.delivery).max(d.throttle_until);
            if irq_at < d.irq_at {
                d.irq_at = irq_at;
                d.tentative = false;
                self.next_event = self.next_event.min(irq_at);
            }
        }
        Some(sent)
    }

    fn clean_tx(&mut self, device: usize) {
        let now = self.now;
        let limit = self.tx_work_limit;
        let d = &mut self.devices[device];
        let mut cleaned = 0;
        while cleaned < limit && d.completions.front().is_some_and(|t| *t <= now) {
            d.cleaned_last = d.completions.pop_front().unwrap_or(now);
            cleaned += 1;
        }
        if cleaned > 0 {
            self.work(self.costs.tx_clean * u64::from(cleaned), Work::Tx);
        }
    }
}
