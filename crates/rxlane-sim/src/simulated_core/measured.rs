//! What a core has counted, and when it counts.

use rxlane_policy::Ps;
use rxlane_policy::poll::MAX_RINGS;

use super::application::Application;
use super::egress::Egress;
use super::worker::Worker;
use super::{Regret, SimulatedCore};
use crate::histogram::Latencies;
use crate::tally::{Tally, Work};
use crate::tcp::{Counts, Senders};

/// How many packets have arrived, were dropped or are held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Census {
    /// Packets that have arrived at the NICs.
    pub arrived: u64,
    /// Packets that found the ring full.
    pub ring_dropped: u64,
    /// Packets that wait in rings, backlog, the host's socket or the egress link's queues, or are in service.
    pub queued: u64,
    /// Packets that found the ring full, by class.
    pub ring_dropped_of: [u64; MAX_RINGS],
}

impl Default for Census {
    fn default() -> Self {
        Self {
            arrived: 0,
            ring_dropped: 0,
            queued: 0,
            ring_dropped_of: [0; MAX_RINGS],
        }
    }
}

impl Census {
    pub(super) fn add(&mut self, other: &Self) {
        self.arrived += other.arrived;
        self.ring_dropped += other.ring_dropped;
        self.queued += other.queued;
        for (all, of) in self.ring_dropped_of.iter_mut().zip(other.ring_dropped_of) {
            *all += of;
        }
    }
}

/// What a core has counted over the measured time.
#[derive(Debug, Clone)]
pub struct CoreResult {
    /// The counts of the measured time.
    pub tally: Tally,
    /// Length of the measured time.
    pub elapsed: Ps,
    /// Packets at the begin of the measured time.
    pub before: Census,
    /// Packets at the end of the measured time.
    pub after: Census,
    /// The worst windows of the measured time; of the scheme `express` only.
    pub regret: Regret,
    /// How long the application, or the thread that sends, has worked.
    pub application: Ps,
    /// How long the probe waited to have done its work, each time; of scenarios with one.
    pub responses: Option<Latencies>,
    /// NIC of each vector.
    pub vector_nics: Vec<usize>,
    /// What was counted of each connection.
    pub connections: Vec<Counts>,
}

impl SimulatedCore {
    /// Ends the measurement and gives what was counted.
    pub(crate) fn finish(mut self) -> CoreResult {
        self.checkpoint();
        let after = self.census(false);
        if let Some(probe) = &mut self.probe {
            probe.end(self.now);
        }
        CoreResult {
            elapsed: self.now - self.measurement.begun,
            before: self.measurement.before,
            after,
            regret: self.deferred.windows.worst,
            application: self.application.map_or(Ps::ZERO, |a| a.busy),
            responses: self.probe.map(|p| p.responses),
            vector_nics: self.devices.iter().map(|d| d.nic).collect(),
            connections: self.senders.iter().flat_map(Senders::counts).collect(),
            tally: self.tally,
        }
    }

    /// Begins to measure, and samples the load, when it is time to.
    #[inline]
    pub(super) fn checkpoint(&mut self) {
        if self.now >= self.measurement.from {
            self.begin_to_measure();
        }
        if self.now >= self.samples.next {
            self.sample_load();
        }
    }

    pub(super) fn is_measuring(&self) -> bool {
        self.measurement.from == Ps::NEVER
    }

    #[cold]
    fn begin_to_measure(&mut self) {
        let (classes, nics) = (self.tally.classes.len(), self.tally.served.len());
        // The census also counts what the application has finished. That is not measured yet, so it precedes
        // the new tally.
        self.measurement.before = self.census(true);
        let flows = self.tally.flow_served.len();
        self.tally = Tally::new(classes, nics, self.devices.len(), flows);
        self.measurement.begun = self.now;
        self.deferred.windows.restart(self.now);
        if let Some(application) = &mut self.application {
            application.busy = Ps::ZERO;
        }
        if let Some(probe) = &mut self.probe {
            probe.restart(self.now);
        }
        if let Some(senders) = &mut self.senders {
            senders.restart();
        }
        self.measurement.from = Ps::NEVER;
        if self.samples.every > Ps::ZERO {
            self.samples.next = self.measurement.begun + self.samples.every;
        }
    }

    /// What has come so far and what is held. Where a measurement `begins`, a NIC that came from a core which measures has been
    /// counted.
    fn census(&mut self, begins: bool) -> Census {
        let mut census = Census::default();
        for device in 0..self.devices.len() {
            self.know(self.devices[device].port, self.now);
            let now = self.now;
            let device = &mut self.devices[device];
            device.admit(now);
            if begins && std::mem::replace(&mut device.measured, true) {
                continue;
            }
            census.add(&device.census());
        }
        census.queued += (self.deferred.batch.len() + self.deferred.collected.len()) as u64;
        census.queued += self.deferred.parked.len() as u64;
        census.queued += self.backlog_packets.len() as u64 + u64::from(self.in_service);
        self.link_sends();
        census.queued += self.link.as_ref().map_or(0, Egress::len) as u64;
        self.application_works(self.now, true);
        census.queued += self.application.as_ref().map_or(0, Application::len);
        census.queued += self.received.as_ref().map_or(0, |r| r.packets.len() as u64);
        census.queued += self.worker.as_ref().map_or(0, Worker::len);
        census
    }

    #[cold]
    fn sample_load(&mut self) {
        let process = self.tally.busy[Work::Process as usize];
        let busy = self.tally.busy.iter().copied().sum::<Ps>() - process;
        let load = (busy - self.samples.busy).as_s() / self.samples.every.as_s();
        self.samples.busy = busy;
        self.tally.loads.add(load, 1);
        self.samples.next += self.samples.every;
        if self.samples.next <= self.now {
            // The core slept through all further samples.
            let slept = (self.now - self.samples.next).0 / self.samples.every.0 + 1;
            self.tally.loads.add(0.0, slept);
            self.samples.next += Ps(self.samples.every.0 * slept);
        }
    }
}
