//! A router's status as metrics, by the conventions of Prometheus: base units, counters that only grow, and no label whose
//! values traffic chooses. docs/src/how-to/monitor.md lists them.

use std::fmt::Error;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use rxlane_bpf::layout::REASONS;
use rxlane_dataplane::queues::QueueStatus;
use rxlane_dataplane::status::{PortStatus, Status};

/// What a response in the OpenMetrics format is called.
pub(crate) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The metrics of a router in the OpenMetrics text format.
///
/// # Errors
/// None in practice: memory takes everything.
pub(crate) fn open_metrics(status: Status) -> Result<String, Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Snapshot(status)));
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry)?;
    Ok(text)
}

/// The same in the older text format of Prometheus, which the textfile collector of node_exporter reads: there a counter is
/// declared with its whole name.
///
/// # Errors
/// As [`open_metrics`].
pub(crate) fn prometheus(status: Status) -> Result<String, Error> {
    open_metrics(status).map(|text| older(&text))
}

/// From the one format to the other.
pub(crate) fn older(text: &str) -> String {
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|l| l.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut older = String::new();
    for line in text.lines().filter(|l| *l != "# EOF") {
        let mut words = line.splitn(4, ' ');
        let (mark, kind, name) = (words.next(), words.next(), words.next());
        match (mark, kind, name) {
            (Some("#"), Some(kind), Some(name)) if counters.contains(&name) => {
                let rest = words.next().unwrap_or_default();
                older += &format!("# {kind} {name}_total {rest}\n");
            }
            _ => older += &format!("{line}\n"),
        }
    }
    older
}

#[derive(Debug)]
struct Snapshot(Status);

type Labels = Vec<(&'static str, String)>;

/// A value of a metric.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(u64),
    Real(f64),
}

impl Number {
    fn encode(self, of: MetricType, to: MetricEncoder<'_>) -> Result<(), Error> {
        match (of, self) {
            (MetricType::Counter, Self::Whole(n)) => ConstCounter::new(n).encode(to),
            (MetricType::Counter, Self::Real(x)) => ConstCounter::new(x).encode(to),
            (_, Self::Whole(n)) => ConstGauge::new(i64::try_from(n).unwrap_or(i64::MAX)).encode(to),
            (_, Self::Real(x)) => ConstGauge::new(x).encode(to),
        }
    }
}

impl From<u64> for Number {
    fn from(n: u64) -> Self {
        Self::Whole(n)
    }
}

impl From<f64> for Number {
    fn from(x: f64) -> Self {
        Self::Real(x)
    }
}

impl From<bool> for Number {
    fn from(yes: bool) -> Self {
        Self::Whole(yes.into())
    }
}

struct Families<'a>(DescriptorEncoder<'a>);

