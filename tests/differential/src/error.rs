use std::path::PathBuf;

use rxlane_system::SystemError;
use rxlane_system::stop::Interrupted;
use thiserror::Error;

/// Why the oracle could not do its work. What it finds is no error.
#[derive(Debug, Error)]
pub enum OracleError {
    /// The kernel refused something.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A program that the oracle calls failed or is missing.
    #[error("`{command}` failed: {output} (install iproute2, nftables and ethtool: make setup)")]
    Tool {
        /// The command line.
        command: String,
        /// What it printed.
        output: String,
    },
    /// A file could not be read or written.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file that is no replay.
    #[error("{} is not a replay file of this version: {source}", path.display())]
    Replay {
        /// Which file.
        path: PathBuf,
        /// Where it differs from one.
        source: serde_json::Error,
    },
    /// The router under test neither served nor refused.
    #[error("rxlane neither served nor ended within {seconds} s; its last words: {words}")]
    Silent {
        /// How long it was given.
        seconds: u64,
        /// What it had printed.
        words: String,
    },
    /// The router under test dropped packets because of load, so that nothing can be compared.
    #[error(
        "the router shed {packets} packets: the machine is too busy to compare, use fewer --jobs"
    )]
    Overload {
        /// How many were dropped.
        packets: u64,
    },
    /// Ctrl-C; what was made has been removed.
    #[error("{0}; the namespaces have been removed")]
    Interrupted(#[from] Interrupted),
}
