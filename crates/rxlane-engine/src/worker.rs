//! A worker: one core, its queues, and the loop of the papers.
//!
//! Devices whose rings hold packets are on a poll list; the first is polled with its budgets, and the worker
//! sleeps when the list is empty. Waking up takes the place of the interrupt, so throttling means that the
//! worker does not look at a device before its time. `rxlane-policy` decides all of that; this module adds
//! the rings and the clock.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::{ClockId, Timespec, clock_gettime};
use rxlane_policy::Nanos;
use rxlane_policy::global::GlobalPriority;
use rxlane_policy::poll::{PollEnd, PollList, QVector, Step};
use rxlane_policy::throttle::{Sample, Throttle, Throttler};

use crate::counters::{Count, Counters, RingTable};
use crate::forward::{BATCH, Forwarder, Verdict};
use crate::look_ahead::{LARGE_TURN, LookAhead, When};
use crate::reason::Reason;
use crate::xsk::exceptions::KernelLane;
use crate::xsk::frames::{Frames, Packet};
use crate::xsk::queue::Queue;

/// A device: its rings as a [`QVector`], and the state of its interrupt.
#[derive(Debug)]
pub(crate) struct PolledDevice {
    /// Number of the queue that its rings belong to; `first_ring` is the first of them in that queue.
    pub(crate) queue: usize,
    pub(crate) first_ring: usize,
    pub(crate) vector: QVector,
    pub(crate) throttler: Throttler,
    since: Sample,
    updated_ns: u64,
    interrupted_ns: u64,
    /// Time before which throttling allows no interrupt.
    masked_until_ns: u64,
    listed: bool,
}

impl PolledDevice {
    pub(crate) fn new(
        queue: usize,
        first_ring: usize,
        vector: QVector,
        throttler: Throttler,
    ) -> Self {
        Self {
            queue,
            first_ring,
            vector,
            throttler,
            since: Sample::default(),
            updated_ns: 0,
            interrupted_ns: 0,
            masked_until_ns: 0,
            listed: false,
        }
    }
}

/// The order in which a worker serves its rings.
#[derive(Debug)]
pub(crate) enum Scheduler {
    /// Devices take turns, and so do the rings of a device.
    Devices(PollList),
    /// The highest class of all devices goes first.
    Global(Box<GlobalPriority>),
}

/// What a worker is made of.
pub(crate) struct Parts {
    pub(crate) frames: Frames,
    pub(crate) queues: Vec<Queue>,
    pub(crate) devices: Vec<PolledDevice>,
    pub(crate) scheduler: Scheduler,
    pub(crate) forwarder: Forwarder,
    pub(crate) kernel: KernelLane,
    pub(crate) table: RingTable,
    pub(crate) counters: Counters,
    /// For each port, by its number, the queue that sends there.
    pub(crate) sender_of_port: Vec<usize>,
    pub(crate) throttled: bool,
    /// The devices' NAPI is polled by this worker (preferred busy polling) instead of beside it.
    pub(crate) drives_napi: bool,
    /// Whether it looks ahead over the turns of its rings.
    pub(crate) looks_ahead: When,
}

pub(crate) struct Worker {
    p: Parts,
    batch: Vec<Packet>,
    verdicts: Box<[Verdict; BATCH]>,
    /// For each queue, of each of its rings.
    ahead: Vec<Vec<LookAhead>>,
    /// Packets put on Tx rings since they were last sent.
    unsent: u64,
    gave_way_ns: u64,
    /// Packets served since the clock was last read.
    unclocked: u64,
}

/// So many packets share a system call to send. Shared like that, the call costs far less than sending a
/// packet does.
const SEND_TOGETHER: u64 = 16;
/// The clock is read only after so many packets.
const CLOCKED: u64 = 8;

/// How long a worker keeps a core that it shares with NAPI.
const GIVE_WAY_NS: u64 = 50_000;
/// A worker looks again after this time while the fill ring lacks frames that are under way, or a Tx ring is
/// stuck.
const UNFINISHED_NS: u64 = 1_000_000;
/// Most polls that a worker still makes when it is told to stop: more than all rings hold.
const LAST_TURNS: u32 = 10_000;
/// A sleeping worker brings its counters up to date at least this often.
const LONGEST_SLEEP_NS: u64 = 1_000_000_000;

