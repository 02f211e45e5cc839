//! Packets at given times instead of generated ones, and when each of them leaves: what is compared with another
//! simulator, packet by packet.

use rxlane_policy::Ps;

use super::{CoreResult, SimulatedCore};
use crate::SimError;
use crate::ring::Packet;
use crate::scenario::Scenario;

/// When a packet is in memory, and its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival {
    /// When it is in memory; arrivals follow each other in time.
    pub at: Ps,
    /// Its class, 0 the highest.
    pub class: usize,
}

impl SimulatedCore {
    /// The core of a scenario without traffic of its own (`traffic.pps = 0`), to which these packets come through its first
    /// NIC.
    ///
    /// # Errors
    /// As [`SimulatedCore::new`], and [`SimError::Value`] for a scenario with traffic and for a class that it does not have.
    pub fn with_arrivals(scenario: &Scenario, arrivals: &[Arrival]) -> Result<Self, SimError> {
        let refuse = |key: &str, value: String, cure: &'static str| SimError::Value {
            key: key.into(),
            value,
            cure,
        };
        let traffic = &scenario.traffic;
        if traffic.pps > 0.0 {
            let cure = "give 0: packets come at the times given";
            return Err(refuse("traffic.pps", traffic.pps.to_string(), cure));
        }
        let classes = traffic.class_shares().len();
        let mut this = Self::new(scenario, 0, scenario.seed)?;
        for (number, arrival) in arrivals.iter().enumerate() {
            if arrival.class >= classes {
                let cure = "classes are numbered from 0, and there are as many as shares";
                return Err(refuse("class", arrival.class.to_string(), cure));
            }
            let (device, ring) = this.ports[0].place(arrival.class);
            this.devices[device].rings[ring].expect(Packet {
                at: arrival.at,
                sequence: number as u32 + 1,
                flow: ((classes - 1 - arrival.class) * usize::from(traffic.flows)) as u16,
                class: arrival.class as u8,
                marked: false,
            });
        }
        for device in 0..this.devices.len() {
            this.schedule(device);
        }
        this.find_next_event();
        Ok(this)
    }

    /// Simulates `time` and says when each of so many given packets left; nothing for a dropped one.
    pub fn departures(mut self, time: Ps, packets: usize) -> (Vec<Option<Ps>>, CoreResult) {
        self.begin(Ps::ZERO, time);
        self.keep_departures();
        self.advance(Ps::NEVER);
        let mut left = vec![None; packets];
        for departure in self.take_departures() {
            left[departure.sequence as usize - 1] = Some(departure.at);
        }
        (left, self.finish())
    }
}
