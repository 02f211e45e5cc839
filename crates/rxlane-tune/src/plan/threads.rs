//! Threads that poll a port go before the programs on its core: what they leave for later is lost in the Rx ring.

use rxlane_system::threads::Scheduling;

use super::{Area, Draft, Profile, Reason};
use crate::inventory::Nic;
use crate::{Knob, TuneError, Value};

const SOURCE: &str =
    "single-input-queue III.B; Documentation/networking/napi.rst, \"Threaded NAPI\"";
/// Nine times the weight of other threads (`sched_prio_to_weight`, kernel/sched/core.c), which keep a tenth of the core.
const NICE: i32 = -10;

/// For a port that is polled by threads already: whether it should be is not decided here.
pub(super) fn plan(draft: &mut Draft<'_>, nic: &Nic) -> Result<(), TuneError> {
    let threaded = Knob::Threaded {
        device: nic.name.clone(),
    };
    let profile = draft.options.profile;
    let is_threaded = draft.machine.get(&threaded)? == Some(Value::Switch(true));
    if profile == Profile::Power || !is_threaded {
        return Ok(());
    }
    for queue in 0..nic.rx_queues as u32 {
        let knob = Knob::QueueThread {
            device: nic.name.clone(),
            queue,
        };
        let wanted = Scheduling::Nice(NICE);
        let is_planned = draft.plan.changes.iter().any(|c| c.knob == knob);
        let now = match draft.machine.get(&knob)? {
            Some(Value::Scheduling(now)) if now < wanted && !is_planned => Value::Scheduling(now),
            _ => continue,
        };
        let reason = Reason {
            why: "a program on its core makes the poll wait while the Rx ring fills; soft-IRQs would go first"
                .into(),
            source: SOURCE,
            cost: "programs on a core that packets fill have a tenth of it",
        };
        draft.change(Area::Threads, knob, now, Value::Scheduling(wanted), reason);
    }
    Ok(())
}
