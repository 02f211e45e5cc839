//! Interrupts, disturbances and idleness: everything that happens to a core and is not its own work.

use rxlane_policy::Ps;

use super::{Other, PSEUDO_DEVICE, SimulatedCore, closed_loop};
use crate::custom::Faults;
use crate::exponential::exponential;
use crate::scenario::{Origin, Scheme};
use crate::tally::Work;

impl SimulatedCore {
    /// Makes all arrivals at a port up to `t` known.
    #[inline]
    pub(super) fn know(&mut self, port: usize, t: Ps) {
        while self.ports[port].known_until <= t && !self.ends_early() {
            if self.senders.is_some() && port == closed_loop::PORT {
                self.know_connections(t);
            } else {
                self.ports[port].generate(&mut self.devices);
            }
        }
    }

    /// Whether it was asked to stop; then this is the end of the run, and all that goes on until then goes no further. Looked
    /// at for every chunk of packets and every disturbance: one of them is part of whatever lasts.
    fn ends_early(&mut self) -> bool {
        let ends = self.stop.is_asked() || self.faults.as_ref().is_some_and(Faults::are_there);
        if ends {
            self.measurement.until = self.measurement.until.min(self.now);
        }
        ends
    }

    /// Decides when an unmasked vector interrupts next.
    pub(super) fn schedule(&mut self, device: usize) {
        if self.scheme == Scheme::BusyPolling {
            return;
        }
        let port = self.devices[device].port;
        self.know(port, self.now);
        let known = self.ports[port].known_until;
        let cause = match self.devices[device].has_old_interface {
            false => self.devices[device].next_cause(self.now),
            true => self.softnet_cause(device),
        };
        let d = &mut self.devices[device];
        // An arrival that is not known yet may come before the cause.
        (d.irq_at, d.tentative) = match cause {
            Some(cause) if cause <= known && cause < Ps::NEVER => (
                (cause + self.interrupts.delivery).max(d.throttle_until),
                false,
            ),
            _ => (known, known != Ps::NEVER),
        };
    }

    pub(super) fn find_next_event(&mut self) {
        let mut next = Ps::NEVER;
        for device in &self.devices {
            next = next.min(device.irq_at);
        }
        if !(self.scheduling.mask_others && self.in_softirq) {
            let held = self.scheduling.threads_wait && self.in_softirq;
            for other in self.others.iter().filter(|o| !(held && o.thread)) {
                next = next.min(other.next);
            }
        }
        if let Some(worker) = &self.worker {
            next = next.min(worker.timer);
        }
        self.next_event = next;
    }

    /// Lets the core work for `cost`, and for as long as interrupts take meanwhile.
    #[inline]
    pub(super) fn work(&mut self, cost: Ps, kind: Work) {
        self.tally.busy[kind as usize] += cost;
        let end = self.now + cost;
        if self.next_event > end {
            self.now = end;
        } else {
            self.work_interrupted(end);
        }
    }

    #[cold]
    fn work_interrupted(&mut self, mut end: Ps) {
        // Interrupts alone can take all of the core, for ever: that is livelock.
        while self.next_event <= end && self.now < self.measurement.until {
            self.checkpoint();
            // A running handler is not interrupted, so the event may have to wait for its end.
            self.now = self.now.max(self.next_event);
            let begun = self.now;
            self.take_event();
            end += self.now - begun;
        }
        self.truncated = self.next_event <= end;
        if !self.truncated {
            self.now = end;
        }
    }

    /// Takes the earliest event, at `now` or before; leaves `now` at the end of its handler. Returns
    /// whether anything happened.
    pub(super) fn take_event(&mut self) -> bool {
        let at = self.next_event;
        let device = self.devices.iter().position(|d| d.irq_at == at);
        let happened = match device {
            Some(device) if self.devices[device].tentative => {
                // Time has reached the end of the known arrivals: make more of them known.
                let port = self.devices[device].port;
                self.know(port, at);
                self.schedule(device);
                false
            }
            Some(device) => {
                self.interrupt(device);
                true
            }
            None => {
                self.disturbed();
                true
            }
        };
        self.find_next_event();
        happened
    }

    fn interrupt(&mut self, device: usize) {
        self.tally.irqs[device] += 1;
        let d = &mut self.devices[device];
        debug_assert!(!d.masked, "vector {device} interrupts while masked");
        debug_assert!(
            d.irq_at <= self.now,
            "vector {device} interrupts before its time"
        );
        d.last_irq = d.irq_at;
        d.masked_at = d.irq_at;
        self.tally.busy[Work::Isr as usize] += self.costs.isr;
        self.now += self.costs.isr;
        if d.has_old_interface {
            self.softnet_interrupt(device);
            if self.scheme == Scheme::Napi && !self.backlog_packets.is_empty() {
                self.poll_list.add(PSEUDO_DEVICE);
            }
        } else {
            d.masked = true;
            d.irq_at = Ps::NEVER;
            self.poll_list.add(device as u32);
        }
    }

