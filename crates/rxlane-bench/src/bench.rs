//! The measurements: latency at one rate, throughput by search, and sweeps over load and RT ratio.

use hdrhistogram::Histogram;

use crate::by_core;
use crate::core_use::CoreUse;
pub use crate::dut::{DUTS, Dut, EngineVariant};
use crate::hog::Hog;
use crate::in_turn::in_turn;
use crate::median::median;
pub use crate::options::{Offered, Options};
use crate::results::{ByPair, DutResult, LatencyReport, ThroughputReport};
pub use crate::results::{Prediction, SweepPoint, SweepReport};
pub use crate::search::Search;
use crate::search::{LOWEST_PPS, kernel_capacity, search};
use crate::session::{Session, in_lab};
use crate::traffic::CLASSES;
pub use crate::traffic::{Pattern, Traffic};
use crate::trial::Trial;
pub use crate::trial::{ClassResult, Latency};
pub use crate::wire::RealPorts;

use crate::BenchError;

fn resolve(offered: Offered, session: &mut Session) -> Result<(f64, Option<f64>), BenchError> {
    match offered {
        Offered::Pps(pps) => Ok((pps, None)),
        Offered::TimesKernel(_) if session.lab.is_none() => Err(BenchError::Parameter(
            "a multiple (2x) needs the lab's kernel to compare with: give packets a second".into(),
        )),
        Offered::TimesKernel(times) => {
            let capacity = kernel_capacity(session)?;
            Ok((times * capacity, Some(capacity)))
        }
    }
}

/// Latency and loss of every device at one rate.
///
/// # Errors
/// What [`BenchError`] names; a generator that fell behind is no error but an invalid report.
pub fn latency(options: &Options, offered: Offered) -> Result<LatencyReport, BenchError> {
    let steps = options.duts.len() as u64 * u64::from(options.repeat);
    in_lab(options, steps, |session| {
        let (pps, kernel_capacity_pps) = resolve(offered, session)?;
        let rounds = rounds(options, session, pps)?;
        let names: Vec<&str> = options.duts.iter().map(Dut::name).collect();
        Ok(LatencyReport {
            valid: rounds.iter().flatten().all(|t| t.valid),
            offered_pps: pps,
            kernel_capacity_pps: kernel_capacity_pps.unwrap_or(0.0),
            seconds: options.seconds,
            repeat: options.repeat,
            hog: options.hog,
            tcp: options.tcp,
            traffic: options.traffic.clone(),
            settings: session.settings(),
            duts: names
                .iter()
                .enumerate()
                .map(|(i, name)| summarise(name, rounds.iter().map(|r| &r[i])))
                .collect(),
            ratios: ratios(&names, &rounds, median),
            spread: ratios(&names, &rounds, ends),
            latency_ns: (0..names.len())
                .map(|i| merge(rounds.iter().map(|r| &r[i])))
                .collect(),
        })
    })
}

/// All devices in turn, again and again: a drift of the machine hits them alike.
fn rounds(
    options: &Options,
    session: &mut Session,
    pps: f64,
) -> Result<Vec<Vec<Trial>>, BenchError> {
    let mut rounds = Vec::new();
    for round in 0..options.repeat {
        rounds.push(in_turn(round, options.duts.len(), |i| {
            let dut = &options.duts[i];
            session.bar.set_message(format!(
                "{} at {:.3} Mpps, round {}",
                dut.name(),
                pps / 1e6,
                round + 1
            ));
            session.trial(dut, pps, options.seconds)
        })?);
    }
    Ok(rounds)
}

