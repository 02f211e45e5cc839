//! Where packets come from: one stream a port, with a pattern and a mix of classes and flows.

use std::sync::Arc;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_policy::{Bps, Ps};
use serde::{Deserialize, Serialize};

use crate::capture::Recording;
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
            factor: 1.0,
            sequences: vec![0; classes * usize::from(stream.flows.max(1))],
            last: Ps::ZERO,
            burst_left: 0,
        }
    }

    /// The next `n` packets; the time of each is when its last bit arrives.
    #[inline]
    pub fn generate(&mut self, n: usize, mut sink: impl FnMut(Packet)) {
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
            let flow = self.next_flow[class];
            self.next_flow[class] = if flow + 1 == self.flows { 0 } else { flow + 1 };
            flow
        };
        self.of(at, class, flow)
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
mod tests {
    use super::*;

    fn stream(pattern: Pattern) -> Stream {
        Stream {
            pps: 1e6,
            pattern,
            shares: vec![0.3, 0.7],
            mix: Mix::Random,
            flows: 4,
            heaviest_flow: 0.0,
            steps: Vec::new(),
            frame: 64,
            link: Bps(10e9),
        }
    }

    fn take(source: &mut Source, n: usize) -> Vec<Packet> {
        let mut packets = Vec::new();
        source.generate(n, |p| packets.push(p));
        packets
    }

    #[test]
    fn every_pattern_keeps_its_rate_its_shares_and_the_wire_s_distance() {
        for pattern in [
            Pattern::Cbr { jitter: 0.0 },
            Pattern::Cbr { jitter: 0.5 },
            Pattern::Poisson,
            Pattern::OnOff { mean_burst: 8.0 },
            Pattern::Gaps {
                gaps: gaps_of(&[0.0, 1.0, 5.0, 6.0]),
                file: String::new(),
            },
        ] {
            let mut source = Source::new(&stream(pattern.clone()), 1);
            let n = 200_000;
            let packets = take(&mut source, n);
            let rate = n as f64 / packets[n - 1].at.as_s();
            assert!((rate / 1e6 - 1.0).abs() < 0.02, "{pattern:?}: {rate}");
            let high = packets.iter().filter(|p| p.class == 0).count() as f64 / n as f64;
            assert!((high - 0.3).abs() < 0.01, "{pattern:?}: {high}");
            let wire = Bps(10e9).wire_time(64);
            assert!(
                packets.windows(2).all(|w| w[1].at >= w[0].at + wire),
                "{pattern:?}"
            );
        }
    }

    #[test]
    fn an_even_mix_spaces_the_packets_of_a_class_evenly() {
        let even = Stream {
            mix: Mix::Even,
            ..stream(Pattern::Poisson)
        };
        let packets = take(&mut Source::new(&even, 1), 1000);
        let high: Vec<usize> = (0..1000).filter(|i| packets[*i].class == 0).collect();
        assert_eq!(high.len(), 300);
        assert!(high.windows(2).all(|w| (3..=4).contains(&(w[1] - w[0]))));
    }

    #[test]
    fn a_step_changes_the_rate_when_it_is_time() {
        let stepped = Stream {
            steps: vec![(Ps::from_s(0.1), 3.0), (Ps::from_s(0.2), 0.5)],
            ..stream(Pattern::Poisson)
        };
        let packets = take(&mut Source::new(&stepped, 1), 500_000);
        let between = |from: f64, to: f64| {
            let within = |p: &&Packet| (from..to).contains(&p.at.as_s());
            packets.iter().filter(within).count() as f64
        };
        for (from, expected) in [(0.0, 100_000.0), (0.1, 300_000.0), (0.2, 50_000.0)] {
            let came = between(from, from + 0.1);
            assert!((came / expected - 1.0f64).abs() < 0.02, "{from}: {came}");
        }
    }

    #[test]
    fn the_heaviest_flow_has_its_share_and_the_others_share_the_rest() {
        let skewed = Stream {
            heaviest_flow: 0.7,
            ..stream(Pattern::Poisson)
        };
        let packets = take(&mut Source::new(&skewed, 1), 100_000);
        let of = |flow| {
            packets
                .iter()
                .filter(|p| p.class == 1 && p.flow == flow)
                .count() as f64
        };
        let all = packets.iter().filter(|p| p.class == 1).count() as f64;
        assert!((of(0) / all - 0.775).abs() < 0.01, "{}", of(0) / all);
        assert!((of(3) / all - 0.075).abs() < 0.005, "{}", of(3) / all);
    }

    #[test]
    fn cbr_does_not_drift() {
        let mut source = Source::new(&stream(Pattern::Cbr { jitter: 0.0 }), 1);
        let packets = take(&mut source, 1_000_001);
        let (first, last) = (packets[0].at, packets[1_000_000].at);
        assert!((last - first).0.abs_diff(1_000_000 * 1_000_000) < 1000);
    }

    #[test]
    fn flows_are_numbered_without_gaps() {
        let mut source = Source::new(&stream(Pattern::Poisson), 3);
        let mut last = [0u32; 8];
        for p in take(&mut source, 10_000) {
            assert_eq!(p.sequence, last[usize::from(p.flow)] + 1);
            last[usize::from(p.flow)] = p.sequence;
        }
    }
}
