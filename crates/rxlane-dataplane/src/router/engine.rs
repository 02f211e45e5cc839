//! The engine of a router.

use std::os::fd::AsFd;

use libbpf_rs::MapHandle;
use rxlane_bpf::pinned;
use rxlane_config::{Datapath, RouterConfig};
use rxlane_engine::{self as engine, Engine, Maps, Programs, RingMap, WantedPorts};
use rxlane_system::drivers;

use crate::DataplaneError;
use crate::engine_status::{ENGINE_RINGS, ENGINE_WORKERS};
use crate::instance::Instance;
use crate::lanes::program::LaneProgram;
use crate::ports;
use crate::state::State;

/// What the engine will consist of, where the configuration has one. Of a port that is absent now, what it had `before`.
pub(crate) fn plan(
    config: &RouterConfig,
    before: Option<&State>,
) -> Result<Option<RingMap>, DataplaneError> {
    let Datapath::Afxdp(engine) = &config.datapath else {
        return Ok(None);
    };
    let queues = config
        .ports
        .iter()
        .map(|port| {
            let had = before.and_then(|state| state.queues.get(port).copied());
            let has = drivers::rx_queues(port).ok().or(had);
            has.ok_or_else(|| DataplaneError::NoPort(port.clone()))
        })
        .collect::<Result<_, _>>()?;
    Ok(Some(RingMap::new(config, engine, queues)?))
}

/// Starts it, and pins its counters.
pub(super) fn start(
    instance: &Instance,
    state: &mut State,
    lane: &mut LaneProgram,
    plan: Option<RingMap>,
) -> Result<Option<Engine>, DataplaneError> {
    state.queues.extend(ports::rx_queues(&state.ports));
    state
        .queues
        .retain(|port, _| state.ports.contains_key(port));
    let pin = |map: &MapHandle, name: &str| {
        let path = instance.pins.join(name);
        pinned::remove_pin(&path)?;
        pinned::pin(map.as_fd(), &path)
    };
    let (Some(plan), Some(maps)) = (plan, lane.engine.take()) else {
        pinned::remove_pin(&instance.pins.join(ENGINE_RINGS))?;
        pinned::remove_pin(&instance.pins.join(ENGINE_WORKERS))?;
        return Ok(None);
    };
    let workers = engine::create_map(
        ENGINE_WORKERS,
        engine::WORKER_BYTES,
        plan.engine.cores.len(),
    )?;
    pin(&maps.rings, ENGINE_RINGS)?;
    pin(&workers, ENGINE_WORKERS)?;
    let programs = Programs::attach(&maps.sockets, &maps.rings, &state.features)?;
    state.programs.extend(programs.accepted.iter().cloned());
    let maps = Maps {
        sockets: maps.sockets,
        rings: maps.rings,
        workers,
    };
    let ports = WantedPorts {
        names: state.config.ports.clone(),
        ways: state.config.egress.clone(),
    };
    Ok(Some(Engine::start(plan, ports, maps, programs)?))
}
