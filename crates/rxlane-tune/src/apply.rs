//! Making changes so that they can be undone, and undoing them.

use crate::TuneError;
use crate::journal::{Entry, Journal};
use crate::plan::Change;
use crate::{Knob, Machine, Value};

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
    pub old: Value,
    /// What rxlane set.
    pub ours: Value,
    /// What it is now; `None`: it is gone.
    pub now: Option<Value>,
}

/// Makes all changes or none.
///
/// # Errors
/// The first thing that went wrong, after everything was rolled back: a value that is no longer what the plan
/// saw, a knob that is gone, a refusal, a value that did not take. [`TuneError::Stuck`] when rolling back failed
/// too; what could not be undone stays in the journal.
pub fn apply(
    machine: &dyn Machine,
    journal: &mut Journal,
    changes: &[Change],
) -> Result<(), TuneError> {
    if !journal.entries.is_empty() {
        return Err(TuneError::Applied {
            changes: journal.entries.len(),
        });
    }
    for change in changes {
        change.knob.check_names()?;
    }
    for change in changes {
        if let Err(error) = make(machine, journal, change) {
            let reverted = revert(machine, journal);
            return Err(match reverted {
                Ok(r) if r.left.is_empty() => TuneError::RolledBack {
                    area: change.area,
                    source: Box::new(error),
                },
                Ok(r) => TuneError::Stuck {
                    source: Box::new(error),
                    why: format!("{} was changed meanwhile", r.left[0].knob),
                },
                Err(other) => TuneError::Stuck {
                    source: Box::new(error),
                    why: other.to_string(),
                },
            });
        }
    }
    Ok(())
}

fn make(machine: &dyn Machine, journal: &mut Journal, change: &Change) -> Result<(), TuneError> {
    let knob = &change.knob;
    let now = machine.get(knob)?.ok_or_else(|| TuneError::Gone {
        knob: knob.to_string(),
    })?;
    if now != change.now {
        return Err(TuneError::Changed {
            knob: knob.to_string(),
            planned: change.now.to_string(),
            now: now.to_string(),
        });
    }
    turn(machine, journal, knob, &now, &change.wanted)
}

/// Journals a change, makes it, and reads it back.
pub(crate) fn turn(
    machine: &dyn Machine,
    journal: &mut Journal,
    knob: &Knob,
    old: &Value,
    wanted: &Value,
) -> Result<(), TuneError> {
    journal.record(knob, old, wanted)?;
    set(machine, knob, wanted)
}

fn set(machine: &dyn Machine, knob: &Knob, wanted: &Value) -> Result<(), TuneError> {
    machine.set(knob, wanted)?;
    let took = machine.get(knob)?;
    if took.as_ref() == Some(wanted) {
        return Ok(());
    }
    Err(TuneError::NotTaken {
        knob: knob.to_string(),
        wanted: wanted.to_string(),
        took: took.map_or_else(|| "gone".into(), |t| t.to_string()),
    })
}

/// Undoes everything in the journal, the last change first.
///
/// # Errors
/// The first refusal, after the rest was undone; what was refused stays in the journal.
pub fn revert(machine: &dyn Machine, journal: &mut Journal) -> Result<Reverted, TuneError> {
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

fn undo(machine: &dyn Machine, entry: &Entry) -> Result<Option<Left>, TuneError> {
    let now = machine.get(&entry.knob)?;
    let is = |value: &Value| now.as_ref() == Some(value);
    if is(&entry.old) {
        return Ok(None);
    }
    if entry.ours().any(is) {
        return set(machine, &entry.knob, &entry.old).map(|()| None);
    }
    Ok(Some(Left {
        knob: entry.knob.clone(),
        old: entry.old.clone(),
        ours: entry.newest.clone(),
        now,
    }))
}
