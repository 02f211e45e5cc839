//! Interrupt throttling: the least time between two interrupts of a vector.
//!
//! An algorithm is fed with what arrived since the last update and answers with an interval. Hosts apply
//! it: the simulator to its timer, the AF_XDP engine to its wake-ups, the tuner to ethtool's coalescing.

pub mod estimate;
mod linear;
mod net_dim;
mod three_state;

pub use linear::{Linear, LinearLaw};
pub use net_dim::NetDim;
pub use three_state::{Elapsed, ThreeState, ThreeStateRates};

use serde::{Deserialize, Serialize};

use crate::{Nanos, PolicyError};

/// What a vector received since the last update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sample {
    /// Packets served.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Time since the last update.
    pub elapsed: Nanos,
}

/// An algorithm with its state.
pub trait Throttle {
    /// The least time from one interrupt to the next; 0 for no limit. Called at the end of each
    /// poll that drained the device, as drivers do.
    fn update(&mut self, sample: Sample) -> Nanos;
}

/// Which algorithm, with its parameters.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "algorithm", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Throttling {
    /// Interrupts as NAPI wants them.
    #[default]
    Off,
    /// A fixed interval.
    Static {
        /// ns.
        interval_ns: u64,
    },
    /// Three rates by bytes a second, as ixgbe 3.x.
    ThreeState {
        /// How the time since the last interrupt is known.
        #[serde(default)]
        elapsed: Elapsed,
        /// The three rates.
        #[serde(default)]
        rates: ThreeStateRates,
    },
    /// Linear in the packet rate (interrupt-throttling V.C).
    Linear(LinearLaw),
    /// Linux's net_dim.
    NetDim,
}

/// An algorithm with the parameters that it has by default, as files and options name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ThrottlingName {
    /// Interrupts as NAPI wants them.
    Off,
    /// Three rates by bytes a second.
    ThreeState,
    /// Linear in the packet rate.
    Linear,
    /// Linux's net_dim.
    NetDim,
}

impl ThrottlingName {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Off, Self::ThreeState, Self::Linear, Self::NetDim];
}

impl std::fmt::Display for ThrottlingName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Off => "off",
            Self::ThreeState => "three-state",
            Self::Linear => "linear",
            Self::NetDim => "net-dim",
        })
    }
}

impl From<ThrottlingName> for Throttling {
    fn from(name: ThrottlingName) -> Self {
        match name {
            ThrottlingName::Off => Self::Off,
            ThrottlingName::ThreeState => Self::ThreeState {
                elapsed: Elapsed::default(),
                rates: ThreeStateRates::default(),
            },
            ThrottlingName::Linear => Self::Linear(LinearLaw::default()),
            ThrottlingName::NetDim => Self::NetDim,
        }
    }
}

impl Throttling {
    /// The algorithm in its initial state.
    ///
    /// # Errors
    /// [`PolicyError::Throttling`] for parameters that make no sense.
    pub fn start(&self) -> Result<Throttler, PolicyError> {
        Ok(match *self {
            Self::Off => Throttler::Fixed(Nanos(0)),
            Self::Static { interval_ns } => Throttler::Fixed(Nanos(interval_ns)),
            Self::ThreeState { elapsed, rates } => {
                Throttler::ThreeState(ThreeState::new(elapsed, rates)?)
            }
            Self::Linear(law) => Throttler::Linear(Linear::new(law)?),
            Self::NetDim => Throttler::NetDim(NetDim::default()),
        })
    }
}

/// A running algorithm.
#[derive(Debug, Clone, PartialEq)]
pub enum Throttler {
    /// Off, or a fixed interval.
    Fixed(Nanos),
    /// See [`ThreeState`].
    ThreeState(ThreeState),
    /// See [`Linear`].
    Linear(Linear),
    /// See [`NetDim`].
    NetDim(NetDim),
}

impl Throttle for Throttler {
    #[inline]
    fn update(&mut self, sample: Sample) -> Nanos {
        match self {
            Self::Fixed(interval) => *interval,
            Self::ThreeState(t) => t.update(sample),
            Self::Linear(t) => t.update(sample),
            Self::NetDim(t) => t.update(sample),
        }
    }
}
