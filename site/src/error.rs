//! What can be wrong with what a page, or a link to it, asks for.

use rxlane_policy::PolicyError;
use rxlane_sim::SimError;

/// Each is one line that begins with the key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SiteError {
    /// A setting without a value.
    #[error("{0}: no value: write KEY=VALUE, as in traffic.pps=600e3")]
    Setting(String),
    /// A key that only the command can serve.
    #[error("{key}: not on this page, {why}: run the scenario with rxlane-lab sim run")]
    CommandOnly {
        /// The key as it was given.
        key: String,
        /// Why not.
        why: &'static str,
    },
    /// More work than anybody waits for.
    #[error(
        "{key}: {packets:.0} million packets in all are more than this page simulates, which is {most:.0} million: lower it, or run the scenario with rxlane-lab sim run"
    )]
    TooMuch {
        /// The key with the largest part in it.
        key: &'static str,
        /// Packets that would have to be simulated, millions.
        packets: f64,
        /// Packets that the page simulates, millions.
        most: f64,
    },
    /// A key or value that no scenario can have.
    #[error("{key}: {message}")]
    Key {
        /// The key with its tables.
        key: String,
        /// What is wrong, and what to do.
        message: String,
    },
    /// What the simulator refuses; the text names the key.
    #[error(transparent)]
    Sim(#[from] SimError),
}

impl SiteError {
    /// An error of the simulator about the scenario with this text. Where the simulator knows only the line, the key that
    /// stands there is named; where a policy refuses, the key that the policy has its numbers from.
    pub(crate) fn of(error: SimError, text: &str) -> Self {
        let key = match &error {
            SimError::Policy(PolicyError::Budget(_)) => "reception".to_owned(),
            SimError::Policy(PolicyError::Throttling(_)) => "interrupt.throttling".to_owned(),
            SimError::Syntax { line, message, .. } => match key_at(text, *line) {
                Some(key) if !message.starts_with(&key) => key,
                _ => return Self::Sim(error),
            },
            _ => return Self::Sim(error),
        };
        let message = match error {
            SimError::Syntax { message, .. } => message,
            other => other.to_string(),
        };
        // A list of all keys that there are is not for one line.
        let message = match message.split_once(", expected ") {
            Some((what, _)) if what.starts_with("unknown") => {
                format!("{what}: see the reference of scenario files")
            }
            _ => message,
        };
        Self::Key { key, message }
    }
}

/// The dotted key on a line, from 1, of a text in which each line has one key or table.
fn key_at(text: &str, line: usize) -> Option<String> {
    let mut table = "";
    for (number, at) in text.lines().enumerate() {
        if let Some(header) = at.strip_prefix('[').and_then(|h| h.strip_suffix(']')) {
            table = header;
        }
        if number + 1 < line {
            continue;
        }
        return match at.split_once(" = ") {
            Some((key, _)) if table.is_empty() => Some(key.to_owned()),
            Some((key, _)) => Some(format!("{table}.{key}")),
            None if table.is_empty() => None,
            None => Some(table.to_owned()),
        };
    }
    None
}