fn now_ns() -> u64 {
    let t = clock_gettime(ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

impl Worker {
    pub(crate) fn new(parts: Parts) -> Self {
        let ahead = |queue: &Queue| queue.rx.iter().map(|_| LookAhead::default()).collect();
        let mut this = Self {
            ahead: parts.queues.iter().map(ahead).collect(),
            p: parts,
            batch: Vec::with_capacity(BATCH),
            verdicts: Box::new([Verdict::Send(0); BATCH]),
            unclocked: 0,
            unsent: 0,
            gave_way_ns: 0,
        };
        this.p
            .counters
            .set(Count::Frames, u64::from(this.p.frames.count()));
        for queue in &mut this.p.queues {
            queue.turn_over(&mut this.p.frames);
        }
        this
    }

    /// Works until told to stop; `wake` becomes readable then.
    pub(crate) fn run(&mut self, stop: &AtomicBool, wake: &impl AsFd) {
        while !stop.load(Ordering::Relaxed) {
            if self.turn() {
                continue;
            }
            if self.p.drives_napi {
                self.drive_napi();
                if self.turn() {
                    continue;
                }
            }
            self.sleep(wake);
        }
        // Receiving the packets that still wait has already cost time, so serve them.
        for _ in 0..LAST_TURNS {
            if !self.turn() {
                break;
            }
        }
    }

    /// Notices arrivals and serves one device's poll; false when there was nothing to do.
    #[inline]
    pub(crate) fn turn(&mut self) -> bool {
        self.arrivals();
        match &self.p.scheduler {
            Scheduler::Devices(list) => match list.first() {
                Some(device) => self.poll(device as usize),
                None => return false,
            },
            Scheduler::Global(_) => return self.poll_all(),
        }
        true
    }

    /// Takes the place of interrupts: finds the devices that hold packets and that throttling lets interrupt.
    fn arrivals(&mut self) {
        let mut now = 0;
        for (i, device) in self.p.devices.iter_mut().enumerate() {
            let rings = &self.p.queues[device.queue].rx[device.first_ring..];
            if device.listed
                || !rings[..device.vector.rings()]
                    .iter()
                    .any(|r| r.packets.holds())
            {
                continue;
            }
            if self.p.throttled {
                if now == 0 {
                    now = now_ns();
                }
                if now < device.masked_until_ns {
                    continue;
                }
                device.interrupted_ns = now;
            }
            device.listed = true;
            if let Scheduler::Devices(list) = &mut self.p.scheduler {
                list.add(i as u32);
            }
            self.p.counters.add(Count::Interrupts, 1);
        }
    }

    /// One poll of a device.
    fn poll(&mut self, at: usize) {
        self.p.counters.add(Count::Polls, 1);
        let (queue, first) = {
            let device = &mut self.p.devices[at];
            device.vector.begin();
            (device.queue, device.first_ring)
        };
        self.p.queues[queue].turn_over(&mut self.p.frames);
        loop {
            let rings = &self.p.queues[queue].rx[first..];
            match self.p.devices[at].vector.next(|r| rings[r].packets.holds()) {
                Step::Serve { ring, at_most } => {
                    let served = self.serve(queue, first + ring, at_most);
                    let device = &mut self.p.devices[at];
                    device.vector.served(served.packets as u32);
                    device.since.packets += served.packets;
                    device.since.bytes += served.bytes;
                    self.end_turn(ring == 0, served.packets);
                }
                Step::End(outcome) => {
                    if let Scheduler::Devices(list) = &mut self.p.scheduler {
                        list.ended(outcome);
                    }
                    if outcome == PollEnd::Drained {
                        self.drained(at);
                    }
                    break;
                }
            }
        }
        self.flush();
    }

    /// With global priority, serves turns for one device budget. Returns whether there were any.
    fn poll_all(&mut self) -> bool {
        let mut left = rxlane_policy::poll::DEVICE_BUDGET;
        let mut any = false;
        for queue in &mut self.p.queues {
            queue.turn_over(&mut self.p.frames);
        }
        while left > 0 {
            let (devices, queues) = (&self.p.devices, &self.p.queues);
            let Scheduler::Global(order) = &mut self.p.scheduler else {
                return any;
            };
            let turn = order.next(|d, r| {
                let device = &devices[d];
                device.listed
                    && queues[device.queue].rx[device.first_ring + r]
                        .packets
                        .holds()
            });
            let Some(turn) = turn else { break };
            let device = &self.p.devices[turn.device];
            let (queue, ring) = (device.queue, device.first_ring + turn.ring);
            let served = self.serve(queue, ring, turn.at_most);
            let device = &mut self.p.devices[turn.device];
            device.since.packets += served.packets;
            device.since.bytes += served.bytes;
            self.end_turn(turn.ring == 0, served.packets);
            left = left.saturating_sub(served.packets.max(1) as u32);
            any = true;
        }
        if any {
            self.p.counters.add(Count::Polls, 1);
            self.flush();
        }
        for at in 0..self.p.devices.len() {
            let device = &self.p.devices[at];
            let rings = &self.p.queues[device.queue].rx[device.first_ring..];
            if device.listed
                && !rings[..device.vector.rings()]
                    .iter()
                    .any(|r| r.packets.holds())
            {
                self.drained(at);
            }
        }
        any
    }

    /// All rings of a device are empty: its interrupt is on again, after the time that throttling asks for.
    fn drained(&mut self, at: usize) {
        let device = &mut self.p.devices[at];
        device.listed = false;
        if !self.p.throttled {
            return;
        }
        let now = now_ns();
        device.since.elapsed = Nanos(now - device.updated_ns);
        let Nanos(interval_ns) = device.throttler.update(std::mem::take(&mut device.since));
        device.updated_ns = now;
        device.masked_until_ns = device.interrupted_ns + interval_ns;
        self.p.counters.set(Count::IntervalNs, interval_ns);
    }

    /// Serves at most `at_most` packets of a ring.
    fn serve(&mut self, queue: usize, ring: usize, at_most: u32) -> Served {
        let mut all = Served::default();
        while all.packets < u64::from(at_most) {
            let room = (at_most as usize - all.packets as usize).min(BATCH);
            let of_port = &mut self.p.queues[queue];
            let (port, rx) = (of_port.port, &mut of_port.rx[ring]);
            let (stack, index) = (rx.stack, rx.index);
            let (n, bytes) = self
                .p
                .frames
                .take_received(&mut rx.packets, room, &mut self.batch);
            self.p.table.consumed(index, n as u32);
            all.bytes += bytes;
            all.packets += n as u64;
            if stack {
                for packet in self.batch.drain(..) {
                    to_kernel(&mut self.p, port, packet, Reason::Stack);
                }
            } else {
                self.ahead[queue][ring].taken(n as u32);
                let looks_ahead = at_most < LARGE_TURN
                    && match self.p.looks_ahead {
                        When::Never => false,
                        When::LargeTables => self.p.forwarder.has_large_tables(),
                        #[cfg(any(test, feature = "testing"))]
                        When::Always => true,
                    };
                if looks_ahead {
                    self.look_ahead(queue, ring);
                }
                self.forward(port);
                if looks_ahead && self.ahead[queue][ring].lags() {
                    self.look_ahead(queue, ring);
                }
            }
            if n < room {
                break;
            }
        }
        all
    }

    #[inline]
    fn look_ahead(&mut self, queue: usize, ring: usize) {
        self.p.forwarder.look_ahead(
            &self.p.frames,
            &mut self.p.queues[queue].rx[ring].packets,
            &mut self.ahead[queue][ring],
        );
    }

    fn forward(&mut self, ingress: u16) {
        self.p.forwarder.forward(
            &self.p.frames,
            ingress,
            &mut self.batch,
            &mut self.verdicts[..],
        );
        let mut sent = 0;
        for (packet, verdict) in self.batch.drain(..).zip(self.verdicts.iter()) {
            match verdict {
                Verdict::Send(port) => {
                    let to = self.p.sender_of_port[usize::from(*port)];
                    // A port that has just come back has no queue until the workers begin anew.
                    let outcome = match self.p.queues.get_mut(to) {
                        Some(queue) => queue.send(&mut self.p.frames, packet),
                        None => Err(packet),
                    };
                    match outcome {
                        Ok(()) => sent += 1,
                        Err(packet) => {
                            self.p.frames.discard(packet);
                            self.p.counters.add(Count::TxFull, 1);
                        }
                    }
                }
                Verdict::Kernel(reason) => to_kernel(&mut self.p, ingress, packet, *reason),
            }
        }
        self.unsent += sent;
        self.p.counters.add(Count::Forwarded, sent);
    }

    /// Ends a turn. Its packets are served only when they have left, so that a budget bounds what a higher class
    /// waits for. The highest class is sent at once; packets of the others share a system call.
    #[inline]
    fn end_turn(&mut self, top: bool, served: u64) {
        if top || self.unsent >= SEND_TOGETHER {
            self.flush();
        } else {
            flush_kernel(&mut self.p);
        }
        self.give_way(served);
    }

    /// Lets NAPI run, which shares the core. An RT packet (one that cannot wait) waits among all others until
    /// NAPI has classified it.
    #[inline]
    fn give_way(&mut self, served: u64) {
        self.unclocked += served;
        if self.unclocked < CLOCKED {
            return;
        }
        self.unclocked = 0;
        let now = now_ns();
        if now - self.gave_way_ns > GIVE_WAY_NS {
            if self.p.drives_napi {
                self.drive_napi();
            } else {
                rustix::thread::sched_yield();
            }
            self.gave_way_ns = now_ns();
        }
    }

    /// Polls the devices' NAPI once, which classifies packets.
    #[inline]
    fn drive_napi(&self) {
        for queue in &self.p.queues {
            queue.receive();
        }
    }

    /// Sends all packets that wait, to other ports and to the kernel.
    #[inline]
    fn flush(&mut self) {
        if self.unsent > 0 {
            self.unsent = 0;
            for queue in &mut self.p.queues {
                queue.flush(&mut self.p.frames);
            }
        }
        flush_kernel(&mut self.p);
    }

    /// Waits for packets of devices whose interrupt is on, for the end of a mask, or for `wake`.
    #[cold]
    fn sleep(&mut self, wake: &impl AsFd) {
        let now = now_ns();
        let mut timeout = LONGEST_SLEEP_NS;
        let mut to_receive = 0;
        for queue in &mut self.p.queues {
            queue.turn_over(&mut self.p.frames);
            if queue.is_sending() {
                queue.flush(&mut self.p.frames);
            }
            if queue.is_sending() || !queue.is_filled() {
                timeout = UNFINISHED_NS;
            }
            to_receive += queue.unfilled();
        }
        let mut fds = Vec::with_capacity(32);
        fds.push(PollFd::new(wake, PollFlags::IN));
        for device in &self.p.devices {
            if device.masked_until_ns > now {
                timeout = timeout.min(device.masked_until_ns - now);
                continue;
            }
            let rings = &self.p.queues[device.queue].rx[device.first_ring..];
            for ring in &rings[..device.vector.rings()] {
                if let Some(socket) = &ring.socket {
                    fds.push(PollFd::new(socket, PollFlags::IN));
                }
            }
        }
        self.p
            .counters
            .set(Count::FreeFrames, u64::from(self.p.frames.free()));
        self.p
            .counters
            .set(Count::FillFrames, u64::from(to_receive));
        self.p.counters.add(Count::Sleeps, 1);
        let timeout = Timespec {
            tv_sec: (timeout / 1_000_000_000) as i64,
            tv_nsec: (timeout % 1_000_000_000) as i64,
        };
        // It does not matter whether a packet or an interruption ended the sleep: the rings are looked at
        // either way.
        let _ = poll(&mut fds, Some(&timeout));
    }
}

/// What a turn of a ring served.
#[derive(Debug, Clone, Copy, Default)]
struct Served {
    packets: u64,
    bytes: u64,
}

fn to_kernel(p: &mut Parts, port: u16, packet: Packet, reason: Reason) {
    if p.kernel.is_full() {
        flush_kernel(p);
    }
    p.counters.to_kernel(reason);
    p.kernel.push(port, packet);
}

fn flush_kernel(p: &mut Parts) {
    let refused = p.kernel.flush(&mut p.frames);
    if refused > 0 {
        p.counters.add(Count::KernelFull, u64::from(refused));
    }
}
