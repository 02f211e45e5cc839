//! Generator and sink at both ends of a router.

use std::time::{Duration, Instant};

use rxlane_policy::{Nanos, Pps};
use rxlane_system::stop;
use rxlane_system::threads::{self, Scheduling};

use crate::BenchError;
use crate::bulk::{self, Bulk, Hosts, How};
use crate::by_core::{CoreResult, CoreThreads};
use crate::circle;
use crate::clock::{now_ns, sleep_until};
use crate::core_use::CoreUse;
use crate::generator::{Generator, gap_x256};
use crate::hog::Hog;
use crate::idle;
use crate::lab::QueueCores;
use crate::lab::{Drive, Lab};
use crate::layout::{Bin, Flow, MAX_FLOWS, PacedStage, Window};
use crate::occupant::Occupant;
use crate::prime::Priming;
use crate::profile::Profile;
use crate::sampler::{Known, Sampler};
use crate::sink::Sink;
use crate::threads::Threads;
use crate::traffic::{self, CLASSES, Pattern, Traffic};
use crate::trial::{ClassResult, Course, Latency, Trial};
use crate::wire::Wire;

/// Ahead of each trial, slowly, so that the router knows its next hops when it is overloaded
/// (RFC 2544, C.2.4.2: learning frames). Their answers would have to pass the overloaded core.
const LEARNING_PPS: f64 = 200.0;
const LEARNING: Duration = Duration::from_millis(100);
/// Traffic that runs before packets count, and after.
const WARM_UP: Duration = Duration::from_millis(300);
const DRAIN: Duration = Duration::from_millis(60);
/// Above the router's polls: on a core that it shares, the thread that reads counters would come to read them too late.
const PUNCTUAL: Scheduling = Scheduling::Fifo(60);
/// A generator that sent less than this share of what was offered fell behind.
const KEPT_UP: f64 = 0.98;

/// Nothing arrives for longer than this, and than so many packets apart, where the machine stalls.
const STALL_NS: u64 = 1_000_000;
const STALL_PACKETS: f64 = 50.0;

/// Generator and sink, ready for trials.
pub struct Bed {
    generator: Generator,
    sink: Sink,
    /// One a core of the router; none where it may halt, is shared, or is not of this machine.
    idle: Vec<Occupant>,
    hog: Option<Occupant>,
    queues: Vec<QueueCores>,
    shares_cores: bool,
    /// How the calling thread is scheduled.
    usual: Scheduling,
    /// Or why there is none.
    sampler: Result<Sampler, String>,
    /// Bulk TCP connections of each trial, and where they are made.
    connections: u32,
    hosts: Option<Hosts>,
    class_of_flow: Vec<u32>,
    priming: Option<Priming>,
    /// Whether how many packets a trial brings is certain.
    equal_gaps: bool,
}

/// What was measured beside the packets.
#[derive(Default)]
struct Beside {
    /// Shares of the router's core, 0 to 1.
    in_use: f64,
    hog_share: f64,
    tcp_bps: f64,
    wakeups_per_s: [f64; 2],
    core: Option<CoreUse>,
    /// What router and traffic had of each core, 0 to 1, where there are several.
    shares: Vec<(usize, [f64; 2])>,
    packet_ns: Option<f64>,
}

impl Bed {
    /// Sets the bed up in a lab.
    ///
    /// # Errors
    /// Parameters out of range, a missing capture, or a refusal of the kernel.
    pub fn new(lab: &Lab, traffic: &Traffic) -> Result<Self, BenchError> {
        Self::on(&Wire::of_lab(lab)?, traffic)
    }

