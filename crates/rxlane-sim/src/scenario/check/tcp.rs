//! Where connections have a place.

use super::{bad, within};
use crate::SimError;
use crate::scenario::{Egress, Scenario};

impl Scenario {
    pub(super) fn check_tcp(&self) -> Result<(), SimError> {
        let Some(tcp) = &self.tcp else { return Ok(()) };
        if !(1..=1024).contains(&tcp.connections) {
            return bad("tcp.connections", tcp.connections, "give 1 to 1024");
        }
        if self.flows() > 65_535 {
            return bad(
                "traffic.flows",
                self.traffic.flows,
                "give at most 65535 flows, over all classes and with all connections",
            );
        }
        let classes = self.traffic.class_shares().len();
        if let Some(class) = tcp.class.filter(|class| *class >= classes) {
            return bad(
                "tcp.class",
                class,
                "give a class that there is, or more of them in traffic.shares",
            );
        }
        within(
            "tcp.rtt_us",
            tcp.rtt_us,
            1.0,
            1e6,
            "give a round trip of 1 to 1000000 us",
        )?;
        if !(2..=1 << 20).contains(&tcp.window) {
            return bad("tcp.window", tcp.window, "give 2 to 1048576 packets");
        }
        let lone = self.cpu.cores == 1 && self.worker.is_none() && self.transmit.is_none();
        let forwards = self.host.is_none() && self.nic.egress == Egress::None;
        if !lone || !forwards || !self.resource.is_empty() || !self.custom.is_empty() {
            return bad(
                "tcp.connections",
                tcp.connections,
                "connections need cpu.cores = 1 and packets that leave by qdisc or by nothing: leave out worker, transmit, host, resource, nic.egress and code",
            );
        }
        Ok(())
    }
}