impl Families<'_> {
    fn counter<N: Into<Number>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, N)>,
    ) -> Result<(), Error> {
        self.family(name, help, MetricType::Counter, rows)
    }

    fn gauge<N: Into<Number>>(
        &mut self,
        name: &str,
        help: &str,
        rows: impl IntoIterator<Item = (Labels, N)>,
    ) -> Result<(), Error> {
        self.family(name, help, MetricType::Gauge, rows)
    }

    fn family<N: Into<Number>>(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        rows: impl IntoIterator<Item = (Labels, N)>,
    ) -> Result<(), Error> {
        let mut family = self.0.encode_descriptor(name, help, None, kind)?;
        for (labels, number) in rows {
            // A family without labels is one row.
            if labels.is_empty() {
                return number.into().encode(kind, family);
            }
            number.into().encode(kind, family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// Where the classic buckets of a latency end: powers of two, 1 us to 16 ms, at which the router's own, finer ones end, too.
const LATENCY_BUCKETS_NS: std::ops::RangeInclusive<u32> = 10..=24;

fn latencies(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let mut family = to.0.encode_descriptor(
        "rxlane_class_latency_seconds",
        "Time that packets of the class were inside of the router: of the express lane to the end of the poll, of the stack until they are handed to it; sampled",
        None,
        MetricType::Histogram,
    )?;
    let measured = s
        .classes
        .iter()
        .filter_map(|c| Some((c, c.latency.as_ref()?)));
    for (class, latency) in measured {
        let mut before = 0;
        let mut buckets: Vec<(f64, u64)> = Vec::new();
        for end in LATENCY_BUCKETS_NS {
            let below = latency.below(1 << end);
            buckets.push(((1u64 << end) as f64 / 1e9, below - before));
            before = below;
        }
        // What is left has no end.
        buckets.push((f64::INFINITY, latency.measured - before));
        let labels: Labels = vec![("class", class.name.clone())];
        let sum = latency.sum_ns as f64 / 1e9;
        family
            .encode_family(&labels)?
            .encode_histogram::<NoLabelSet>(sum, latency.measured, &buckets, None)?;
    }
    Ok(())
}

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> Result<(), Error> {
        let mut to = Families(encoder);
        daemon(&self.0, &mut to)?;
        classes(&self.0, &mut to)?;
        latencies(&self.0, &mut to)?;
        queues(&self.0, &mut to)?;
        egress(&self.0, &mut to)?;
        ports(&self.0, &mut to)?;
        cores(&self.0, &mut to)
    }
}

fn daemon(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let none: fn() -> Labels = Vec::new;
    let build = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("kernel", s.kernel.clone()),
    ];
    to.gauge(
        "rxlane_build_info",
        "Version of rxlane and release of the kernel, as labels",
        [(build, true)],
    )?;
    to.gauge(
        "rxlane_daemon_up",
        "Whether the daemon runs; without it the lanes go on by themselves",
        [(none(), s.daemon.is_some())],
    )?;
    to.gauge(
        "rxlane_observing",
        "Whether the router only observes: 1 while every packet goes to the Linux stack, and counters say what would become of it",
        [(none(), s.observe)],
    )?;
    to.counter(
        "rxlane_config_reloads",
        "Reloads that the daemon has answered",
        [(none(), s.reloads)],
    )?;
    to.gauge(
        "rxlane_config_last_reload_successful",
        "Whether the last reload was taken; 1 before the first",
        [(none(), s.reload_refused.is_none())],
    )?;
    to.gauge(
        "rxlane_warnings",
        "Things that the operator should know, as rxlane status prints them",
        [(none(), s.warnings.len() as u64)],
    )?;
    let bound = s.rt_bound.bound.t_max_ns;
    to.gauge(
        "rxlane_rt_bound_seconds",
        "The longest that an RT packet should wait; missing where nothing limits the RT load",
        bound.is_finite().then(|| (none(), bound / 1e9)),
    )?;
    to.gauge(
        "rxlane_rt_longest_wait_seconds",
        "The longest that an RT packet may have waited while a core was overloaded, since the start",
        [(none(), s.rt_bound.longest_wait_us / 1e6)],
    )
}

fn classes(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let by_port: Vec<_> = s
        .ports
        .iter()
        .flat_map(|p| {
            let labels = |class: &str| vec![("class", class.to_owned()), ("port", p.name.clone())];
            p.classes.iter().map(move |(class, n)| (labels(class), n))
        })
        .collect();
    let rows = |of: fn(&rxlane_bpf::layout::ClassCounters) -> u64| {
        by_port.iter().map(move |(l, n)| (l.clone(), of(n)))
    };
    to.counter(
        "rxlane_class_packets",
        "Packets served in the class, by the port that they came in through",
        rows(|n| n.packets),
    )?;
    to.counter(
        "rxlane_class_bytes",
        "Their bytes, Ethernet header included",
        rows(|n| n.bytes),
    )?;
    to.counter(
        "rxlane_class_express_packets",
        "Packets that the express lane forwarded",
        rows(|n| n.express),
    )?;
    to.counter(
        "rxlane_class_fast_packets",
        "Packets that XDP gave to the fast lane, by which they leave through a queueing discipline",
        rows(|n| n.fast),
    )?;
    to.counter(
        "rxlane_class_policed_packets",
        "Packets above the rate of the class, treated as the next class",
        rows(|n| n.policed),
    )?;
    to.counter(
        "rxlane_class_untrusted_packets",
        "Packets that nobody vouches for, treated as the next stack class",
        rows(|n| n.untrusted),
    )?;
    to.counter(
        "rxlane_class_looked_up_packets",
        "Packets of the express and the fast lane for which routes and connections were looked up; of all others the flow was known",
        rows(|n| n.looked_up),
    )?;
    let express = s.classes.iter().filter(|c| c.lane != "stack");
    to.gauge(
        "rxlane_class_express_open",
        "Whether the express lane of the class works; 0 while its packets are left to the kernel",
        express
            .clone()
            .map(|c| (vec![("class", c.name.clone())], c.at_work != "pass")),
    )?;
    to.gauge(
        "rxlane_class_kept_rules",
        "Rules that must see every packet, and so keep the established flows that meet them with the kernel",
        express.map(|c| (vec![("class", c.name.clone())], c.kept.len() as f64)),
    )
}

fn queues(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let labels = |q: &QueueStatus| {
        let mut labels: Labels = vec![("queue", q.queue.name().to_owned())];
        labels.extend(q.port.clone().map(|port| ("port", port)));
        labels.extend(q.core.map(|core| ("core", core.to_string())));
        labels.extend(q.class.clone().map(|class| ("class", class)));
        labels
    };
    let told = |of: fn(&QueueStatus) -> Option<u64>| {
        let rows = s.queues.iter();
        rows.filter_map(move |q| Some((labels(q), of(q)?)))
    };
    to.counter(
        "rxlane_queue_lost_packets",
        "Packets lost because a queue was full: Rx ring, backlog, core (shed early), ring of a class, queueing discipline, Tx ring (refused by the driver)",
        told(|q| Some(q.lost)),
    )?;
    to.counter(
        "rxlane_queue_waited_packets",
        "Packets that had to wait in a queue",
        told(|q| q.waited),
    )?;
    to.gauge(
        "rxlane_queue_packets",
        "Packets that a queue holds now",
        told(|q| q.holds),
    )
}

fn egress(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let of = |p: &PortStatus| vec![("port", p.name.clone())];
    to.counter(
        "rxlane_egress_packets",
        "Express packets sent through the port",
        s.ports.iter().map(|p| (of(p), p.egress.tx_packets)),
    )?;
    to.counter(
        "rxlane_egress_qdisc_packets",
        "Packets that lanes gave to the queueing discipline of the port",
        s.ports.iter().map(|p| (of(p), p.egress.by_qdisc)),
    )?;
    to.counter(
        "rxlane_egress_refusals",
        "Times that the driver of the port began to refuse express packets, after which they leave by its queueing discipline until nothing waits",
        s.ports.iter().map(|p| (of(p), p.egress.refusals)),
    )?;
    to.gauge(
        "rxlane_egress_refusing",
        "Whether express packets leave by the queueing discipline because the driver of the port has refused some",
        s.ports.iter().map(|p| (of(p), p.full == Some("ring"))),
    )?;
    to.counter(
        "rxlane_egress_link_fills",
        "Times that the link of the port began to be full, after which classes below the highest leave by its queueing discipline until nothing waits",
        s.ports.iter().map(|p| (of(p), p.egress.link_full)),
    )?;
    to.gauge(
        "rxlane_egress_link_full",
        "Whether classes below the highest leave by the queueing discipline because the link of the port is full",
        s.ports.iter().map(|p| (of(p), p.full == Some("link"))),
    )?;
    let Some(engine) = &s.engine else {
        return Ok(());
    };
    let rings = engine.rings.iter().flat_map(|r| {
        let labels = |reason: &str| {
            vec![
                ("port", r.port.clone()),
                ("queue", r.queue.to_string()),
                ("ring", r.ring.to_string()),
                ("reason", reason.to_owned()),
            ]
        };
        [
            (labels("share"), r.early_drops),
            (labels("failed"), r.failed),
        ]
    });
    to.counter(
        "rxlane_engine_ring_drops",
        "Packets that an AF_XDP ring did not take: it held its share, or the kernel could not deliver",
        rings,
    )
}

fn ports(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    // Also those that have not happened, so that a rate is there when they begin.
    let reasons = s.ports.iter().flat_map(|p| {
        REASONS.iter().map(|(reason, _)| {
            let labels = vec![("port", p.name.clone()), ("reason", (*reason).to_owned())];
            (labels, p.to_kernel.get(reason).copied().unwrap_or(0))
        })
    });
    to.counter(
        "rxlane_to_kernel_packets",
        "Packets that the express lane left to the kernel, by reason",
        reasons,
    )?;
    type Of = fn(&PortStatus) -> u64;
    let control: [(&str, Of); 2] = [("first", |p| p.control), ("policed", |p| p.control_policed)];
    let control = s.ports.iter().flat_map(|p| {
        control.map(|(outcome, of)| {
            let labels = vec![("port", p.name.clone()), ("outcome", outcome.to_owned())];
            (labels, of(p))
        })
    });
    to.counter(
        "rxlane_control_packets",
        "Packets that the router itself must hear while a core is overloaded: that came first, or exceeded a rate",
        control,
    )?;
    let modes = s.ports.iter().map(|p| {
        let mode = p.mode.clone().unwrap_or_else(|| "absent".into());
        (vec![("port", p.name.clone()), ("mode", mode)], true)
    });
    to.gauge(
        "rxlane_port_info",
        "How the program is attached to the port, as a label",
        modes,
    )?;
    let attached = s
        .ports
        .iter()
        .map(|p| (vec![("port", p.name.clone())], p.mode.is_some()));
    to.gauge(
        "rxlane_port_attached",
        "Whether the program is attached to the port",
        attached,
    )?;
    let rests = s.ports.iter();
    let rests = rests.map(|p| (vec![("port", p.name.clone())], p.rests));
    to.gauge(
        "rxlane_port_rests",
        "Whether Linux serves the port alone for now, because so few of many packets are express",
        rests,
    )
}

fn cores(s: &Status, to: &mut Families<'_>) -> Result<(), Error> {
    let core = |c: &rxlane_dataplane::status::CoreStatus| vec![("core", c.core.to_string())];
    let all = || s.cores.iter();
    to.counter(
        "rxlane_core_overload_seconds",
        "Time that the core was overloaded, up to the last end of an overload",
        all().map(|c| (core(c), c.overloaded_s)),
    )?;
    to.counter(
        "rxlane_core_overloads",
        "Times that an overload of the core began",
        all().map(|c| (core(c), c.overloads)),
    )?;
    to.gauge(
        "rxlane_core_overloaded",
        "Whether the core is overloaded now",
        all().map(|c| (core(c), c.overloaded)),
    )?;
    to.gauge(
        "rxlane_core_idle_ratio",
        "Share of the time that the core had nothing to do, as its guard last measured it",
        all().map(|c| (core(c), c.idle_share)),
    )
}
