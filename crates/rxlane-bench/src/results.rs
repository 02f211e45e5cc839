//! What measurements give: medians of devices, and what they were made of. docs/src/reference/bench-json.md documents the JSON.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::by_core::CoreResult;
use crate::core_use::CoreShares;
use crate::hog::Hog;
use crate::median::median;
use crate::search::Search;
use crate::traffic::Traffic;
use crate::trial::ClassResult;

/// Something of each pair of a device and the first, by the names of pair and quantity.
pub type ByPair<T> = BTreeMap<String, BTreeMap<String, T>>;
/// Ratios of one device to the first.
pub type Ratios = ByPair<f64>;

/// Medians of one device.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct DutResult {
    /// Name of the device.
    pub name: String,
    /// What the generator really sent, packets a second.
    pub offered_pps: f64,
    /// What arrived at the sink, packets a second.
    pub forwarded_pps: f64,
    /// Utilisation of the router's core by anybody, a hog included, 0 to 1; of several cores the mean, and where they are
    /// shared of the router alone.
    pub cpu: f64,
    /// Share of the router's core that a hog really had, 0 to 1.
    #[serde(default)]
    pub hog_share: f64,
    /// Share of the time in which nothing arrived, as with a machine that stands still, 0 to 1.
    pub stalled: f64,
    /// What bulk TCP connections brought beside the packets, bits a second.
    #[serde(default)]
    pub tcp_bps: f64,
    /// What the router's core was found doing, in all trials together; `None` where it was not sampled.
    #[serde(default)]
    pub core: Option<CoreShares>,
    /// Each core of the router, where it has several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cores: Vec<CoreResult>,
    /// What the router's threads ran for each packet that they took from the ingress ports' rings, whatever became of it, ns;
    /// `None` where these are not of a lab.
    #[serde(default)]
    pub packet_ns: Option<f64>,
    /// Times a second that the router's NAPI threads were woken: interrupts.
    pub wakeups_per_s: f64,
    /// Times a second that workers of the AF_XDP engine were woken: its interrupts.
    pub worker_wakeups_per_s: f64,
    /// By class, RT first.
    pub classes: Vec<ClassResult>,
}

/// Latency and loss at one rate.
#[derive(Debug, Clone, Serialize)]
pub struct LatencyReport {
    /// False when the generator fell behind in any trial: then nothing here is a result.
    pub valid: bool,
    /// Rate asked for, packets a second.
    pub offered_pps: f64,
    /// The kernel's capacity, where it was measured, else 0.
    pub kernel_capacity_pps: f64,
    /// Length of a trial.
    pub seconds: f64,
    /// Repetitions behind each median.
    pub repeat: u32,
    /// What took its part of the router's core.
    pub hog: Option<Hog>,
    /// Bulk TCP connections beside the packets.
    pub tcp: u32,
    /// What was offered.
    pub traffic: Traffic,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// The devices, in the order given.
    pub duts: Vec<DutResult>,
    /// To the first device, medians over rounds.
    pub ratios: Ratios,
    /// The least and the greatest of each of these ratios in a round.
    pub spread: ByPair<[f64; 2]>,
    /// Latencies of all rounds together, by device and class; for the plots.
    #[serde(skip)]
    pub latency_ns: Vec<Vec<Histogram<u64>>>,
}

/// Throughput of every device.
#[derive(Debug, Clone, Serialize)]
pub struct ThroughputReport {
    /// False when the generator, not the device, was the limit.
    pub valid: bool,
    /// What was offered.
    pub traffic: Traffic,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// Share of packets that may be lost.
    pub loss_tolerance: f64,
    /// Relative width of the search.
    pub width: f64,
    /// Trials at each rate.
    pub trials: u32,
    /// Devices under test, in the order of `--dut`.
    pub duts: Vec<Throughput>,
    /// Throughput to that of the first device; median over searches.
    pub ratios: BTreeMap<String, f64>,
}

/// Throughput of one device.
#[derive(Debug, Clone, Serialize)]
pub struct Throughput {
    /// Name of the device.
    pub name: String,
    /// Median of the searches, packets a second.
    pub pps: f64,
    /// Result of the search that found least, packets a second.
    pub min_pps: f64,
    /// Result of the search that found most, packets a second.
    pub max_pps: f64,
    /// Median in bits of Ethernet frames with FCS.
    pub bps: f64,
}

