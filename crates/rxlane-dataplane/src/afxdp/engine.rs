//! The engine's life: workers, the mirrors that they read, and what happens when ports or workers go.
//!
//! A control thread owns all of it. Workers share nothing that they would have to wait for: each has its UMEM,
//! its queues of every port, and its views of the mirrors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use libbpf_rs::MapHandle;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rxlane_system::threads::{self, Scheduling};
use rxlane_system::{links, neighbours, routes};
use tracing::{info, warn};

use super::counters::{Count, Counters, RingTable, Shared, WORKER_BYTES};
use super::forward::{Forwarder, Port};
use super::frames::Frames;
use super::kernel::KernelLane;
use super::mirror::Mirror;
use super::neighbours::Neighbours;
use super::plan::Plan;
use super::programs::Programs;
use super::queue::Queue;
use super::socket::QueueSockets;
use super::worker::{Device, Parts, Signals, Worker};
use crate::DataplaneError;
use crate::error::FileTried;
use crate::layout::EngineRing;
use crate::pinned;

/// Maps that an engine works with.
pub(crate) struct Maps {
    /// XSKMAP of the XDP program.
    pub(crate) sockets: MapHandle,
    /// Rings' counters, shared with the XDP program.
    pub(crate) rings: MapHandle,
    /// Workers' counters.
    pub(crate) workers: MapHandle,
}

/// A running engine; stops when dropped, and then the XDP program serves its packets otherwise.
pub(crate) struct Engine {
    control: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    wake: Arc<std::os::fd::OwnedFd>,
}

/// How soon the control thread looks after workers and their scheduling: often after a start, when others
/// may still be placing NAPI threads, then rarely.
const SETTLING: Duration = Duration::from_secs(5);
const TICK_SETTLING: Duration = Duration::from_millis(200);
const TICK: Duration = Duration::from_secs(2);
/// A worker that dies again within this time is left alone for as long.
const RESTART_PAUSE: Duration = Duration::from_secs(2);