    pub(crate) fn on(wire: &Wire, traffic: &Traffic) -> Result<Self, BenchError> {
        if !(0.0..=1.0).contains(&traffic.rt_ratio) {
            return Err(BenchError::Parameter(format!(
                "--rt-ratio {}: use 0 to 1",
                traffic.rt_ratio
            )));
        }
        if traffic.flows == 0 || traffic.flows as usize * 2 > MAX_FLOWS {
            return Err(BenchError::Parameter(format!(
                "--flows {}: use 1 to {}",
                traffic.flows,
                MAX_FLOWS / 2
            )));
        }
        let queues = wire.queues.len().max(1) as u32;
        if traffic.flows < queues {
            return Err(BenchError::Parameter(format!(
                "--flows {}: each of {queues} queues needs one of each class",
                traffic.flows
            )));
        }
        // The calling thread reads counters at the edges of windows beside a busy generator. What it starts inherits this, too.
        let drive = match wire.round {
            Some(_) => Drive::Circle,
            None => Drive::TestRun,
        };
        threads::pin(0, wire.traffic_core)?;
        let usual = Scheduling::Nice(drive.nice());
        threads::schedule(0, usual)?;
        let schedules = traffic::schedules(traffic, queues)?;
        let frame = traffic.frame.largest();
        let flows = wire.flows(traffic.flows, frame);
        let share = [traffic.rt_ratio, 1.0 - traffic.rt_ratio];
        let of_use = |flow: &&Flow| share[flow.class as usize] > 0.0;
        let sent: Vec<Flow> = flows.iter().filter(of_use).copied().collect();
        let (generator, sink) = match &wire.round {
            Some(round) => circle::circle(wire, round, frame, &schedules, &flows)?,
            None => (
                Generator::new(
                    wire.gen_netns.as_deref(),
                    wire.traffic_core,
                    frame,
                    &schedules,
                    &flows,
                    wire.added_bytes(),
                )?,
                Sink::new(wire.sink_netns.as_deref(), &wire.sinks, wire.added_bytes())?,
            ),
        };
        Ok(Self {
            generator,
            sink,
            idle: wire
                .queues
                .iter()
                .filter(|_| !wire.router_core_halts && !wire.shares_cores)
                .map(|q| idle::idle_meter(q.router))
                .collect::<Result<_, _>>()?,
            hog: None,
            sampler: match &wire.queues[..] {
                [] => Err("the router's core is not of this machine".into()),
                [only] => Sampler::new(only.router).map_err(|e| e.to_string()),
                _ => Err("the router has several".into()),
            },
            queues: wire.queues.clone(),
            shares_cores: wire.shares_cores,
            usual,
            connections: 0,
            hosts: Hosts::of(wire),
            class_of_flow: flows.iter().map(|f| f.class).collect(),
            priming: wire.priming(&sent, frame)?,
            equal_gaps: matches!(traffic.pattern, Pattern::Cbr),
        })
    }

    /// From now on this takes its part of the router's core in each trial; `None`: nothing does.
    ///
    /// # Errors
    /// Where the router's core is not of this machine, or the thread cannot be made.
    pub fn share_core_with(&mut self, hog: Option<Hog>) -> Result<(), BenchError> {
        self.hog = None;
        let Some(hog) = hog else { return Ok(()) };
        let [only] = self.queues[..] else {
            return Err(BenchError::Parameter(
                "--hog takes time of the lab's only router core: leave out --in and --out, and --cores"
                    .into(),
            ));
        };
        self.hog = Some(hog.start(only.router)?);
        Ok(())
    }

    /// From now on so many bulk TCP connections go through the router in each trial.
    ///
    /// # Errors
    /// Where the hosts behind the router are not of a lab, or too many are asked for.
    pub fn share_router_with(&mut self, connections: u32) -> Result<(), BenchError> {
        if connections > bulk::MOST {
            return Err(BenchError::Parameter(format!(
                "--tcp {connections}: use up to {}",
                bulk::MOST
            )));
        }
        if connections > 0 && self.queues.len() > 1 {
            return Err(BenchError::Parameter(
                "--tcp is for one router core: leave out --cores".into(),
            ));
        }
        if connections > 0 && self.hosts.is_none() {
            return Err(BenchError::Parameter(
                "--tcp needs the lab's hosts: leave out --in and --out".into(),
            ));
        }
        self.connections = connections;
        Ok(())
    }

    /// Offers packets at a `rate` for a `length` of time.
    ///
    /// # Errors
    /// An interruption, or a failing BPF call.
    pub fn run(
        &mut self,
        rate: Pps,
        length: Duration,
        threads: &Threads,
    ) -> Result<Trial, BenchError> {
        self.run_with(rate, length, threads, || ())
    }

