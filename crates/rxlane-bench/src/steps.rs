//! A load that changes, and who loses packets when.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::BenchError;
use crate::layout::Bin;
use crate::median::median;
use crate::options::Options;
use crate::profile::Profile;
use crate::search::kernel_capacity;
use crate::session::{Session, in_lab};
use crate::traffic::Traffic;
use crate::trial::Course;

/// Devices under a load that changes.
#[derive(Debug, Clone, Serialize)]
pub struct StepsReport {
    /// False when the generator fell behind.
    pub valid: bool,
    /// What the kernel forwards without loss, packets a second: a load of 1.
    pub capacity_pps: f64,
    /// The load.
    pub profile: Profile,
    /// Width of the bins of `points`, ms.
    pub bin_ms: f64,
    /// Trials of each device.
    pub repeat: u32,
    /// What was offered.
    pub traffic: Traffic,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// In the order of `--dut`.
    pub duts: Vec<StepsDut>,
}

/// One device.
#[derive(Debug, Clone, Serialize)]
pub struct StepsDut {
    /// Its name.
    pub name: String,
    /// Medians over trials, stage by stage.
    pub stages: Vec<StageResult>,
    /// All trials together, bin by bin.
    pub points: Vec<StepsPoint>,
}

/// What became of the packets sent in a stage. Pairs are RT and BE.
#[derive(Debug, Clone, Serialize)]
pub struct StageResult {
    /// The load, or where it begins and ends.
    pub load: String,
    /// When the stage begins, s.
    pub begins_s: f64,
    /// Packets sent.
    pub sent: [f64; 2],
    /// Of these, lost.
    pub lost: [f64; 2],
    /// How long after the beginning of the stage the last lost packet was sent, ms; 0: none was. Of RT under overload
    /// this is the time to protection, of all after it the time to release.
    pub last_loss_ms: [f64; 2],
    /// The longest latency, us.
    pub max_us: [f64; 2],
}

/// What became of the packets sent within one bin. Pairs are RT and BE.
#[derive(Debug, Clone, Serialize)]
pub struct StepsPoint {
    /// Its middle, ms.
    pub at_ms: f64,
    /// Packets sent, in all trials.
    pub sent: [f64; 2],
    /// Of these, lost.
    pub lost: [f64; 2],
    /// The longest latency, us.
    pub max_us: [f64; 2],
}

/// What a profile does to each device, in turns.
///
/// # Errors
/// What [`BenchError`] names; a generator that fell behind is no error but an invalid report.
pub fn steps(options: &Options, profile: &Profile) -> Result<StepsReport, BenchError> {
    let trials = options.duts.len() as u64 * u64::from(options.repeat);
    in_lab(options, trials, |session| {
        let capacity_pps = kernel_capacity(session)?;
        let mut courses: Vec<Vec<Course>> = vec![Vec::new(); options.duts.len()];
        for round in 0..options.repeat {
            for (dut, courses) in options.duts.iter().zip(&mut courses) {
                let name = dut.name();
                session
                    .bar
                    .set_message(format!("{name}, round {}", round + 1));
                courses.push(one(session, dut, capacity_pps, profile)?);
            }
        }
        Ok(StepsReport {
            valid: courses.iter().flatten().all(|c| c.valid),
            capacity_pps,
            profile: profile.clone(),
            bin_ms: profile.bin().as_secs_f64() * 1e3,
            repeat: options.repeat,
            traffic: options.traffic.clone(),
            settings: session.settings(),
            duts: options
                .duts
                .iter()
                .zip(&courses)
                .map(|(dut, courses)| result(dut.name(), profile, courses))
                .collect(),
        })
    })
}

fn one(
    session: &mut Session,
    dut: &crate::dut::Dut,
    capacity_pps: f64,
    profile: &Profile,
) -> Result<Course, BenchError> {
    let (installed, _) = session.install(dut)?;
    let mut course = session.bed.follow(capacity_pps, profile)?;
    if !course.valid {
        course = session.bed.follow(capacity_pps, profile)?;
    }
    drop(installed);
    session.bar.inc(1);
    Ok(course)
}

