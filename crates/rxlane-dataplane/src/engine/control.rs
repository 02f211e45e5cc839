//! The engine's life: workers, the mirrors that they read, and what happens when ports or workers go.
//!
//! A control thread owns all of it. Workers share nothing that they would have to wait for: each has its UMEM,
//! its queues of every port, and its views of the mirrors.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use libbpf_rs::MapHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{links, neighbours, routes, rules, sysctl};
use tracing::{info, warn};

use super::counters::{Count, Counters, RingTable, Shared, WORKER_BYTES};
use super::forward::{Port, Ports};
use super::mirror::Mirror;
use super::neighbours::Neighbours;
use super::programs::Programs;
use super::ring_map::RingMap;
use super::signals::Signals;
use super::worker::Worker;
use crate::DataplaneError;
use crate::error::FileTried;
use crate::layout::EngineRing;

/// Maps that an engine works with.
pub(crate) struct Maps {
    /// XSKMAP of the XDP program.
    pub(crate) sockets: MapHandle,
    /// Rings' counters, shared with the XDP program.
    pub(crate) rings: MapHandle,
    /// The map that the workers count in.
    pub(crate) workers: MapHandle,
}

/// A running engine. It stops when dropped; then the XDP program sends its packets to the other lanes.
pub(crate) struct Engine {
    control: Option<JoinHandle<()>>,
    signals: Signals,
}

/// For this long after a start, the control thread looks after workers and their scheduling often
/// (`TICK_SETTLING`), because others may still be placing NAPI threads. Later it does so rarely (`TICK`).
const SETTLING: Duration = Duration::from_secs(5);
const TICK_SETTLING: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_secs(2);
/// Scheduling is looked at more rarely still, because before Linux 6.8 NAPI threads are found by looking through all
/// processes.
const PLACEMENT: Duration = Duration::from_secs(10);
/// A worker that dies within this time after its start is started again only when the time is over.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

