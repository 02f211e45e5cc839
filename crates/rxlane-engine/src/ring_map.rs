//! What an engine consists of, worked out before anything is touched.

use rxlane_bpf::possible_cores;
use rxlane_config::{EngineConfig, Priority, RouterConfig};
use rxlane_policy::global::GlobalPriority;
use rxlane_policy::poll::PollList;
use rxlane_policy::strategy::Layout;

use crate::EngineError;
use crate::worker::Scheduler;
use crate::xsk::frames::HEADROOM;
use crate::xsk::socket::Sizes;

/// Rings, devices and who serves them.
#[derive(Debug, Clone)]
pub struct RingMap {
    /// Devices and rings of a queue.
    pub layout: Layout,
    /// For each class, highest first, the number of its ring in a queue.
    pub ring_of_class: Vec<usize>,
    /// For each ring of a queue, the packets that it may hold.
    pub shares: Vec<u32>,
    /// For each ring of a queue, whether the stack gets its packets.
    pub stack: Vec<bool>,
    /// Number of queues of the port that has the most.
    pub queues: u32,
    /// Number of queues of each port.
    pub queues_of_port: Vec<u32>,
    /// As configured.
    pub engine: EngineConfig,
}

fn refuse(message: String) -> EngineError {
    EngineError::Unfit(message)
}

impl RingMap {
    /// `queues_of_port`: Rx queues of each configured port.
    pub fn new(
        config: &RouterConfig,
        engine: &EngineConfig,
        queues_of_port: Vec<u32>,
    ) -> Result<Self, EngineError> {
        let n = config.classes.len();
        let layout = engine.layout(&config.classes)?;
        let mut first = vec![0];
        for device in &layout.devices {
            first.push(first[first.len() - 1] + device.rings());
        }
        let rings = first[layout.devices.len()];
        let ring_of_class: Vec<usize> = (0..n)
            .map(|class| {
                let place = layout.places[class];
                first[place.device] + place.ring
            })
            .collect();
        let mut shares = vec![0; rings];
        let mut stack = vec![false; rings];
        for (class, ring) in ring_of_class.iter().enumerate() {
            shares[*ring] = shares[*ring].max(engine.rings[class]);
            // All classes of a ring have the same lane: the layout has been checked for that.
            stack[*ring] = !config.classes[class].lane.is_express();
        }
        let this = Self {
            ring_of_class,
            shares,
            stack,
            queues: queues_of_port.iter().copied().max().unwrap_or(1),
            queues_of_port,
            engine: engine.clone(),
            layout,
        };
        this.check_cores(config)?;
        this.scheduler(1)?;
        Ok(this)
    }

    fn check_cores(&self, config: &RouterConfig) -> Result<(), EngineError> {
        let cores = &self.engine.cores;
        let possible = possible_cores()?;
        if let Some(core) = cores.iter().find(|c| !possible.contains(c)) {
            return Err(refuse(format!(
                "core {core} does not exist; this machine has cores 0 to {}",
                possible.len() - 1
            )));
        }
        for (name, queues) in config.ports.iter().zip(&self.queues_of_port) {
            if (*queues as usize) < cores.len() {
                return Err(refuse(format!(
                    "port `{name}` has {queues} queues for {} workers: give it more (ethtool -L {name} combined N), or name fewer cores",
                    cores.len()
                )));
            }
        }
        Ok(())
    }

    /// Number of rings of a queue.
    pub fn rings(&self) -> usize {
        self.shares.len()
    }

    /// Number of entries in the table of rings for `ports` ports.
    pub fn entries(&self, ports: usize) -> usize {
        ports * self.queues as usize * self.rings()
    }

    /// Place of a queue's first ring in that table, as in bpf/engine/engine.h.
    pub fn index(&self, port: usize, queue: u32) -> usize {
        (port * self.queues as usize + queue as usize) * self.rings()
    }

    /// Queues of a port that a worker serves.
    pub fn queues_of(&self, worker: usize, port: usize) -> impl Iterator<Item = u32> + use<> {
        let workers = self.engine.cores.len();
        (0..self.queues_of_port[port]).filter(move |q| *q as usize % workers == worker)
    }

    /// Sizes of a queue's rings.
    pub(crate) fn sizes(&self) -> Sizes {
        let rx: Vec<u32> = self.shares.iter().map(|s| s.next_power_of_two()).collect();
        Sizes {
            fill: rx.iter().sum::<u32>().next_power_of_two(),
            tx: self.engine.tx_ring.next_power_of_two(),
            rx,
        }
    }

    /// Number of frames of a queue: as many as its rings can hold at once, so that no class can take
    /// another's frames.
    pub fn frames(&self) -> u32 {
        let sizes = self.sizes();
        // Sent frames are on the Tx ring, in the driver or on the completion ring.
        sizes.rx.iter().sum::<u32>() + sizes.fill + 2 * sizes.tx
    }

    /// Bytes of a frame for ports with this MTU. What is longer than a page comes in several pieces, and is the kernel's.
    pub fn frame_size(mtu: u32) -> u32 {
        const ETHERNET_VLAN: u32 = 18;
        if mtu + ETHERNET_VLAN + HEADROOM <= 2048 {
            2048
        } else {
            4096
        }
    }

    /// The order of service of a worker with `queues` queues.
    pub(crate) fn scheduler(&self, queues: usize) -> Result<Scheduler, EngineError> {
        match self.engine.priority {
            Priority::Device => Ok(Scheduler::Devices(PollList::default())),
            Priority::Global => {
                let budgets: Vec<u32> = match &self.engine.strategy {
                    rxlane_policy::strategy::Strategy::LlWfq { budgets } => budgets.clone(),
                    rxlane_policy::strategy::Strategy::LlRr { ring_budget } => {
                        vec![*ring_budget; self.rings()]
                    }
                    _ => vec![self.engine.device_budget; self.rings()],
                };
                let order = GlobalPriority::new(&budgets, queues)?;
                Ok(Scheduler::Global(Box::new(order)))
            }
        }
    }
}
