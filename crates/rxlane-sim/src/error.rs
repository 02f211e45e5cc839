//! What can go wrong with a simulation.

use rxlane_policy::PolicyError;

/// An error of the simulator; the text names the thing, the cause and the cure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SimError {
    /// A file cannot be read or written.
    #[error("{path}: {source}: check the path and its permissions")]
    File {
        /// The file that could not be read or written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is not a valid scenario.
    #[error("{}{message}", place(path, *line))]
    Syntax {
        /// The file with the mistake.
        path: String,
        /// Line, from 1; 0 when unknown.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// A value that its key cannot have.
    #[error("{key} = {value}: {cure}")]
    Value {
        /// The key with its tables, such as `traffic.pps`.
        key: String,
        /// What was given.
        value: String,
        /// What to give.
        cure: &'static str,
    },
    /// A metric, case or swept key that no row of a result has.
    #[error(
        "{name}: no such metric, case or key among the results: see the list of metrics, or the scenario"
    )]
    Name {
        /// The name as it was given.
        name: String,
    },
    /// A key that does not exist, given with `--set` or swept over.
    #[error("{key}: no such key: the keys are those of a scenario file, as in traffic.pps")]
    Key {
        /// The key as it was given.
        key: String,
    },
    /// Budgets or throttling that cannot work.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// A router's configuration that packets cannot be given classes by.
    #[error("{0}")]
    Router(String),
    /// A capture that cannot be replayed.
    #[error("{path}: {message}")]
    Capture {
        /// The file with the mistake.
        path: String,
        /// What is wrong.
        message: String,
    },
    /// Code that stands in the place of a scenario's traffic, stage or throttling could not go on, or gave what cannot be.
    #[error("{what} by code: {source}")]
    Custom {
        /// What the code stands for.
        what: &'static str,
        /// What went wrong.
        source: crate::custom::Fault,
    },
    /// A sweep of more points than anyone wants by accident.
    #[error("the sweep has {points} points: give --yes if you mean it, or sweep over less")]
    TooManyPoints {
        /// Number of points that there would be.
        points: usize,
    },
    /// Results cannot be encoded.
    #[error("cannot write results: {0}")]
    Output(String),
    /// Stopped by the user, with nothing to keep.
    #[error("interrupted: nothing is kept; run it again")]
    Stopped,
    /// Stopped by the user.
    #[error("interrupted: {done} of {points} points are in {path}; go on with --resume")]
    Interrupted {
        /// Points that were finished.
        done: usize,
        /// Points that there are.
        points: usize,
        /// Where they are.
        path: String,
    },
}

fn place(path: &str, line: usize) -> String {
    match (path, line) {
        ("", _) => String::new(),
        (path, 0) => format!("{path}: "),
        (path, line) => format!("{path}:{line}: "),
    }
}
