use std::io;
use std::path::PathBuf;

use thiserror::Error;

/// A request to the kernel that failed, with what was tried.
#[derive(Debug, Error)]
pub enum SystemError {
    /// The kernel refused.
    #[error("cannot {what}: {source}")]
    Refused {
        /// What was tried, as an infinitive.
        what: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A netlink answer that could not be understood.
    #[error("cannot read the kernel's answer to {what}: {why}")]
    Answer {
        /// The request.
        what: &'static str,
        /// What was wrong with the answer.
        why: String,
    },
    /// Another process tunes.
    #[error("{path} is in use: another rxlane tune is at work; wait, or stop it", path = path.display())]
    Busy {
        /// The journal.
        path: PathBuf,
    },
    /// A journal that cannot be read.
    #[error("line {line} of {path} is damaged ({why}): undo what the lines before it say by hand, then remove the file", path = path.display())]
    Damaged {
        /// The journal.
        path: PathBuf,
        /// Its line, from 1.
        line: usize,
        /// What is wrong.
        why: String,
    },
    /// Changes are in force already.
    #[error("{changes} changes are in force already: undo them first (rxlane tune revert)")]
    Applied {
        /// How many.
        changes: usize,
    },
    /// Someone changed a value after the plan was made.
    #[error("{knob} is `{now}` and was `{planned}` when this was planned: plan again")]
    Changed {
        /// Which.
        knob: String,
        /// What the plan saw.
        planned: String,
        /// What is there.
        now: String,
    },
    /// Something is not there any more.
    #[error("{knob} is gone: was a device unplugged? Plan again")]
    Gone {
        /// Which.
        knob: String,
    },
    /// A value was accepted, and something else is in force.
    #[error(
        "{knob} was set to `{wanted}` and reads `{took}`: the driver does not take this value, or something else sets it"
    )]
    NotTaken {
        /// Which.
        knob: String,
        /// What was written.
        wanted: String,
        /// What is read.
        took: String,
    },
    /// Nothing is changed in the end.
    #[error("{source}; everything was rolled back. To leave it out: --skip {area}")]
    RolledBack {
        /// The kind of change that failed.
        area: &'static str,
        /// What went wrong.
        source: Box<SystemError>,
    },
    /// Something went wrong, and undoing did too.
    #[error(
        "{source}; rolling back failed as well ({why}): rxlane tune status shows what is left, rxlane tune revert tries again"
    )]
    Stuck {
        /// What went wrong first.
        source: Box<SystemError>,
        /// And then.
        why: String,
    },
}

/// Names what was tried when a call fails.
pub trait Tried<T> {
    /// Wraps the error; `what` is an infinitive ("open the port").
    ///
    /// # Errors
    /// The wrapped error.
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, SystemError>;
}

impl<T, E: Into<io::Error>> Tried<T> for Result<T, E> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, SystemError> {
        self.map_err(|source| SystemError::Refused {
            what: what(),
            source: source.into(),
        })
    }
}
