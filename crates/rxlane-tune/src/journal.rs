//! The journal: every old value is on disk before its new one is written.
//!
//! One JSON object a line. The first line names the boot, because no change survives one; each further line is a
//! knob with its value before rxlane and the one it is about to get. A knob that is turned again gets another
//! line. A last line without its end is a crash while it was written, so its knob was not turned.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::{Knob, Machine, Value};
use rxlane_system::Tried;

use crate::TuneError;

/// Where the journal is kept unless said otherwise.
pub const PATH: &str = "/var/lib/rxlane/tune.journal";
/// Lines after which the journal is written anew, a line for each knob.
const LONGEST: usize = 1000;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    boot: String,
}

/// Values are in the knob's own text form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    knob: Knob,
    old: String,
    new: String,
}

impl Line {
    fn new(knob: &Knob, old: &Value, new: &Value) -> Self {
        Self {
            knob: knob.clone(),
            old: knob.text(old),
            new: knob.text(new),
        }
    }
}

/// A knob that rxlane has turned, or was about to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Entry {
    /// Which.
    pub knob: Knob,
    /// Its value before.
    pub old: Value,
    /// The value before the newest that it was given, if there were several: a crash may have left either.
    pub before_newest: Option<Value>,
    /// The newest value that it was given.
    pub newest: Value,
}

impl Entry {
    /// The values that it was given, as far as one of them can be in force.
    pub fn ours(&self) -> impl Iterator<Item = &Value> {
        self.before_newest.iter().chain([&self.newest])
    }
}

/// The journal, locked while it is held.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    file: Flock<File>,
    boot: String,
    /// In the order in which they were first turned.
    pub entries: Vec<Entry>,
    lines: usize,
}

fn boot(machine: &dyn Machine) -> String {
    machine
        .read("/proc/sys/kernel/random/boot_id")
        .unwrap_or_default()
        .trim()
        .to_owned()
}

impl Journal {
    /// Opens the journal, or begins one; fails when another process has it.
    ///
    /// # Errors
    /// [`TuneError::Busy`], [`TuneError::Damaged`], or the file system's refusal.
    pub fn open(path: &Path, machine: &dyn Machine) -> Result<Self, TuneError> {
        let tried = || format!("open the journal {}", path.display());
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).tried(tried)?;
        }
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .tried(tried)?;
        let mut file = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|_| TuneError::Busy { path: path.into() })?;
        let mut text = String::new();
        file.read_to_string(&mut text).tried(tried)?;
        let mut this = Self {
            path: path.into(),
            file,
            boot: boot(machine),
            entries: Vec::new(),
            lines: 0,
        };
        let newest = newest(path, &text);
        match parse(path, &newest)? {
            Some((boot, entries)) if boot == this.boot => {
                this.lines = text.lines().count();
                this.entries = entries;
                // What a crash left of a line would damage the next one, and what it left in the copy belongs here.
                if newest != text || !text.ends_with('\n') {
                    this.rewrite()?;
                }
            }
            Some((_, entries)) => {
                if !entries.is_empty() {
                    tracing::info!(
                        "the journal is of an earlier boot, which took its {} changes with it",
                        entries.len()
                    );
                }
                this.rewrite()?;
            }
            None => this.rewrite()?,
        }
        Ok(this)
    }

    /// What a journal says, without holding it. `None`: there is none, or it is of another boot.
    ///
    /// # Errors
    /// [`TuneError::Damaged`], or the file system's refusal.
    pub fn peek(path: &Path, machine: &dyn Machine) -> Result<Option<Vec<Entry>>, TuneError> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.tried(|| format!("read the journal {}", path.display()))?,
        };
        Ok(parse(path, &newest(path, &text))?
            .filter(|(of, entries)| *of == boot(machine) && !entries.is_empty())
            .map(|(_, entries)| entries))
    }

    /// Writes down that a knob is about to be turned. On disk when this returns.
    ///
    /// # Errors
    /// The file system's refusal; then the knob must not be turned.
    pub fn record(&mut self, knob: &Knob, old: &Value, new: &Value) -> Result<(), TuneError> {
        let first = self.entries.iter().find(|e| e.knob == *knob);
        let old = first.map_or(old, |e| &e.old).clone();
        let tried = || format!("write the journal {}", self.path.display());
        self.file
            .write_all(line(&Line::new(knob, &old, new))?.as_bytes())
            .tried(tried)?;
        self.file.sync_data().tried(tried)?;
        self.lines += 1;
        fold(&mut self.entries, knob.clone(), old, new.clone());
        if self.lines > LONGEST {
            self.rewrite()?;
        }
        Ok(())
    }

    /// Writes the journal anew, with what is still to be undone. In place, because the lock is on the file: a
    /// crash in between loses lines only after all of them are on disk in another file.
    fn rewrite(&mut self) -> Result<(), TuneError> {
        let path = self.path.clone();
        let tried = || format!("write the journal {}", path.display());
        let mut text = line(&Head {
            boot: self.boot.clone(),
        })?;
        for entry in &self.entries {
            for new in entry.ours() {
                text += &line(&Line::new(&entry.knob, &entry.old, new))?;
            }
        }
        let copy = path.with_extension("copy");
        let mut other = File::create(&copy).tried(tried)?;
        other.write_all(text.as_bytes()).tried(tried)?;
        other.sync_data().tried(tried)?;
        self.file.set_len(0).tried(tried)?;
        self.file.rewind().tried(tried)?;
        self.file.write_all(text.as_bytes()).tried(tried)?;
        self.file.sync_data().tried(tried)?;
        self.lines = text.lines().count();
        Ok(std::fs::remove_file(&copy).tried(tried)?)
    }

    /// Keeps only those entries: the others are undone, or no longer rxlane's.
    pub(crate) fn keep(&mut self, left: Vec<Entry>) -> Result<(), TuneError> {
        self.entries = left;
        self.rewrite()
    }
}