pub(crate) fn summarise<'a>(name: &str, trials: impl Iterator<Item = &'a Trial>) -> DutResult {
    let trials: Vec<&Trial> = trials.collect();
    let of = |f: &dyn Fn(&Trial) -> f64| median(trials.iter().map(|t| f(t)));
    let mut core = CoreUse::default();
    for seen in trials.iter().filter_map(|t| t.core) {
        core += seen;
    }
    DutResult {
        name: name.into(),
        offered_pps: of(&|t| t.sent_pps),
        forwarded_pps: of(&|t| t.forwarded_pps),
        cpu: of(&|t| t.cpu),
        hog_share: of(&|t| t.hog_share),
        stalled: of(&|t| t.stalled),
        tcp_bps: of(&|t| t.tcp_bps),
        core: core.shares(of(&|t| t.cpu), of(&|t| t.hog_share)),
        cores: by_core::medians(trials.iter().map(|t| t.cores.as_slice())),
        packet_ns: median_of_known(trials.iter().map(|t| t.packet_ns)),
        wakeups_per_s: of(&|t| t.wakeups_per_s),
        worker_wakeups_per_s: of(&|t| t.worker_wakeups_per_s),
        classes: CLASSES
            .iter()
            .enumerate()
            .map(|(c, class)| {
                let of = |f: &dyn Fn(&ClassResult) -> f64| {
                    median(trials.iter().map(|t| f(&t.classes[c])))
                };
                ClassResult {
                    name: (*class).into(),
                    sent: of(&|c| c.sent),
                    received: of(&|c| c.received),
                    lost: of(&|c| c.lost),
                    lost_unstalled: of(&|c| c.lost_unstalled),
                    reordered: of(&|c| c.reordered),
                    latency_us: Latency {
                        p50: of(&|c| c.latency_us.p50),
                        p90: of(&|c| c.latency_us.p90),
                        p99: of(&|c| c.latency_us.p99),
                        p999: of(&|c| c.latency_us.p999),
                        max: of(&|c| c.latency_us.max),
                        mean: of(&|c| c.latency_us.mean),
                    },
                }
            })
            .collect(),
    }
}

/// `None` if one of them is.
fn median_of_known(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let known: Option<Vec<f64>> = values.collect();
    known.filter(|v| !v.is_empty()).map(median)
}

/// Ratios to the first device, taken within each round, and what is made of those of all rounds.
fn ratios<T>(names: &[&str], rounds: &[Vec<Trial>], summary: fn(Vec<f64>) -> T) -> ByPair<T> {
    let mut all = ByPair::new();
    for (i, name) in names.iter().enumerate().skip(1) {
        let mut one = std::collections::BTreeMap::new();
        let mut put = |what: String, of: &dyn Fn(&Trial) -> f64| {
            let each: Vec<f64> = rounds.iter().map(|r| of(&r[i]) / of(&r[0])).collect();
            if each.iter().all(|ratio| ratio.is_finite()) {
                one.insert(what, summary(each));
            }
        };
        put("forwarded".to_owned(), &|t| t.forwarded_pps);
        put("tcp".to_owned(), &|t| t.tcp_bps);
        put("cpu".to_owned(), &|t| t.cpu);
        for (c, class) in CLASSES.iter().enumerate() {
            put(format!("{class}_p50"), &|t| t.classes[c].latency_us.p50);
            put(format!("{class}_p99"), &|t| t.classes[c].latency_us.p99);
        }
        all.insert(format!("{name}/{}", names[0]), one);
    }
    all
}

fn ends(values: Vec<f64>) -> [f64; 2] {
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    [least, values.into_iter().fold(f64::NEG_INFINITY, f64::max)]
}

fn merge<'a>(trials: impl Iterator<Item = &'a Trial>) -> Vec<Histogram<u64>> {
    let mut merged: Vec<Histogram<u64>> = Vec::new();
    for trial in trials {
        for (c, histogram) in trial.latency_ns.iter().enumerate() {
            match merged.get_mut(c) {
                // Same bounds, so adding cannot fail.
                Some(sum) => sum.add(histogram).unwrap_or(()),
                None => merged.push(histogram.clone()),
            }
        }
    }
    merged
}

