//! Idle states of the cores that serve ports.

use super::{Area, Draft, Profile, Reason};
use crate::cpus::Cpus;
use crate::inventory::Inventory;
use crate::{Knob, TuneError, Value};

/// A core that takes longer to wake than this is noticed in RT latency, us.
const NOTICED_US: u64 = 10;

pub(super) fn plan(
    draft: &mut Draft<'_>,
    inventory: &Inventory,
    chosen: &Cpus,
) -> Result<(), TuneError> {
    let disable = match draft.options.profile {
        Profile::Latency => true,
        Profile::Power => false,
        Profile::Throughput => return Ok(()),
    };
    for core in inventory
        .cores
        .iter()
        .filter(|c| chosen.contains(&c.number))
    {
        for state in core.idle_states.iter().filter(|s| s.exit_us > NOTICED_US) {
            let knob = Knob::IdleStateOff {
                core: core.number,
                state: state.place.clone(),
            };
            let reason = Reason {
                why: format!("{} takes {} us to wake from", state.name, state.exit_us),
                source: "Documentation/admin-guide/pm/cpuidle.rst",
                cost: if disable {
                    "power"
                } else {
                    "latency after idling"
                },
            };
            draft.want(Area::Idle, knob, Value::Switch(disable), reason)?;
        }
    }
    Ok(())
}
