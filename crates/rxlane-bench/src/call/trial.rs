//! One device under one load, once.

use std::time::Duration;

use rxlane_system::{netns, stop, sysctl};

use super::answers::Answered;
use super::drops::Drops;
use super::exchange::{EF, Exchange, Heard, Kind};
use super::link::Links;
use super::load::Load;
use super::options::Options;
use super::quality::{FRAME_MS, fairness, mean_opinion_score, quantile};
use crate::BenchError;
use crate::bulk::{Bulk, Hosts, How};
use crate::dut::Dut;
use crate::installed::Installed;
use crate::lab::{Lab, Place};
use crate::shell::run as sh;

/// Until connections have their share, are marked and have been seen to be forwarded.
const WARM_UP: Duration = Duration::from_secs(1);

/// More than a full packet, and less than two.
const ONE_FRAME: u32 = 1600;

pub(super) struct Trial {
    pub(super) tcp_bps: f64,
    pub(super) fairness: f64,
    pub(super) retransmits: f64,
    pub(super) marked: f64,
    pub(super) sent: f64,
    pub(super) lost: f64,
    pub(super) rtt_p50_us: f64,
    pub(super) rtt_p99_us: f64,
    pub(super) rtt_max_us: f64,
    pub(super) mean_opinion_score: f64,
    pub(super) drops: Drops,
    pub(super) beside: Vec<Answered>,
}

/// Queues of hosts and router, for all trials of a lab.
///
/// # Errors
/// When the kernel has no such qdisc.
pub(super) fn hosts(lab: &Lab, options: &Options) -> Result<(), BenchError> {
    if options.host_queue > 0 {
        for (place, device) in host_devices(lab) {
            let (netns, packets) = (lab.netns(place), options.host_queue);
            sh(&format!(
                "ip -n {netns} link set {device} txqueuelen {packets}"
            ))?;
        }
    }
    if !options.merges {
        let netns = lab.netns(Place::Router);
        for port in lab.router_ports() {
            sh(&format!(
                "ip -n {netns} link set {port} gro_max_size {ONE_FRAME}"
            ))?;
        }
    }
    if let Some(kind) = &options.qdisc {
        for port in lab.router_ports() {
            let refused = |e| BenchError::Parameter(format!("--qdisc {kind}: {e}"));
            qdisc(lab, Place::Router, &port, &format!("root {kind}")).map_err(refused)?;
        }
    }
    Ok(())
}

/// The hosts' interfaces.
fn host_devices(lab: &Lab) -> impl Iterator<Item = (Place, String)> {
    (0..lab.config.ports).flat_map(|i| {
        [
            (Place::Gen, format!("gen{i}")),
            (Place::Sink, format!("snk{i}")),
        ]
    })
}

fn qdisc(lab: &Lab, place: Place, device: &str, what: &str) -> Result<(), BenchError> {
    let netns = lab.netns(place);
    sh(&format!("tc -n {netns} qdisc replace dev {device} {what}")).map(|_| ())
}

/// What a token bucket lets through at once: the batch of a millisecond, or a full frame.
fn burst_bytes(bits_per_s: u64) -> u64 {
    (bits_per_s / 8000).max(1600)
}

/// The queue of each host, and its link to the router. Calls come first there: who waits behind downloads of the same host waits for no
/// router.
///
/// # Errors
/// When the kernel has no such qdisc.
fn host_links(lab: &Lab, options: &Options, load: &Load) -> Result<(), BenchError> {
    for (place, device) in host_devices(lab) {
        let put = |what: &str| qdisc(lab, place, &device, what);
        match load.link_in_bps {
            Some(bps) => {
                let burst = burst_bytes(bps);
                put(&format!(
                    "root handle 1: tbf rate {bps}bit burst {burst}b limit {burst}b"
                ))?;
                put("parent 1:1 pfifo_fast")?;
            }
            None if options.host_queue > 0 => put("root pfifo_fast")?,
            None => put("root noqueue")?,
        }
    }
    Ok(())
}

