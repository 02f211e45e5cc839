//! Putting a worker together: its memory, its sockets, its views of the mirrors.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rxlane_bpf::FileTried;
use rxlane_bpf::pinned;

use crate::EngineError;
use crate::control::Control;
use crate::counters::{Count, Counters};
use crate::forward::{Forwarder, Port};
use crate::look_ahead::When;
use crate::ring_map::RingMap;
use crate::worker::{Parts, PolledDevice};
use crate::xsk::exceptions::KernelLane;
use crate::xsk::frames::Frames;
use crate::xsk::queue::Queue;
use crate::xsk::socket::{QueueSockets, SocketError, prefer_busy_poll};

impl Control {
    /// Everything that a worker needs, with its sockets open.
    pub(super) fn parts(&self, at: usize) -> Result<Parts, EngineError> {
        let ports = self.kernel.ports.load_full();
        let present = |port: &usize| ports.all[*port].ifindex != 0;
        let mtu = ports.largest_mtu();
        let n_queues: u32 = (0..ports.all.len())
            .filter(present)
            .map(|port| self.plan.queues_of(at, port).count() as u32)
            .sum();
        let count = (self.plan.frames() * n_queues).max(64);
        let mut frames = Frames::new(count, RingMap::frame_size(mtu)).map_err(|e| {
            EngineError::Unfit(format!(
                "no memory for {count} packets ({e}): lower `ring`, or name fewer cores"
            ))
        })?;
        let mut queues = Vec::new();
        let mut sender_of_port = vec![usize::MAX; ports.all.len()];
        for port in (0..ports.all.len()).filter(present) {
            for queue in self.plan.queues_of(at, port) {
                let opened = self.open(port, &ports.all[port], queue, &frames, first(&queues))?;
                let index = self.plan.index(port, queue);
                if sender_of_port[port] == usize::MAX {
                    sender_of_port[port] = queues.len();
                }
                queues.push(Queue::new(port as u16, opened, index, &self.plan.stack));
            }
        }
        // A packet that finds no frame to be received into is lost, so provide frames before packets can
        // come.
        for queue in &mut queues {
            queue.turn_over(&mut frames);
            self.announce(queue)?;
        }
        let mut devices = Vec::new();
        for queue in 0..queues.len() {
            let mut first_ring = 0;
            for vector in &self.plan.layout.devices {
                let throttler = self.plan.engine.itr.start()?;
                devices.push(PolledDevice::new(
                    queue,
                    first_ring,
                    vector.clone(),
                    throttler,
                ));
                first_ring += vector.rings();
            }
        }
        let indices: Vec<u32> = ports.all.iter().map(|p| p.ifindex).collect();
        let counters = Counters::of_worker(&self.counters, at);
        let zero_copy = queues.iter().all(|q| q.zero_copy);
        counters.set(Count::ZeroCopy, u64::from(zero_copy));
        let drives_napi = self.plan.engine.busy_poll && zero_copy && drive_napi(&queues);
        counters.set(Count::DrivesNapi, u64::from(drives_napi));
        Ok(Parts {
            scheduler: self.plan.scheduler(queues.len())?,
            frames,
            queues,
            devices,
            forwarder: Forwarder::new(
                self.kernel.mirror.reader(),
                self.kernel.neighbours.reader(),
                Arc::clone(&self.kernel.ports),
            ),
            kernel: KernelLane::new(self.programs.device.ifindex, &indices)
                .at("a packet socket")?,
            table: self.table.clone(),
            counters,
            sender_of_port,
            drives_napi,
            looks_ahead: if cfg!(target_arch = "x86_64") {
                When::LargeTables
            } else {
                When::Never
            },
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
    ) -> Result<QueueSockets, EngineError> {
        let sizes = self.plan.sizes();
        // A queue is free again only some time after its last owner has gone.
        let until = Instant::now() + Duration::from_secs(2);
        loop {
            let copy = self.plan.engine.copy;
            match QueueSockets::open(device.ifindex, queue, &sizes, frames, first, copy) {
                Err(SocketError::Busy(_)) if Instant::now() < until => {
                    std::thread::sleep(Duration::from_millis(20));
                }
                Err(source) => {
                    return Err(EngineError::Socket {
                        port: self.kernel.wanted.names[port].clone(),
                        source,
                    });
                }
                Ok(sockets) => return Ok(sockets),
            }
        }
    }

    /// From here on the XDP program sends packets to these sockets.
    fn announce(&self, queue: &Queue) -> Result<(), EngineError> {
        for ring in &queue.rx {
            let Some(socket) = &ring.socket else { continue };
            self.table.reset(ring.index);
            let fd = socket.as_fd().as_raw_fd();
            pinned::put(&self.maps.sockets, ring.index as u32, &fd.to_ne_bytes())?;
        }
        Ok(())
    }
}

/// Whether the worker can drive the NAPI of all its queues, which are zero-copy ones.
fn drive_napi(queues: &[Queue]) -> bool {
    queues
        .iter()
        .all(|q| q.sender().is_some_and(|fd| prefer_busy_poll(fd).is_ok()))
}

fn first(queues: &[Queue]) -> Option<BorrowedFd<'_>> {
    queues.first().and_then(Queue::sender)
}
