//! What the lanes do with each class, and why.

use std::collections::BTreeMap;

use rxlane_bpf::layout::{ClassCounters, Core, Gates, RING_CPUS, RingCounters};
use rxlane_bpf::pinned::{get, get_percpu};
use rxlane_bpf::possible_cores;
use rxlane_config::{Datapath, ring_cores};
use rxlane_policy::class::{Aim, Class, Lane, Overload, Trust};

use super::parts::{ClassStatus, CoreStatus, RingStatus};
use crate::DataplaneError;
use crate::lanes::latency::LatencyStatus;
use crate::lanes::overload::Shared;
use crate::lanes::rings;
use crate::state::State;

/// Classes, highest priority first, summed over ports and cores.
pub(super) fn all(
    state: &State,
    shared: &Shared,
    cores: &BTreeMap<u8, Vec<Core>>,
    polling: &[CoreStatus],
    instance_alive: bool,
) -> Result<Vec<ClassStatus>, DataplaneError> {
    let mut all_cores = possible_cores()?;
    all_cores.truncate(RING_CPUS);
    let overloaded: Vec<usize> = polling
        .iter()
        .filter(|c| c.overloaded)
        .map(|c| c.core)
        .collect();
    let gates: Gates = get(&shared.gates, 0)?.unwrap_or_default();
    let parks_tcp = rings::parks_tcp(&state.config, &state.features);
    let mut all = Vec::new();
    for (i, class) in state.config.classes.iter().enumerate() {
        let mut counters = ClassCounters::default();
        cores
            .values()
            .flatten()
            .for_each(|c| counters += c.classes[i].into());
        let mut rings = Vec::new();
        let on = ring_cores(class, &all_cores, parks_tcp);
        if let (Some(on), Lane::Stack { ring, .. }) = (on, &class.lane) {
            for core in on {
                let key = (i * RING_CPUS) as u32 + core;
                let counters: RingCounters = get(&shared.ring_counters, key)?.unwrap_or_default();
                // Those of cores that were never overloaded would be most of the list.
                if waits_for_its_core(class) && counters == RingCounters::default() {
                    continue;
                }
                rings.push(RingStatus {
                    core,
                    size: ring.packets,
                    occupancy: counters.enqueued.saturating_sub(counters.dequeued),
                    counters,
                });
            }
        }
        let (at_work, why) = match &state.config.datapath {
            _ if state.options.observe => (
                "pass",
                "the router only observes: every packet goes to the Linux stack".to_owned(),
            ),
            Datapath::Afxdp(_) if instance_alive => (
                "engine",
                "an AF_XDP ring, served within its budget".to_owned(),
            ),
            _ => match state.objections.iter().find(|(c, _)| *c == class.name) {
                Some((_, why)) => ("pass", format!("left to the kernel: {}", why.join("; "))),
                None if gates.untracked != 0 && trust_of(class) == Some(&Trust::Established) => (
                    "pass",
                    "connection tracking knows of no flow, as where no rule of the firewall asks for it: none is established".to_owned(),
                ),
                None => at_work(class, &overloaded, parks_tcp),
            },
        };
        all.push(ClassStatus {
            name: class.name.clone(),
            lane: class.lane.name(),
            counters,
            at_work,
            why,
            kept: {
                let of = state.kept.iter().find(|(c, _)| *c == class.name);
                of.map(|(_, kept)| kept.clone()).unwrap_or_default()
            },
            rings,
            latency: latency(state, shared, i)?,
        });
    }
    Ok(all)
}

/// What is measured of a class.
fn latency(
    state: &State,
    shared: &Shared,
    class: usize,
) -> Result<Option<LatencyStatus>, DataplaneError> {
    if !state.options.measures_latency(&state.config) {
        return Ok(None);
    }
    let cpus = get_percpu(&shared.latencies, class as u32)?;
    Ok(Some(LatencyStatus::of(&cpus)))
}

fn trust_of(class: &Class) -> Option<&Trust> {
    match &class.lane {
        Lane::Express { trust, .. } => Some(trust),
        Lane::Stack { .. } => None,
    }
}

/// Whether nothing but TCP of the class waits in rings, for the core that polls.
fn waits_for_its_core(class: &Class) -> bool {
    matches!(&class.lane, Lane::Stack { ring, overload: Overload::Auto, .. } if ring.cores.is_empty())
}

fn at_work(class: &Class, overloaded: &[usize], parks_tcp: bool) -> (&'static str, String) {
    let Lane::Stack { overload, aim, .. } = &class.lane else {
        let why = match class.lane.name() {
            "fast" => {
                "fast lane: forwarded through the egress port's queueing discipline, past firewall and routing"
            }
            _ => "express lane: forwarded inside the poll",
        };
        return ("forward", why.into());
    };
    if overloaded.is_empty() {
        let why = match aim {
            Aim::Auto => "no core is overloaded while express traffic is present",
            _ => "no core is overloaded",
        };
        return ("pass", why.into());
    }
    let cores = overloaded
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    match overload {
        Overload::Auto if !waits_for_its_core(class) => (
            "queue",
            format!("core {cores} is overloaded and the class has other cores to run on"),
        ),
        Overload::Auto if parks_tcp => (
            "shed",
            format!(
                "core {cores} is overloaded and serves this class itself: TCP waits in its ring; of other packets as many as fit, the rest is dropped early"
            ),
        ),
        Overload::Auto | Overload::Shed => (
            "shed",
            format!(
                "core {cores} is overloaded and serves this class itself: as much as fits, the rest is dropped early"
            ),
        ),
        Overload::Queue => (
            "queue",
            format!("core {cores} is overloaded and overload = \"queue\""),
        ),
    }
}
