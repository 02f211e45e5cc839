//! Making changes so that they can be undone, and undoing them.

use super::journal::{Entry, Journal};
use super::plan::Change;
use super::{Knob, Machine};
use crate::SystemError;

/// What undoing did.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize)]
pub struct Reverted {
    /// Knobs that have their old value again.
    pub restored: usize,
    /// Knobs that somebody else has turned since, or that are gone: they were left alone.
    pub left: Vec<Left>,
}

/// A knob that was left alone.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Left {
    /// Which.
    pub knob: Knob,
    /// What it was before rxlane.
    pub old: String,
    /// What rxlane set.
    pub ours: String,
    /// What it is now; `None`: it is gone.
    pub now: Option<String>,
}

/// Makes all changes or none.
///
/// # Errors
/// The first thing that went wrong, after everything was rolled back: a value that is no longer what the plan
/// saw, a knob that is gone, a refusal, a value that did not take. [`SystemError::Stuck`] when rolling back failed
/// too; what could not be undone stays in the journal.
pub fn apply(
    machine: &dyn Machine,
    journal: &mut Journal,
    changes: &[Change],
) -> Result<(), SystemError> {
    if !journal.entries.is_empty() {
        return Err(SystemError::Applied {
            changes: journal.entries.len(),
        });
    }
    for change in changes {
        if let Err(error) = make(machine, journal, change) {
            let reverted = revert(machine, journal);
            return Err(match reverted {
                Ok(r) if r.left.is_empty() => SystemError::RolledBack {
                    area: change.area.name(),
                    source: Box::new(error),
                },
                Ok(r) => SystemError::Stuck {
                    source: Box::new(error),
                    why: format!("{} was changed meanwhile", r.left[0].knob),
                },
                Err(other) => SystemError::Stuck {
                    source: Box::new(error),
                    why: other.to_string(),
                },
            });
        }
    }
    Ok(())
}

fn make(machine: &dyn Machine, journal: &mut Journal, change: &Change) -> Result<(), SystemError> {
    let knob = &change.knob;
    let now = machine.get(knob)?.ok_or_else(|| SystemError::Gone {
        knob: knob.to_string(),
    })?;
    if !knob.same(&now, &change.now) {
        return Err(SystemError::Changed {
            knob: knob.to_string(),
            planned: change.now.clone(),
            now,
        });
    }
    turn(machine, journal, knob, &now, &change.wanted)
}

/// Journals a change, makes it, and reads it back.
pub(super) fn turn(
    machine: &dyn Machine,
    journal: &mut Journal,
    knob: &Knob,
    old: &str,
    wanted: &str,
) -> Result<(), SystemError> {
    journal.record(knob, old, wanted)?;
    set(machine, knob, wanted)
}

fn set(machine: &dyn Machine, knob: &Knob, wanted: &str) -> Result<(), SystemError> {
    machine.set(knob, wanted)?;
    let took = machine.get(knob)?;
    if took.as_deref().is_some_and(|took| knob.same(took, wanted)) {
        return Ok(());
    }
    Err(SystemError::NotTaken {
        knob: knob.to_string(),
        wanted: wanted.into(),
        took: took.unwrap_or_else(|| "gone".into()),
    })
}

/// Undoes everything in the journal, the last change first.
///
/// # Errors
/// The first refusal, after the rest was undone; what was refused stays in the journal.
pub fn revert(machine: &dyn Machine, journal: &mut Journal) -> Result<Reverted, SystemError> {
    let mut outcome = Reverted::default();
    let mut kept: Vec<Entry> = Vec::new();
    let mut first_error = None;
    for entry in journal.entries.clone().into_iter().rev() {
        match undo(machine, &entry) {
            Ok(None) => outcome.restored += 1,
            Ok(Some(left)) => outcome.left.push(left),
            Err(error) => {
                first_error = first_error.or(Some(error));
                kept.insert(0, entry);
            }
        }
    }
    journal.keep(kept)?;
    match first_error {
        None => Ok(outcome),
        Some(error) => Err(error),
    }
}

fn undo(machine: &dyn Machine, entry: &Entry) -> Result<Option<Left>, SystemError> {
    let now = machine.get(&entry.knob)?;
    let is = |value: &str| {
        now.as_deref()
            .is_some_and(|now| entry.knob.same(now, value))
    };
    if is(&entry.old) {
        return Ok(None);
    }
    if entry.ours.iter().any(|ours| is(ours)) {
        return set(machine, &entry.knob, &entry.old).map(|()| None);
    }
    Ok(Some(Left {
        knob: entry.knob.clone(),
        old: entry.old.clone(),
        ours: entry.ours.last().cloned().unwrap_or_default(),
        now,
    }))
}
