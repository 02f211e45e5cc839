use std::path::PathBuf;

use rxlane_policy::PolicyError;
use rxlane_system::SystemError;
use thiserror::Error;

use crate::plan::Area;

/// Why something was not planned, changed or undone.
#[derive(Debug, Error)]
pub enum TuneError {
    /// The kernel or the file system refused.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A port that is not there.
    #[error("there is no port `{port}`; there is {there}")]
    NoPort {
        /// The name that was asked for.
        port: String,
        /// The names that there are.
        there: String,
    },
    /// What the machine says of itself cannot be planned with.
    #[error("cannot {what}: {source}")]
    Policy {
        /// What was to be computed, as an infinitive.
        what: &'static str,
        /// Why it cannot be.
        source: PolicyError,
    },
    /// Another process tunes.
    #[error("{path} is in use: another rxlane tune is at work; wait, or stop it", path = path.display())]
    Busy {
        /// Path of the journal.
        path: PathBuf,
    },
    /// A journal that cannot be read.
    #[error("line {line} of {path} is damaged ({why}): undo what the lines before it say by hand, then remove the file", path = path.display())]
    Damaged {
        /// Path of the journal.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Changes are in force already, and have to be undone before others are made.
    #[error("changes are in force already ({changes}): undo them first")]
    Applied {
        /// Number of changes that are still applied.
        changes: usize,
    },
    /// A plan that names what no plan of ours would.
    #[error(
        "`{name}` is not the name of a {what}: this plan was not made by `rxlane tune plan`, or was changed since; plan again"
    )]
    Name {
        /// The name in the plan.
        name: String,
        /// What it should be the name of.
        what: &'static str,
    },
    /// A plan that would touch how this machine is reached.
    #[error(
        "{what} is left alone, because of {device}: {reason}; --include-management changes it all the same"
    )]
    Management {
        /// The knob.
        what: String,
        /// The interface that it belongs to.
        device: String,
        /// How this machine is reached through it.
        reason: String,
    },
    /// Someone changed a value after the plan was made.
    #[error("{knob} is `{now}` and was `{planned}` when this was planned: plan again")]
    Changed {
        /// The knob whose value it is.
        knob: String,
        /// What the plan saw.
        planned: String,
        /// What is there.
        now: String,
    },
    /// Something is not there any more.
    #[error("{knob} is gone: was a device unplugged? plan again")]
    Gone {
        /// The knob, or the port.
        knob: String,
    },
    /// A value was accepted, and something else is in force.
    #[error(
        "{knob} was set to `{wanted}` and reads `{took}`: the driver does not take this value, or something else sets it"
    )]
    NotTaken {
        /// The knob whose value it is.
        knob: String,
        /// What was written.
        wanted: String,
        /// What is read.
        took: String,
    },
    /// A value of another kind than the knob's.
    #[error("{knob} cannot be set to `{value}`: that is a value of something else")]
    WrongKind {
        /// Name of the knob.
        knob: String,
        /// Value that was refused.
        value: String,
    },
    /// A change failed, and nothing is changed in the end.
    #[error("{source}; everything was rolled back")]
    RolledBack {
        /// The kind of change that failed; a plan can be made without it.
        area: Area,
        /// What went wrong.
        source: Box<TuneError>,
    },
    /// A change failed, and undoing the others did too; the journal has what is left.
    #[error("{source}; rolling back failed as well ({why})")]
    Stuck {
        /// What went wrong first.
        source: Box<TuneError>,
        /// What else went wrong while undoing.
        why: String,
    },
}
