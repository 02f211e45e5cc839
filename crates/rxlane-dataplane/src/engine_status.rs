//! What the AF_XDP engine is doing, read from its pinned maps.

use libbpf_rs::{MapCore, MapFlags};
use rxlane_bpf::BpfTried;
use rxlane_bpf::layout::EngineRing;
use rxlane_bpf::pinned;
use rxlane_config::{Datapath, EngineConfig};
use rxlane_engine::{self as engine, WorkerCounters};
use schemars::JsonSchema;
use serde::Serialize;

use crate::DataplaneError;
use crate::instance::Instance;
use crate::state::State;

/// Pins of the engine's counters.
pub(crate) const ENGINE_RINGS: &str = "engine_rings";
/// See [`ENGINE_RINGS`].
pub(crate) const ENGINE_WORKERS: &str = "engine_workers";

/// The engine's configuration and counters; counts are since it was started.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EngineStatus {
    /// As configured, with defaults filled in.
    pub config: EngineConfig,
    /// One for each core.
    pub workers: Vec<WorkerStatus>,
    /// Rings by port, queue and number; those that have never held anything are left out.
    pub rings: Vec<EngineRingStatus>,
}

/// One thread of the engine, on a core of its own.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct WorkerStatus {
    /// Core that it is pinned to.
    pub core: u32,
    /// How it shares the core with NAPI.
    pub beside_napi: String,
    /// What it has done since it was started.
    #[serde(flatten)]
    pub counters: WorkerCounters,
}

/// A ring of the engine.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub struct EngineRingStatus {
    /// Name of the port.
    pub port: String,
    /// Number of the Rx queue of that port.
    pub queue: u32,
    /// Number among the queue's rings, highest class first.
    pub ring: u32,
    /// Packets it holds now.
    pub occupancy: u64,
    /// Packets that entered.
    pub received: u64,
    /// Packets dropped before they were copied, because the ring held its share.
    pub early_drops: u64,
    /// Packets that the kernel could not deliver to it.
    pub failed: u64,
}

fn beside_napi(w: &WorkerCounters) -> String {
    if w.drives_napi {
        return "preferred busy polling: the worker drives NAPI, so neither can starve the other"
            .into();
    }
    match w.fifo_priority {
        0 => "ordinary thread: soft-IRQs go first, and the core is shared fairly once they are overloaded".into(),
        p => format!("SCHED_FIFO {p}, as the NAPI threads: they take turns, a poll each"),
    }
}

pub(crate) fn read(
    instance: &Instance,
    state: &State,
) -> Result<Option<EngineStatus>, DataplaneError> {
    let Datapath::Afxdp(config) = &state.config.datapath else {
        return Ok(None);
    };
    let workers = pinned::open_map(&instance.pins, ENGINE_WORKERS)?;
    let rings = pinned::open_map(&instance.pins, ENGINE_RINGS)?;
    let mut all = Vec::new();
    for (at, core) in (0u32..).zip(&config.cores) {
        let bytes = workers
            .lookup(&at.to_ne_bytes(), MapFlags::ANY)
            .tried(|| "read the workers' counters".into())?;
        let counters = engine::read_worker(&bytes.unwrap_or_default());
        all.push(WorkerStatus {
            core: *core,
            beside_napi: beside_napi(&counters),
            counters,
        });
    }
    let of_queue = rings_of_queue(state, config)?;
    let queues = rings.max_entries() / (state.config.ports.len() as u32 * of_queue).max(1);
    let mut list = Vec::new();
    for index in 0..rings.max_entries() {
        let Some(ring) = pinned::get::<EngineRing>(&rings, index)? else {
            continue;
        };
        if ring.redirected + ring.early_drops == 0 {
            continue;
        }
        let queue = index / of_queue;
        let port = (queue / queues) as usize;
        list.push(EngineRingStatus {
            port: state.config.ports.get(port).cloned().unwrap_or_default(),
            queue: queue % queues,
            ring: index % of_queue,
            occupancy: ring
                .redirected
                .saturating_sub(ring.failed)
                .saturating_sub(ring.consumed),
            received: ring.redirected - ring.failed,
            early_drops: ring.early_drops,
            failed: ring.failed,
        });
    }
    Ok(Some(EngineStatus {
        config: config.clone(),
        workers: all,
        rings: list,
    }))
}

fn rings_of_queue(state: &State, config: &EngineConfig) -> Result<u32, DataplaneError> {
    let layout = config.strategy.layout(
        state.config.classes.len(),
        config.device_budget,
        config.order,
    )?;
    Ok(layout.devices.iter().map(|d| d.rings() as u32).sum())
}
