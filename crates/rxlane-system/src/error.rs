use std::io;

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
    /// A list that something changed while it was read, or that came garbled.
    #[error("cannot {what}: it changed while it was read, again and again: try once more")]
    Unsteady {
        /// What was tried, as an infinitive.
        what: String,
    },
    /// A netlink answer that could not be understood.
    #[error(
        "cannot {what}: the kernel's answer is not understood ({why}); report it with what `uname -r` says"
    )]
    Answer {
        /// What was tried, as an infinitive.
        what: String,
        /// What was wrong with the answer.
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
