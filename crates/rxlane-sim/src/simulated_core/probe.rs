//! A process that shows how responsive the machine is under load: Beyond Softnet 5.1 lists a directory meanwhile.

use rxlane_policy::Ps;

use crate::histogram::Latencies;
use crate::scenario::Probe as Keys;

/// It pauses, works, and pauses again. It has the core when the softirq leaves it to processes.
#[derive(Debug)]
pub(super) struct Probe {
    pause: Ps,
    work: Ps,
    left: Ps,
    /// When it wanted to run, or will want to.
    wants: Ps,
    /// From wanting to run until it had done its work.
    pub(super) responses: Latencies,
}

impl Probe {
    pub(super) fn new(keys: &Keys) -> Self {
        let (pause, work) = (Ps::from_us(keys.pause_us), Ps::from_us(keys.work_us));
        Self {
            pause,
            work,
            left: work,
            wants: pause,
            responses: Latencies::default(),
        }
    }

    /// Begins to measure: what it waits for now it waits for from now on.
    pub(super) fn restart(&mut self, now: Ps) {
        self.responses = Latencies::default();
        self.wants = self.wants.max(now);
    }

    /// Processes have the core.
    pub(super) fn runs(&mut self, mut from: Ps, to: Ps) {
        loop {
            from = from.max(self.wants);
            if from >= to {
                return;
            }
            if from + self.left > to {
                self.left -= to - from;
                return;
            }
            from += self.left;
            self.responses.record(from - self.wants);
            self.left = self.work;
            self.wants = from + self.pause;
        }
    }

    /// Ends the measurement. What it still waits for counts as what it has waited.
    pub(super) fn end(&mut self, now: Ps) {
        if self.wants < now {
            self.responses.record(now - self.wants);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_works_when_it_may_and_waits_when_it_may_not() {
        let mut p = Probe::new(&Keys {
            pause_us: 10.0,
            work_us: 2.0,
        });
        let us = Ps::from_us;
        // Wants to run at 10, and has done at 12; then at 22, has 1 us of it, the other one from 30 on.
        p.runs(us(0.0), us(23.0));
        p.runs(us(30.0), us(32.0));
        assert_eq!(p.responses.count(), 2);
        assert!((p.responses.mean_us() - (2.0 + 9.0) / 2.0).abs() < 1e-9);
        // It wanted to run at 41.
        p.end(us(141.0));
        assert!((p.responses.max_us() - 100.0).abs() < 2.0);
    }
}
