//! Why the engine cannot start.

use rxlane_bpf::BpfError;
use rxlane_policy::PolicyError;
use rxlane_system::SystemError;
use thiserror::Error;

use crate::SocketError;

/// Why the engine could not be started or changed. Messages name the thing, the cause and the cure.
#[derive(Debug, Error)]
pub enum EngineError {
    /// Classes or budgets are wrong.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The engine makes no sense, whatever the devices are.
    #[error(transparent)]
    Config(#[from] rxlane_config::EngineError),
    /// The kernel refused something around the engine.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A BPF call failed, or a file could not be used.
    #[error(transparent)]
    Bpf(#[from] BpfError),
    /// The engine cannot be what the configuration asks for.
    #[error("{0}")]
    Unfit(String),
    /// A queue cannot be opened.
    #[error("port `{port}`: {source}")]
    Socket {
        /// Name of the port.
        port: String,
        /// What the system said.
        source: SocketError,
    },
}