fn line(value: &impl Serialize) -> Result<String, TuneError> {
    let text = serde_json::to_string(value).map_err(std::io::Error::other);
    Ok(text.tried(|| "write a line of the journal".into())? + "\n")
}

/// Adds a line to what is known of its knob. Values before the newest but one have been overwritten long ago.
fn fold(entries: &mut Vec<Entry>, knob: Knob, old: Value, new: Value) {
    match entries.iter_mut().find(|e| e.knob == knob) {
        Some(entry) => entry.before_newest = Some(std::mem::replace(&mut entry.newest, new)),
        None => entries.push(Entry {
            knob,
            old,
            before_newest: None,
            newest: new,
        }),
    }
}

/// The journal's text: a crash while it was written anew leaves a whole copy, and less than that in its place.
fn newest(path: &Path, text: &str) -> String {
    std::fs::read_to_string(path.with_extension("copy"))
        .ok()
        .filter(|copy| copy.ends_with('\n') && copy.len() > text.len())
        .unwrap_or_else(|| text.to_owned())
}

/// The boot and the entries; `None` for an empty file.
fn parse(path: &Path, text: &str) -> Result<Option<(String, Vec<Entry>)>, TuneError> {
    let damaged = |n: usize, why: String| TuneError::Damaged {
        path: path.into(),
        line: n + 1,
        why,
    };
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().enumerate();
    let Some((n, head)) = lines.next() else {
        return Ok(None);
    };
    let head: Head = serde_json::from_str(head).map_err(|e| damaged(n, e.to_string()))?;
    let mut entries: Vec<Entry> = Vec::new();
    for (n, text) in lines {
        let line: Line = serde_json::from_str(text).map_err(|e| damaged(n, e.to_string()))?;
        let value = |text: &str| {
            let wrong = || damaged(n, format!("`{text}` is no value of {}", line.knob));
            line.knob.parse(text).ok_or_else(wrong)
        };
        let (old, new) = (value(&line.old)?, value(&line.new)?);
        fold(&mut entries, line.knob, old, new);
    }
    Ok(Some((head.boot, entries)))
}
