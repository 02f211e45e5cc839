//! Linux before NAPI: an interrupt a packet, a backlog that all NICs of the core share, and the answers of
//! drivers to its congestion (Beyond Softnet 1.5, 2).

use crate::congestion::{BACKLOG, Congestion};
use rand::Rng;
use rxlane_policy::Ps;

use super::SimulatedCore;
use crate::tally::Work;

impl SimulatedCore {
    /// When the cause of the driver's next interrupt arises: at once while packets are held, at the packet or
    /// the time that mitigation waits for, never while the driver is stopped.
    pub(super) fn softnet_cause(&self, device: usize) -> Option<Ps> {
        let d = &self.devices[device];
        if d.driver.is_stopped() {
            return Some(Ps::NEVER);
        }
        let ring = &d.rings[0];
        let wanted = d.driver.coalesce() as usize;
        if ring.len() >= wanted {
            return Some(self.now);
        }
        let first = ring
            .oldest()
            .map(|p| p.at)
            .or_else(|| ring.next_arrival())?;
        if wanted == 1 {
            return Some(first.max(self.now));
        }
        let timer = (first + self.interrupts.mitigation).max(self.now);
        Some(match ring.nth_arrival(wanted - ring.len()) {
            Some(full) => full.min(timer),
            None => timer,
        })
    }

    /// The interrupt handler: moves packets to the backlog, and follows its answers.
    pub(super) fn softnet_interrupt(&mut self, device: usize) {
        let port = self.devices[device].port;
        let mut left = self.interrupts.work;
        let (mut moved, mut dropping) = (0, false);
        while left > 0 {
            self.know(port, self.now);
            let ring = &mut self.devices[device].rings[0];
            ring.admit(self.now);
            let Some(packet) = ring.pop() else {
                break;
            };
            self.tally.busy[Work::Isr as usize] += self.costs.enqueue;
            self.now += self.costs.enqueue;
            let lie = self
                .interrupts
                .random_lie
                .then(|| self.rng.random_range(0..BACKLOG));
            let level = self.backlog.enqueue(lie);
            // Random Lie says "drop" of packets that were taken, so ask the queue itself.
            if self.backlog.len() as usize > self.backlog_packets.len() {
                self.backlog_packets.push_back((packet, device));
            } else {
                self.tally.backlog_dropped += 1;
            }
            dropping |= level == Congestion::Drop;
            moved += 1;
            left = self.devices[device].driver.answered(level, left - 1);
        }
        self.devices[device].driver.interrupt_ends(moved, dropping);
        self.schedule(device);
    }

    /// The softirq takes one packet from the backlog.
    pub(super) fn softnet_softirq(&mut self) {
        if !self.in_softirq {
            self.enter_softirq();
        }
        self.serve_backlog();
    }

    /// Takes one packet from the backlog, and restarts drivers that it had stopped.
    pub(super) fn serve_backlog(&mut self) {
        let Some((packet, device)) = self.backlog_packets.pop_front() else {
            return;
        };
        self.backlog.dequeue();
        self.serve(packet, device);
        let len = self.backlog.len();
        let mut restarted = false;
        for device in 0..self.devices.len() {
            if self.devices[device].has_old_interface && self.devices[device].driver.backlog_is(len)
            {
                self.schedule(device);
                restarted = true;
            }
        }
        if restarted {
            self.find_next_event();
        }
    }
}
