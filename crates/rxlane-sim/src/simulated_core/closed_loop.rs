//! Connections through this core. No answer to what leaves the core comes sooner than a base round trip. So when all departures up to a
//! time are known, all arrivals up to a round trip later are.

use rxlane_policy::Ps;

use super::SimulatedCore;
use crate::ring::Packet;
use crate::tcp::Delivered;

/// The port by which the packets of connections come in.
pub(super) const PORT: usize = 0;

impl SimulatedCore {
    /// Makes known what arrives within a round trip from `t`, until when the core does nothing but what is known.
    pub(super) fn know_connections(&mut self, t: Ps) {
        self.link_sends_until(t);
        if let Some(senders) = &mut self.senders {
            let until = t + senders.answer_after();
            senders.advance(until);
            self.ports[PORT].expect_until(until, senders, &mut self.devices);
        }
    }

    /// A packet has left at `at`: its connection hears of it.
    pub(super) fn tell_sender(&mut self, packet: Packet, at: Ps) {
        if let Some(senders) = &mut self.senders
            && senders.has(&packet)
        {
            senders.delivered(Delivered { at, packet });
        }
    }
}
