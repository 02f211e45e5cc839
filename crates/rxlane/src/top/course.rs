//! From counters to rates: what happened between two looks, and how it went over the last minutes.

use std::collections::{BTreeMap, VecDeque};

use rxlane_bpf::layout::ClassCounters;
use rxlane_dataplane::queues::QueueStatus;
use rxlane_dataplane::status::LatencyStatus;

use crate::snapshot::{Class, Port, Snapshot};

/// Looks that are remembered.
const REMEMBERED: usize = 240;
/// Few packets are measured, so latencies are of more than one look, seconds.
pub(super) const LATENCY_S: f64 = 30.0;

/// A rate of each counter, per second. Counters begin anew when classes or ports change; then a rate is 0.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Rates {
    pub(super) packets: f64,
    pub(super) bytes: f64,
    pub(super) express: f64,
    pub(super) fast: f64,
    pub(super) passed: f64,
    pub(super) queued: f64,
    pub(super) early_drops: f64,
    pub(super) policed: f64,
    pub(super) untrusted: f64,
}

fn rate(before: u64, after: u64, seconds: f64) -> f64 {
    after.saturating_sub(before) as f64 / seconds
}

impl Rates {
    fn between(before: ClassCounters, after: ClassCounters, s: f64) -> Self {
        Self {
            packets: rate(before.packets, after.packets, s),
            bytes: rate(before.bytes, after.bytes, s),
            express: rate(before.express, after.express, s),
            fast: rate(before.fast, after.fast, s),
            passed: rate(before.passed, after.passed, s),
            queued: rate(before.queued, after.queued, s),
            early_drops: rate(before.early_drops, after.early_drops, s),
            policed: rate(before.policed, after.policed, s),
            untrusted: rate(before.untrusted, after.untrusted, s),
        }
    }
}

/// Of a port, per second.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct PortRates {
    pub(super) sent: f64,
    /// By reason, the largest first, without those that did not occur.
    pub(super) to_kernel: Vec<(String, f64)>,
    pub(super) classes: BTreeMap<String, Rates>,
}

/// A queue in which packets wait or are lost now.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Trouble {
    pub(super) queue: QueueStatus,
    /// Packets that had to wait, per second.
    pub(super) waited: f64,
    /// Packets lost, per second.
    pub(super) lost: f64,
}

impl Trouble {
    fn between(before: &QueueStatus, after: &QueueStatus, s: f64) -> Option<Self> {
        let waited = |q: &QueueStatus| q.waited.unwrap_or(0);
        let trouble = Self {
            waited: rate(waited(before), waited(after), s),
            lost: rate(before.lost, after.lost, s),
            queue: after.clone(),
        };
        let is_any = trouble.waited > 0.0 || trouble.lost > 0.0 || after.holds > Some(0);
        is_any.then_some(trouble)
    }
}

/// What was seen of a router so far.
#[derive(Debug, Default)]
pub(super) struct Course {
    last: Option<(f64, Snapshot)>,
    rates: BTreeMap<String, Rates>,
    ports: BTreeMap<String, PortRates>,
    troubles: Vec<Trouble>,
    packets: BTreeMap<String, VecDeque<f64>>,
    /// What was measured in the last [`LATENCY_S`] of classes that are measured.
    latencies: BTreeMap<String, LatencyStatus>,
    /// Earlier looks at latencies, the oldest first.
    measured: VecDeque<(f64, BTreeMap<String, LatencyStatus>)>,
}

impl Course {
    /// A look at `at_s`, seconds since some moment.
    pub(super) fn add(&mut self, at_s: f64, now: Snapshot) {
        if let Some((before_s, before)) = &self.last {
            let s = (at_s - before_s).max(1e-3);
            let of_class = |class: &Class| {
                let was = before
                    .class(&class.name)
                    .map_or(class.counters, |c| c.counters);
                (class.name.clone(), Rates::between(was, class.counters, s))
            };
            self.rates = now.classes.iter().map(of_class).collect();
            self.ports = now
                .ports
                .iter()
                .map(|port| (port.name.clone(), of_port(before, port, s)))
                .collect();
            let of_queue = |queue: &QueueStatus| {
                let before = before.queues.iter().find(|q| q.is(queue));
                Trouble::between(before.unwrap_or(queue), queue, s)
            };
            self.troubles = now.queues.iter().filter_map(of_queue).collect();
            self.troubles.sort_by(|a, b| b.lost.total_cmp(&a.lost));
            self.packets.retain(|name, _| self.rates.contains_key(name));
            for (name, rates) in &self.rates {
                let seen = self.packets.entry(name.clone()).or_default();
                seen.push_back(rates.packets);
                if seen.len() > REMEMBERED {
                    seen.pop_front();
                }
            }
        }
        self.add_latencies(at_s, &now);
        self.last = Some((at_s, now));
    }

