//! Realtime response under load (RRUL, Taht 2012): four TCP connections each way, each in a code point of its own, beside
//! probes in three. Probes begin before the load and end behind it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant, SystemTime};

use rxlane_system::stop;
use serde::Serialize;

use super::exchange::{EF, Exchange, Kind};
use super::load::{Direction, Load};
use super::options::Options;
use super::quality::quantile;
use super::rounds::{rounds, settings};
use super::trial::{Scene, hosts};
use crate::BenchError;
use crate::bulk::Bulk;
use crate::dut::Dut;
use crate::lab::{Lab, LabConfig};
use crate::session::{check, progress};

/// Before the load and behind it, and between two looks, as flent has them.
const DELAY: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(200);
/// Types of service and their names. CS5 is for signalling, CS1 for what may wait (RFC 4594, RFC 3662).
const CONNECTIONS: [(u8, &str); 4] = [(0, "BE"), (1 << 5, "BK"), (5 << 5, "CS5"), (EF, "EF")];
const TOS: [u8; 4] = [
    CONNECTIONS[0].0,
    CONNECTIONS[1].0,
    CONNECTIONS[2].0,
    CONNECTIONS[3].0,
];
const PROBES: [(u8, &str); 3] = [(EF, "EF"), (1 << 5, "BK"), (0, "BE")];

/// Devices in turn.
#[derive(Debug, Clone, Serialize)]
pub struct RrulReport {
    /// How long the load lasts, s.
    pub seconds: f64,
    /// How long probes are alone before it, and after it, s.
    pub delay_s: f64,
    /// Time between two looks at connections, s.
    pub step_s: f64,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// What TCP did.
    #[serde(flatten)]
    pub load: Load,
    /// In the order in which they were measured.
    pub trials: Vec<RrulTrial>,
}

/// One device, once.
#[derive(Debug, Clone, Serialize)]
pub struct RrulTrial {
    /// Name of the device.
    pub dut: String,
    /// Which of its trials, from 1 on.
    pub round: u32,
    /// When it began.
    pub began: SystemTime,
    /// Segments sent again.
    pub retransmits: f64,
    /// Connections (Mbit/s), then probes (ms), by the names that flent gives them.
    pub series: Vec<Series>,
}

/// Something over time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Series {
    /// Its name.
    pub name: String,
    /// Probes that did not come back.
    pub lost: u64,
    /// Seconds since the trial began, and the value then.
    pub points: Vec<(f64, f64)>,
}

/// Measures each device in turn, with connections of `load` other than their number and direction.
///
/// # Errors
/// As [`super::call`].
pub fn rrul(options: &Options, load: &Load) -> Result<RrulReport, BenchError> {
    check(&options.duts, options.seconds, 1.0, options.repeat)?;
    stop::listen();
    let load = Load {
        flows: CONNECTIONS.len() as u32,
        direction: Direction::Both,
        ..load.clone()
    };
    let lab = Lab::up(LabConfig {
        firewall: load.firewall,
        hosts_send: !options.in_xdp,
        ..options.lab.clone()
    })?;
    let bar = progress(options.duts.len() as u64 * u64::from(options.repeat));
    let measure = || {
        hosts(&lab, options)?;
        let trials = rounds(options, load.firewall, &bar, |dut, round| {
            one(&lab, dut, round, &load, options)
        })?;
        Ok::<_, BenchError>(RrulReport {
            seconds: options.seconds,
            delay_s: DELAY.as_secs_f64(),
            step_s: STEP.as_secs_f64(),
            settings: settings(options, lab.tune()?.settings),
            load: load.clone(),
            trials: trials.into_iter().flatten().collect(),
        })
    };
    let outcome = measure();
    bar.finish_and_clear();
    lab.down()?;
    outcome
}

/// What was read of each connection at one moment.
type Look = (Instant, Vec<u64>);

