use std::ops::{Range, RangeInclusive};
use std::path::PathBuf;

use rxlane_policy::PolicyError;
use thiserror::Error;

use crate::MAX_BYTES;

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
    /// Its bytes are no text.
    #[error("{}: {why}", path.display())]
    Encoding {
        /// The file.
        path: PathBuf,
        /// How it is encoded, and the cure.
        why: String,
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

/// A place in a text, that only goes on: a long list may be wrong in each of its values.
#[derive(Debug)]
struct Position {
    byte: usize,
    line: usize,
    column: usize,
}

impl Default for Position {
    fn default() -> Self {
        Self {
            byte: 0,
            line: 1,
            column: 1,
        }
    }
}

impl Position {
    fn go_to(&mut self, text: &str, byte: usize) {
        let passed = &text[self.byte.min(byte)..byte];
        self.line += passed.matches('\n').count();
        match passed.rfind('\n') {
            Some(end) => self.column = 1 + passed[end + 1..].chars().count(),
            None => self.column += passed.chars().count(),
        }
        self.byte = byte;
    }
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
        let mut mistakes = mistakes;
        mistakes.sort_by_key(|(span, _)| span.start);
        let mut at = Position::default();
        let mut all: Vec<Complaint> = mistakes
            .into_iter()
            .map(|(span, message)| Complaint::new(text, span, &message, &mut at))
            .collect();
        // One slip may be a mistake in several respects of the same words.
        all.dedup();
        Self {
            all,
            text: text.to_owned(),
        }
    }
}

impl Complaint {
    fn new(text: &str, span: Range<usize>, message: &str, at: &mut Position) -> Self {
        let mut start = span.start.min(text.len());
        while !text.is_char_boundary(start) {
            start -= 1;
        }
        at.go_to(text, start);
        Self {
            line: at.line,
            column: at.column,
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
