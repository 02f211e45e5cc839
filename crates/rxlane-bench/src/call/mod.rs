//! Calls beside TCP: closed loops, which send more until some queue on their way is full, and answer to what is lost.

mod beside;
mod drops;
mod exchange;
mod link;
mod quality;
mod rrul;
mod trial;
mod web;

use std::collections::BTreeMap;

use indicatif::ProgressBar;
use itertools::iproduct;
use rxlane_system::stop;
use serde::{Deserialize, Serialize};

pub use self::beside::{Answered, Beside};
pub use self::drops::Drops;
pub use self::rrul::rrul;
pub(crate) use self::rrul::within;
use self::trial::{Trial, hosts};
use crate::BenchError;
use crate::bench::{Dut, in_turn};
use crate::bulk::MOST;
use crate::lab::{Firewall, Lab, LabConfig};
use crate::report::{CallDut, CallPoint, CallReport, median};
use crate::session::{check, progress};

/// Which way data go; clients are behind the router's ingress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Direction {
    /// To the clients.
    Down,
    /// From the clients.
    Up,
    /// As many connections each way.
    Both,
}

impl Direction {
    /// Uploads and downloads of so many flows.
    fn of(self, flows: u32) -> [u32; 2] {
        match self {
            Self::Down => [0, flows],
            Self::Up => [flows, 0],
            Self::Both => [flows, flows],
        }
    }
}

impl std::str::FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "down" => Ok(Self::Down),
            "up" => Ok(Self::Up),
            "both" => Ok(Self::Both),
            _ => Err(format!("`{text}` is no direction: use down, up or both")),
        }
    }
}

/// What TCP does beside the calls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// Firewall of the router.
    pub firewall: Firewall,
    /// Long connections, of each direction.
    pub flows: u32,
    /// Which way their data go.
    pub direction: Direction,
    /// Congestion control by its name in Linux.
    pub congestion: String,
    /// Whether both ends negotiate ECN (RFC 3168).
    pub ecn: bool,
    /// Bits a second that the router's links take; `None`: as many as the hosts' cores do.
    pub link_bps: Option<u64>,
    /// Bits a second that each host's link to the router takes; `None`: as many as the host sends.
    pub link_in_bps: Option<u64>,
}

impl std::fmt::Display for Load {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (flows, congestion, firewall) = (self.flows, &self.congestion, self.firewall);
        let way = match self.direction {
            Direction::Down => "down",
            Direction::Up => "up",
            Direction::Both => "each way",
        };
        let ecn = if self.ecn { "+ecn" } else { "" };
        write!(f, "{flows} {way}, {congestion}{ecn}, {firewall}")?;
        for (link, bps) in [("", self.link_bps), (" in", self.link_in_bps)] {
            if let Some(bps) = bps {
                write!(f, ", {} Gbit/s{link}", bps as f64 / 1e9)?;
            }
        }
        Ok(())
    }
}

/// What is varied: everything with everything.
#[derive(Debug, Clone)]
pub struct Matrix {
    /// Firewalls of the router.
    pub firewalls: Vec<Firewall>,
    /// Connections.
    pub flows: Vec<u32>,
    /// Which way their data go.
    pub directions: Vec<Direction>,
    /// Congestion controls by their names in Linux.
    pub congestions: Vec<String>,
    /// Without ECN, with it, or both in turn.
    pub ecn: Vec<bool>,
    /// Bits a second that the router's links take, or `None`.
    pub links_bps: Vec<Option<u64>>,
    /// Bits a second that the hosts' links to the router take, or `None`.
    pub links_in_bps: Vec<Option<u64>>,
}