/// The RFC 2544 throughput of every device, searched `repeat` times in turn.
///
/// # Errors
/// What [`BenchError`] names.
pub fn throughput(options: &Options, how: Search) -> Result<ThroughputReport, BenchError> {
    if !(0.0..1.0).contains(&how.loss_tolerance)
        || !(0.001..=0.5).contains(&how.width)
        || how.trials == 0
    {
        return Err(BenchError::Parameter(
            "use --loss from 0 to 1, --width from 0.001 to 0.5 and --trials from 1".into(),
        ));
    }
    in_lab(options, 1, |session| {
        let mut found: Vec<Vec<f64>> = vec![Vec::new(); options.duts.len()];
        let mut limited = vec![false; options.duts.len()];
        for round in 0..options.repeat {
            for (i, dut) in options.duts.iter().enumerate() {
                session
                    .bar
                    .set_message(format!("{}: searching, round {}", dut.name(), round + 1));
                let rate = search(LOWEST_PPS, how.width, |pps| {
                    let mut losses = Vec::new();
                    for _ in 0..how.trials {
                        session.bar.inc_length(1);
                        let trial = session.trial(dut, pps, options.seconds)?;
                        // A rate that the generator cannot make is none that the device has shown.
                        limited[i] |= !trial.valid && trial.loss <= how.loss_tolerance;
                        losses.push(if trial.valid { trial.loss } else { 1.0 });
                    }
                    Ok(median(losses) <= how.loss_tolerance)
                })?;
                found[i].push(rate);
            }
        }
        Ok(ThroughputReport::new(
            options.duts.iter().map(Dut::name),
            &found,
            &limited,
            options.traffic.clone(),
            how,
            session.settings(),
        ))
    })
}

/// What a sweep varies.
#[derive(Debug, Clone, Copy)]
pub struct SweepAxes<'a> {
    /// Rates; multiples are of what the kernel forwards at the first share of RT, beside the first hog.
    pub loads: &'a [Offered],
    /// Shares of RT packets, 0 to 1.
    pub rt_ratios: &'a [f64],
    /// What takes its part of the router's core; `None`: nothing does.
    pub hogs: &'a [Option<Hog>],
}

/// Every device at every load and RT ratio, as Fig. 5 to 7 of low-latency-router, and beside every hog.
///
/// # Errors
/// What [`BenchError`] names.
pub fn sweep(options: &Options, axes: SweepAxes<'_>) -> Result<SweepReport, BenchError> {
    let of_each_ratio = options.duts.len() * axes.loads.len() * axes.hogs.len();
    let steps = of_each_ratio as u64 * u64::from(options.repeat);
    let mut points = Vec::new();
    let mut settings = std::collections::BTreeMap::new();
    let mut capacity = None;
    for ratio in axes.rt_ratios {
        let traffic = Traffic {
            rt_ratio: *ratio,
            ..options.traffic.clone()
        };
        let options = Options {
            traffic,
            ..options.clone()
        };
        let found = in_lab(&options, steps, |session| {
            settings = session.settings();
            let mut found = Vec::new();
            for hog in axes.hogs {
                session.share_core_with(*hog)?;
                for load in axes.loads {
                    let pps = match (*load, capacity) {
                        (Offered::TimesKernel(times), Some(capacity)) => times * capacity,
                        (load, _) => {
                            let (pps, found) = resolve(load, session)?;
                            capacity = capacity.or(found);
                            pps
                        }
                    };
                    let rounds = rounds(&options, session, pps)?;
                    for (i, dut) in options.duts.iter().enumerate() {
                        found.push(SweepPoint {
                            rt_ratio: *ratio,
                            asked_pps: pps,
                            hog: *hog,
                            valid: rounds.iter().all(|r| r[i].valid),
                            dut: summarise(dut.name(), rounds.iter().map(|r| &r[i])),
                            predicted: None,
                        });
                    }
                }
            }
            Ok(found)
        })?;
        points.extend(found);
    }
    Ok(SweepReport {
        kernel_capacity_pps: capacity.unwrap_or(0.0),
        tcp: options.tcp,
        traffic: options.traffic.clone(),
        settings,
        points,
    })
}
