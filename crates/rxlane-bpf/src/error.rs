//! Why a BPF call, or a file beside it, failed.

use std::path::PathBuf;

use thiserror::Error;

/// Why a program could not be loaded, or a map not be used. Messages name the thing and the cause.
#[derive(Debug, Error)]
pub enum BpfError {
    /// A BPF call failed.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// What was tried, as an infinitive.
        what: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// The kernel does not take a program of ours: a bug, or a kernel that nobody has tried.
    #[error(
        "Linux {kernel} refuses the program `{program}` ({source}); its verifier says: {why}. This is a fault of rxlane, not of your configuration: please report it, with the configuration and this message, at {report_to}"
    )]
    Refused {
        /// Name of the BPF program.
        program: String,
        /// Release of the kernel.
        kernel: String,
        /// The end of the verifier's log.
        why: String,
        /// Where to report it.
        report_to: &'static str,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A file of the instance could not be used.
    #[error("cannot use {}: {source}", path.display())]
    File {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Program and structs disagree: a build error.
    #[error("map `{map}` has values of {actual} bytes instead of {expected}: rebuild rxlane")]
    Layout {
        /// Name of the pinned map.
        map: &'static str,
        /// Bytes of the Rust mirror.
        expected: usize,
        /// Bytes of the map's values.
        actual: usize,
    },
}

/// Names what was tried when a BPF call fails.
pub trait BpfTried<T> {
    /// What was tried, as an infinitive: `open the map`.
    ///
    /// # Errors
    /// As the call.
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, BpfError>;
}

impl<T> BpfTried<T> for libbpf_rs::Result<T> {
    fn tried(self, what: impl FnOnce() -> String) -> Result<T, BpfError> {
        self.map_err(|source| BpfError::Bpf {
            what: what(),
            source,
        })
    }
}

/// Names the file when reading or writing it fails.
pub trait FileTried<T> {
    /// The file that was used.
    ///
    /// # Errors
    /// As the call.
    fn at(self, path: impl Into<PathBuf>) -> Result<T, BpfError>;
}

impl<T> FileTried<T> for std::io::Result<T> {
    fn at(self, path: impl Into<PathBuf>) -> Result<T, BpfError> {
        self.map_err(|source| BpfError::File {
            path: path.into(),
            source,
        })
    }
}
