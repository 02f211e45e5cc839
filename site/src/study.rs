//! One scenario, a replication at a time.

use rxlane_sim::histogram::Latencies;
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::output::{Format, write};
use rxlane_sim::run::{Row, estimates};
use rxlane_sim::scenario::Scenario;
use rxlane_sim::tally::LoadSamples;

use crate::answer::Answer;
use crate::settings::{Settled, settle};
use crate::{Bound, SiteError, bound};

/// A scenario with the replications of it that have been simulated. After some of them the numbers are those of the
/// command with so many replications, after all of them those of the command.
#[derive(Debug)]
pub struct Study {
    settled: Settled,
    outcomes: Vec<Outcome>,
    loads: LoadSamples,
    latencies: Vec<Latencies>,
}

impl Study {
    /// A study of these settings: `KEY=VALUE` lines with the keys of a scenario file.
    ///
    /// # Errors
    /// [`SiteError`], one line that begins with the key.
    pub fn new(settings: &str) -> Result<Self, SiteError> {
        let settled = settle(settings)?;
        let classes = settled.loaded.scenario.traffic.class_shares().len();
        Ok(Self {
            settled,
            outcomes: Vec::new(),
            loads: LoadSamples::default(),
            latencies: vec![Latencies::default(); classes],
        })
    }

    /// The scenario as a file that `rxlane-lab sim run` takes.
    pub fn toml(&self) -> &str {
        &self.settled.text
    }

    /// What is simulated.
    pub fn scenario(&self) -> &Scenario {
        &self.settled.loaded.scenario
    }

    /// How long RT may wait by Eq. 1 of low-latency-router.
    pub fn bound(&self) -> Bound {
        bound(self.scenario())
    }

    /// Simulates the next replication. Returns whether there are more.
    ///
    /// # Errors
    /// [`SiteError::Sim`].
    pub fn step(&mut self) -> Result<bool, SiteError> {
        let next = self.outcomes.len() as u32;
        let all = self.scenario().replications;
        if next < all {
            let outcome = simulate(self.scenario(), next)
                .map_err(|e| SiteError::of(e, &self.settled.text))?;
            self.loads.merge(&outcome.loads);
            for (sum, of) in self.latencies.iter_mut().zip(&outcome.latencies) {
                sum.merge(of);
            }
            self.outcomes.push(outcome);
        }
        Ok(next + 1 < all)
    }

    /// What has come of it so far.
    pub fn answer(&self) -> Answer {
        Answer::new(
            self.scenario(),
            &self.row(),
            self.outcomes.len(),
            &self.latencies,
        )
    }

    /// What `rxlane-lab sim run --json` prints of it.
    ///
    /// # Errors
    /// [`SiteError::Sim`].
    pub fn json(&self) -> Result<String, SiteError> {
        let mut text = Vec::new();
        write(&mut [self.row()], Format::Json, &mut text)?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    fn row(&self) -> Row {
        Row {
            index: 0,
            case: String::new(),
            keys: Default::default(),
            metrics: estimates(&self.outcomes),
            loads: self.loads.counts().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use rxlane_sim::run::run_point;
    use rxlane_sim::scenario::parse;
    use rxlane_sim::sweep::Sweep;

    use super::*;

    const SETTINGS: &str = "seconds=0.01\nreplications=3\ntraffic.pps=1.6e6\ntraffic.rt_ratio=0.3\n\
        reception.strategy=ll-wfq\nreception.budgets=[60,4]\ncpu.sample_s=0.001";

    #[test]
    fn after_all_steps_it_is_what_the_command_makes_of_the_exported_file() {
        let mut study = Study::new(SETTINGS).unwrap();
        while study.step().unwrap() {}
        assert!(!study.step().unwrap(), "a further step changes nothing");
        let loaded = parse(study.toml(), "planner.toml".as_ref(), &[]).unwrap();
        let sweep = Sweep::new(&loaded).unwrap();
        let mut of_command = Vec::new();
        let row = run_point(&sweep.point(0).unwrap()).unwrap();
        write(&mut [row], Format::Json, &mut of_command).unwrap();
        assert_eq!(study.json().unwrap().as_bytes(), of_command);
    }

    #[test]
    fn after_some_steps_it_is_the_command_with_so_many_replications() {
        let mut study = Study::new(SETTINGS).unwrap();
        study.step().unwrap();
        let mut once = Study::new(&format!("{SETTINGS}\nreplications=1")).unwrap();
        once.step().unwrap();
        assert_eq!(study.json().unwrap(), once.json().unwrap());
    }
}
