//! Which machine there may be.

use super::{MOST_CORES, MOST_DESCRIPTORS, MOST_NICS, bad, time, within};
use crate::SimError;
use crate::scenario::{Egress, Scenario, Scheme, TxRings};

impl Scenario {
    pub(super) fn check_machine(&self) -> Result<(), SimError> {
        if !(1..=MOST_NICS).contains(&self.nic.count) {
            return bad("nic.count", self.nic.count, "give 1 to 64 NICs");
        }
        if !(1..=MOST_DESCRIPTORS).contains(&self.nic.descriptors) {
            return bad(
                "nic.descriptors",
                self.nic.descriptors,
                "a ring has 1 to 1048576 descriptors",
            );
        }
        if !(1..=MOST_DESCRIPTORS).contains(&self.nic.tx_descriptors) {
            return bad(
                "nic.tx_descriptors",
                self.nic.tx_descriptors,
                "a ring has 1 to 1048576 descriptors",
            );
        }
        if self.nic.tx_rings == TxRings::Class
            && !(self.interrupt.tx_completion && self.nic.egress == Egress::Circular)
        {
            return bad(
                "nic.tx_rings",
                "class",
                "Tx rings fill only with interrupt.tx_completion = true and nic.egress = \"circular\": give both, or leave it out",
            );
        }
        if self.nic.packet_buffer > MOST_DESCRIPTORS {
            return bad(
                "nic.packet_buffer",
                self.nic.packet_buffer,
                "give 0 to 1048576 frames",
            );
        }
        if !(1..=MOST_CORES).contains(&self.cpu.cores) {
            return bad("cpu.cores", self.cpu.cores, "give 1 to 256 cores");
        }
        let a = &self.cpu.affinity;
        if !a.is_empty() && a.len() != self.nic.count {
            return bad(
                "cpu.affinity",
                a.len(),
                "give a list of cores for each NIC, or none at all",
            );
        }
        for cores in a {
            let unique = cores
                .iter()
                .collect::<std::collections::BTreeSet<_>>()
                .len();
            if cores.is_empty()
                || unique != cores.len()
                || cores.iter().any(|c| *c >= self.cpu.cores)
            {
                return bad(
                    "cpu.affinity",
                    format!("{cores:?}"),
                    "list each core of the NIC once, by a number below cpu.cores",
                );
            }
        }
        if let Some(h) = self.host {
            if h.socket == 0 || h.socket > MOST_DESCRIPTORS {
                return bad("host.socket", h.socket, "give 1 to 1048576 packets");
            }
            time("host.application_ns", h.application_ns)?;
            time("host.application_byte_ns", h.application_byte_ns)?;
            time("host.read_ns", h.read_ns)?;
            time("host.protocol_ns", h.protocol_ns)?;
            within(
                "host.beside_softirq",
                h.beside_softirq,
                0.0,
                1.0,
                "give a speed from 0 to 1",
            )?;
            if h.buffer > MOST_DESCRIPTORS {
                return bad("host.buffer", h.buffer, "give 0 to 1048576 packets");
            }
            if h.backlog > MOST_DESCRIPTORS {
                return bad("host.backlog", h.backlog, "give 0 to 1048576 packets");
            }
            if h.backlog > 0 && self.reception.scheme != Scheme::Napi {
                return bad(
                    "host.backlog",
                    h.backlog,
                    "before NAPI packets wait in the backlog already: use scheme = \"napi\", or 0",
                );
            }
            if h.backlog == 0 && h.protocol_ns > 0.0 {
                return bad(
                    "host.protocol_ns",
                    h.protocol_ns,
                    "only behind a backlog: give host.backlog, or make it part of cpu.packet_ns",
                );
            }
        }
        self.check_transmit()?;
        self.check_qdisc()
    }

    fn check_transmit(&self) -> Result<(), SimError> {
        let Some(t) = &self.transmit else {
            return Ok(());
        };
        if t.queue == 0 || t.queue > MOST_DESCRIPTORS {
            return bad("transmit.queue", t.queue, "give 1 to 1048576 packets");
        }
        time("transmit.packet_ns", t.packet_ns)?;
        within(
            "transmit.beside_softirq",
            t.beside_softirq,
            0.0,
            1.0,
            "give a speed from 0 to 1",
        )?;
        let other =
            self.host.is_some() || self.qdisc.is_some() || self.nic.egress == Egress::Circular;
        if other || self.reception.scheme == Scheme::Express {
            return bad(
                "transmit.queue",
                t.queue,
                "packets leave by one way: leave out host, qdisc, nic.egress and scheme = \"express\", or transmit",
            );
        }
        Ok(())
    }
}
