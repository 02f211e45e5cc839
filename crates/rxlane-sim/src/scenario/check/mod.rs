//! Refuses scenarios that cannot be simulated.

mod costs;
mod machine;
mod qdisc;
mod reception;
mod tcp;
mod traffic;
mod worker;

use rxlane_policy::{Bps, Pps};

use super::Scenario;
use crate::SimError;

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
        self.check_tcp()?;
        self.check_machine()?;
        self.check_costs()?;
        self.check_reception()?;
        self.check_worker()?;
        self.custom.check(self)
    }

    /// Frames a second that a link carries.
    pub fn line_rate(&self) -> Pps {
        Bps(self.nic.link_bps).line_rate(self.traffic.frame)
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
}

fn time(key: &str, value: f64) -> Result<(), SimError> {
    within(key, value, 0.0, 1e9, "give 0 to 1e9")
}
