//! Where packets come from: one stream a port, with a pattern and a mix of classes and flows.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_policy::{Bps, Ps};
use serde::{Deserialize, Serialize};

use crate::capture::Recording;
use crate::custom::Incoming;
use crate::exponential::exponential;
use crate::ring::Packet;

/// How packets follow each other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "pattern", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Pattern {
    /// Constant rate from a random phase. Real generators are not exact: each packet is early or late
    /// by up to `jitter` of the gap, which keeps ports from locking in phase (multiple-nics IV.D).
    Cbr {
        /// Share of the gap, 0 to 1.
        #[serde(default)]
        jitter: f64,
    },
    /// Gaps are exponentially distributed: arrivals are a Poisson process.
    Poisson,
    /// Bursts of back-to-back packets with exponential pauses between.
    OnOff {
        /// Packets in a burst; geometric with this mean.
        mean_burst: f64,
    },
    /// Recorded gaps, scaled to the rate, from the beginning again at the end.
    Gaps {
        /// Gaps in units of their mean.
        #[serde(skip)]
        gaps: Vec<f64>,
        /// The capture they come from.
        file: String,
    },
    /// Recorded packets with classes and flows of their own, scaled to the rate, from the beginning again at the end.
    Capture {
        /// The packets.
        #[serde(skip)]
        recording: Arc<Recording>,
        /// The capture they come from.
        file: String,
        /// The configuration of the router, `rxlane.toml`, whose classes they get.
        router: String,
        /// The port that they came by, where the capture does not name it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<String>,
        /// Address of that port; without it all packets to a single address are for the router.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        mac: Option<String>,
    },
}

/// How classes follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mix {
    /// Each packet's is drawn.
    Random,
    /// As evenly as their shares allow: the smooth arrivals of low-latency-router III.D.
    Even,
}

/// The traffic of one port.
#[derive(Debug, Clone, PartialEq)]
pub struct Stream {
    /// Packets a second.
    pub pps: f64,
    /// How packets follow each other.
    pub pattern: Pattern,
    /// Share of each class, highest class first; sums to 1.
    pub shares: Vec<f64>,
    /// Whether the class of each packet is drawn.
    pub mix: Mix,
    /// Flows of each class.
    pub flows: u16,
    /// Share of a class's packets that belong to its first flow; 0: all flows are alike.
    pub heaviest_flow: f64,
    /// Changes of the rate: from when, and how many times `pps`.
    pub steps: Vec<(Ps, f64)>,
    /// Frame with FCS, bytes.
    pub frame: u32,
    /// Rate of the link that they come over.
    pub link: Bps,
}

/// A stream at work. Equal seeds give equal packets.
#[derive(Debug)]
pub struct Source {
    rng: Pcg64Mcg,
    pattern: Pattern,
    mean_gap: f64,
    link: Bps,
    wire: Ps,
    /// A random number chooses a class. These are the lower ends of the classes' shares; the last class takes
    /// what is below all of them.
    above: Vec<u32>,
    only_class: Option<usize>,
    /// For even mixes: the share of each class, and how many packets it is owed.
    owed: Option<(Vec<f64>, Vec<f64>)>,
    flows: u16,
    next_flow: Vec<u16>,
    heaviest_flow: f64,
    /// Changes of the rate that are still to come, the next one last.
    steps: Vec<(Ps, f64)>,
    /// Packets by code, instead of the pattern.
    incoming: Option<Box<Incoming>>,
    next_step: f64,
    factor: f64,
    sequences: Vec<u32>,
    /// When the last packet comes by the pattern alone, before the wire makes it later.
    ideal: f64,
    last: Ps,
    burst_left: u64,
    position: usize,
}