    /// The same, with something happening while the packets that count are under way.
    ///
    /// # Errors
    /// As [`Bed::run`].
    pub fn run_with(
        &mut self,
        rate: Pps,
        length: Duration,
        threads: &Threads,
        meanwhile: impl FnOnce(),
    ) -> Result<Trial, BenchError> {
        self.on_the_core(|bed| bed.measure(rate, length, threads, meanwhile))
    }

    /// Hog and idle_meter are at work while something is measured.
    fn on_the_core<T>(&mut self, measure: impl FnOnce(&mut Self) -> T) -> T {
        self.occupants().for_each(Occupant::work);
        let measured = measure(self);
        self.occupants().for_each(Occupant::pause);
        measured
    }

    fn occupants(&self) -> impl Iterator<Item = &Occupant> {
        self.idle.iter().chain(&self.hog)
    }

    fn measure(
        &mut self,
        rate: Pps,
        length: Duration,
        threads: &Threads,
        meanwhile: impl FnOnce(),
    ) -> Result<Trial, BenchError> {
        let mut bulk = self.bulk()?;
        // Looking into the router's namespace can take longer than the warm-up beside a busy generator, so it is done before that.
        let work_before = threads.work();
        let window = self.prepare(length, Duration::ZERO, rate.0)?;
        self.generator.start(rate.0, window)?;
        if let Some(bulk) = &mut bulk {
            bulk.send()?;
        }
        self.sleep_until(window.start_ns)?;
        let begun = Instant::now();
        let had_s = || {
            let hog_s = self.hog.as_ref().map_or(0.0, Occupant::ran_s);
            [self.idle.iter().map(Occupant::ran_s).sum(), hog_s]
        };
        let each = self.threads_of_cores(threads);
        let (had_before_s, ran_before_s) = (had_s(), threads.run_time_s());
        let each_before_s: Vec<[f64; 2]> = each.iter().map(CoreThreads::ran_s).collect();
        let bytes = || bulk.as_ref().map_or(0, Bulk::received);
        let bytes_before = bytes();
        let (before, watched) = (threads.wakeups(), Instant::now());
        threads::schedule(0, self.usual)?;
        meanwhile();
        self.sleep_until(window.end_ns)?;
        let (had_after_s, ran_s) = (had_s(), threads.run_time_s() - ran_before_s);
        let each_ran_s: Vec<[f64; 2]> = each.iter().map(CoreThreads::ran_s).collect();
        let elapsed_s = begun.elapsed().as_secs_f64();
        threads::schedule(0, self.usual)?;
        let [idle, hog_share] = [0, 1].map(|i| (had_after_s[i] - had_before_s[i]) / elapsed_s);
        let cores = self.queues.len().max(1) as f64;
        let in_use = match self.idle[..] {
            [] => ran_s / elapsed_s / cores + hog_share,
            _ => 1.0 - idle / cores,
        };
        let shares = each.iter().zip(each_before_s.iter().zip(each_ran_s));
        let shares = shares.map(|(threads, (before_s, after_s))| {
            let share = |i: usize| (after_s[i] - before_s[i]) / elapsed_s;
            (threads.core(), [share(0), share(1)])
        });
        let tcp_bps = (bytes() - bytes_before) as f64 * 8.0 / elapsed_s;
        let (after, watched_s) = (threads.wakeups(), watched.elapsed().as_secs_f64());
        let work = threads.work();
        let per_s = |i: usize| after[i].saturating_sub(before[i]) as f64 / watched_s;
        self.generator.pause()?;
        drop(bulk);
        stop::sleep(DRAIN)?;
        let beside = Beside {
            in_use: in_use.clamp(0.0, 1.0),
            hog_share,
            tcp_bps,
            wakeups_per_s: [per_s(0), per_s(1)],
            core: self.core_use(threads)?,
            shares: shares.collect(),
            packet_ns: work.ns_per_packet_since(work_before),
        };
        self.evaluate(rate, length, beside)
    }

    /// Until then, and on cores that are shared not longer: whoever is started meanwhile must not be as punctual.
    fn sleep_until(&self, ns: u64) -> Result<(), BenchError> {
        if self.shares_cores {
            threads::schedule(0, PUNCTUAL)?;
        }
        Ok(sleep_until(ns)?)
    }

