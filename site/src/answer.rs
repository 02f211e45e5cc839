//! What the page shows of a study.

use rxlane_sim::histogram::Latencies;
use rxlane_sim::outcome::class_name;
use rxlane_sim::run::{Estimate, Row};
use rxlane_sim::scenario::Scenario;
use serde::Serialize;

/// Numbers, with the names and units of the command's.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// Replications that the numbers are of.
    pub done: usize,
    /// Replications that there will be.
    pub of: u32,
    /// Packets a second that leave.
    pub throughput_pps: Number,
    /// Use of the core, 0 to 1.
    pub cpu: Number,
    /// Interrupts a second.
    pub irq_per_s: Number,
    /// Share of packets that are lost, 0 to 1.
    pub loss: Number,
    /// By class, the highest first.
    pub classes: Vec<ClassAnswer>,
}

/// What becomes of a class. Latencies are in us.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClassAnswer {
    /// `rt`, `be`, or `c0` and so on.
    pub name: String,
    /// Packets served, over all replications so far.
    pub packets: u64,
    /// Share that is lost at the rings and by overload control, 0 to 1; none without packets.
    pub loss: Option<f64>,
    /// In the mean.
    pub mean: Number,
    /// Half are below it.
    pub p50: Number,
    /// 99 % are below it.
    pub p99: Number,
    /// The longest of a replication.
    pub max: Number,
    /// The longest of all replications so far.
    pub longest_us: f64,
    /// Latencies with the share of packets that have a longer one.
    pub ccdf: Vec<(f64, f64)>,
}

/// A metric, and half of its 95 % confidence interval where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Number {
    /// Mean over the replications.
    pub mean: f64,
    /// None of a single replication.
    pub ci95: Option<f64>,
}

impl Answer {
    pub(crate) fn new(
        scenario: &Scenario,
        row: &Row,
        done: usize,
        latencies: &[Latencies],
    ) -> Self {
        let count = scenario.traffic.class_shares().len();
        let classes = latencies
            .iter()
            .enumerate()
            .map(|(class, of)| ClassAnswer::new(row, class_name(class, count), of));
        Self {
            done,
            of: scenario.replications,
            throughput_pps: number(row, "throughput_pps"),
            cpu: number(row, "cpu"),
            irq_per_s: number(row, "irq_per_s"),
            loss: number(row, "loss"),
            classes: classes.collect(),
        }
    }
}

impl ClassAnswer {
    fn new(row: &Row, name: String, latencies: &Latencies) -> Self {
        let latency = |of: &str| number(row, &format!("latency_us.{name}.{of}"));
        Self {
            packets: latencies.count(),
            loss: loss(row, &name),
            mean: latency("mean"),
            p50: latency("p50"),
            p99: latency("p99"),
            max: latency("max"),
            longest_us: latencies.max_us(),
            ccdf: ccdf(latencies),
            name,
        }
    }
}

fn number(row: &Row, name: &str) -> Number {
    let of = |e: &Estimate| Number {
        mean: e.mean,
        ci95: e.ci95,
    };
    row.estimate(name).map_or(
        Number {
            mean: 0.0,
            ci95: None,
        },
        of,
    )
}

/// Lanes count what becomes of a class; elsewhere it is lost where its ring is full.
fn loss(row: &Row, name: &str) -> Option<f64> {
    let get = |metric: &str| row.get(&format!("{metric}.{name}"));
    let dropped = get("ring_dropped").unwrap_or(0.0);
    let all = dropped + get("packets").unwrap_or(0.0);
    (all > 0.0).then(|| get("loss").unwrap_or(dropped / all))
}

fn ccdf(latencies: &Latencies) -> Vec<(f64, f64)> {
    let all = latencies.count() as f64;
    let mut longer = latencies.count();
    latencies
        .buckets()
        .map(|(_, to, n)| {
            longer -= n;
            (to.as_us(), longer as f64 / all)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use crate::Study;

    #[test]
    fn an_overloaded_ring_loses_what_its_class_loses_and_the_ccdf_falls_to_nothing() {
        let mut study = Study::new(
            "seconds=0.02\nreplications=2\ntraffic.pps=2.4e6\ntraffic.rt_ratio=0.2\n\
             reception.strategy=ll-wfq",
        )
        .unwrap();
        while study.step().unwrap() {}
        let answer = study.answer();
        let [rt, be] = &answer.classes[..] else {
            panic!("{answer:?}")
        };
        assert_eq!((answer.done, answer.of), (2, 2));
        assert_eq!((rt.name.as_str(), be.name.as_str()), ("rt", "be"));
        assert_eq!(rt.loss, Some(0.0));
        assert!(be.loss.is_some_and(|l| (0.25..0.45).contains(&l)), "{be:?}");
        assert!(rt.longest_us >= rt.max.mean && rt.p50.mean <= rt.p99.mean);
        for class in [rt, be] {
            assert!(class.ccdf.is_sorted_by(|a, b| a.0 < b.0 && a.1 > b.1));
            assert_eq!(class.ccdf.last().map(|p| p.1), Some(0.0));
        }
    }

    #[test]
    fn lanes_lose_what_overload_control_drops() {
        let mut study = Study::new(
            "seconds=0.02\ntraffic.pps=660e3\ntraffic.rt_ratio=0.2\ncpu.packet_ns=3030\n\
             reception.scheme=express",
        )
        .unwrap();
        study.step().unwrap();
        let answer = study.answer();
        let all = 0.2 * answer.classes[0].loss.unwrap() + 0.8 * answer.classes[1].loss.unwrap();
        assert!((all - answer.loss.mean).abs() < 0.01, "{all}: {answer:?}");
    }

    #[test]
    fn a_class_without_packets_has_no_loss() {
        let mut study = Study::new("seconds=0.001\ntraffic.pps=1e5").unwrap();
        study.step().unwrap();
        let answer = study.answer();
        assert_eq!(
            (answer.classes[0].loss, answer.classes[0].packets),
            (None, 0)
        );
        assert!(answer.classes[0].ccdf.is_empty());
    }
}