impl Matrix {
    fn loads(&self, firewall: Firewall) -> Vec<Load> {
        let tcp = iproduct!(&self.flows, &self.directions, &self.congestions, &self.ecn);
        iproduct!(tcp, &self.links_bps, &self.links_in_bps)
            .map(
                |((flows, direction, congestion, ecn), link, link_in)| Load {
                    firewall,
                    flows: *flows,
                    direction: *direction,
                    congestion: congestion.clone(),
                    ecn: *ecn,
                    link_bps: *link,
                    link_in_bps: *link_in,
                },
            )
            .collect()
    }
}

/// What to measure.
#[derive(Debug, Clone)]
pub struct Options {
    /// The lab to build; its firewall is that of the matrix.
    pub lab: LabConfig,
    /// Devices under test; they alternate, and what is worse is worse than the first.
    pub duts: Vec<Dut>,
    /// Calls at a time.
    pub calls: u32,
    /// What else there is.
    pub beside: Beside,
    /// Whether the router's ports are served in XDP, as network cards' are, and not at tc ingress, as veths' are.
    pub in_xdp: bool,
    /// Whether GRO merges packets that come in by the router's ports. Where not, queues hold frames, as the ring of a network card does.
    pub merges: bool,
    /// Packets that wait in front of a host's interface; 0: those that find the router's ring full are lost.
    pub host_queue: u32,
    /// Queueing discipline of the router's ports; `None`: the system's default.
    pub qdisc: Option<String>,
    /// No connection is faster, bits a second, and all are paced; `None`: as the congestion control does.
    pub paced_bps: Option<u64>,
    /// Time that counts, s.
    pub seconds: f64,
    /// Repetitions; results are medians.
    pub repeat: u32,
}

impl Options {
    fn check(&self, matrix: &Matrix) -> Result<(), BenchError> {
        check(&self.duts, self.seconds, 0.5, self.repeat)?;
        let wrong = |text: String| Err(BenchError::Parameter(text));
        if !(1..=200).contains(&self.calls) {
            return wrong(format!("--calls {}: use 1 to 200", self.calls));
        }
        for (option, n, most) in [
            ("--games", self.beside.games, 200),
            ("--names", self.beside.names, 1000),
            ("--pages", self.beside.pages, 64),
        ] {
            if n > most {
                return wrong(format!("{option} {n}: use at most {most}"));
            }
        }
        for flows in &matrix.flows {
            let most = matrix.directions.iter().map(|d| d.of(*flows).iter().sum());
            if most.max().unwrap_or(0) > MOST {
                return wrong(format!("--flows {flows}: use at most {MOST} in all"));
            }
        }
        Ok(())
    }
}

/// Measures calls beside every load, each device in turn.
///
/// # Errors
/// What [`BenchError`] names, such as a congestion control or qdisc that this kernel has not.
pub fn call(options: &Options, matrix: &Matrix) -> Result<CallReport, BenchError> {
    options.check(matrix)?;
    stop::listen();
    let loads = matrix.firewalls.iter().map(|f| matrix.loads(*f).len());
    let trials = loads.sum::<usize>() * options.duts.len() * options.repeat as usize;
    let bar = progress(trials as u64);
    let (mut points, mut settings) = (Vec::new(), BTreeMap::new());
    for firewall in &matrix.firewalls {
        let lab = Lab::up(LabConfig {
            firewall: *firewall,
            hosts_send: !options.in_xdp,
            ..options.lab.clone()
        })?;
        let mut measure = || {
            hosts(&lab, options)?;
            for load in matrix.loads(*firewall) {
                let rounds = rounds(options, *firewall, &bar, |dut, _| {
                    trial::run(&lab, dut, &load, options)
                })?;
                points.push(point(&load, options, &rounds));
            }
            settings = lab.tune()?.settings;
            Ok::<_, BenchError>(())
        };
        let outcome = measure();
        lab.down()?;
        outcome?;
    }
    bar.finish_and_clear();
    Ok(CallReport {
        seconds: options.seconds,
        repeat: options.repeat,
        calls: options.calls,
        settings: self::settings(options, settings),
        points,
    })
}

