//! Strict priority over all devices of a core, as the engine of the router has it (`rxlane_policy::global`; a priority strategy of
//! multiple-nics V.A): the poll is one of all devices that have interrupted.

use rxlane_policy::Ps;
use rxlane_policy::global::Turn;
use rxlane_policy::poll::PollEnd;

use super::SimulatedCore;
use crate::tally::Work;

impl SimulatedCore {
    /// One poll of all devices on the poll list: a device budget, or until their rings are empty.
    pub(super) fn poll_all(&mut self) {
        self.begin_softirq_poll();
        if self.sending.delay.is_some() {
            for device in 0..self.devices.len() {
                if self.devices[device].masked {
                    self.clean_tx(device);
                }
            }
        }
        let mut left = self.device_budget;
        while left > 0 {
            let Some(turn) = self.highest() else {
                while let Some(device) = self.poll_list.first() {
                    self.poll_list.ended(PollEnd::Drained);
                    self.unmask(device as usize);
                }
                break;
            };
            if self.costs.ring > Ps::ZERO {
                self.work(self.costs.ring, Work::Poll);
            }
            left -= self.serve_some(turn.device, turn.ring, turn.at_most.min(left));
            if self.truncated {
                return;
            }
        }
        self.let_the_process_run();
    }

    /// The ring of the highest class that holds packets, of the devices whose interrupts are masked.
    fn highest(&mut self) -> Option<Turn> {
        for port in 0..self.ports.len() {
            self.know(port, self.now);
        }
        for device in &mut self.devices {
            device.admit(self.now);
        }
        let devices = &self.devices;
        self.order
            .as_mut()?
            .next(|device, ring| devices[device].masked && !devices[device].rings[ring].is_empty())
    }
}