impl Engine {
    /// Starts workers on the ports of those names. Returns when all sockets are bound.
    pub(crate) fn start(
        plan: Plan,
        port_names: Vec<String>,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, DataplaneError> {
        let signals = Signals::new().at("an eventfd")?;
        let (tell, told) = mpsc::channel();
        let engine = Self {
            stop: Arc::clone(&signals.stop),
            wake: Arc::clone(&signals.wake),
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
        self.stop.store(true, Ordering::Relaxed);
        let _ = rustix::io::write(&*self.wake, &1u64.to_ne_bytes());
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

struct Control {
    plan: Plan,
    names: Vec<String>,
    maps: Maps,
    table: RingTable,
    counters: Shared,
    programs: Programs,
    mirror: Mirror,
    neighbours: Neighbours,
    ports: Arc<ArcSwap<Vec<Port>>>,
    route_news: routes::Monitor,
    neighbour_news: neighbours::Monitor,
    link_news: links::Monitor,
    workers: Vec<Option<Running>>,
    scheduling: Option<Scheduling>,
    started: Instant,
    up: Up,
}

/// Devices, and whether they are up.
type Up = std::collections::BTreeMap<u32, bool>;

fn ports_now(names: &[String]) -> Result<Vec<Port>, DataplaneError> {
    let devices = links::all()?;
    Ok(names
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
        .collect())
}

impl Control {
    fn new(
        plan: Plan,
        names: Vec<String>,
        maps: Maps,
        programs: Programs,
    ) -> Result<Self, DataplaneError> {
        // News first, so that nothing is missed between the dump and them.
        let (route_news, neighbour_news, link_news) = (
            routes::Monitor::new()?,
            neighbours::Monitor::new()?,
            links::Monitor::new()?,
        );
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
            started: Instant::now(),
            up: links::all()?.iter().map(|d| (d.ifindex, d.up)).collect(),
            plan,
            names,
            maps,
            programs,
            route_news,
            neighbour_news,
            link_news,
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

    fn parts(&self, at: usize) -> Result<Parts, DataplaneError> {
        let ports = self.ports.load_full();
        let present = |port: &usize| ports[*port].ifindex != 0;
        let mtu = ports.iter().map(|p| p.mtu).max().unwrap_or(1500);
        let n_queues: u32 = (0..ports.len())
            .filter(present)
            .map(|port| self.plan.queues_of(at, port).count() as u32)
            .sum();
        let count = (self.plan.frames() * n_queues).max(64);
        let frames = Frames::new(count, Plan::frame_size(mtu)?).map_err(|e| {
            DataplaneError::Engine(format!(
                "no memory for {count} packets ({e}): lower `ring`, or name fewer cores"
            ))
        })?;
        let mut queues = Vec::new();
        let mut sender_of_port = vec![usize::MAX; ports.len()];
        let mut zero_copy = true;
        for port in (0..ports.len()).filter(present) {
            for queue in self.plan.queues_of(at, port) {
                let opened = self.open(port, &ports[port], queue, &frames, first(&queues))?;
                zero_copy &= opened.zero_copy;
                let index = self.plan.index(port, queue);
                self.announce(&opened, index)?;
                if sender_of_port[port] == usize::MAX {
                    sender_of_port[port] = queues.len();
                }
                queues.push(Queue::new(port as u16, opened, index, &self.plan.stack));
            }
        }
        let mut devices = Vec::new();
        for queue in 0..queues.len() {
            let mut first_ring = 0;
            for vector in &self.plan.layout.devices {
                let throttler = self.plan.engine.itr.start()?;
                devices.push(Device::new(queue, first_ring, vector.clone(), throttler));
                first_ring += vector.rings();
            }
        }
        let indices: Vec<u32> = ports.iter().map(|p| p.ifindex).collect();
        let counters = Counters::of_worker(&self.counters, at);
        counters.set(Count::ZeroCopy, u64::from(zero_copy));
        Ok(Parts {
            scheduler: self.plan.scheduler(queues.len())?,
            frames,
            queues,
            devices,
            forwarder: Forwarder::new(
                self.mirror.reader(),
                self.neighbours.reader(),
                Arc::clone(&self.ports),
            ),
            kernel: KernelLane::new(self.programs.device.ifindex, &indices)
                .at("a packet socket")?,
            table: self.table.clone(),
            counters,
            sender_of_port,
            throttled: self.plan.engine.itr != rxlane_policy::throttle::Throttling::Off,
        })
    }

    fn open(
        &self,
        port: usize,
        device: &Port,
        queue: u32,
        frames: &Frames,
        first: Option<BorrowedFd<'_>>,
    ) -> Result<QueueSockets, DataplaneError> {
        let sizes = self.plan.sizes();
        // A queue is free again only some time after its last owner has gone.
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let copy = self.plan.engine.copy;
            match QueueSockets::open(device.ifindex, queue, &sizes, frames, first, copy) {
                Err(super::socket::SocketError::Busy(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(source) => {
                    return Err(DataplaneError::Socket {
                        port: self.names[port].clone(),
                        source,
                    });
                }
                Ok(sockets) => return Ok(sockets),
            }
        }
    }

    /// From here on the XDP program sends packets to these sockets.
    fn announce(&self, sockets: &QueueSockets, index: usize) -> Result<(), DataplaneError> {
        for (i, (socket, _)) in sockets.rx.iter().enumerate() {
            self.table.reset(index + i);
            let fd = socket.as_fd().as_raw_fd();
            pinned::put(&self.maps.sockets, (index + i) as u32, &fd.to_ne_bytes())?;
        }
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
            ];
            let _ = poll(&mut fds, Some(&timeout));
            if let Err(error) = self.follow() {
                warn!(%error, "cannot follow the kernel's routes");
            }
            self.restart_dead_workers();
            self.place_workers();
        }
    }

    fn follow(&mut self) -> Result<(), DataplaneError> {
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

    fn follow_links(&mut self) -> Result<(), DataplaneError> {
        let now = ports_now(&self.names)?;
        let before = self.ports.load_full();
        let devices = links::all()?;
        let up: Up = devices.iter().map(|d| (d.ifindex, d.up)).collect();
        let moved = now
            .iter()
            .zip(before.iter())
            .any(|(a, b)| a.ifindex != b.ifindex);
        if *before != now {
            self.ports.store(Arc::new(now));
        }
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

    /// Workers share a core with NAPI. Where that has real-time threads, a worker has their priority and gives way
    /// after each poll: above them, packets would be lost before they are classified; below them, each arrival
    /// would interrupt the service of a packet. Where NAPI runs in soft-IRQs a worker is an ordinary
    /// thread, because what soft-IRQs cannot do at once is done by an ordinary thread, which would starve.
    fn place_workers(&mut self) {
        let names = &self.names;
        let napi = threads::find(|name| {
            name.strip_prefix("napi/")
                .and_then(|rest| rest.rsplit_once('-'))
                .is_some_and(|(interface, _)| names.iter().any(|n| n == interface))
        });
        let lowest = napi.iter().map(|id| threads::fifo_priority(*id)).min();
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

fn first(queues: &[Queue]) -> Option<BorrowedFd<'_>> {
    queues.first().and_then(Queue::sender)
}