impl Source {
    /// Starts a stream.
    pub fn new(stream: &Stream, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let mean_gap = 1e12 / stream.pps;
        let classes = stream.shares.len();
        let mut sum = 0.0;
        let mut above: Vec<u32> = stream
            .shares
            .iter()
            .skip(1)
            .rev()
            .map(|share| {
                sum += share;
                (sum * f64::from(u32::MAX)) as u32
            })
            .collect();
        above.reverse();
        Self {
            ideal: rng.random::<f64>() * mean_gap,
            position: match &stream.pattern {
                Pattern::Gaps { gaps, .. } if !gaps.is_empty() => rng.random_range(0..gaps.len()),
                Pattern::Capture { recording, .. } if !recording.packets.is_empty() => {
                    rng.random_range(0..recording.packets.len())
                }
                _ => 0,
            },
            rng,
            pattern: stream.pattern.clone(),
            mean_gap,
            link: stream.link,
            wire: stream.link.wire_time(stream.frame),
            above,
            owed: (stream.mix == Mix::Even)
                .then(|| (stream.shares.clone(), vec![0.0; stream.shares.len()])),
            only_class: stream.shares.iter().position(|s| *s >= 1.0),
            flows: stream.flows.max(1),
            next_flow: vec![0; classes],
            heaviest_flow: stream.heaviest_flow,
            next_step: stream.steps.first().map_or(f64::INFINITY, |s| s.0.0 as f64),
            steps: stream.steps.iter().rev().copied().collect(),
            incoming: None,
            factor: 1.0,
            sequences: vec![0; classes * usize::from(stream.flows.max(1))],
            last: Ps::ZERO,
            burst_left: 0,
        }
    }

    /// Packets by code instead of the pattern's.
    pub(crate) fn with_incoming(mut self, incoming: Incoming) -> Self {
        self.incoming = Some(Box::new(incoming));
        self
    }