impl ThroughputReport {
    pub(crate) fn new<'a>(
        names: impl Iterator<Item = &'a str>,
        found: &[Vec<f64>],
        limited: &[bool],
        traffic: Traffic,
        how: Search,
        settings: BTreeMap<String, String>,
    ) -> Self {
        let duts: Vec<Throughput> = names
            .zip(found)
            .map(|(name, rates)| {
                let pps = median(rates.iter().copied());
                Throughput {
                    name: name.into(),
                    pps,
                    min_pps: rates.iter().copied().fold(f64::INFINITY, f64::min),
                    max_pps: rates.iter().copied().fold(0.0, f64::max),
                    bps: pps * traffic.frame.mean_bytes() * 8.0,
                }
            })
            .collect();
        let ratios = (1..duts.len())
            .map(|i| {
                let pairs = found[i].iter().zip(&found[0]).map(|(a, b)| a / b);
                (format!("{}/{}", duts[i].name, duts[0].name), median(pairs))
            })
            .collect();
        Self {
            valid: !limited.iter().any(|l| *l),
            traffic,
            settings,
            loss_tolerance: how.loss_tolerance,
            width: how.width,
            trials: how.trials,
            duts,
            ratios,
        }
    }
}

/// Packets lost while something happens to a router.
#[derive(Debug, Clone, Serialize)]
pub struct DisturbanceReport {
    /// False when the generator fell behind.
    pub valid: bool,
    /// Rate asked for.
    pub offered_pps: f64,
    /// Length of a trial.
    pub seconds: f64,
    /// Trials of each disturbance.
    pub repeat: u32,
    /// Reloads in a trial.
    pub reloads: u32,
    /// What was offered.
    pub traffic: Traffic,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// The disturbances of each device; the first is none.
    pub disturbances: Vec<Disturbed>,
}

/// One kind of disturbance.
#[derive(Debug, Clone, Serialize)]
pub struct Disturbed {
    /// Name of the device.
    pub dut: String,
    /// `nothing`, `reload`, `kill -9`, `firewall`, `port flap` or `MTU`.
    pub name: String,
    /// Packets sent in a trial; median.
    pub sent: f64,
    /// Time that a hypervisor took from the machine's cores in all trials, ms.
    pub stolen_ms: u64,
    /// RT packets lost in each trial, in the order of time.
    pub rt_lost: Vec<f64>,
    /// The same for BE.
    pub be_lost: Vec<f64>,
    /// Packets reordered in all trials.
    pub reordered: f64,
}

/// One point of a sweep.
#[derive(Debug, Clone, Serialize)]
pub struct SweepPoint {
    /// Share of RT packets.
    pub rt_ratio: f64,
    /// Rate asked for.
    pub asked_pps: f64,
    /// What took its part of the router's core.
    pub hog: Option<Hog>,
    /// False when the generator fell behind.
    pub valid: bool,
    /// What the device did.
    #[serde(flatten)]
    pub dut: DutResult,
    /// What a model says about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted: Option<Prediction>,
}

/// A model's answer for a point.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Prediction {
    /// Packets a second that leave.
    pub forwarded_pps: f64,
    /// Mean latency by class, RT first, us.
    pub mean_us: [f64; 2],
    /// Utilisation of the core, 0 to 1.
    pub cpu: f64,
    /// Whether next to nothing is lost there.
    pub stable: bool,
}

/// A sweep over load and RT ratio.
#[derive(Debug, Clone, Serialize)]
pub struct SweepReport {
    /// The kernel's capacity, where it was measured, else 0.
    pub kernel_capacity_pps: f64,
    /// Bulk TCP connections beside the packets.
    pub tcp: u32,
    /// The traffic; its RT ratio is that of each point.
    pub traffic: Traffic,
    /// Settings of the lab.
    pub settings: BTreeMap<String, String>,
    /// One for each load and share of RT.
    pub points: Vec<SweepPoint>,
}
