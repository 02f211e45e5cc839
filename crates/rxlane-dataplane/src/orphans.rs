//! Routers whose daemons have ended: what they were told, and how they are removed.

use tracing::info;

use crate::DataplaneError;
use crate::gro_batch::Batches;
use crate::instance::Instance;
use crate::lanes::overload::Shared;
use crate::state::State;
use crate::tags;

/// Removes what routers of namespaces that are gone have left: pins, and programs that would run at each NAPI poll of this
/// machine. Returns how many there were.
///
/// # Errors
/// When a folder cannot be removed.
pub fn remove_abandoned() -> Result<usize, DataplaneError> {
    let abandoned = Instance::abandoned()?;
    for instance in &abandoned {
        info!(
            router = instance.name(),
            "removing what the router of a namespace that is gone has left"
        );
        Batches::open().give_back(instance);
        instance.remove()?;
    }
    Ok(abandoned.len())
}

/// What a daemon that has ended was told to do, if its lanes are still there.
///
/// # Errors
/// When /proc cannot be read.
pub fn left_behind() -> Result<Option<State>, DataplaneError> {
    let instance = Instance::current()?;
    let lanes = instance.daemon().is_none() && Shared::open(&instance.pins).is_ok();
    Ok(lanes.then(|| instance.load_state()).flatten())
}

/// Detaches a router whose daemon is not running.
///
/// # Errors
/// While a daemon runs, or when there is nothing to detach.
pub fn detach_orphan() -> Result<(), DataplaneError> {
    let instance = Instance::current()?;
    if !instance.exists() {
        return Err(DataplaneError::NotRunning);
    }
    let _lock = instance.lock()?;
    remove(&instance, &Batches::open())
}

/// Removes a router of this namespace, and what it had changed about its ports and the machine.
pub(crate) fn remove(instance: &Instance, batches: &Batches) -> Result<(), DataplaneError> {
    tags::give_back(instance, |_| true);
    batches.give_back(instance);
    instance.remove()
}
