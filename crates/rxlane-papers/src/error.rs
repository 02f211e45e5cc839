use rxlane_report::PlotError;
use rxlane_sim::SimError;
use thiserror::Error;

/// Why a paper cannot be held against the model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PapersError {
    /// A paper or row that does not exist.
    #[error("{name}: no such experiment: use all, a paper ({papers}) or a row such as LL-01")]
    Unknown {
        /// What was asked for.
        name: String,
        /// Names that would have been known.
        papers: String,
    },
    /// A measurement that cannot be read.
    #[error("{name}: not what `rxlane-lab bench sweep --json` writes: {source}")]
    Measurement {
        /// Its file.
        name: String,
        /// What is wrong with it.
        source: serde_json::Error,
    },
    /// A figure that cannot be drawn.
    #[error(transparent)]
    Plot(#[from] PlotError),
    /// A simulation that cannot be run.
    #[error(transparent)]
    Sim(#[from] SimError),
}