    fn add_latencies(&mut self, at_s: f64, now: &Snapshot) {
        let of_class = |c: &Class| Some((c.name.clone(), c.latency.clone()?));
        let all: BTreeMap<_, _> = now.classes.iter().filter_map(of_class).collect();
        self.measured.push_back((at_s, all));
        let is_old = |at: Option<&(f64, _)>| at.is_some_and(|(s, _)| at_s - s >= LATENCY_S);
        while is_old(self.measured.get(1)) {
            self.measured.pop_front();
        }
        let (Some((_, before)), Some((_, all))) = (self.measured.front(), self.measured.back())
        else {
            return;
        };
        let since = |(name, latency): (&String, &LatencyStatus)| {
            let before = before.get(name).cloned().unwrap_or_default();
            (name.clone(), latency.since(&before))
        };
        self.latencies = all.iter().map(since).collect();
    }

    /// The last look.
    pub(super) fn now(&self) -> Option<&Snapshot> {
        self.last.as_ref().map(|(_, snapshot)| snapshot)
    }

    pub(super) fn rates(&self, class: &str) -> Rates {
        self.rates.get(class).copied().unwrap_or_default()
    }

    /// How long packets of a class were inside of the router lately; `None` where that is not measured.
    pub(super) fn latency(&self, class: &str) -> Option<&LatencyStatus> {
        self.latencies.get(class)
    }

    pub(super) fn port(&self, name: &str) -> PortRates {
        self.ports.get(name).cloned().unwrap_or_default()
    }

    /// Queues in which packets wait or are lost, those that lose most first.
    pub(super) fn troubles(&self) -> &[Trouble] {
        &self.troubles
    }

    /// Packets a second of a class, the last `most` looks.
    pub(super) fn packets(&self, class: &str, most: usize) -> Vec<f64> {
        let seen = self.packets.get(class);
        seen.map_or_else(Vec::new, |seen| {
            seen.iter()
                .skip(seen.len().saturating_sub(most))
                .copied()
                .collect()
        })
    }
}

fn of_port(before: &Snapshot, port: &Port, s: f64) -> PortRates {
    let was = before.port(&port.name).unwrap_or(port);
    let reasons = port.to_kernel.iter().map(|(reason, n)| {
        let before = was.to_kernel.get(reason).copied().unwrap_or(0);
        (reason.clone(), rate(before, *n, s))
    });
    let mut to_kernel: Vec<(String, f64)> = reasons.filter(|(_, rate)| *rate > 0.0).collect();
    to_kernel.sort_by(|a, b| b.1.total_cmp(&a.1));
    let of_class = |(name, counters): (&String, &ClassCounters)| {
        let was = was.classes.get(name).copied().unwrap_or(*counters);
        (name.clone(), Rates::between(was, *counters, s))
    };
    PortRates {
        sent: rate(
            was.egress.tx_packets + was.egress.by_qdisc,
            port.egress.tx_packets + port.egress.by_qdisc,
            s,
        ),
        to_kernel,
        classes: port.classes.iter().map(of_class).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::example;

    #[test]
    fn rates_are_of_the_time_between_two_looks() {
        let mut course = Course::default();
        course.add(10.0, example(1000));
        assert_eq!(course.rates("voice"), Rates::default());
        course.add(12.0, example(5000));
        let voice = course.rates("voice");
        assert_eq!((voice.packets, voice.express), (2000.0, 2000.0));
        assert_eq!(course.port("lan0").to_kernel, [("ttl".to_owned(), 200.0)]);
        assert_eq!(course.packets("voice", 10), [2000.0]);
        let [trouble] = course.troubles() else {
            panic!("one queue is full: {:?}", course.troubles());
        };
        assert_eq!((trouble.waited, trouble.lost), (100.0, 20.0));
    }

    #[test]
    fn counters_that_begin_anew_are_no_rate() {
        let mut course = Course::default();
        course.add(0.0, example(9000));
        course.add(1.0, example(10));
        assert_eq!(course.rates("voice").packets, 0.0);
    }

    #[test]
    fn latencies_are_those_of_the_last_half_minute() {
        let mut course = Course::default();
        for i in 0..100u32 {
            course.add(f64::from(i), example(1000 * u64::from(i)));
        }
        let latency = course.latency("voice").expect("it is measured");
        assert_eq!(latency.measured, 99_000 / 256 - 69_000 / 256, "{latency:?}");
        assert_eq!(latency.p99_us, 2.048);
        assert!(course.latency("rest").is_none());
    }

    #[test]
    fn the_course_of_a_class_ends_with_it_and_is_not_endless() {
        let mut course = Course::default();
        for i in 0..2 * REMEMBERED as u64 {
            course.add(i as f64, example(100 * i));
        }
        assert_eq!(course.packets("voice", usize::MAX).len(), REMEMBERED);
        assert_eq!(course.packets("voice", 3), [100.0; 3]);
        let mut without = example(0);
        without.classes.remove(0);
        course.add(1e6, without);
        assert_eq!(course.packets("voice", 3), [0.0; 0]);
    }
}
