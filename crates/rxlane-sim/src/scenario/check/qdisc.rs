//! How the egress link may queue.

use super::{MOST_DESCRIPTORS, bad, within};
use crate::SimError;
use crate::scenario::{Discipline, Egress, ExpressEgress, Qdisc, Scenario, Scheme};

impl Scenario {
    pub(super) fn check_qdisc(&self) -> Result<(), SimError> {
        let Some(q) = &self.qdisc else {
            return match self.express.egress {
                ExpressEgress::Direct => Ok(()),
                ExpressEgress::Auto => bad(
                    "express.egress",
                    "auto",
                    "there is no link that could be full: give qdisc.link_bps",
                ),
            };
        };
        within(
            "qdisc.link_bps",
            q.link_bps,
            1e3,
            1e13,
            "give 1e3 to 1e13 bits a second",
        )?;
        if q.limit == 0 || q.limit > MOST_DESCRIPTORS {
            return bad("qdisc.limit", q.limit, "give 1 to 1048576 packets");
        }
        if q.descriptors > MOST_DESCRIPTORS {
            return bad("qdisc.descriptors", q.descriptors, "give 0 to 1048576");
        }
        if q.descriptors > 0 && q.discipline == Discipline::TokenBucket {
            return bad(
                "qdisc.descriptors",
                q.descriptors,
                "a token bucket stands in front of a ring that is never full: leave it out",
            );
        }
        let classes = self.traffic.class_shares().len();
        let drr = q.discipline == Discipline::Drr;
        if !q.quanta.is_empty() && (!drr || q.quanta.len() != classes) {
            return bad(
                "qdisc.quanta",
                q.quanta.len(),
                "give one for each class, and only to drr",
            );
        }
        if let Some(odd) = q.quanta.iter().find(|n| !(64..=1 << 20).contains(*n)) {
            return bad("qdisc.quanta", odd, "give 64 to 1048576 bytes");
        }
        if self.host.is_some() || self.nic.egress == Egress::Circular {
            return bad(
                "qdisc.link_bps",
                q.link_bps,
                "packets leave by one way: leave out host and nic.egress, or qdisc",
            );
        }
        self.check_discipline(q)
    }

    fn check_discipline(&self, q: &Qdisc) -> Result<(), SimError> {
        let red = q.red;
        within("qdisc.red.min", red.min, 0.0, 1e6, "give 0 to 1e6 packets")?;
        within(
            "qdisc.red.max",
            red.max,
            red.min + 1.0,
            1e7,
            "give at least a packet more than min",
        )?;
        within(
            "qdisc.red.probability",
            red.probability,
            0.0,
            1.0,
            "give a chance from 0 to 1",
        )?;
        within(
            "qdisc.red.weight",
            red.weight,
            1e-9,
            1.0,
            "give a weight above 0, up to 1",
        )?;
        if !(1..=65_536).contains(&q.buckets) {
            return bad("qdisc.buckets", q.buckets, "give 1 to 65536 queues");
        }
        within(
            "qdisc.rate_bps",
            q.rate_bps,
            1e3,
            1e13,
            "give 1e3 to 1e13 bits a second",
        )?;
        if q.discipline != Discipline::TokenBucket {
            return Ok(());
        }
        if q.burst < self.traffic.frame {
            return bad(
                "qdisc.burst",
                q.burst,
                "no frame would ever be sent: give at least the bytes of one",
            );
        }
        if self.reception.scheme == Scheme::Express {
            return bad(
                "qdisc.discipline",
                "token-bucket",
                "redirected packets pass by it and would share its link: use another one with scheme = \"express\"",
            );
        }
        Ok(())
    }
}
