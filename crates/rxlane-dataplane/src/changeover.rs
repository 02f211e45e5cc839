//! The change from one configuration to another: prepared beside the old one, then made link by link, and undone wholly if
//! a link refuses.
//!
//! A packet sees one program, with that program's own constants, tables and egress devices. What the programs share is
//! true for both while both are at work: a port keeps its slot for as long as it is configured, and the table of ports has
//! those of both configurations.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;

use rxlane_bpf::layout::{DeviceOver, GuardPlan};
use rxlane_bpf::pinned;
use rxlane_engine::RingMap;
use rxlane_policy::class::{Class, Trust};
use rxlane_system::links::Links;
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::device::with_members;
use rxlane_topology::{Topology, hook};
use tracing::error;

use crate::DataplaneError;
use crate::attached::Attached;
use crate::instance::Instance;
use crate::lanes::constants::{Wanted, trusts};
use crate::lanes::flows::FlowMaps;
use crate::lanes::guard;
use crate::lanes::overload::{self, Shared};
use crate::lanes::program::LaneProgram;
use crate::lanes::{rings, witness};
use crate::named_vlans::NamedVlans;
use crate::state::State;
use crate::{filters, macvlans, port_links, port_table, ports, tags, vlans};

const OBSERVING: &str = "observing: every packet goes to the Linux stack as it came; counters say what would become of it otherwise";

/// Loads the program of `state.config` and puts it in place of what `old` had; `running` is the program of `old`, unless
/// another process loaded it.
///
/// # Errors
/// When anything is refused; then everything is as it was.
pub(crate) fn change(
    instance: &Instance,
    shared: &Shared,
    state: &mut State,
    old: Option<&State>,
    running: Option<&LaneProgram>,
    plan: Option<&RingMap>,
) -> Result<LaneProgram, DataplaneError> {
    // Whoever calls this may have detached programs a moment ago.
    let snapshot = &Snapshot::read()?;
    let devices = &snapshot.links;
    ports::check_ports(instance, &state.config, devices)?;
    // Only warnings follow from these here: who looks around asks again.
    let filtered = filters::of_bridges(&state.config, devices).unwrap_or_default();
    state.topology = Topology::compile(&state.config, snapshot, &filtered);
    let at_tc = |name: &&str| {
        let can = state.features.tcx;
        let device = devices.named(name);
        can && device.is_some_and(|d| hook::is_at_tc(&state.config, d, devices))
    };
    let ports: Vec<String> = state.ports.keys().cloned().collect();
    let in_xdp = ports.iter().map(String::as_str).filter(|name| !at_tc(name));
    let on = with_members(&in_xdp.collect(), devices);
    let here = devices.iter().map(|d| d.name.as_str());
    let changed = tags::keep(instance, &here.filter(|name| on.contains(name)).collect())?;
    let outcome = replace(instance, shared, state, old, running, plan, snapshot);
    match &outcome {
        Ok(_) => tags::give_back(instance, |port| !on.contains(port)),
        Err(_) => tags::give_back(instance, |port| changed.iter().any(|c| c == port)),
    }
    outcome
}