    fn disturbed(&mut self) {
        let at = self.next_event;
        self.ends_early();
        if let Some(worker) = self.worker.as_mut().filter(|w| w.timer == at) {
            worker.timer = Ps::NEVER;
            return;
        }
        if let Some(other) = self.others.iter().position(|o| o.next == at) {
            self.other_works(other);
        }
    }

    /// At the end of a poll, threads that could not preempt it have their turn, if there is more to poll. Otherwise the softirq is
    /// over, and with it their waiting.
    pub(super) fn let_threads_run(&mut self) {
        if !self.scheduling.threads_wait || self.scheduling.mask_others || self.poll_list.is_empty()
        {
            return;
        }
        let due = |o: &Other, now| o.thread && o.next <= now;
        while self.now < self.measurement.until
            && let Some(thread) = self.others.iter().position(|o| due(o, self.now))
        {
            self.other_works(thread);
        }
    }

    /// One of the others has its turn, which has been due since `next`.
    fn other_works(&mut self, number: usize) {
        let other = &mut self.others[number];
        let at = other.next;
        if other.constant {
            other.next = at + Ps(other.mean_gap as u64);
            let time = Ps(other.mean_time as u64);
            self.take(time);
            return;
        }
        other.next = other.after(at, &mut self.rng);
        let time: f64 = match &other.pareto {
            Some(pareto) => pareto.sample(&mut self.rng),
            None => exponential(&mut self.rng),
        };
        let time = Ps((time * other.mean_time) as u64);
        self.take(time);
    }

    /// Others take the core.
    fn take(&mut self, time: Ps) {
        self.tally.busy[Work::Other as usize] += time;
        if self.lanes_at_work() {
            self.deferred.takes(self.now, self.now + time);
        }
        self.now += time;
        if self.in_softirq {
            self.tally.busy[Work::Packet as usize] += self.costs.refill;
            self.now += self.costs.refill;
        }
    }

    fn lanes_at_work(&self) -> bool {
        self.scheme == Scheme::Express
    }

    /// All is served: the vector may interrupt again.
    pub(super) fn unmask(&mut self, device: usize) {
        if self.scheme == Scheme::BusyPolling {
            return self.poll_for_ever(device);
        }
        let now = self.now;
        let latched = self.interrupts.latch && self.devices[device].latched(now);
        let d = &mut self.devices[device];
        d.masked = false;
        let interval = d.throttle(now);
        d.throttle_until = match self.interrupts.origin {
            Origin::Irq => d.last_irq + interval,
            Origin::PollEnd if interval > Ps::ZERO => now + interval,
            Origin::PollEnd => Ps::ZERO,
        };
        if latched {
            d.irq_at = (now + self.interrupts.delivery).max(d.throttle_until);
            d.tentative = false;
        } else {
            self.schedule(device);
        }
        self.find_next_event();
    }

    /// Puts a device that never interrupts on the poll list, where it comes after the others.
    pub(super) fn poll_for_ever(&mut self, device: usize) {
        self.devices[device].masked = true;
        self.poll_list.add(device as u32);
    }

    /// What could not interrupt polls may now.
    pub(super) fn leave_softirq(&mut self) {
        if std::mem::take(&mut self.in_softirq)
            && (self.scheduling.mask_others || self.scheduling.threads_wait)
        {
            self.find_next_event();
        }
    }

    /// Passes the time to the next event: there is nothing to do.
    pub(super) fn idle(&mut self) {
        let until = self.measurement.until.min(self.measurement.from);
        self.leave_softirq();
        let at = self.next_event.max(self.now);
        if self.next_event >= until {
            self.pass_idly(until);
            return;
        }
        let idle_from = self.now;
        // Of several events at the same time, this is the one that take_event will take.
        let first = self.devices.iter().find(|d| d.irq_at == self.next_event);
        let tentative = first.is_some_and(|d| d.tentative);
        if tentative {
            self.take_event();
            return;
        }
        self.pass_idly(at);
        if self.scheduling.process.is_none() {
            let slept = at - idle_from;
            let exit = self
                .scheduling
                .idle_states
                .iter()
                .rev()
                .find(|(after, _)| slept >= *after);
            self.now += exit.map_or(Ps::ZERO, |(_, exit)| *exit);
            if slept > Ps::ZERO {
                self.tally.busy[Work::Isr as usize] += self.costs.wake;
                self.now += self.costs.wake;
            }
        }
        self.take_event();
    }

    fn pass_idly(&mut self, until: Ps) {
        // The softirq has worked until now.
        self.application_works(self.now, true);
        self.application_works(until, false);
        if let Some(probe) = &mut self.probe {
            probe.runs(self.now, until);
        }
        if self.scheduling.process.is_some() {
            self.tally.busy[Work::Process as usize] += until - self.now;
        }
        if self.lanes_at_work() {
            self.deferred.windows.idle(self.now, until);
        }
        self.now = until;
    }
}
