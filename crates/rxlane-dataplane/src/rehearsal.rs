//! A start without consequences: everything is loaded as [`Router::start`](crate::router::Router::start) would
//! load it, and nothing is attached, pinned or kept.
//!
//! What a running kernel makes of a program is known only to its verifier, so this asks it.

use rxlane_policy::class::Trust;
use rxlane_system::links;
use serde::Serialize;

use crate::DataplaneError;
use crate::engine::Programs;
use crate::features::Features;
use crate::instance::Instance;
use crate::lanes::overload::{self, Shared};
use crate::lanes::program::{self, LaneProgram, Wanted};
use crate::lanes::rings;
use crate::lanes::witness::{self, WitnessMaps};
use crate::masters;
use crate::options::Options;
use crate::verifier::Accepted;
use crate::{attach_points, hooks, port_names, ports, router, surroundings, vlans, watch};
use rxlane_config::RouterConfig;

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
    let devices = links::all()?;
    let mut warnings = port_names::absent(config, &devices);
    let config = &port_names::of_devices(config, &devices)?;
    router::check(config, options, &features)?;
    let around = watch::refuse(config, options.accept_bypass)?;
    let instance = Instance::current()?;
    ports::check_ports(&instance, config, &devices)?;
    warnings.extend(surroundings::warnings(
        config,
        &around,
        options.accept_bypass,
    ));
    let under = attach_points::by_vlan(&config.ports, &devices);
    let under = devices
        .iter()
        .filter(|d| under.contains_key(d.name.as_str()));
    for device in attach_points::whole(&config.ports, &devices).chain(under) {
        // Whether XDP will be native only attaching tells; the driver of a bond is believed to have it.
        let at_tc = features.tcx && hooks::is_at_tc(config, device, &devices);
        warnings.extend(ports::warnings(device, at_tc.then_some(hooks::AT_TC)));
    }
    warnings.extend(masters::warnings(config, &devices));
    warnings.extend(vlans::warnings(config, &devices));
    // Beside a running router: verifying is done away from the cores that poll.
    if let Ok(running) = Shared::open(&instance.pins) {
        overload::leave_polling_cores(&running);
    }
    let plan = router::plan(config, None)?;
    let (shared, mut programs) = Shared::rehearse(&features)?;
    // Without the rings and threads in which TCP may have to wait for each core.
    let rings = rings::prepare(&instance, &config.classes, false, None)?;
    let witness = program::trusts(config, |t| *t == Trust::Established)
        .then(WitnessMaps::create)
        .transpose()?;
    if let Some(maps) = &witness {
        programs.push(witness::load(maps, &shared.tunnels)?.1);
    }
    let wanted = Wanted {
        features: &features,
        config,
        options,
        slots: &[],
        at_tc: features.tcx && hooks::any_at_tc(config, &devices),
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
