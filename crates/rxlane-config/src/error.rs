use std::ops::RangeInclusive;
use std::path::PathBuf;

use rxlane_policy::PolicyError;
use thiserror::Error;

/// A configuration file that cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}; give a readable file with -c FILE (examples/ has some)", path.display())]
    Read {
        /// The file that was to be read or written.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {message}", path.display())]
    At {
        /// The file that was to be read or written.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong and what to do.
        message: String,
    },
}

/// What is wrong with a text.
#[derive(Debug, Error)]
#[error("line {line}: {message}")]
pub struct Complaint {
    /// Line of the text, from 1.
    pub line: usize,
    /// What is wrong, and what to do.
    pub message: String,
}

/// What is wrong with an engine, whatever the devices are.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EngineError {
    /// Budgets or a throttling algorithm that make no sense.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// Ring budgets for a strategy that has none.
    #[error("`budget` belongs to strategy = \"ll-wfq\" or \"ll-rr\": remove it from the classes")]
    NoBudgets,
    /// Different ring budgets for a strategy that has one for all.
    #[error(
        "strategy = \"ll-rr\" has equal ring budgets: give all classes the same `budget`, or use \"ll-wfq\""
    )]
    UnequalBudgets,
    /// A ring that is too short or too long.
    #[error("{key} = {packets} is outside {} to {} packets", allowed.start(), allowed.end())]
    Ring {
        /// The key whose value is out of range.
        key: &'static str,
        /// What it says.
        packets: u32,
        /// What it may say.
        allowed: RangeInclusive<u32>,
    },
    /// More or fewer ring sizes than classes.
    #[error(
        "rings has {sizes} sizes for {classes} classes: give one a class, highest class first, or `ring` for all"
    )]
    Rings {
        /// How many sizes.
        sizes: usize,
        /// How many classes.
        classes: usize,
    },
    /// Express and stack classes in one ring.
    #[error("strategy = \"sq\" puts all classes into one ring: give all of them the same lane")]
    OneRing,
    /// Nothing to compare.
    #[error(
        "priority = \"global\" compares the classes of a device: use strategy \"ll-rr\" or \"ll-wfq\""
    )]
    Global,
    /// The engine has no core to work on.
    #[error("cores is empty: name at least one, or leave the key out for core 0")]
    NoCore,
    /// Two workers on one core.
    #[error("core {0} has two workers: name each core once")]
    CoreTwice(u32),
}