    /// Whether no packet comes any more.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.incoming.as_ref().is_some_and(|i| i.is_over())
    }

    /// The next `n` packets, or fewer where there are no more; the time of each is when its last bit arrives.
    #[inline]
    pub fn generate(&mut self, n: usize, mut sink: impl FnMut(Packet)) {
        if self.incoming.is_some() {
            return self.by_code(n, sink);
        }
        if self.pattern == Pattern::Poisson {
            for _ in 0..n {
                let e = exponential(&mut self.rng);
                sink(self.packet(e * self.mean_gap, 0.0));
            }
            return;
        }
        if let Pattern::Capture { recording, .. } = &self.pattern {
            let recording = Arc::clone(recording);
            return self.replay(&recording, n, sink);
        }
        for _ in 0..n {
            let (gap, jitter) = self.gap();
            sink(self.packet(gap, jitter));
        }
    }

    /// The next `n` packets by code.
    fn by_code(&mut self, n: usize, mut sink: impl FnMut(Packet)) {
        let Some(mut incoming) = self.incoming.take() else {
            return;
        };
        for coming in std::iter::from_fn(|| incoming.next()).take(n) {
            self.last = coming.at.max(self.last + self.link.wire_time(coming.bytes));
            let flow = self.next_flow(coming.class);
            sink(self.of(self.last, coming.class, flow));
        }
        self.incoming = Some(incoming);
    }

    /// The next `n` packets of a capture.
    fn replay(&mut self, recording: &Recording, n: usize, mut sink: impl FnMut(Packet)) {
        for _ in 0..n {
            let Some(recorded) = recording.packets.get(self.position) else {
                return;
            };
            self.position = (self.position + 1) % recording.packets.len();
            let at = self.on_the_wire(recorded.gap * self.mean_gap, 0.0, {
                self.link.wire_time(recorded.bytes.into())
            });
            let flow = (recorded.flow % u32::from(self.flows)) as u16;
            sink(self.of(at, recorded.class.into(), flow));
        }
    }

    /// The gap to the next packet, and how far jitter moves that packet off its time, ps.
    fn gap(&mut self) -> (f64, f64) {
        match &self.pattern {
            Pattern::Poisson | Pattern::Capture { .. } => {
                let e = exponential(&mut self.rng);
                (e * self.mean_gap, 0.0)
            }
            Pattern::Cbr { jitter } => {
                let off = if *jitter > 0.0 {
                    (self.rng.random::<f64>() - 0.5) * jitter * self.mean_gap
                } else {
                    0.0
                };
                (self.mean_gap, off)
            }
            Pattern::OnOff { mean_burst } => {
                if self.burst_left > 0 {
                    self.burst_left -= 1;
                    return (self.wire.0 as f64, 0.0);
                }
                let u: f64 = 1.0 - self.rng.random::<f64>();
                let p = 1.0 / mean_burst;
                // The burst is geometric and at least 1 packet long. Its first packet comes after the pause
                // and is not counted here.
                self.burst_left = if p >= 1.0 {
                    0
                } else {
                    (libm::log(u) / libm::log(1.0 - p)) as u64
                };
                let pause = mean_burst * self.mean_gap - (mean_burst - 1.0) * self.wire.0 as f64;
                let e = exponential(&mut self.rng);
                (e * pause.max(0.0), 0.0)
            }
            Pattern::Gaps { gaps, .. } => {
                let gap = gaps.get(self.position).copied().unwrap_or(1.0);
                self.position = (self.position + 1) % gaps.len().max(1);
                (gap * self.mean_gap, 0.0)
            }
        }
    }

    /// When a packet has arrived that follows the one before after `gap`, and takes `wire` on the link.
    #[inline]
    fn on_the_wire(&mut self, gap: f64, jitter: f64, wire: Ps) -> Ps {
        if self.ideal >= self.next_step {
            self.step();
        }
        self.ideal += gap / self.factor;
        // Two packets cannot be on the wire at once. Times fit an i64, whose conversion is faster.
        let at = Ps((self.ideal + jitter) as i64 as u64).max(self.last + wire);
        self.last = at;
        at
    }

    #[inline]
    fn packet(&mut self, gap: f64, jitter: f64) -> Packet {
        let at = self.on_the_wire(gap, jitter, self.wire);
        let class = self.class();
        let flow = if self.heaviest_flow > 0.0 && self.rng.random::<f64>() < self.heaviest_flow {
            0
        } else {
            self.next_flow(class)
        };
        self.of(at, class, flow)
    }

    /// The flow whose turn it is.
    #[inline]
    fn next_flow(&mut self, class: usize) -> u16 {
        let flow = self.next_flow[class];
        self.next_flow[class] = if flow + 1 == self.flows { 0 } else { flow + 1 };
        flow
    }

    /// The next packet of a class's flow.
    #[inline]
    fn of(&mut self, at: Ps, class: usize, flow: u16) -> Packet {
        let flow = (self.next_flow.len() - 1 - class) as u16 * self.flows + flow;
        let sequence = &mut self.sequences[usize::from(flow)];
        *sequence = sequence.wrapping_add(1);
        Packet {
            at,
            sequence: *sequence,
            flow,
            class: class as u8,
            marked: false,
        }
    }

    #[cold]
    fn step(&mut self) {
        while let Some((_, factor)) = self.steps.pop_if(|s| s.0.0 as f64 <= self.ideal) {
            self.factor = factor;
        }
        self.next_step = self.steps.last().map_or(f64::INFINITY, |s| s.0.0 as f64);
    }

    #[inline]
    fn class(&mut self) -> usize {
        if let Some(class) = self.only_class {
            return class;
        }
        if let Some((shares, owed)) = &mut self.owed {
            return most_owed(shares, owed);
        }
        let random: u32 = self.rng.random();
        self.above
            .iter()
            .position(|end| random > *end)
            .unwrap_or(self.above.len())
    }
}

/// The class that is owed most; of several, the highest.
fn most_owed(shares: &[f64], owed: &mut [f64]) -> usize {
    for (o, share) in owed.iter_mut().zip(shares) {
        *o += share;
    }
    let most = (0..owed.len())
        .rev()
        .max_by(|a, b| owed[*a].total_cmp(&owed[*b]))
        .unwrap_or(0);
    owed[most] -= 1.0;
    most
}

/// Gaps of time stamps (ns) in units of their mean.
pub fn gaps_of(times_ns: &[f64]) -> Vec<f64> {
    let gaps: Vec<f64> = times_ns
        .windows(2)
        .map(|w| (w[1] - w[0]).max(0.0))
        .collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len().max(1) as f64;
    if mean > 0.0 {
        gaps.iter().map(|g| g / mean).collect()
    } else {
        Vec::new()
    }
}

#[cfg(test)]
mod tests;
