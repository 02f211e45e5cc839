//! What may arrive.

use super::{LONGEST_S, bad, within};
use crate::SimError;
use crate::scenario::Scenario;
use crate::traffic::Pattern;

impl Scenario {
    pub(super) fn check_traffic(&self) -> Result<(), SimError> {
        let t = &self.traffic;
        let line = self.line_rate().0 * (1.0 + 1e-9);
        within(
            "traffic.pps",
            t.pps,
            0.0,
            1e10,
            "give a rate from 0 packets a second on",
        )?;
        if !(64..=65_535).contains(&t.frame) {
            return bad(
                "traffic.frame",
                t.frame,
                "frames have 64 to 65535 bytes, with FCS",
            );
        }
        within(
            "nic.link_bps",
            self.nic.link_bps,
            1e3,
            1e13,
            "give 1e3 to 1e13 bits a second",
        )?;
        let shares = t.nic_shares.clone();
        if !shares.is_empty() && shares.len() != self.nic.count {
            return bad(
                "traffic.nic_shares",
                shares.len(),
                "give one share for each NIC, or none",
            );
        }
        sums_to_one("traffic.nic_shares", &shares)?;
        let greatest = shares
            .iter()
            .copied()
            .fold(1.0 / self.nic.count.max(1) as f64, f64::max);
        if t.pps * greatest > line {
            return bad(
                "traffic.pps",
                t.pps,
                "more than the links carry: raise nic.link_bps or nic.count, or offer less",
            );
        }
        within(
            "traffic.rt_ratio",
            t.rt_ratio,
            0.0,
            1.0,
            "give a share from 0 to 1",
        )?;
        if t.shares.len() > rxlane_policy::poll::MAX_RINGS {
            return bad(
                "traffic.shares",
                t.shares.len(),
                "there are at most 64 classes",
            );
        }
        sums_to_one("traffic.shares", &t.shares)?;
        if t.flows == 0 || usize::from(t.flows) * self.traffic.class_shares().len() > 65_535 {
            return bad(
                "traffic.flows",
                t.flows,
                "give 1 to 65535 flows, over all classes",
            );
        }
        within(
            "traffic.heaviest_flow",
            t.heaviest_flow,
            0.0,
            1.0,
            "give a share from 0 to 1",
        )?;
        for step in &t.steps {
            within(
                "traffic.steps.from_s",
                step.from_s,
                0.0,
                LONGEST_S,
                "give 0 to 100000 s",
            )?;
            within(
                "traffic.steps.factor",
                step.factor,
                1e-6,
                line / (t.pps * greatest).max(1e-9),
                "give a factor above 0 with which the links carry the packets",
            )?;
        }
        if !t.steps.windows(2).all(|w| w[0].from_s <= w[1].from_s) {
            return bad("traffic.steps", t.steps.len(), "give them in order of time");
        }
        match &t.pattern {
            Pattern::Cbr { jitter } => within(
                "traffic.pattern.jitter",
                *jitter,
                0.0,
                1.0,
                "give a share of the gap, 0 to 1",
            ),
            Pattern::OnOff { mean_burst } => within(
                "traffic.pattern.mean_burst",
                *mean_burst,
                1.0,
                1e6,
                "a burst has 1 to 1000000 packets",
            ),
            Pattern::Poisson | Pattern::Gaps { .. } | Pattern::Capture { .. } => Ok(()),
        }
    }
}

fn sums_to_one(key: &str, shares: &[f64]) -> Result<(), SimError> {
    let sum: f64 = shares.iter().sum();
    let sound = shares.iter().all(|s| (0.0..=1.0).contains(s)) && (sum - 1.0).abs() < 1e-6;
    if shares.is_empty() || sound {
        return Ok(());
    }
    bad(
        key,
        format!("{shares:?}"),
        "give shares from 0 to 1 that sum to 1",
    )
}
