//! What a poll has received is taken by the stack at its end, and not while it is under way.
//!
//! Redirected packets leave at the end of a poll. The stack takes others by eights as they come, so an RT packet waits for the
//! stack's work on those that were received before and behind it. With batches of a whole poll it leaves first. The setting is the
//! machine's, and so kept as it was before the first router until the last has gone (docs/src/decisions/whole-batches.md).

use rxlane_system::gro::NormalBatch;
use tracing::{info, warn};

use crate::DataplaneError;
use crate::instance::Instance;

/// Packets of a whole poll (`NAPI_POLL_WEIGHT`).
const WHOLE_POLL: u32 = 64;

/// Has the stack take whole polls, unless it takes more already.
///
/// # Errors
/// When it cannot be remembered what the setting was; that it cannot be changed is a warning, for the router works without.
pub(crate) fn lengthen(instance: &Instance, setting: &NormalBatch) -> Result<(), DataplaneError> {
    let was = match setting.get() {
        Ok(was) => was,
        Err(error) => {
            warn!(%error, "RT packets may wait for what the stack does with others");
            return Ok(());
        }
    };
    // Another router has changed it before.
    let others = Instance::all()?;
    let recorded = others.iter().find_map(Instance::load_normal_batch);
    let original = recorded.unwrap_or(was);
    if original >= WHOLE_POLL {
        return Ok(());
    }
    instance.save_normal_batch(original)?;
    if was < WHOLE_POLL {
        match setting.set(WHOLE_POLL) {
            Ok(()) => info!(
                was,
                "the stack takes packets by whole polls, as long as rxlane is attached"
            ),
            Err(error) => warn!(%error, "RT packets may wait for what the stack does with others"),
        }
    }
    Ok(())
}

/// Forgets what a router had changed, and takes the change back if it was the last. Warnings only: there is nothing to do without.
pub(crate) fn give_back(instance: &Instance, setting: Option<&NormalBatch>) {
    let Some(original) = instance.load_normal_batch() else {
        return;
    };
    instance.forget_normal_batch();
    let others = Instance::all().unwrap_or_default();
    if others
        .iter()
        .any(|other| other.load_normal_batch().is_some())
    {
        return;
    }
    let Some(setting) = setting else {
        warn!("cannot set net.core.gro_normal_batch to {original} again from here");
        return;
    };
    // Whoever has changed it since meant it.
    match setting.get() {
        Ok(WHOLE_POLL) => {
            if let Err(error) = setting.set(original) {
                warn!(%error, "the stack goes on taking packets by whole polls");
            }
        }
        Ok(_) => {}
        Err(error) => warn!(%error, "the stack may go on taking packets by whole polls"),
    }
}
