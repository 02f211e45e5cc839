//! How the kernel may receive.

use rxlane_policy::class::MAX_CLASSES;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::Throttling;

use super::{bad, time, within};
use crate::SimError;
use crate::scenario::{Priority, Scenario, Scheme, Spread};

impl Scenario {
    pub(super) fn check_reception(&self) -> Result<(), SimError> {
        let r = &self.reception;
        if r.scheme == Scheme::Express {
            self.check_express()?;
        }
        if r.scheme == Scheme::BusyPolling {
            self.check_busy_polling()?;
        }
        if matches!(r.scheme, Scheme::Softnet | Scheme::Express) && r.strategy != StrategyName::Sq {
            return bad(
                "reception.strategy",
                "not sq",
                "only NAPI and busy polling have a ring a class: use sq, or scheme = \"napi\"",
            );
        }
        if self.cpu.spread == Spread::RoundRobin {
            let devices = r.strategy == StrategyName::Rr;
            let refused = match r.scheme {
                Scheme::Softnet => None,
                Scheme::Napi if devices => Some(
                    "a NIC that goes from core to core has one device: use sq, ll-rr or ll-wfq",
                ),
                Scheme::Napi if self.interrupt.tx_completion => Some(
                    "a NIC that goes from core to core has no Tx completions: leave out interrupt.tx_completion",
                ),
                Scheme::Napi => None,
                Scheme::Express => Some("lanes belong to cores: use flows"),
                Scheme::BusyPolling => Some("nothing interrupts: use flows"),
            };
            if let Some(cure) = refused {
                return bad("cpu.spread", "round-robin", cure);
            }
        }
        if r.scheme == Scheme::Express && self.shares() {
            return bad(
                "reception.scheme",
                "express",
                "without cpu.giant_lock, nic.tx_lock_ns and resource: leave them out",
            );
        }
        if r.interrupt_work == 0 || r.backlog == 0 {
            return bad("reception.interrupt_work and backlog", 0, "use at least 1");
        }
        time("reception.mitigation_us", r.mitigation_us)?;
        r.strategy()
            .layout(self.traffic.class_shares().len(), r.device_budget, r.order)?;
        self.interrupt.throttling.start()?;
        if let Some(estimate) = &self.interrupt.estimate {
            estimate.start()?;
            if r.scheme != Scheme::Napi || self.interrupt.throttling != Throttling::Off {
                return bad(
                    "interrupt.estimate",
                    "given",
                    "it throttles NAPI, and alone: leave out interrupt.throttling, and use scheme = \"napi\"",
                );
            }
        }
        self.check_old_interfaces()?;
        self.check_priority()
    }

    fn check_busy_polling(&self) -> Result<(), SimError> {
        if self.cpu.poll_ns < 1.0 {
            return bad(
                "cpu.poll_ns",
                self.cpu.poll_ns,
                "a core that polls for ever needs some time to look at a device: give 1 or more",
            );
        }
        if self.interrupt.throttling != Throttling::Off || self.cpu.mask_others {
            return bad(
                "reception.scheme",
                "busy-polling",
                "there is no interrupt to throttle, and no end of polling to wait for: leave out interrupt.throttling and cpu.mask_others",
            );
        }
        Ok(())
    }

    fn check_old_interfaces(&self) -> Result<(), SimError> {
        let r = &self.reception;
        let Some(nic) = r.old_interfaces.first() else {
            return Ok(());
        };
        if r.scheme != Scheme::Napi || r.strategy != StrategyName::Sq {
            return bad(
                "reception.old_interfaces",
                nic,
                "beside NAPI only, where a NIC has one ring: use scheme = \"napi\" and strategy = \"sq\"",
            );
        }
        if let Some(nic) = r.old_interfaces.iter().find(|n| **n >= self.nic.count) {
            return bad(
                "reception.old_interfaces",
                nic,
                "number NICs from 0, below nic.count",
            );
        }
        if self.cpu.spread == Spread::RoundRobin || self.interrupt.tx_completion {
            return bad(
                "reception.old_interfaces",
                nic,
                "without interrupt.tx_completion and cpu.spread = \"round-robin\": leave them out",
            );
        }
        Ok(())
    }

    fn check_priority(&self) -> Result<(), SimError> {
        let r = &self.reception;
        if r.priority != Priority::Global {
            return Ok(());
        }
        let backlog = self.host.is_some_and(|h| h.backlog > 0);
        let cure = if r.scheme != Scheme::Napi || r.strategy == StrategyName::Rr {
            "classes of all devices are compared where each has a ring a class: use NAPI with ll-rr or ll-wfq"
        } else if self.shares() || backlog || !r.old_interfaces.is_empty() {
            "it orders rings only: leave out host.backlog, reception.old_interfaces, and what cores share"
        } else {
            r.global(self.traffic.class_shares().len(), 1)?;
            return Ok(());
        };
        bad("reception.priority", "global", cure)
    }

    /// Whether cores share something, or would if there were several.
    pub(super) fn shares(&self) -> bool {
        self.cpu.giant_lock
            || self.nic.tx_lock_ns > 0.0
            || !self.resource.is_empty()
            || self.cpu.spread == Spread::RoundRobin
    }

    fn check_express(&self) -> Result<(), SimError> {
        let e = &self.express;
        let classes = self.traffic.class_shares().len();
        for (key, ns) in [
            ("express.redirect_ns", e.redirect_ns),
            ("express.drop_ns", e.drop_ns),
            ("express.flush_ns", e.flush_ns),
            ("express.clock_ns", e.clock_ns),
            ("express.queue_ns", e.queue_ns),
            ("express.target_us", e.target_us),
        ] {
            time(key, ns)?;
        }
        within(
            "express.window_ms",
            e.window_ms,
            0.1,
            1e6,
            "give 0.1 to 1e6 ms",
        )?;
        if !(1..=4096).contains(&e.stack_batch) {
            return bad(
                "express.stack_batch",
                e.stack_batch,
                "the stack takes packets by 1 to 4096",
            );
        }
        if classes > MAX_CLASSES {
            return bad(
                "traffic.shares",
                classes,
                "a router with lanes has at most 8 classes",
            );
        }
        if e.classes == 0 || e.classes > classes {
            return bad(
                "express.classes",
                e.classes,
                "at least the highest class is express, and there are no more than all",
            );
        }
        if !e.weights.is_empty() && e.weights.len() != classes - e.classes {
            return bad(
                "express.weights",
                e.weights.len(),
                "give a weight for each stack class, or none",
            );
        }
        if self.host.is_some()
            || self.interrupt.tx_completion
            || self.cpu.process.is_some()
            || self.cpu.probe.is_some()
        {
            return bad(
                "reception.scheme",
                "express",
                "without host, cpu.process, cpu.probe and interrupt.tx_completion: leave them out",
            );
        }
        Ok(())
    }
}
