//! What may be beside a thread that serves packets.

use super::{MOST_DESCRIPTORS, bad, time, within};
use crate::SimError;
use crate::scenario::{Priority, Scenario, Scheme};

impl Scenario {
    pub(super) fn check_worker(&self) -> Result<(), SimError> {
        let Some(w) = &self.worker else { return Ok(()) };
        time("worker.receive_ns", w.receive_ns)?;
        time("worker.switch_ns", w.switch_ns)?;
        within(
            "worker.give_way_us",
            w.give_way_us,
            1.0,
            1e9,
            "give 1 to 1e9 us",
        )?;
        if w.ring == 0 || w.ring > MOST_DESCRIPTORS {
            return bad("worker.ring", w.ring, "give 1 to 1048576 packets");
        }
        let r = &self.reception;
        let cure = if r.scheme != Scheme::Napi
            || r.priority == Priority::Global
            || !r.old_interfaces.is_empty()
        {
            "the thread is fed by NAPI and takes devices in turn: use scheme = \"napi\" and priority = \"devices\", without reception.old_interfaces"
        } else if self.shares() || self.host.is_some() {
            "leave out host, and what cores share"
        } else if self.interrupt.tx_completion || self.interrupt.estimate.is_some() {
            "its wake-ups stand for interrupts: leave out interrupt.tx_completion and interrupt.estimate"
        } else if self.cpu.process.is_some() || self.cpu.probe.is_some() {
            "leave out cpu.process and cpu.probe: their turns are those of a softirq"
        } else if !self.cpu.preemptible {
            "it is a thread itself, which others preempt: leave out cpu.preemptible"
        } else {
            return Ok(());
        };
        bad("worker", "given", cure)
    }
}
