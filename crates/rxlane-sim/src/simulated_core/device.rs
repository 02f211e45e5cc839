//! A NIC's vector on one core: its Rx rings, its interrupt, its Tx completions.

use std::collections::VecDeque;

use crate::congestion::FeedbackDriver;
use crate::custom::Controlled;
use rxlane_policy::Ps;
use rxlane_policy::poll::QVector;
use rxlane_policy::throttle::estimate::Estimator;
use rxlane_policy::throttle::{Sample, Throttle, Throttler};

use super::measured::Census;
use crate::ring::RxRing;

/// An interrupt vector: a device with its rings.
#[derive(Debug)]
pub(super) struct Device {
    /// Number of the NIC.
    pub(super) nic: usize,
    /// Number of its port among those with a vector on this core.
    pub(super) port: usize,
    pub(super) qvector: QVector,
    /// Highest class first.
    pub(super) rings: Vec<RxRing>,
    /// Times of Tx completions that have not been cleaned, each with its Tx ring.
    pub(super) completions: VecDeque<(Ps, usize)>,
    /// Descriptors that are taken, of each Tx ring.
    pub(super) tx_taken: Vec<usize>,
    /// Time of the newest Tx completion that has been cleaned.
    pub(super) cleaned_last: Ps,
    /// When the egress wire is free.
    pub(super) wire_free: Ps,
    pub(super) masked: bool,
    pub(super) masked_at: Ps,
    /// When it interrupts next; [`Ps::NEVER`] while masked.
    pub(super) irq_at: Ps,
    /// `irq_at` is no interrupt yet, but the time up to which arrivals are known.
    pub(super) tentative: bool,
    pub(super) throttle_until: Ps,
    pub(super) last_irq: Ps,
    throttler: Throttler,
    sample: Sample,
    sample_since: Ps,
    pub(super) driver: FeedbackDriver,
    /// It interrupts for each packet, or as its driver's mitigation wants, and packets wait in the backlog.
    pub(super) has_old_interface: bool,
    pub(super) estimator: Option<Estimator>,
    /// Throttling by code.
    pub(super) controlled: Option<Controlled>,
    /// What it had counted before is no longer to be counted, because a measurement has begun.
    pub(super) measured: bool,
}

impl Device {
    pub(super) fn new(
        (nic, port): (usize, usize),
        qvector: QVector,
        (ring_capacity, tx_rings): (usize, usize),
        throttler: Throttler,
        driver: FeedbackDriver,
    ) -> Self {
        Self {
            nic,
            port,
            rings: (0..qvector.rings())
                .map(|_| RxRing::new(ring_capacity))
                .collect(),
            qvector,
            completions: VecDeque::new(),
            tx_taken: vec![0; tx_rings],
            cleaned_last: Ps::ZERO,
            wire_free: Ps::ZERO,
            masked: false,
            masked_at: Ps::ZERO,
            irq_at: Ps::NEVER,
            tentative: false,
            throttle_until: Ps::ZERO,
            last_irq: Ps::ZERO,
            throttler,
            sample: Sample::default(),
            sample_since: Ps::ZERO,
            driver,
            has_old_interface: false,
            estimator: None,
            controlled: None,
            measured: false,
        }
    }

    /// Earliest known cause of an interrupt after `now`: an arrival or a Tx completion.
    pub(super) fn next_cause(&self, now: Ps) -> Option<Ps> {
        let arrival = self.rings.iter().filter_map(RxRing::next_arrival).min();
        // Completions up to now were raised while the vector was masked.
        let completion = self.completions.iter().map(|c| c.0).find(|t| *t > now);
        match (arrival, completion) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// Whether a cause was raised since the vector was masked, up to `now`.
    pub(super) fn latched(&self, now: Ps) -> bool {
        let since = self.masked_at;
        self.rings.iter().any(|r| r.newest() > since)
            || self.cleaned_last > since
            || self.completions.iter().any(|c| c.0 > since && c.0 <= now)
    }

    /// The packets that have come to it so far.
    pub(super) fn census(&self) -> Census {
        let mut census = Census::default();
        for ring in &self.rings {
            census.arrived += ring.arrived();
            census.ring_dropped += ring.dropped();
            census.queued += ring.len() as u64;
            for (all, of) in census.ring_dropped_of.iter_mut().zip(ring.dropped_of()) {
                *all += of;
            }
        }
        census
    }

    #[inline]
    pub(super) fn admit(&mut self, now: Ps) {
        for ring in &mut self.rings {
            ring.admit(now);
        }
    }

    #[inline]
    pub(super) fn count(&mut self, packets: u64, bytes: u64) {
        self.sample.packets += packets;
        self.sample.bytes += bytes;
    }

    /// Decides the least time between interrupts anew, from what came since the last decision.
    pub(super) fn throttle(&mut self, now: Ps) -> Ps {
        if let Some(estimator) = &mut self.estimator {
            return estimator.update().into();
        }
        self.sample.elapsed = (now - self.sample_since).into();
        self.sample_since = now;
        let sample = std::mem::take(&mut self.sample);
        match &mut self.controlled {
            Some(controlled) => controlled.update(sample),
            None => self.throttler.update(sample).into(),
        }
    }
}
