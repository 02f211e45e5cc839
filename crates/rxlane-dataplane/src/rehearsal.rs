//! A start without consequences: everything is loaded as [`Router::start`](crate::router::Router::start) would
//! load it, and nothing is attached, pinned or kept.
//!
//! What a running kernel makes of a program is known only to its verifier, so this asks it.

use rxlane_bpf::features::Features;
use rxlane_bpf::verifier::Accepted;
use rxlane_config::RouterConfig;
use rxlane_engine::Programs;
use rxlane_policy::class::Trust;
use rxlane_system::snapshot::Snapshot;
use rxlane_topology::{Topology, attachment, hook};
use serde::Serialize;

use crate::DataplaneError;
use crate::instance::Instance;
use crate::lanes::constants::{Wanted, trusts};
use crate::lanes::flows::FlowMaps;
use crate::lanes::overload::{self, Shared};
use crate::lanes::program::LaneProgram;
use crate::lanes::rings;
use crate::lanes::witness::{self, WitnessMaps};
use crate::options::Options;
use crate::{filters, port_names, ports, requirements, router, surroundings};

/// What a start would find.
#[derive(Debug, Clone, Serialize)]
pub struct Rehearsal {
    /// What the kernel offers.
    pub features: Features,
    /// What it took the kernel to accept each program.
    pub programs: Vec<Accepted>,
    /// Things that `run` would warn of, as far as they are seen without attaching.
    pub warnings: Vec<String>,
}

/// Loads what `config` needs into the kernel, and lets go of it.
///
/// # Errors
/// What a start would end with, as far as that can be known without attaching: a foreign XDP
/// program, a missing feature, a program that the kernel refuses.
pub fn rehearse(config: &RouterConfig, options: Options) -> Result<Rehearsal, DataplaneError> {
    let features = Features::probe();
    let snapshot = Snapshot::read()?;
    let devices = &snapshot.links;
    let mut warnings = port_names::absent(config, devices);
    let config = &port_names::of_devices(config, devices)?;
    requirements::check(config, options, &features, devices)?;
    let around = requirements::refuse(config, options.accept_bypass, devices)?;
    let instance = Instance::current()?;
    ports::check_ports(&instance, config, devices)?;
    warnings.extend(surroundings::warnings(
        config,
        &around,
        options.accept_bypass,
    ));
    warnings.extend(crate::flows::warning(config, options));
    for device in attachment::points(&config.ports, devices) {
        // Whether XDP will be native only attaching tells; the driver of a bond is believed to have it.
        let at_tc = features.tcx && hook::is_at_tc(config, device, devices);
        warnings.extend(ports::warnings(device, at_tc.then_some(hook::AT_TC)));
    }
    let filtered = filters::of_bridges(config, devices).unwrap_or_default();
    warnings.extend(Topology::compile(config, &snapshot, &filtered).warnings(config));
    // Beside a running router: verifying is done away from the cores that poll.
    if let Ok(running) = Shared::open(&instance.pins) {
        overload::leave_polling_cores(&running);
    }
    let plan = router::engine::plan(config, None)?;
    let (shared, mut programs) = Shared::rehearse(&features)?;
    // Without the rings and threads in which TCP may have to wait for each core.
    let rings = rings::prepare(&instance, &config.classes, false, None)?;
    let witness = trusts(config, Trust::asks_linux)
        .then(WitnessMaps::create)
        .transpose()?;
    if let Some(maps) = &witness {
        programs.push(witness::load(maps, &shared.tunnels)?.1);
    }
    let counted = options.counted_flows();
    let flows = counted.map(|_| FlowMaps::create()).transpose()?;
    let wanted = Wanted {
        flows: flows.as_ref(),
        features: &features,
        config,
        options,
        slots: &[],
        at_tc: features.tcx && hook::any_at_tc(config, devices),
    };
    let lane = LaneProgram::load(&wanted, &shared, &rings, plan.as_ref(), witness)?;
    programs.extend(lane.accepted);
    if let Some(maps) = lane.engine {
        programs.extend(Programs::rehearse(&maps.sockets, &maps.rings, &features)?);
    }
    Ok(Rehearsal {
        features,
        programs,
        warnings,
    })
}
