//! What a poll has received is taken by the stack at its end, and not while it is under way.
//!
//! Redirected packets leave at the end of a poll. The stack takes others by eights as they come, so an RT packet waits for the
//! stack's work on those that were received before and behind it. With batches of a whole poll it leaves first. The setting is the
//! machine's, and so kept as it was before the first router until the last has gone (docs/src/decisions/whole-batches.md).

use std::time::{Duration, Instant};

use rxlane_system::SystemError;
use rxlane_system::gro::NormalBatch;
use tracing::{info, warn};

use crate::DataplaneError;
use crate::instance::Instance;

/// Packets of a whole poll (`NAPI_POLL_WEIGHT`).
const WHOLE_POLL: u32 = 64;

/// After so long without a flow that may be express the stack takes packets as before again: the router's own questions to a time or
/// name server come and go each minute.
const IDLE_FOR: Duration = Duration::from_secs(10);

/// A router that ends tries so often to take its change back, this far apart: others are at it for milliseconds.
const TRIES: u32 = 200;
const APART: Duration = Duration::from_millis(10);

const STAYS: &str = "the stack may go on taking packets by whole polls (net.core.gro_normal_batch)";

/// The machine's setting, and what a router has made of it.
pub(crate) struct Batches {
    setting: Option<NormalBatch>,
    /// Whether it was lengthened for this router; not known as long as nobody has looked.
    long: Option<bool>,
    /// Since when nobody can be express.
    idle_since: Option<Instant>,
}

impl Batches {
    /// Opens the setting, for which privileges are needed that a router gives up later.
    pub(crate) fn open() -> Self {
        Self {
            setting: NormalBatch::open(),
            long: None,
            idle_since: None,
        }
    }

    /// Has the stack take whole polls, except while nobody can be express.
    pub(crate) fn follow(&mut self, instance: &Instance, idle: bool) {
        if !idle {
            self.idle_since = None;
            if self.long != Some(true) && self.lengthen(instance) {
                self.long = Some(true);
            }
            return;
        }
        let since = *self.idle_since.get_or_insert_with(Instant::now);
        let due = match self.long {
            Some(true) => since.elapsed() >= IDLE_FOR,
            Some(false) => false,
            None => true,
        };
        if due && self.try_to_give_back(instance) {
            self.long = Some(false);
        }
    }

    /// Has the stack take whole polls, unless it takes more already. That it cannot is a warning: the router works without. `false` while
    /// another router is at it: the next look is soon.
    fn lengthen(&self, instance: &Instance) -> bool {
        let Some(setting) = &self.setting else {
            info!(
                "net.core.gro_normal_batch is out of reach here: RT packets wait for what the stack does with others in a poll"
            );
            return true;
        };
        try_lengthen(instance, setting).unwrap_or_else(|error| {
            warn!(%error, "RT packets wait for what the stack does with others in a poll");
            true
        })
    }

    /// Takes the change back if this router was the last that needed it. Warnings only: there is nothing to do without.
    pub(crate) fn give_back(&self, instance: &Instance) {
        for _ in 0..TRIES {
            if self.try_to_give_back(instance) {
                return;
            }
            std::thread::sleep(APART);
        }
        warn!("{STAYS}: another router does not let go of the setting");
    }

    /// `false` while another router is at it.
    fn try_to_give_back(&self, instance: &Instance) -> bool {
        try_to_give_back(instance, self.setting.as_ref()).unwrap_or_else(|error| {
            warn!(%error, "{STAYS}");
            true
        })
    }
}

fn try_lengthen(instance: &Instance, setting: &NormalBatch) -> Result<bool, DataplaneError> {
    let Some(_lock) = Instance::lock_normal_batch()? else {
        return Ok(false);
    };
    let was = setting.get()?;
    let holders = holders(instance)?;
    // A whole poll may be what another router has set. Anything else is the administrator's, also while routers run.
    let original = match was {
        WHOLE_POLL => instance
            .load_normal_batch()
            .or(holders.first().map(|(_, original)| *original)),
        other => Some(other),
    };
    let Some(original) = original.filter(|o| *o < WHOLE_POLL) else {
        return Ok(true);
    };
    for (holder, _) in &holders {
        holder.save_normal_batch(original)?;
    }
    // First what it was: whoever is killed in between has then changed nothing that is not known.
    instance.save_normal_batch(original)?;
    if was != WHOLE_POLL {
        setting.set(WHOLE_POLL)?;
        info!(
            was,
            "the stack takes packets by whole polls, as long as rxlane is attached"
        );
    }
    Ok(true)
}

/// Routers besides this one that have changed the setting, or found it changed, and what it was. Those of namespaces that are gone
/// need nothing any more.
fn holders(instance: &Instance) -> Result<Vec<(Instance, u32)>, DataplaneError> {
    let gone: Vec<String> = Instance::abandoned()?.iter().map(Instance::name).collect();
    let others = Instance::all()?
        .into_iter()
        .filter(|other| other.name() != instance.name() && !gone.contains(&other.name()));
    Ok(others
        .filter_map(|other| other.load_normal_batch().map(|original| (other, original)))
        .collect())
}

fn try_to_give_back(
    instance: &Instance,
    setting: Option<&NormalBatch>,
) -> Result<bool, DataplaneError> {
    let Some(_lock) = Instance::lock_normal_batch()? else {
        return Ok(false);
    };
    let Some(original) = instance.load_normal_batch() else {
        return Ok(true);
    };
    if holders(instance)?.is_empty() {
        let setting = setting.ok_or_else(|| SystemError::Refused {
            what: format!("set net.core.gro_normal_batch to {original} again"),
            source: std::io::Error::other("it is out of reach from this network namespace"),
        })?;
        // Whoever has changed it since meant it.
        if setting.get()? == WHOLE_POLL {
            setting.set(original)?;
        }
    }
    instance.forget_normal_batch();
    Ok(true)
}
