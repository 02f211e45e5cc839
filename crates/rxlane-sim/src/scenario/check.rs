//! Refuses scenarios that cannot be simulated.

use rxlane_policy::strategy::StrategyName;
use rxlane_policy::{Bps, Pps};

use super::{Scenario, Scheme, Spread};
use crate::SimError;
use crate::traffic::{Pattern, wire_time};

/// Longest simulated time of a replication, s: the virtual clock has room for a hundred times more.
const LONGEST_S: f64 = 100_000.0;
const MOST_NICS: usize = 64;
const MOST_CORES: usize = 256;
const MOST_DESCRIPTORS: usize = 1 << 20;

fn bad<T: ToString>(key: &str, value: T, cure: &'static str) -> Result<(), SimError> {
    Err(SimError::Value {
        key: key.into(),
        value: value.to_string(),
        cure,
    })
}

fn within(key: &str, v: f64, min: f64, max: f64, cure: &'static str) -> Result<(), SimError> {
    if v >= min && v <= max {
        return Ok(());
    }
    bad(key, v, cure)
}

impl Scenario {
    /// Whether it can be simulated.
    ///
    /// # Errors
    /// The first value that cannot be, with what to give instead.
    pub fn check(&self) -> Result<(), SimError> {
        self.check_run()?;
        self.check_traffic()?;
        self.check_machine()?;
        self.check_costs()?;
        self.check_reception()
    }

    /// Frames a second that a link carries.
    pub fn line_rate(&self) -> Pps {
        Pps(1.0 / wire_time(self.traffic.frame, Bps(self.nic.link_bps)).as_s())
    }

    fn check_run(&self) -> Result<(), SimError> {
        within(
            "seconds",
            self.seconds,
            1e-6,
            LONGEST_S,
            "give 0.000001 to 100000 s",
        )?;
        within(
            "warmup_s",
            self.warmup_s,
            0.0,
            LONGEST_S,
            "give 0 to 100000 s",
        )?;
        if self.replications == 0 || self.replications > 10_000 {
            return bad("replications", self.replications, "give 1 to 10000");
        }
        Ok(())
    }

    fn check_traffic(&self) -> Result<(), SimError> {
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
        if t.shares.len() > rxlane_policy::class::MAX_CLASSES {
            return bad(
                "traffic.shares",
                t.shares.len(),
                "there are at most 8 classes",
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
            Pattern::Poisson | Pattern::Gaps { .. } => Ok(()),
        }
    }

    fn check_machine(&self) -> Result<(), SimError> {
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
        }
        Ok(())
    }

    fn check_costs(&self) -> Result<(), SimError> {
        let c = &self.cpu;
        for (key, ns) in [
            ("nic.dma_ns", self.nic.dma_ns),
            ("nic.fixed_latency_us", self.nic.fixed_latency_us),
            ("interrupt.delivery_ns", self.interrupt.delivery_ns),
            ("interrupt.tx_delay_ns", self.interrupt.tx_delay_ns),
            ("cpu.isr_ns", c.isr_ns),
            ("cpu.wake_ns", c.wake_ns),
            ("cpu.softirq_ns", c.softirq_ns),
            ("cpu.poll_ns", c.poll_ns),
            ("cpu.ring_ns", c.ring_ns),
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
            let classes = self.traffic.class_shares().len();
            if s.classes.iter().any(|c| *c >= classes) {
                return bad(
                    "stage.classes",
                    format!("{:?}", s.classes),
                    "number classes from 0, the highest",
                );
            }
        }
        for d in &c.disturbance {
            time("cpu.disturbance.ns", d.ns)?;
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
        if let Some(p) = c.process {
            time("cpu.process.after_us", p.after_us)?;
            time("cpu.process.slice_us", p.slice_us)?;
        }
        Ok(())
    }

    fn check_reception(&self) -> Result<(), SimError> {
        let r = &self.reception;
        if r.scheme == Scheme::Express {
            self.check_express()?;
        }
        if r.scheme != Scheme::Napi && r.strategy != StrategyName::Sq {
            return bad(
                "reception.strategy",
                "not sq",
                "only NAPI has a ring a class: use sq, or scheme = \"napi\"",
            );
        }
        if r.scheme != Scheme::Softnet && self.cpu.spread == Spread::RoundRobin {
            return bad(
                "cpu.spread",
                "round-robin",
                "NAPI polls a device on one core at a time: use flows, or scheme = \"softnet\"",
            );
        }
        if r.interrupt_work == 0 || r.backlog == 0 {
            return bad("reception.interrupt_work and backlog", 0, "use at least 1");
        }
        time("reception.mitigation_us", r.mitigation_us)?;
        r.strategy()
            .layout(self.traffic.class_shares().len(), r.device_budget, r.order)?;
        self.interrupt.throttling.start()?;
        Ok(())
    }
}

impl Scenario {
    fn check_express(&self) -> Result<(), SimError> {
        let e = &self.express;
        let classes = self.traffic.class_shares().len();
        for (key, ns) in [
            ("express.redirect_ns", e.redirect_ns),
            ("express.drop_ns", e.drop_ns),
            ("express.flush_ns", e.flush_ns),
            ("express.clock_ns", e.clock_ns),
            ("express.target_us", e.target_us),
        ] {
            time(key, ns)?;
        }
        within(
            "express.window_ms",
            e.window_ms,
            0.1,
            1e6,
            "give 0.1 to 1e6 ms",
        )?;
        if !(1..=4096).contains(&e.stack_batch) {
            return bad(
                "express.stack_batch",
                e.stack_batch,
                "the stack takes packets by 1 to 4096",
            );
        }
        if e.classes == 0 || e.classes > classes {
            return bad(
                "express.classes",
                e.classes,
                "at least the highest class is express, and there are no more than all",
            );
        }
        if !e.weights.is_empty() && e.weights.len() != classes - e.classes {
            return bad(
                "express.weights",
                e.weights.len(),
                "give a weight for each stack class, or none",
            );
        }
        if self.host.is_some() || self.interrupt.tx_completion || self.cpu.process.is_some() {
            return bad(
                "reception.scheme",
                "express",
                "without host, cpu.process and interrupt.tx_completion: leave them out",
            );
        }
        Ok(())
    }
}

fn time(key: &str, value: f64) -> Result<(), SimError> {
    within(key, value, 0.0, 1e9, "give 0 to 1e9")
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
