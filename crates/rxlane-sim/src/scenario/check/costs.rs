//! What work may cost.

use super::{LONGEST_S, bad, time, within};
use crate::SimError;
use crate::scenario::Scenario;

const MOST_UNITS: usize = 1024;

impl Scenario {
    pub(super) fn check_costs(&self) -> Result<(), SimError> {
        let c = &self.cpu;
        for (key, ns) in [
            ("nic.dma_ns", self.nic.dma_ns),
            ("nic.tx_lock_ns", self.nic.tx_lock_ns),
            ("nic.fixed_latency_us", self.nic.fixed_latency_us),
            ("interrupt.delivery_ns", self.interrupt.delivery_ns),
            ("interrupt.tx_delay_ns", self.interrupt.tx_delay_ns),
            ("interrupt.estimate_ns", self.interrupt.estimate_ns),
            ("cpu.isr_ns", c.isr_ns),
            ("cpu.wake_ns", c.wake_ns),
            ("cpu.softirq_ns", c.softirq_ns),
            ("cpu.poll_ns", c.poll_ns),
            ("cpu.ring_ns", c.ring_ns),
            ("cpu.class_ns", c.class_ns),
            ("cpu.byte_ns", c.byte_ns),
            ("cpu.enqueue_ns", c.enqueue_ns),
            ("cpu.tx_clean_ns", c.tx_clean_ns),
            ("cpu.refill_ns", c.refill_ns),
        ] {
            time(key, ns)?;
        }
        within(
            "cpu.packet_ns",
            c.packet_ns,
            0.001,
            1e9,
            "a packet takes 0.001 ns to 1 s",
        )?;
        within("cpu.clock_ghz", c.clock_ghz, 0.001, 1000.0, "give GHz")?;
        if c.sample_s != 0.0 {
            within(
                "cpu.sample_s",
                c.sample_s,
                1e-6,
                LONGEST_S,
                "give 0, or 0.000001 s and more",
            )?;
        }
        if c.tx_work_limit == 0 {
            return bad(
                "cpu.tx_work_limit",
                0,
                "nothing would ever be cleaned: use at least 1",
            );
        }
        for s in &self.stage {
            time("stage.packet_ns", s.packet_ns)?;
            time("stage.byte_ns", s.byte_ns)?;
            self.check_classes("stage.classes", &s.classes)?;
        }
        for r in &self.resource {
            time("resource.packet_ns", r.packet_ns)?;
            time("resource.byte_ns", r.byte_ns)?;
            if !(1..=MOST_UNITS).contains(&r.units) {
                return bad("resource.units", r.units, "give 1 to 1024 units");
            }
            self.check_classes("resource.classes", &r.classes)?;
        }
        for d in &c.disturbance {
            time("cpu.disturbance.ns", d.ns)?;
            if d.pareto != 0.0 {
                within(
                    "cpu.disturbance.pareto",
                    d.pareto,
                    1.01,
                    1000.0,
                    "give 1.01 or more, below which there is no mean, or 0",
                )?;
            }
            within(
                "cpu.disturbance.per_second",
                d.per_second,
                0.0,
                1e8,
                "give 0 to 1e8 times a second",
            )?;
            within(
                "cpu.disturbance.redraw_s",
                d.redraw_s,
                0.0,
                LONGEST_S,
                "give 0 to 100000 s",
            )?;
        }
        for hog in &c.hog {
            within(
                "cpu.hog.every_us",
                hog.every_us,
                1.0,
                1e9,
                "give 1 to 1e9 us",
            )?;
            within(
                "cpu.hog.takes_us",
                hog.takes_us,
                0.0,
                hog.every_us * 0.99,
                "leave the core at least a hundredth of the time",
            )?;
        }
        for s in &c.idle {
            time("cpu.idle.after_us", s.after_us)?;
            time("cpu.idle.exit_us", s.exit_us)?;
        }
        if let Some(p) = c.probe {
            within(
                "cpu.probe.pause_us",
                p.pause_us,
                0.001,
                1e9,
                "give 0.001 to 1e9 us",
            )?;
            within(
                "cpu.probe.work_us",
                p.work_us,
                0.001,
                1e9,
                "give 0.001 to 1e9 us",
            )?;
        }
        if let Some(p) = c.process {
            time("cpu.process.after_us", p.after_us)?;
            time("cpu.process.slice_us", p.slice_us)?;
        }
        Ok(())
    }

    fn check_classes(&self, key: &'static str, classes: &[usize]) -> Result<(), SimError> {
        let known = self.traffic.class_shares().len();
        if classes.iter().any(|c| *c >= known) {
            let cure = "number classes from 0, the highest";
            return bad(key, format!("{classes:?}"), cure);
        }
        Ok(())
    }
}