    /// None for a single core, which is sampled.
    fn threads_of_cores(&self, threads: &Threads) -> Vec<CoreThreads> {
        let several = self.queues.iter().filter(|_| self.queues.len() > 1);
        CoreThreads::of(several.map(|q| q.router), &threads.napi, &threads.traffic)
    }

    /// Where what a core of the router sends is received.
    fn sink_of(&self, router_core: usize) -> Option<usize> {
        let n = self.queues.len();
        let sink = self
            .queues
            .iter()
            .find(|q| q.number(n) == router_core % n)?;
        Some(sink.traffic)
    }

    fn core_use(&self, threads: &Threads) -> Result<Option<CoreUse>, BenchError> {
        let known = Known {
            idle_meter: self.idle.first().map(Occupant::id),
            hog: self.hog.as_ref().map(Occupant::id),
            workers: threads.workers.clone(),
        };
        let sampler = self.sampler.as_ref().ok();
        sampler.map(|s| s.seen(&known)).transpose()
    }

    /// Why it is not known what the router's core does, if it is not.
    pub(crate) fn unsampled(&self) -> Option<&str> {
        self.sampler.as_ref().err().map(String::as_str)
    }

    /// The connections of a trial, made while nothing else is under way.
    fn bulk(&self) -> Result<Option<Bulk>, BenchError> {
        let how = How {
            asked_by: "--tcp",
            ..How::default()
        };
        let hosts = self.hosts.as_ref().filter(|_| self.connections > 0);
        hosts
            .map(|h| Bulk::connect(h, self.connections, 0, &how))
            .transpose()
    }

    /// Teaches the router where packets go, and opens a window a little later.
    fn prepare(&self, length: Duration, bin: Duration, pps: f64) -> Result<Window, BenchError> {
        stop::check()?;
        self.generator.start(LEARNING_PPS, Window::default())?;
        stop::sleep(LEARNING)?;
        if let Some(priming) = &self.priming {
            priming.prime()?;
        }
        // What follows takes a while beside a generator that is at work.
        self.generator.pause()?;
        self.sink.forget(&self.class_of_flow)?;
        if let Ok(sampler) = &self.sampler {
            sampler.forget()?;
        }
        let start_ns = now_ns() + WARM_UP.as_nanos() as u64 + 20_000_000;
        let window = Window {
            start_ns,
            end_ns: start_ns + Nanos::from(length).0,
            bin_ns: Nanos::from(bin).0,
            stall_ns: STALL_NS.max((STALL_PACKETS * 1e9 / pps) as u64),
        };
        self.sink.measure(window)?;
        if let Ok(sampler) = &self.sampler {
            sampler.watch(window)?;
        }
        Ok(window)
    }

    /// Offers a profile, in multiples of a rate.
    ///
    /// # Errors
    /// As [`Bed::run`].
    pub(crate) fn follow(
        &mut self,
        capacity_pps: f64,
        profile: &Profile,
    ) -> Result<Course, BenchError> {
        self.on_the_core(|bed| bed.pass_through(capacity_pps, profile))
    }

    fn pass_through(&self, capacity_pps: f64, profile: &Profile) -> Result<Course, BenchError> {
        let window = self.prepare(profile.length(), profile.bin(), capacity_pps)?;
        let steps = profile.steps();
        let stages: Vec<PacedStage> = steps
            .iter()
            .map(|(load, until_s)| PacedStage {
                until_ns: window.start_ns + (until_s * 1e9) as u64,
                mean_gap_x256: gap_x256(load * capacity_pps),
            })
            .collect();
        let first = steps.first().map_or(1.0, |(load, _)| *load);
        self.generator
            .follow(first * capacity_pps, &stages, window)?;
        sleep_until(window.end_ns)?;
        self.generator.pause()?;
        stop::sleep(DRAIN)?;
        let sent = self.generator.course()?;
        let packets = |bins: &[Bin]| -> f64 {
            bins.iter()
                .map(|b| f64::from(b.packets[0]) + f64::from(b.packets[1]))
                .sum()
        };
        Ok(Course {
            valid: kept_up(
                packets(&sent),
                profile.packets(capacity_pps),
                self.equal_gaps,
            ),
            sent,
            received: self.sink.course()?,
        })
    }

