use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use rxlane_policy::PolicyError;
use thiserror::Error;

use crate::lines;
use crate::{MAX_BYTES, excerpt};

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
    /// The file is too long to be a configuration.
    #[error("{}: longer than {} KiB, which no configuration needs: is it the right file?", path.display(), MAX_BYTES / 1024)]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// Something in it is wrong.
    #[error("{}:{complaints}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// All that is wrong with it.
        complaints: Complaints,
    },
}

impl ConfigError {
    /// The same for people who have the file before them: every mistake, with the line that it is in. `None` where there is
    /// no line to show.
    pub fn excerpts(&self, colour: bool) -> Option<String> {
        match self {
            Self::Wrong { path, complaints } => {
                Some(complaints.excerpts(&path.display().to_string(), colour))
            }
            _ => None,
        }
    }
}

/// One thing that is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Complaint {
    /// Line of the text, from 1.
    pub line: usize,
    /// Character of the line, from 1.
    pub column: usize,
    /// What is wrong, and what to do; one line.
    pub message: String,
    /// Bytes of the text.
    pub(crate) span: Range<usize>,
}

/// All that is wrong with a text, in the order of its lines; never nothing.
#[derive(Debug, Clone)]
pub struct Complaints {
    /// Each thing.
    pub all: Vec<Complaint>,
    pub(crate) text: String,
}

impl Complaints {
    pub(crate) fn new(text: &str, mistakes: Vec<(Range<usize>, String)>) -> Self {
        let mut all: Vec<Complaint> = mistakes
            .into_iter()
            .map(|(span, message)| Complaint::new(text, span, &message))
            .collect();
        all.sort_by_key(|c| c.span.start);
        // One slip may be a mistake in several respects of the same words.
        all.dedup();
        Self {
            all,
            text: text.to_owned(),
        }
    }

    /// Every complaint under the line that it is about; `name` is that of the file.
    pub fn excerpts(&self, name: &str, colour: bool) -> String {
        excerpt::of(self, name, colour)
    }
}

impl Complaint {
    fn new(text: &str, span: Range<usize>, message: &str) -> Self {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        let before = &text[..start];
        let line_start = before.rfind('\n').map_or(0, |i| i + 1);
        Self {
            line: lines::line(text, start),
            column: 1 + before[line_start..].chars().count(),
            // Names of the file may be quoted in it, with whatever they contain.
            message: message
                .split(char::is_control)
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join(" "),
            span: start..span.end.max(start),
        }
    }
}

/// The first, and how many more: `12: ... (and 2 more)`.
impl std::fmt::Display for Complaints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if let Some(first) = self.all.first() {
            write!(f, "{}: {}", first.line, first.message)?;
        }
        match self.all.len() {
            0 | 1 => Ok(()),
            2 => write!(f, " (and 1 other mistake)"),
            n => write!(f, " (and {} other mistakes)", n - 1),
        }
    }
}

impl std::error::Error for Complaints {}

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