/// Each device in turn, in so many rounds, which are numbered from 1 on.
fn rounds<T>(
    options: &Options,
    firewall: Firewall,
    bar: &ProgressBar,
    mut trial: impl FnMut(&Dut, u32) -> Result<T, BenchError>,
) -> Result<Vec<Vec<T>>, BenchError> {
    let round = |n: u32| {
        in_turn(n - 1, options.duts.len(), |i| {
            let dut = &options.duts[i];
            bar.set_message(format!("{} behind {firewall}, round {n}", dut.name()));
            let of = trial(dut, n)?;
            bar.inc(1);
            Ok(of)
        })
    };
    (1..=options.repeat).map(round).collect()
}

/// Settings of the lab that count here.
fn settings(options: &Options, mut of_lab: BTreeMap<String, String>) -> BTreeMap<String, String> {
    // Of test packets, which nobody sends here; and what is varied.
    for other in ["firewall", "sink"] {
        of_lab.remove(other);
    }
    of_lab.insert("idle".into(), "the router's core halts".into());
    if !options.merges {
        let text = "merges nothing on the router's ports (gro_max_size)".to_owned();
        of_lab.insert("gro".into(), text);
    }
    if options.host_queue > 0 {
        let text = format!("pfifo_fast, {} packets", options.host_queue);
        of_lab.insert("queue of each host".into(), text);
    }
    let qdisc = options.qdisc.clone();
    of_lab.insert(
        "qdisc of the router".into(),
        qdisc.unwrap_or("default".into()),
    );
    of_lab
}

fn point(load: &Load, options: &Options, rounds: &[Vec<Trial>]) -> CallPoint {
    let mut duts: Vec<CallDut> = Vec::new();
    for (i, dut) in options.duts.iter().enumerate() {
        let of = |value: &dyn Fn(&Trial) -> f64| median(rounds.iter().map(|r| value(&r[i])));
        let mut result = CallDut {
            name: dut.name().to_owned(),
            tcp_bps: of(&|t| t.tcp_bps),
            fairness: of(&|t| t.fairness),
            retransmits: of(&|t| t.retransmits),
            marked: of(&|t| t.marked),
            call_sent: of(&|t| t.sent),
            call_lost: of(&|t| t.lost),
            rtt_p50_us: of(&|t| t.rtt_p50_us),
            rtt_p99_us: of(&|t| t.rtt_p99_us),
            rtt_max_us: of(&|t| t.rtt_max_us),
            mean_opinion_score: of(&|t| t.mean_opinion_score),
            drops: Drops {
                ring: of(&|t| t.drops.ring),
                core: of(&|t| t.drops.core),
                egress: of(&|t| t.drops.egress),
            },
            beside: Answered::medians(&rounds.iter().map(|r| &r[i].beside[..]).collect::<Vec<_>>()),
            worse: Vec::new(),
        };
        if let Some(first) = duts.first() {
            result.worse = result.worse_than(first);
        }
        duts.push(result);
    }
    CallPoint {
        load: load.clone(),
        duts,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_is_everything_with_everything_and_both_directions_are_twice_the_flows() {
        let matrix = Matrix {
            firewalls: vec![Firewall::None],
            flows: vec![1, 8],
            directions: vec![Direction::Down, Direction::Both],
            congestions: vec!["cubic".into(), "bbr".into()],
            ecn: vec![false, true],
            links_bps: vec![None, Some(1_000_000_000)],
            links_in_bps: vec![Some(100_000_000)],
        };
        let loads = matrix.loads(Firewall::None);
        assert_eq!(loads.len(), 32);
        assert!(
            loads
                .iter()
                .all(|load| loads.iter().filter(|l| *l == load).count() == 1)
        );
        assert_eq!(Direction::Both.of(8), [8, 8]);
        assert_eq!("up".parse::<Direction>().unwrap().of(3), [3, 0]);
        assert!("sideways".parse::<Direction>().is_err());
    }
}
