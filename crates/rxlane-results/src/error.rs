//! What can be wrong with a file of results.

/// A file of results that cannot be read; the text names the cause and the cure. Whoever knows the file's name says it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResultsError {
    /// The file ends in the middle.
    #[error("it ends in the middle ({0}): write or copy it again")]
    Truncated(String),
    /// Nothing that rxlane writes.
    #[error(
        "it is no result of rxlane ({0}): give what `rxlane-lab bench --json` or --tidy, or `rxlane-lab sim run --json`, --csv, --parquet or --tidy wrote"
    )]
    Foreign(String),
    /// Written by a later version.
    #[error(
        "its schema_version is {found}, and this rxlane reads {}: read it with the rxlane that wrote it, or a later one",
        crate::SCHEMA_VERSION
    )]
    Version {
        /// What the file says.
        found: String,
    },
    /// A result that is no table of points.
    #[error(
        "`rxlane-lab bench {0}` has no tidy form: read its JSON itself (docs/src/reference/bench-json.md)"
    )]
    NotTidy(&'static str),
    /// Results cannot be encoded.
    #[error("cannot write results: {0}")]
    Output(String),
}
