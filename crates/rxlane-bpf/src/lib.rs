//! The BPF programs (`bpf/`), what their maps hold, and how they are loaded, pinned and tried.
//!
//! Nothing here knows a router: who loads a program says what it is to hold, and where it is pinned.

pub mod at_tc;
mod cpus;
mod error;
pub mod features;
pub mod layout;
#[cfg(feature = "testing")]
pub mod lockstep;
pub mod pinned;
pub mod skeletons;
pub mod test_run;
pub mod verifier;

pub use cpus::{is_online, possible_cores};
pub use error::{BpfError, BpfTried, FileTried};

/// What the programs are: the compiler, then name and SHA-256 of each object, separated by `;`.
pub const PROGRAMS: &str = env!("RXLANE_BPF");
