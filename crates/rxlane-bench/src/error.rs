use rxlane_system::SystemError;
use thiserror::Error;

/// Why a lab could not be built or a measurement not be made.
#[derive(Debug, Error)]
pub enum BenchError {
    /// The kernel refused something.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Plot(#[from] rxlane_report::PlotError),
    /// A BPF call failed.
    #[error("cannot {what}: {source}")]
    Bpf {
        /// What was tried, as an infinitive.
        what: String,
        /// What libbpf said.
        source: libbpf_rs::Error,
    },
    /// A tool of the lab failed or is missing.
    #[error("`{command}` failed: {output}")]
    Tool {
        /// The command line.
        command: String,
        /// What it printed.
        output: String,
    },
    /// A file could not be used.
    #[error("cannot use {path}: {source}")]
    File {
        /// The file that was to be read or written.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A name that belongs to somebody else.
    #[error(
        "network namespace `{0}` exists and no lab made it: choose another --name, or remove it yourself"
    )]
    NotOurs(String),
    /// No such lab.
    #[error("there is no lab `{0}`; `rxlane-lab lab up` makes one")]
    NoLab(String),
    /// A lab of that name is up.
    #[error("lab `{0}` is up already; `rxlane-lab lab down` removes it")]
    LabExists(String),
    /// Interrupted by the user; everything has been cleaned up.
    #[error("{0}; the lab has been removed")]
    Interrupted(#[from] rxlane_system::stop::Interrupted),
    /// A parameter that makes no sense.
    #[error("{0}")]
    Parameter(String),
    /// Overload cannot be offered on this machine.
    #[error(
        "the generator keeps up with {pps:.0} packets/s, at which the kernel loses nothing yet: make its work harder (--firewall 600), or name a rate (--offered 1k)"
    )]
    GeneratorTooSlow {
        /// What was sent and forwarded without loss.
        pps: f64,
    },
    /// The plain kernel does not forward.
    #[error(
        "the kernel loses packets even below {pps:.0} packets/s: nothing can be a multiple of that; name a rate (--offered 1k), with fewer rules (--firewall) or routes (--routes)"
    )]
    ForwardsNothing {
        /// Where the search gave up.
        pps: f64,
    },
    /// A firewall with a flowtable on a kernel without.
    #[error(
        "this kernel lacks {options} (`modprobe nf_flow_table_inet nft_flow_offload` where they are modules); use another kernel, or --firewall stateful:N, which is the same without the flowtable; {refused}"
    )]
    NoFlowtable {
        /// What is missing, and the options that it takes.
        options: &'static str,
        /// What `nft` said.
        refused: Box<BenchError>,
    },
    /// rxlane did not come up as the device under test.
    #[error("the express router did not start: {0}")]
    Dut(String),
}

/// Names what was tried when a BPF call fails.
pub(crate) trait BpfTried<T> {
    fn tried(self, what: &str) -> Result<T, BenchError>;
}

impl<T> BpfTried<T> for libbpf_rs::Result<T> {
    fn tried(self, what: &str) -> Result<T, BenchError> {
        self.map_err(|source| BenchError::Bpf {
            what: what.into(),
            source,
        })
    }
}