fn replace(
    instance: &Instance,
    shared: &Shared,
    state: &mut State,
    old: Option<&State>,
    running: Option<&LaneProgram>,
    plan: Option<&RingMap>,
    snapshot: &Snapshot,
) -> Result<LaneProgram, DataplaneError> {
    let devices = &snapshot.links;
    overload::leave_polling_cores(shared);
    let established = |state: &State| trusts(&state.config, Trust::asks_linux);
    let parks_tcp = rings::parks_tcp(&state.config, &state.features);
    let class_rings = rings::prepare(
        instance,
        &state.config.classes,
        parks_tcp,
        old.map(|o| o.config.classes.as_slice()),
    )?;
    let witness = established(state)
        .then(|| witness::settle(instance, &shared.tunnels, old.map_or(&[], |o| &o.programs)))
        .transpose()?;
    let (maps, accepted) = witness.unzip();
    for (name, port) in &mut state.ports {
        if let Some(device) = devices.named(name) {
            port.ifindex = Some(device.ifindex);
        } else {
            port_links::let_go(instance, name, port.ifindex.take(), devices)?;
            port.mode = None;
        }
    }
    let whole = |name: &String| state.ports.get(name).filter(|port| !port.is_by_vlan());
    let slots: Vec<(u8, u8)> = (0..)
        .zip(&state.config.ports)
        .filter_map(|(i, name)| whole(name).map(|port| (i, port.slot)))
        .collect();
    let ports: Vec<String> = state.ports.keys().cloned().collect();
    let guard = GuardPlan {
        observes: u32::from(state.options.observe),
        ..guard::plan(&state.config.classes, &ports)?
    };
    let counted = state.options.counted_flows();
    let flows = counted
        .map(|_| FlowMaps::open_or_create(instance))
        .transpose()?;
    let wanted = Wanted {
        flows: flows.as_ref(),
        features: &state.features,
        config: &state.config,
        options: state.options,
        slots: &slots,
        at_tc: state.features.tcx && hook::any_at_tc(&state.config, devices),
    };
    let lane = LaneProgram::load(&wanted, shared, &class_rings, plan, maps)?;
    state.programs.extend(accepted);
    for (name, port) in &state.ports {
        if old.is_none_or(|o| !o.ports.contains_key(name)) {
            overload::reset_port(shared, port.slot)?;
        }
    }
    port_table::write_egress(&lane, &state.ports, snapshot, &state.topology)?;
    // Sessions are told of by who watches.
    let (config, topology) = (&state.config, &state.topology);
    pinned::replace::<DeviceOver>(&lane.sessions, &BTreeMap::new())?;
    vlans::Tables::of(&state.ports, config, snapshot, topology).write(&lane)?;
    NamedVlans::of(&config.ports, devices).write(&lane)?;
    macvlans::write(&lane, &state.ports, config, snapshot)?;
    rings::announce_rings(shared, &class_rings)?;
    let mut both = old.map(|o| o.ports.clone()).unwrap_or_default();
    both.extend(state.ports.clone());
    // Nor is it known yet from which ports bridges learn.
    let nobody = BTreeSet::new();
    let write_ports = |ports: &_, config: &_, topology: &_| {
        port_table::write_ports(shared, ports, config, snapshot, topology, &nobody)
    };
    write_ports(&both, &state.config, &state.topology)?;

    // From here on ports change over, one link at a time.
    let mut done = Vec::new();
    if let Err(refused) = attach_all(instance, state, devices, &lane, plan.is_some(), &mut done) {
        undo(done, running);
        if let Some(old) = old {
            // As devices are now: what another daemon has left may be old.
            let topology = Topology::compile(&old.config, snapshot, &BTreeMap::new());
            write_ports(&old.ports, &old.config, &topology)?;
        }
        if !old.is_some_and(established) {
            witness::remove(instance)?;
        }
        return Err(refused);
    }

    if state.options.observe {
        state.warnings.insert(0, OBSERVING.into());
    }

    // Nothing refuses any more.
    done.into_iter().for_each(Attached::settle);
    pinned::put(&shared.guard_plans, 0, bytemuck::bytes_of(&guard))?;
    if old.is_none_or(|o| names(&o.config.classes) != names(&state.config.classes)) {
        overload::reset_counters(shared)?;
    }
    let gone = |name: &&String| !state.ports.contains_key(*name);
    for name in old.iter().flat_map(|o| o.ports.keys()).filter(gone) {
        pinned::detach(&instance.port_link(name))?;
    }
    write_ports(&state.ports, &state.config, &state.topology)?;
    if !established(state) {
        witness::remove(instance)?;
    }
    rings::schedule_all(&state.config.classes, parks_tcp, &class_rings)?;
    rings::pin(instance, &class_rings)?;
    state.programs.extend(lane.accepted.iter().cloned());
    state.pid = std::process::id();
    Ok(lane)
}

fn attach_all(
    instance: &Instance,
    state: &mut State,
    devices: &Links,
    lane: &LaneProgram,
    engine: bool,
    done: &mut Vec<Attached>,
) -> Result<(), DataplaneError> {
    let names: Vec<String> = state.ports.keys().cloned().collect();
    for name in &names {
        let Some(device) = devices.named(name) else {
            continue;
        };
        let lends = ports::would_lend_queues(device);
        let at_tc = hook::is_at_tc(&state.config, device, devices);
        let (mode, attached) = ports::attach(instance, device, lane, at_tc)?;
        let is_fresh = !matches!(attached, Attached::Replaced(..));
        done.push(attached);
        if engine && mode == "generic" {
            let port = name.clone();
            return Err(DataplaneError::EngineOnGeneric { port });
        }
        if let Some(port) = state.ports.get_mut(name) {
            port.mode = Some(mode.into());
            if is_fresh {
                port.lent_queues = lends && mode == "native";
            }
            if port.lent_queues {
                state.warnings.push(ports::waits_for_ever(name));
            }
        }
        state.warnings.extend(ports::warnings(device, Some(mode)));
    }
    state
        .warnings
        .extend(state.topology.warnings(&state.config));
    Ok(())
}

/// The last first, so that no port is without the program that it had.
fn undo(done: Vec<Attached>, running: Option<&LaneProgram>) {
    for attached in done.into_iter().rev() {
        let outcome = match &attached {
            Attached::Fresh(path) => pinned::detach(path).map_err(|e| e.to_string()),
            Attached::Moved(path, was) => pinned::detach(path)
                .and_then(|()| pinned::pin(was.as_fd(), path))
                .map_err(|e| e.to_string()),
            Attached::Replaced(link, before) => {
                let before = before.as_ref().map(AsFd::as_fd);
                let of_hook = running.and_then(|lane| match pinned::is_tcx(link) {
                    true => lane.at_tc.as_ref(),
                    false => Some(&lane.program),
                });
                match before.or_else(|| of_hook.map(AsFd::as_fd)) {
                    Some(program) => {
                        pinned::replace_program(link, program).map_err(|e| e.to_string())
                    }
                    None => Err("the program before cannot be had".into()),
                }
            }
        };
        if let Err(message) = outcome {
            error!("cannot undo the change of a port: {message}");
        }
    }
}

fn names(classes: &[Class]) -> Vec<&str> {
    classes.iter().map(|c| c.name.as_str()).collect()
}
