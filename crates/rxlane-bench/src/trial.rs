//! One trial: traffic of one rate through one device under test, and what came of it.

use hdrhistogram::Histogram;
use rxlane_system::netns;
use serde::{Deserialize, Serialize};

use crate::by_core::CoreResult;
use crate::core_use::CoreUse;
use crate::frame::Frame;
use crate::layout::Bin;
use crate::pattern::Pattern;

/// The traffic of a measurement.
#[derive(Debug, Clone, Serialize)]
pub struct Traffic {
    /// Share of RT packets, 0 to 1.
    pub rt_ratio: f64,
    /// How packets follow each other.
    pub pattern: Pattern,
    /// How long frames are.
    pub frame: Frame,
    /// Flows of each class.
    pub flows: u32,
    /// Seed of the schedule.
    pub seed: u64,
}

/// The classes of test traffic, by number.
pub const CLASSES: [&str; 2] = ["rt", "be"];
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
    /// By class, as [`CLASSES`].
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

/// Threads of the router whose wake-ups are counted.
#[derive(Debug, Default)]
pub struct Threads {
    /// Threads that poll devices (`napi/DEVICE-ID`), by their number.
    pub napi: Vec<i32>,
    /// Of a lab's generators and sinks.
    pub traffic: Vec<i32>,
    /// Of the AF_XDP engine.
    pub workers: Vec<i32>,
    /// Network namespace and ingress ports of a lab's router.
    pub ingress: Option<(String, Vec<String>)>,
}

/// What threads have done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Work {
    /// How long they have run, s.
    pub(crate) ran_s: f64,
    /// Packets that they have taken from the ingress ports' rings; `None` where these are not of a lab.
    pub(crate) taken: Option<u64>,
}

impl Work {
    /// The time of a packet that was taken from a ring since `before`, ns, whatever became of it.
    pub(crate) fn ns_per_packet_since(self, before: Self) -> Option<f64> {
        let taken = self.taken?.checked_sub(before.taken?)?;
        (taken > 0).then(|| (self.ran_s - before.ran_s) * 1e9 / taken as f64)
    }
}

impl Threads {
    /// How long those of the router have run, s.
    pub(crate) fn run_time_s(&self) -> f64 {
        run_time_s(&self.napi) + run_time_s(&self.workers)
    }

    pub(crate) fn work(&self) -> Work {
        let ran_s = self.run_time_s();
        let taken = self.ingress.as_ref().and_then(|(router, ports)| {
            netns::within(router, true, || Ok(ports.iter().map(|p| received(p)).sum())).ok()
        });
        Work { ran_s, taken }
    }

    pub(crate) fn wakeups(&self) -> [u64; 2] {
        [wakeups(&self.napi), wakeups(&self.workers)]
    }
}

/// How long threads have run, s (Documentation/scheduler/sched-stats.rst, /proc/PID/schedstat).
pub(crate) fn run_time_s(threads: &[i32]) -> f64 {
    let ns = threads
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{t}/schedstat")).ok())
        .filter_map(|text| text.split(' ').next()?.parse::<u64>().ok());
    ns.sum::<u64>() as f64 / 1e9
}

/// Packets that a device's polls have taken from its ring so far.
fn received(device: &str) -> u64 {
    let file = format!("/sys/class/net/{device}/statistics/rx_packets");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().parse().unwrap_or(0)
}

/// Times that the threads have gone to sleep, hence been woken.
fn wakeups(threads: &[i32]) -> u64 {
    threads
        .iter()
        .filter_map(|t| std::fs::read_to_string(format!("/proc/{t}/status")).ok())
        .filter_map(|text| {
            text.lines()
                .find_map(|l| l.strip_prefix("voluntary_ctxt_switches:"))?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum()
}
