//! One trial: traffic of one rate through one device under test, and what came of it.

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::by_core::CoreResult;
use crate::core_use::CoreUse;
use crate::layout::Bin;

/// What a class went through.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ClassResult {
    /// `rt` or `be`.
    pub name: String,
    /// Packets sent in the window.
    pub sent: f64,
    /// Of these, received.
    pub received: f64,
    /// Of these, not received.
    pub lost: f64,
    /// Of these, more than were sent while the machine stalled.
    pub lost_unstalled: f64,
    /// Received behind a later one of their flow.
    pub reordered: f64,
    /// Time from the generator to the sink, us.
    pub latency_us: Latency,
}

/// Latency quantiles, us.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Latency {
    /// Half of the packets were faster.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// The slowest packet.
    pub max: f64,
    /// Mean of all packets.
    pub mean: f64,
}

/// One trial's outcome.
#[derive(Debug, Clone)]
pub struct Trial {
    /// False when the generator fell behind.
    pub valid: bool,
    /// What was sent in the window, packets a second.
    pub sent_pps: f64,
    /// What arrived of it, packets a second.
    pub forwarded_pps: f64,
    /// Share that did not arrive.
    pub loss: f64,
    /// Utilisation of the router's core by anybody, a hog included, 0 to 1; of several cores the mean, and where they are
    /// shared of the router alone.
    pub cpu: f64,
    /// Share of the router's core that a hog really had, 0 to 1.
    pub hog_share: f64,
    /// Share of the time in which nothing arrived for a millisecond and more, 0 to 1: as with a machine that stands still.
    pub stalled: f64,
    /// What bulk TCP connections brought beside the packets, bits a second.
    pub tcp_bps: f64,
    /// What the router's core was found doing; `None` where it was not sampled.
    pub(crate) core: Option<CoreUse>,
    /// Each core of the router, where it has several.
    pub cores: Vec<CoreResult>,
    /// What the router's threads ran for each packet that they took from the ingress ports' rings, whatever became of it, ns;
    /// `None` where these are not of a lab.
    pub packet_ns: Option<f64>,
    /// Times a second that the router's NAPI threads were woken.
    pub wakeups_per_s: f64,
    /// Times a second that workers of the AF_XDP engine were woken.
    pub worker_wakeups_per_s: f64,
    /// By class, RT first.
    pub classes: Vec<ClassResult>,
    pub(crate) latency_ns: Vec<Histogram<u64>>,
}

/// What became of the packets of a profile, by when they were sent.
#[derive(Debug, Clone)]
pub(crate) struct Course {
    /// False when the generator fell behind.
    pub(crate) valid: bool,
    pub(crate) sent: Vec<Bin>,
    pub(crate) received: Vec<Bin>,
}
