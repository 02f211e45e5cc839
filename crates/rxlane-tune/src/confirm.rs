//! Changes that are undone unless somebody confirms them: who has cut himself off cannot undo them himself.
//!
//! The journal says until when. A guard, a process apart from whoever applied the changes, waits for that time and undoes
//! them; it is alive as long as it holds its lock. Without it, whoever comes next undoes them ([`undo_unconfirmed`]). After a
//! reboot there is nothing to undo.

use std::fs::File;
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use nix::time::{ClockId, clock_gettime};
use rxlane_policy::Nanos;
use rxlane_system::Tried;

use crate::journal::Journal;
use crate::{Machine, Reverted, TuneError, revert};

/// Time since boot, that of sleep included.
pub fn now() -> Nanos {
    let time = clock_gettime(ClockId::CLOCK_BOOTTIME).map_or((0, 0), |t| (t.tv_sec(), t.tv_nsec()));
    Nanos(time.0 as u64 * 1_000_000_000 + time.1 as u64)
}

/// What becomes of changes that wait to be confirmed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pending {
    /// They stay: somebody confirmed or undid them, or they never waited.
    Nothing,
    /// They may still be confirmed; so long.
    For(Nanos),
    /// Their time is over.
    Over,
}

impl Pending {
    /// By what a journal says.
    pub fn of(confirm_until: Option<Nanos>, now: Nanos) -> Self {
        match confirm_until {
            None => Self::Nothing,
            Some(until) if until > now => Self::For(until.since(now)),
            Some(_) => Self::Over,
        }
    }
}

/// Held by a guard as long as it lives.
#[derive(Debug)]
pub struct Guarding {
    _lock: Flock<File>,
}

fn lock_of(journal: &Path) -> PathBuf {
    journal.with_extension("guard")
}

impl Guarding {
    /// Takes it.
    ///
    /// # Errors
    /// [`TuneError::Busy`] when another guard has it, or the file system's refusal.
    pub fn begin(journal: &Path) -> Result<Self, TuneError> {
        let path = lock_of(journal);
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .tried(|| format!("open {}", path.display()))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock);
        let lock = lock.map_err(|_| TuneError::Busy { path })?;
        Ok(Self { _lock: lock })
    }

    /// Whether somebody has it.
    pub fn is_held(journal: &Path) -> bool {
        File::open(lock_of(journal))
            .is_ok_and(|file| Flock::lock(file, FlockArg::LockSharedNonblock).is_err())
    }
}

/// Undoes what nobody has confirmed in time, or what has lost its guard; `None`: there is no such thing.
///
/// # Errors
/// As [`revert`].
pub fn undo_unconfirmed(
    machine: &dyn Machine,
    journal: &mut Journal,
    guarded: bool,
    now: Nanos,
) -> Result<Option<Reverted>, TuneError> {
    if journal.entries.is_empty() && journal.confirm_until().is_some() {
        // Whoever was to wait ended before anything was changed, and what others change now is not his.
        journal.await_confirmation(None)?;
    }
    match Pending::of(journal.confirm_until(), now) {
        Pending::Nothing => Ok(None),
        Pending::For(_) if guarded => Ok(None),
        Pending::For(_) | Pending::Over => revert(machine, journal).map(Some),
    }
}
