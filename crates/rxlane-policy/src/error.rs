use thiserror::Error;

/// What can be wrong with a set of classes and rules. Every message names the thing, the cause and
/// the cure.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// More than [`crate::class::MAX_CLASSES`] classes.
    #[error(
        "{0} classes, but a router has at most {max}: merge classes that need the same treatment",
        max = crate::class::MAX_CLASSES
    )]
    TooManyClasses(usize),
    /// No class at all.
    #[error("no class: add at least one [[class]]; the last one is the default")]
    NoClass,
    /// More than [`crate::bits::MAX_RULES`] rules in all.
    #[error(
        "{0} match rules, but the limit is {max} in all: merge rules (a key takes a list of values)",
        max = crate::bits::MAX_RULES
    )]
    TooManyRules(usize),
    /// More than [`crate::prefixes::MAX_PREFIXES`] prefixes in all.
    #[error(
        "{0} prefixes in rules and trust, but the limit is {max} in all: merge neighbours into shorter prefixes",
        max = crate::prefixes::MAX_PREFIXES
    )]
    TooManyPrefixes(usize),
    /// More distinct `bytes` offsets than the classifier has tables.
    #[error(
        "{0} different offsets in `bytes` matches, but the limit is {max}: use the same offset in several rules",
        max = crate::compile::MAX_FLEX_OFFSETS
    )]
    TooManyFlexOffsets(usize),
    /// A rule that no packet can reach.
    #[error(
        "rule {later} of class `{later_class}` can never match: rule {earlier} of class `{earlier_class}` takes all its packets; remove it or move it up"
    )]
    Unreachable {
        /// Class of the earlier rule.
        earlier_class: String,
        /// Number of the earlier rule within its class, from 1.
        earlier: usize,
        /// Class of the rule that cannot match.
        later_class: String,
        /// Number of that rule within its class, from 1.
        later: usize,
    },
    /// Two rules of different classes that claim the same packets, neither inside the other.
    #[error(
        "rule {earlier} of class `{earlier_class}` and rule {later} of class `{later_class}` overlap, neither inside the other: narrow one of them, or say overlap = \"first-match\" at the top of the file"
    )]
    Overlap {
        /// Class of the earlier rule.
        earlier_class: String,
        /// Number of the earlier rule within its class, from 1.
        earlier: usize,
        /// Class of the later rule.
        later_class: String,
        /// Number of that rule within its class, from 1.
        later: usize,
    },
    /// A name or number that is no DSCP.
    #[error("`{0}` is no DSCP: use 0 to 63 or a name such as EF, AF41, CS6, VA, LE")]
    Dscp(String),
    /// Ring or device budgets that cannot work.
    #[error("{0}")]
    Budget(String),
    /// Parameters that a throttling algorithm cannot use.
    #[error("interrupt throttling: {0}")]
    Throttling(&'static str),
    /// Parameters that the core choice cannot use.
    #[error("core choice: {0}")]
    Placement(&'static str),
    /// Parameters from which no buffer size follows.
    #[error("buffer size: {0}")]
    Buffer(&'static str),
    /// A latency target that no ring budget keeps.
    #[error("plan: {0}")]
    Plan(String),
    /// A police rate or burst that the policer cannot keep.
    #[error("police: {0}")]
    Police(&'static str),
}