fn one(
    lab: &Lab,
    dut: &Dut,
    round: u32,
    load: &Load,
    options: &Options,
) -> Result<RrulTrial, BenchError> {
    let scene = Scene::set(lab, dut, load, options)?;
    let mut tcp = scene.connect(load, options.paced_bps, &TOS)?;
    let probes = PROBES.map(|(tos, _)| Exchange::begin(&scene.hosts, Kind::calls(1, tos)));
    let probes = probes.into_iter().collect::<Result<Vec<_>, _>>()?;
    let (began, at) = (Instant::now(), SystemTime::now());
    probes.iter().for_each(|probe| probe.count(true));
    stop::sleep(DELAY)?;
    tcp.send()?;
    let looks = watch(&tcp, Duration::from_secs_f64(options.seconds))?;
    let retransmits = tcp.info()?.retransmits as f64;
    drop(tcp);
    stop::sleep(DELAY)?;
    let mut series = rates(&looks, began);
    for (probe, (_, name)) in probes.into_iter().zip(PROBES) {
        let heard = probe.end()?;
        let since = |at: Instant| at.saturating_duration_since(began).as_secs_f64();
        series.push(Series {
            name: format!("Ping (ms) UDP {name}"),
            lost: heard.sent.saturating_sub(heard.round_trips.len() as u64),
            points: heard
                .round_trips
                .iter()
                .map(|(at, us)| (since(*at), us / 1e3))
                .collect(),
        });
    }
    scene.clear()?;
    Ok(RrulTrial {
        dut: dut.name().to_owned(),
        round,
        began: at,
        retransmits,
        series,
    })
}

fn watch(tcp: &Bulk, length: Duration) -> Result<Vec<Look>, BenchError> {
    let began = Instant::now();
    let mut looks = vec![(began, tcp.received_by_each())];
    while began.elapsed() < length {
        let next = STEP * looks.len() as u32;
        stop::sleep(next.saturating_sub(began.elapsed()))?;
        looks.push((Instant::now(), tcp.received_by_each()));
    }
    Ok(looks)
}

/// What each connection brought between two looks, Mbit/s, at the later one.
fn rates(looks: &[Look], began: Instant) -> Vec<Series> {
    let names = ["upload", "download"].into_iter();
    let names = names.flat_map(|way| CONNECTIONS.map(|(_, mark)| format!("TCP {way} {mark}")));
    let of = |(i, name): (usize, String)| {
        let between = looks.windows(2).filter_map(|pair| {
            let [(before, was), (after, is)] = pair else {
                return None;
            };
            let bits = 8.0 * is.get(i)?.saturating_sub(*was.get(i)?) as f64;
            let s = (*after - *before).as_secs_f64().max(1e-6);
            Some(((*after - began).as_secs_f64(), bits / s / 1e6))
        });
        Series {
            name,
            lost: 0,
            points: between.collect(),
        }
    };
    names.enumerate().map(of).collect()
}

/// The value below which a share of a series' points lies, of those within a part of the time.
pub(crate) fn within(series: &Series, from_s: f64, to_s: f64, share: f64) -> Option<f64> {
    let inside = series
        .points
        .iter()
        .filter(|(s, _)| (from_s..to_s).contains(s));
    quantile(&inside.map(|(_, value)| *value).collect::<Vec<_>>(), share)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_the_time_between_two_looks_and_uploads_come_first() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let counts = |of_each: u64| (0..8).map(|i| of_each * i).collect::<Vec<u64>>();
        let looks = [
            (at(5000), counts(0)),
            (at(5200), counts(25_000)),
            (at(5600), counts(75_000)),
        ];
        let series = rates(&looks, began);
        assert_eq!(series.len(), 8);
        assert_eq!(series[1].name, "TCP upload BK");
        assert_eq!(series[7].name, "TCP download EF");
        assert_eq!(series[1].points, [(5.2, 1.0), (5.6, 1.0)]);
        assert_eq!(series[7].points, [(5.2, 7.0), (5.6, 7.0)]);
        assert_eq!(within(&series[7], 5.0, 5.3, 0.5), Some(7.0));
        assert_eq!(within(&series[7], 6.0, 7.0, 0.5), None);
    }
}