pub(super) fn run(
    lab: &Lab,
    dut: &Dut,
    load: &Load,
    options: &Options,
) -> Result<Trial, BenchError> {
    let scene = Scene::set(lab, dut, load, options)?;
    let hosts = &scene.hosts;
    let mut tcp = scene.connect(load, options.paced_bps, &[])?;
    let calls = Exchange::begin(hosts, Kind::calls(options.calls, EF))?;
    let whole_s = (WARM_UP + Duration::from_secs_f64(options.seconds)).as_secs_f64();
    let beside = options.beside.begin(hosts, whole_s)?;
    tcp.send()?;
    stop::sleep(WARM_UP)?;
    let (drops, info, bytes) = (Drops::so_far(lab)?, tcp.info()?, tcp.received_by_each());
    let began = std::time::Instant::now();
    calls.count(true);
    beside.count(true);
    stop::sleep(Duration::from_secs_f64(options.seconds))?;
    calls.count(false);
    beside.count(false);
    let (after, took) = (tcp.received_by_each(), began.elapsed().as_secs_f64());
    let info = tcp.info()? - info;
    let heard = calls.end()?;
    let beside = beside.end()?;
    let drops = Drops::so_far(lab)?.since(drops);
    drop(tcp);
    scene.clear()?;
    let each = after.iter().zip(&bytes);
    let each: Vec<f64> = each.map(|(a, b)| 8.0 * (a - b) as f64 / took).collect();
    Ok(Trial {
        tcp_bps: each.iter().sum(),
        fairness: fairness(&each),
        retransmits: info.retransmits as f64,
        marked: info.marked as f64,
        drops,
        beside,
        ..of_calls(heard)
    })
}

/// A router with its links and hosts, before anybody sends.
pub(super) struct Scene {
    pub(super) hosts: Hosts,
    links: Option<Links>,
    _installed: Installed,
}

impl Scene {
    /// # Errors
    /// When the device cannot be installed, or links have no such rate.
    pub(super) fn set(
        lab: &Lab,
        dut: &Dut,
        load: &Load,
        options: &Options,
    ) -> Result<Self, BenchError> {
        let installed = dut.install(lab)?;
        // Programs that come and go make new NAPI threads.
        lab.tune()?;
        host_links(lab, options, load)?;
        let links = load.link_bps.map(|bps| Links::begin(lab, bps));
        let hosts = Hosts::of_lab(lab);
        for host in hosts.both() {
            netns::within(host, false, || {
                sysctl::write("net.ipv4.tcp_ecn", if load.ecn { "1" } else { "0" })
            })?;
        }
        Ok(Self {
            links: links.transpose()?,
            hosts,
            _installed: installed,
        })
    }

    /// Connections of the load, with these types of service in turn, if there are some.
    ///
    /// # Errors
    /// As [`Bulk::connect`].
    pub(super) fn connect(
        &self,
        load: &Load,
        paced_bps: Option<u64>,
        tos: &'static [u8],
    ) -> Result<Bulk, BenchError> {
        let how = How {
            congestion: Some(load.congestion.clone()),
            paced_bps,
            tos,
            asked_by: "--flows",
        };
        let [up, down] = load.direction.of(load.flows);
        Bulk::connect(&self.hosts, up, down, &how)
    }

    /// # Errors
    /// When a link ended by itself.
    pub(super) fn clear(self) -> Result<(), BenchError> {
        self.links.map_or(Ok(()), Links::end)
    }
}

/// What calls were like, with nothing beside them.
fn of_calls(heard: Heard) -> Trial {
    let rtt: Vec<f64> = heard.round_trips.iter().map(|(_, us)| *us).collect();
    let of = |q| quantile(&rtt, q).unwrap_or(f64::INFINITY);
    let (sent, back) = (heard.sent as f64, rtt.len() as f64);
    let lost_of = |there: f64, before: f64| match before > 0.0 {
        true => 1.0 - (there / before).min(1.0),
        false => 1.0,
    };
    let arrived = heard.arrived as f64;
    let loss = lost_of(arrived, sent).max(lost_of(back, arrived));
    // A jitter buffer waits for all but the slowest hundredth.
    let delay_ms = FRAME_MS + of(0.99) / 2e3;
    Trial {
        tcp_bps: 0.0,
        fairness: 1.0,
        retransmits: 0.0,
        marked: 0.0,
        sent,
        lost: sent - back,
        rtt_p50_us: of(0.5),
        rtt_p99_us: of(0.99),
        rtt_max_us: of(1.0),
        mean_opinion_score: mean_opinion_score(delay_ms, loss),
        drops: Drops::default(),
        beside: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_come_back_is_lost_and_a_call_without_answer_is_the_worst() {
        let heard = Heard {
            sent: 100,
            arrived: 95,
            round_trips: (1..=90)
                .rev()
                .map(|us| (std::time::Instant::now(), f64::from(us)))
                .collect(),
        };
        let trial = of_calls(heard);
        assert_eq!((trial.sent, trial.lost), (100.0, 10.0));
        assert_eq!((trial.rtt_p50_us, trial.rtt_max_us), (46.0, 90.0));
        let silent = of_calls(Heard {
            sent: 10,
            ..Heard::default()
        });
        assert_eq!((silent.lost, silent.mean_opinion_score), (10.0, 1.0));
    }
}