impl Engine {
    /// Starts workers on the ports of those names. Returns when all sockets are bound.
    pub(crate) fn start(
        plan: RingMap,
        port_names: Vec<String>,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, DataplaneError> {
        let signals = Signals::new().at("an eventfd")?;
        let (tell, told) = mpsc::channel();
        let engine = Self {
            signals: signals.clone(),
            control: Some(
                std::thread::Builder::new()
                    .name("rxlane-control".into())
                    .spawn(
                        move || match Control::new(plan, port_names, maps, programs) {
                            Ok(mut control) => {
                                let _ = tell.send(Ok(()));
                                control.run(&signals);
                                control.end();
                            }
                            Err(error) => {
                                let _ = tell.send(Err(error));
                            }
                        },
                    )
                    .at("a thread")?,
            ),
        };
        match told.recv() {
            Ok(Ok(())) => Ok(engine),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(DataplaneError::Engine(
                "the control thread ended: report this with its log".into(),
            )),
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.signals.stop();
        if let Some(control) = self.control.take() {
            let _ = control.join();
        }
    }
}

struct Running {
    thread: JoinHandle<()>,
    signals: Signals,
    started: Instant,
    /// Thread id, once it runs.
    id: i32,
}

/// What the control thread owns.
pub(super) struct Control {
    pub(super) plan: RingMap,
    pub(super) names: Vec<String>,
    pub(super) maps: Maps,
    pub(super) table: RingTable,
    pub(super) counters: Shared,
    pub(super) programs: Programs,
    pub(super) mirror: Mirror,
    pub(super) neighbours: Neighbours,
    pub(super) ports: Arc<ArcSwap<Ports>>,
    route_news: routes::Monitor,
    neighbour_news: neighbours::Monitor,
    link_news: links::Monitor,
    rule_news: rules::RuleMonitor,
    /// When settings that the kernel does not announce, such as sysctls, were last looked at.
    looked: Instant,
    workers: Vec<Option<Running>>,
    scheduling: Option<Scheduling>,
    placed: Instant,
    started: Instant,
    up: Up,
}

/// Devices, and whether they are up.
type Up = std::collections::BTreeMap<u32, bool>;

fn ports_now(names: &[String]) -> Result<Ports, DataplaneError> {
    let devices = links::all()?;
    let all = names
        .iter()
        .map(|name| match devices.iter().find(|d| d.name == *name) {
            Some(d) => Port {
                ifindex: d.ifindex,
                mac: d.mac,
                mtu: d.mtu,
            },
            None => Port {
                ifindex: 0,
                mac: [0; 6],
                mtu: 0,
            },
        })
        .collect();
    let mut by_kernel = rules::policy_rules()?;
    for (family, by_kernel) in ["ipv4", "ipv6"].into_iter().zip(&mut by_kernel) {
        // A setting that cannot be read belongs to a device that is gone.
        *by_kernel |= names
            .iter()
            .any(|name| sysctl::read(&format!("net/{family}/conf/{name}/forwarding")) == Some(0));
    }
    Ok(Ports { all, by_kernel })
}

impl Control {
    fn new(
        plan: RingMap,
        names: Vec<String>,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, DataplaneError> {
        // Listen for news before the dump, so that nothing in between is missed.
        let (route_news, neighbour_news) = (routes::Monitor::new()?, neighbours::Monitor::new()?);
        let (link_news, rule_news) = (links::Monitor::new()?, rules::RuleMonitor::new()?);
        let entries = plan.entries(names.len());
        let workers = plan.engine.cores.len();
        let mut this = Self {
            table: RingTable(Shared::of(&maps.rings, entries * size_of::<EngineRing>())?),
            counters: Shared::of(&maps.workers, workers * WORKER_BYTES)?,
            ports: Arc::new(ArcSwap::from_pointee(ports_now(&names)?)),
            mirror: Mirror::default(),
            neighbours: Neighbours::default(),
            workers: (0..workers).map(|_| None).collect(),
            scheduling: None,
            placed: Instant::now(),
            started: Instant::now(),
            up: links::all()?.iter().map(|d| (d.ifindex, d.up)).collect(),
            plan,
            names,
            maps,
            programs,
            route_news,
            neighbour_news,
            link_news,
            rule_news,
            looked: Instant::now(),
        };
        let begin = Instant::now();
        this.load_routes()?;
        this.load_neighbours()?;
        tracing::debug!("mirrored routes and neighbours in {:?}", begin.elapsed());
        for worker in 0..workers {
            this.start_worker(worker)?;
        }
        Ok(this)
    }

    fn load_routes(&mut self) -> Result<(), DataplaneError> {
        self.mirror
            .load(|found| routes::all(found))
            .map_err(DataplaneError::from)?;
        Ok(())
    }

    fn load_neighbours(&mut self) -> Result<(), DataplaneError> {
        let mut all = Vec::new();
        neighbours::all(|n| all.push(n))?;
        self.neighbours.load(all);
        Ok(())
    }

    /// Opens a worker's sockets and lets it run.
    fn start_worker(&mut self, at: usize) -> Result<(), DataplaneError> {
        let parts = self.parts(at)?;
        let signals = Signals::new().at("an eventfd")?;
        let core = self.plan.engine.cores[at] as usize;
        let (tell, told) = mpsc::channel();
        let thread = std::thread::Builder::new()
            .name(format!("rxlane-rx/{core}"))
            .spawn({
                let signals = signals.clone();
                move || {
                    let _ = tell.send(nix::unistd::gettid().as_raw());
                    if let Err(error) = threads::pin(0, core) {
                        warn!(%error, "the worker runs anywhere");
                    }
                    Worker::new(parts).run(&signals.stop, &*signals.wake);
                }
            })
            .at("a thread")?;
        let id = told.recv().unwrap_or(0);
        self.workers[at] = Some(Running {
            thread,
            signals,
            started: Instant::now(),
            id,
        });
        self.scheduling = None;
        self.place_workers();
        Ok(())
    }

    /// Follows the kernel until told to stop.
    fn run(&mut self, signals: &Signals) {
        while !signals.stop.load(Ordering::Relaxed) {
            let tick = if self.started.elapsed() < SETTLING {
                TICK_SETTLING
            } else {
                TICK
            };
            let timeout = Timespec {
                tv_sec: tick.as_secs() as i64,
                tv_nsec: i64::from(tick.subsec_nanos()),
            };
            let mut fds = [
                PollFd::new(&*signals.wake, PollFlags::IN),
                PollFd::new(&self.route_news, PollFlags::IN),
                PollFd::new(&self.neighbour_news, PollFlags::IN),
                PollFd::new(&self.link_news, PollFlags::IN),
                PollFd::new(&self.rule_news, PollFlags::IN),
            ];
            let _ = poll(&mut fds, Some(&timeout));
            if let Err(error) = self.follow() {
                warn!(%error, "cannot follow the kernel's routes");
            }
            self.restart_dead_workers();
            let settling = self.started.elapsed() < SETTLING;
            if settling || self.placed.elapsed() >= PLACEMENT {
                self.place_workers();
            }
        }
    }

    fn follow(&mut self) -> Result<(), DataplaneError> {
        if self.rule_news.changed()? || self.looked.elapsed() > TICK {
            self.looked = Instant::now();
            self.follow_settings()?;
        }
        match self.link_news.drain()? {
            Some(events) if events.is_empty() => {}
            _ => self.follow_links()?,
        }
        let mut events = Vec::new();
        if !self.route_news.drain(|e| events.push(e))? {
            self.load_routes()?;
        } else if !events.is_empty() {
            self.mirror.apply(&events);
        }
        let mut changed = Vec::new();
        if !self.neighbour_news.drain(|n| changed.push(n))? {
            self.load_neighbours()?;
        } else if !changed.is_empty() {
            self.neighbours.apply(changed);
        }
        Ok(())
    }

    /// Brings what workers know of ports, policy rules and forwarding up to date.
    fn follow_settings(&mut self) -> Result<Arc<Ports>, DataplaneError> {
        let now = ports_now(&self.names)?;
        let before = self.ports.load_full();
        if *before == now {
            return Ok(before);
        }
        if before.by_kernel != now.by_kernel {
            let on_off = |kernel: bool| if kernel { "the kernel" } else { "the engine" };
            info!(
                "IPv4 is forwarded by {}, IPv6 by {} (policy rules, VRFs, forwarding)",
                on_off(now.by_kernel[0]),
                on_off(now.by_kernel[1])
            );
        }
        self.ports.store(Arc::new(now));
        Ok(self.ports.load_full())
    }

    fn follow_links(&mut self) -> Result<(), DataplaneError> {
        let before = self.ports.load_full();
        let now = self.follow_settings()?;
        let devices = links::all()?;
        let up: Up = devices.iter().map(|d| (d.ifindex, d.up)).collect();
        let moved = now
            .all
            .iter()
            .zip(&before.all)
            .any(|(a, b)| a.ifindex != b.ifindex);
        // IPv4 routes through a device that goes down disappear without news.
        let down = |up: &Up, i: &u32| !up.get(i).copied().unwrap_or(false);
        let (fell, rose): (Vec<u32>, Vec<u32>) = self
            .up
            .keys()
            .chain(up.keys())
            .copied()
            .filter(|i| down(&self.up, i) != down(&up, i))
            .partition(|i| down(&up, i));
        self.up = up;
        if !rose.is_empty() {
            self.load_routes()?;
        } else {
            for ifindex in &fell {
                self.mirror.link_down(*ifindex);
            }
        }
        if moved {
            info!("ports have changed; the workers begin anew");
            self.stop_workers();
            for worker in 0..self.workers.len() {
                if let Err(error) = self.start_worker(worker) {
                    warn!(%error, "a worker cannot start; its packets take the other lanes");
                }
            }
        }
        Ok(())
    }

    fn restart_dead_workers(&mut self) {
        for at in 0..self.workers.len() {
            let dead = match &self.workers[at] {
                Some(running) => {
                    running.thread.is_finished() && running.started.elapsed() > RESTART_PAUSE
                }
                None => false,
            };
            if !dead {
                continue;
            }
            self.workers[at] = None;
            match self.start_worker(at) {
                Ok(()) => warn!(worker = at, "a worker had died and works again"),
                Err(error) => {
                    warn!(worker = at, %error, "a worker has died; its packets take the other lanes");
                }
            }
        }
    }

    /// Sets the scheduling of the workers, which share their cores with NAPI. Where NAPI has real-time threads, a
    /// worker has their priority and gives way after each poll. Above them, packets would be lost before they are
    /// classified; below them, each arrival would interrupt the service of a packet. Where NAPI runs in soft-IRQs,
    /// a worker is an ordinary thread: what soft-IRQs cannot do at once is done by an ordinary thread, which a
    /// real-time worker would starve.
    fn place_workers(&mut self) {
        self.placed = Instant::now();
        let lowest = self
            .names
            .iter()
            .flat_map(|name| threads::napi_of_device(name))
            .map(threads::fifo_priority)
            .min();
        let wanted = match lowest {
            Some(Some(priority)) => Scheduling::Fifo(priority),
            _ => Scheduling::Nice(0),
        };
        if self.scheduling == Some(wanted) {
            return;
        }
        self.scheduling = Some(wanted);
        for (at, worker) in self.workers.iter().enumerate() {
            let Some(running) = worker else { continue };
            if let Err(error) = threads::schedule(running.id, wanted) {
                warn!(%error, "a worker keeps its priority");
            }
            let priority = match wanted {
                Scheduling::Fifo(priority) => priority as u64,
                Scheduling::Nice(_) => 0,
            };
            Counters::of_worker(&self.counters, at).set(Count::Priority, priority);
        }
    }

    fn stop_workers(&mut self) {
        for worker in &mut self.workers {
            if let Some(running) = worker.take() {
                running.signals.stop();
                let _ = running.thread.join();
            }
        }
    }

    fn end(mut self) {
        self.stop_workers();
    }
}
