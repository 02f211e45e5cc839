//! Loads that change: steps, ramps, and bursts by repeating them.

use std::time::Duration;

use serde::Serialize;

use crate::layout::{BINS, STAGES};

/// A ramp is so many steps.
const STEPS_OF_A_RAMP: u32 = 50;
/// Lengths of a profile.
const SHORTEST: Duration = Duration::from_millis(10);
const LONGEST: Duration = Duration::from_secs(600);

/// A part of a profile, in multiples of what the kernel forwards without loss.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Stage {
    /// Load at its beginning.
    pub from: f64,
    /// Load at its end; in between it grows or falls evenly.
    pub to: f64,
    /// How long it lasts, s.
    pub seconds: f64,
}

/// Stages that follow each other.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Profile {
    /// In the order of time.
    pub stages: Vec<Stage>,
}

impl std::str::FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (times, stages) = match text.split_once('*') {
            Some((times, stages)) => {
                let times = times
                    .parse::<usize>()
                    .ok()
                    .filter(|n| (1..=STAGES).contains(n));
                let times = times.ok_or_else(|| format!("`{text}`: repeat 1 to {STAGES} times"))?;
                let inner = stages.strip_prefix('(').and_then(|s| s.strip_suffix(')'));
                let inner = inner.ok_or_else(|| {
                    format!("`{text}`: put what is repeated into brackets: 10*(2x@10ms,0.1x@90ms)")
                })?;
                (times, inner)
            }
            None => (1, text),
        };
        let once: Vec<Stage> = stages.split(',').map(stage).collect::<Result<_, _>>()?;
        let profile = Self {
            stages: once.repeat(times),
        };
        let length = profile.length();
        if length < SHORTEST || length > LONGEST {
            return Err(format!(
                "`{text}` lasts {} s: use {} to {} s",
                length.as_secs_f64(),
                SHORTEST.as_secs_f64(),
                LONGEST.as_secs_f64()
            ));
        }
        if profile.steps().len() > STAGES {
            return Err(format!(
                "`{text}` has too many stages: {STAGES} at most, of which a ramp takes {STEPS_OF_A_RAMP}"
            ));
        }
        Ok(profile)
    }
}

/// `3x@500ms`, or `0.3x-3x@1s`.
fn stage(text: &str) -> Result<Stage, String> {
    let bad =
        || format!("`{text}` is no stage: write LOAD@TIME, as 3x@500ms, or 0.3x-3x@1s for a ramp");
    let (loads, time) = text.trim().split_once('@').ok_or_else(bad)?;
    let (from, to) = loads.split_once('-').unwrap_or((loads, loads));
    let load = |word: &str| {
        let number = word.strip_suffix('x')?.parse::<f64>().ok()?;
        (number.is_finite() && number > 0.0).then_some(number)
    };
    let (number, unit) = match time.strip_suffix("ms") {
        Some(number) => (number, 1e-3),
        None => (time.strip_suffix('s').ok_or_else(bad)?, 1.0),
    };
    let number: f64 = number.parse().map_err(|_| bad())?;
    let seconds = number * unit;
    if !(seconds.is_finite() && seconds > 0.0 && seconds <= LONGEST.as_secs_f64()) {
        return Err(bad());
    }
    Ok(Stage {
        from: load(from).ok_or_else(bad)?,
        to: load(to).ok_or_else(bad)?,
        seconds,
    })
}

impl Profile {
    /// How long all of it lasts.
    pub fn length(&self) -> Duration {
        Duration::from_secs_f64(self.stages.iter().map(|s| s.seconds).sum())
    }

    /// The bin into which time is divided: a ms, or more where there would be too many.
    pub(crate) fn bin(&self) -> Duration {
        let most = self.length() / (BINS as u32 - 1);
        most.max(Duration::from_millis(1))
    }

    /// Its loads one after the other, with the time in s at which each ends.
    pub(crate) fn steps(&self) -> Vec<(f64, f64)> {
        let (mut steps, mut at) = (Vec::new(), 0.0);
        for stage in &self.stages {
            let n = if stage.from == stage.to {
                1
            } else {
                STEPS_OF_A_RAMP
            };
            for i in 0..n {
                let middle = (f64::from(i) + 0.5) / f64::from(n);
                let load = stage.from + (stage.to - stage.from) * middle;
                steps.push((load, at + stage.seconds * f64::from(i + 1) / f64::from(n)));
            }
            at += stage.seconds;
        }
        steps
    }

    /// Packets that it has in all, at so many a second for a load of 1.
    pub(crate) fn packets(&self, capacity_pps: f64) -> f64 {
        let loads = self
            .stages
            .iter()
            .map(|s| (s.from + s.to) / 2.0 * s.seconds);
        loads.sum::<f64>() * capacity_pps
    }
}

impl std::fmt::Display for Stage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.from == self.to {
            write!(f, "{}x", self.from)
        } else {
            write!(f, "{}x-{}x", self.from, self.to)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_ramps_and_bursts_are_read() {
        let steps: Profile = "0.3x@500ms,3x@1s,0.3x@0.5s".parse().unwrap();
        assert_eq!(steps.length(), Duration::from_secs(2));
        assert_eq!(steps.steps(), [(0.3, 0.5), (3.0, 1.5), (0.3, 2.0)]);
        let ramp: Profile = "0x-2x@1s".replace("0x", "1x").parse().unwrap();
        assert_eq!(ramp.steps().len(), 50);
        assert!((ramp.packets(1000.0) - 1500.0).abs() < 1e-9);
        let bursts: Profile = "10*(2x@10ms,0.1x@90ms)".parse().unwrap();
        assert_eq!(bursts.stages.len(), 20);
        assert!((bursts.length().as_secs_f64() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_profile_is_named_with_what_would_be_one() {
        for bad in [
            "",
            "3x",
            "3@1s",
            "-3x@1s",
            "0x@1s",
            "3x@1",
            "3x@-1s",
            "nanx@1s",
            "3x@1000s",
            "1x@1ms",
            "0*(1x@1s)",
            "2*1x@1s",
            "600*(1x@1ms)",
            "20*(1x-2x@1ms)",
        ] {
            assert!(bad.parse::<Profile>().is_err(), "{bad}");
        }
    }

    #[test]
    fn bins_are_a_ms_or_as_many_as_there_is_room_for() {
        let short: Profile = "1x@1s".parse().unwrap();
        assert_eq!(short.bin(), Duration::from_millis(1));
        let long: Profile = "1x@100s".parse().unwrap();
        assert!(long.length().as_nanos() / long.bin().as_nanos() < BINS as u128);
    }
}
