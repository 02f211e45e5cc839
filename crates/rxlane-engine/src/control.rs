//! The engine's life: workers, the mirrors that they read, and what happens when ports or workers go.
//!
//! A control thread owns all of it. Workers share nothing that they would have to wait for: each has its UMEM,
//! its queues of every port, and its views of the mirrors.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use libbpf_rs::MapHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rxlane_bpf::FileTried;
use rxlane_bpf::layout::EngineRing;
use rxlane_system::threads::{self, Scheduling};
use tracing::{info, warn};

use crate::EngineError;
use crate::counters::{Count, Counters, RingTable, Shared, WORKER_BYTES};
use crate::follow::{Complaint, Following};
use crate::forward::Ports;
use crate::programs::Programs;
use crate::ring_map::RingMap;
use crate::settings::WantedPorts;
use crate::signals::Signals;
use crate::worker::Worker;

/// Maps that an engine works with.
pub struct Maps {
    /// XSKMAP of the XDP program.
    pub sockets: MapHandle,
    /// Rings' counters, shared with the XDP program.
    pub rings: MapHandle,
    /// The map that the workers count in.
    pub workers: MapHandle,
}

/// A running engine. It stops when dropped; then the XDP program sends its packets to the other lanes.
pub struct Engine {
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
    pub fn start(
        plan: RingMap,
        ports: WantedPorts,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, EngineError> {
        let signals = Signals::new().at("an eventfd")?;
        let (tell, told) = mpsc::channel();
        let engine = Self {
            signals: signals.clone(),
            control: Some(
                std::thread::Builder::new()
                    .name("rxlane-control".into())
                    .spawn(move || match Control::new(plan, ports, maps, programs) {
                        Ok(mut control) => {
                            let _ = tell.send(Ok(()));
                            control.run(&signals);
                            control.end();
                        }
                        Err(error) => {
                            let _ = tell.send(Err(error));
                        }
                    })
                    .at("a thread")?,
            ),
        };
        match told.recv() {
            Ok(Ok(())) => Ok(engine),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(EngineError::Unfit(
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
    pub(super) maps: Maps,
    pub(super) table: RingTable,
    pub(super) counters: Shared,
    pub(super) programs: Programs,
    pub(super) kernel: Following,
    /// Bytes of a frame of the workers that run.
    frame_bytes: u32,
    workers: Vec<Option<Running>>,
    scheduling: Option<Scheduling>,
    placed: Instant,
    started: Instant,
}

impl Control {
    fn new(
        plan: RingMap,
        ports: WantedPorts,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, EngineError> {
        let entries = plan.entries(ports.names.len());
        let workers = plan.engine.cores.len();
        let kernel = Following::start(ports)?;
        let mut this = Self {
            table: RingTable(Shared::of(&maps.rings, entries * size_of::<EngineRing>())?),
            counters: Shared::of(&maps.workers, workers * WORKER_BYTES)?,
            frame_bytes: RingMap::frame_size(kernel.ports.load().largest_mtu()),
            kernel,
            workers: (0..workers).map(|_| None).collect(),
            scheduling: None,
            placed: Instant::now(),
            started: Instant::now(),
            plan,
            maps,
            programs,
        };
        this.widen()?;
        for worker in 0..workers {
            this.start_worker(worker)?;
        }
        Ok(this)
    }

    /// Makes room for the largest packets of the ports on their way into the kernel.
    fn widen(&mut self) -> Result<(), EngineError> {
        let mtu = self.kernel.ports.load().largest_mtu();
        Ok(self.programs.device.carry(mtu)?)
    }

    /// Opens a worker's sockets and lets it run.
    fn start_worker(&mut self, at: usize) -> Result<(), EngineError> {
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
        let mut complaint = Complaint::default();
        while !signals.stop.load(Ordering::Relaxed) {
            let tick = if self.started.elapsed() < SETTLING {
                TICK_SETTLING
            } else {
                TICK
            };
            let tick = tick.min(self.kernel.patience());
            let timeout = Timespec {
                tv_sec: tick.as_secs() as i64,
                tv_nsec: i64::from(tick.subsec_nanos()),
            };
            let [routes, neighbours, links, rules] = self.kernel.sources();
            let wake = PollFd::new(&*signals.wake, PollFlags::IN);
            let _ = poll(
                &mut [wake, routes, neighbours, links, rules],
                Some(&timeout),
            );
            let outcome = match self.kernel.follow() {
                Ok(None) => Ok(()),
                Ok(Some(before)) => self.follow_ports(&before),
                Err(error) => Err(error.into()),
            };
            complaint.about(&outcome.map_err(|e: EngineError| e.to_string()));
            self.restart_dead_workers();
            let settling = self.started.elapsed() < SETTLING;
            if settling || self.placed.elapsed() >= PLACEMENT {
                self.place_workers();
            }
        }
    }

    /// Workers have sockets on ports, and frames as large as these need.
    fn follow_ports(&mut self, before: &Ports) -> Result<(), EngineError> {
        self.widen()?;
        let now = self.kernel.ports.load_full();
        let frame_bytes = RingMap::frame_size(now.largest_mtu());
        let moved = now
            .all
            .iter()
            .zip(&before.all)
            .any(|(a, b)| a.ifindex != b.ifindex);
        if moved || frame_bytes > self.frame_bytes {
            info!("ports have changed; the workers begin anew");
            self.frame_bytes = frame_bytes;
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
    /// worker has the lowest priority of these and gives way after each poll. Above them, packets would be lost before
    /// they are classified; below them, each arrival would interrupt the service of a packet. Where NAPI runs in soft-IRQs,
    /// a worker is an ordinary thread: what soft-IRQs cannot do at once is done by an ordinary thread, which a
    /// real-time worker would starve.
    fn place_workers(&mut self) {
        self.placed = Instant::now();
        let lowest = self
            .kernel
            .wanted
            .names
            .iter()
            .flat_map(|name| threads::napi_of_device(name))
            .filter_map(threads::scheduling)
            .min();
        let wanted = lowest.unwrap_or(Scheduling::Nice(0));
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