fn lost(sent: &Bin, received: &Bin, class: usize) -> u32 {
    sent.packets[class].saturating_sub(received.packets[class])
}

fn result(name: &str, profile: &Profile, courses: &[Course]) -> StepsDut {
    let bin_s = profile.bin().as_secs_f64();
    let mut stages = Vec::new();
    let mut begins_s = 0.0;
    for stage in &profile.stages {
        let first = (begins_s / bin_s).round() as usize;
        let end = ((begins_s + stage.seconds) / bin_s).round() as usize;
        let of = |f: &dyn Fn(&Course, usize) -> f64| {
            [0, 1].map(|class| median(courses.iter().map(|c| f(c, class))))
        };
        let bins = |c: &Course| -> Vec<(Bin, Bin)> {
            let pairs = c.sent.iter().zip(&c.received).skip(first);
            pairs.take(end - first).map(|(s, r)| (*s, *r)).collect()
        };
        stages.push(StageResult {
            load: stage.to_string(),
            begins_s,
            sent: of(&|c, class| {
                bins(c)
                    .iter()
                    .map(|(s, _)| f64::from(s.packets[class]))
                    .sum()
            }),
            lost: of(&|c, class| {
                let bins = bins(c);
                bins.iter().map(|(s, r)| f64::from(lost(s, r, class))).sum()
            }),
            last_loss_ms: of(&|c, class| {
                let last = bins(c).iter().rposition(|(s, r)| lost(s, r, class) > 0);
                last.map_or(0.0, |bin| (bin + 1) as f64 * bin_s * 1e3)
            }),
            max_us: of(&|c, class| {
                let max = bins(c).iter().map(|(_, r)| r.max_ns[class]).max();
                f64::from(max.unwrap_or(0)) / 1e3
            }),
        });
        begins_s += stage.seconds;
    }
    StepsDut {
        name: name.into(),
        stages,
        points: points(courses, (begins_s / bin_s).round() as usize, bin_s),
    }
}

/// All rounds together, bin by bin.
fn points(courses: &[Course], bins: usize, bin_s: f64) -> Vec<StepsPoint> {
    let sum = |f: &dyn Fn(&Course) -> u32| courses.iter().map(|c| f64::from(f(c))).sum();
    let max = |f: &dyn Fn(&Course) -> u32| courses.iter().map(f).max().unwrap_or(0);
    (0..bins)
        .map(|bin| StepsPoint {
            at_ms: (bin as f64 + 0.5) * bin_s * 1e3,
            sent: [0, 1].map(|class| sum(&|c| c.sent[bin].packets[class])),
            lost: [0, 1].map(|class| sum(&|c| lost(&c.sent[bin], &c.received[bin], class))),
            max_us: [0, 1].map(|class| f64::from(max(&|c| c.received[bin].max_ns[class])) / 1e3),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_belong_to_the_stage_in_which_the_packets_were_sent() {
        let profile: Profile = "0.5x@5ms,2x@10ms,0.5x@5ms".parse().unwrap();
        let bin = |rt, be| Bin {
            packets: [rt, be],
            max_ns: [1000 * rt, 0],
        };
        let sent = vec![bin(1, 4); 20];
        let mut received = sent.clone();
        // RT once in the third ms of overload; BE from there to the first ms after it.
        received[7] = bin(0, 4);
        for bin in &mut received[7..16] {
            bin.packets[1] = 1;
        }
        let course = Course {
            valid: true,
            sent,
            received,
        };
        let found = result("d", &profile, &[course]);
        let [before, overload, after] = &found.stages[..] else {
            panic!("three stages")
        };
        assert_eq!((before.sent, before.lost), ([5.0, 20.0], [0.0, 0.0]));
        assert_eq!(
            (overload.lost, overload.last_loss_ms),
            ([1.0, 24.0], [3.0, 10.0])
        );
        assert_eq!((after.lost, after.last_loss_ms), ([0.0, 3.0], [0.0, 1.0]));
        assert_eq!(overload.max_us, [1.0, 0.0]);
        assert_eq!(found.points.len(), 20);
        assert_eq!(found.points[7].lost, [1.0, 3.0]);
    }
}