    fn evaluate(&self, rate: Pps, length: Duration, beside: Beside) -> Result<Trial, BenchError> {
        let sent_of = self.generator.sent()?;
        let sinks: Vec<usize> = beside
            .shares
            .iter()
            .filter_map(|(core, _)| self.sink_of(*core))
            .collect();
        let mut classes = Vec::new();
        let mut latency_ns = Vec::new();
        let each = (0u32..)
            .zip(CLASSES)
            .map(|(class, _)| self.sink.arrivals(class, &sinks));
        let arrivals = each.collect::<Result<Vec<_>, _>>()?;
        // A router that drops a class for some ms is not stalled as long as the other arrives.
        let sent = arrivals.iter().zip(sent_of).filter(|(_, sent)| *sent > 0);
        let stalled_ns = sent.map(|(a, _)| a.counters.stalled_ns).min().unwrap_or(0);
        let stalled = stalled_ns as f64 / Nanos::from(length).0 as f64;
        let seconds = length.as_secs_f64();
        let cores = beside.shares.iter().enumerate().map(|(i, (core, shares))| {
            let of = |class: usize| &arrivals[class].of_cores[i];
            CoreResult {
                core: *core,
                forwarded_pps: (of(0).0 + of(1).0) as f64 / seconds,
                p99_us: [0, 1].map(|c| of(c).1.value_at_quantile(0.99) as f64 / 1000.0),
                router_share: shares[0],
                traffic_share: shares[1],
            }
        });
        let cores = cores.collect();
        for ((sent, name), arrivals) in sent_of.into_iter().zip(CLASSES).zip(arrivals) {
            let received = arrivals.counters.packets;
            let us = |q| arrivals.latency_ns.value_at_quantile(q) as f64 / 1000.0;
            classes.push(ClassResult {
                name: name.into(),
                sent: sent as f64,
                received: received as f64,
                lost: sent.saturating_sub(received) as f64,
                lost_unstalled: (sent as f64 * (1.0 - stalled) - received as f64).max(0.0),
                reordered: arrivals.counters.reordered as f64,
                latency_us: Latency {
                    p50: us(0.5),
                    p90: us(0.9),
                    p99: us(0.99),
                    p999: us(0.999),
                    max: arrivals.counters.max_ns as f64 / 1000.0,
                    mean: if received == 0 {
                        0.0
                    } else {
                        arrivals.counters.sum_ns as f64 / received as f64 / 1000.0
                    },
                },
            });
            latency_ns.push(arrivals.latency_ns);
        }
        let sent: f64 = classes.iter().map(|c| c.sent).sum();
        let received: f64 = classes.iter().map(|c| c.received).sum();
        Ok(Trial {
            valid: kept_up(sent, rate.packets_in(length.into()), self.equal_gaps),
            sent_pps: sent / seconds,
            forwarded_pps: received / seconds,
            loss: if sent > 0.0 {
                (sent - received).max(0.0) / sent
            } else {
                0.0
            },
            cpu: beside.in_use,
            hog_share: beside.hog_share,
            stalled,
            tcp_bps: beside.tcp_bps,
            core: beside.core,
            cores,
            packet_ns: beside.packet_ns,
            wakeups_per_s: beside.wakeups_per_s[0],
            worker_wakeups_per_s: beside.wakeups_per_s[1],
            classes,
            latency_ns,
        })
    }
}

/// Whether so many packets are what was offered. How many a Poisson process brings varies by the root of their number,
/// which matters at a few thousand packets a second: three of these are no reproach.
fn kept_up(sent: f64, offered: f64, equal_gaps: bool) -> bool {
    let chance = if equal_gaps {
        0.0
    } else {
        3.0 * offered.sqrt()
    };
    sent >= KEPT_UP * offered - chance
}

#[cfg(test)]
mod tests {
    use super::kept_up;

    #[test]
    fn the_chance_of_few_packets_is_no_generator_that_fell_behind() {
        assert!(kept_up(1900.0, 2000.0, false));
        assert!(!kept_up(1800.0, 2000.0, false));
        assert!(!kept_up(970_000.0, 1_000_000.0, false));
        assert!(!kept_up(1900.0, 2000.0, true));
    }
}
