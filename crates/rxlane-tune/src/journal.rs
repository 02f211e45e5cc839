//! The journal: every old value is on disk before its new one is written.
//!
//! One JSON object a line. The first line names the boot, because no change survives one; each further line is a
//! knob with its value before rxlane and the one it is about to get. A knob that is turned again gets another
//! line. A last line without its end is a crash while it was written, so its knob was not turned.
//!
//! The first line also says until when somebody has to confirm the changes, if they are to be undone otherwise.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use rxlane_policy::Nanos;
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
    #[serde(default, skip_serializing_if = "Option::is_none")]
    confirm_until_ns: Option<u64>,
}

/// What a journal says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The boot that it is of.
    pub boot: String,
    /// All is to be undone if nobody confirms it until then, in time since that boot.
    pub confirm_until: Option<Nanos>,
    /// In the order in which they were first turned.
    pub entries: Vec<Entry>,
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
    confirm_until: Option<Nanos>,
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
            confirm_until: None,
            entries: Vec::new(),
            lines: 0,
        };
        let newest = newest(path, &text);
        match parse(path, &newest)? {
            Some(found) if found.boot == this.boot => {
                this.lines = text.lines().count();
                this.entries = found.entries;
                this.confirm_until = found.confirm_until;
                // What a crash left of a line would damage the next one, and what it left in the copy belongs here.
                if newest != text || !text.ends_with('\n') {
                    this.rewrite()?;
                }
            }
            Some(found) => {
                if !found.entries.is_empty() {
                    let unconfirmed = match found.confirm_until {
                        Some(_) => ", never confirmed",
                        None => "",
                    };
                    tracing::info!(
                        "the journal is of an earlier boot, which took its changes ({}) with it{unconfirmed}",
                        found.entries.len()
                    );
                }
                this.rewrite()?;
            }
            None => this.rewrite()?,
        }
        Ok(this)
    }

    /// What a journal says, without holding it. `None`: there is none, it is of another boot, or nothing is in force.
    ///
    /// # Errors
    /// [`TuneError::Damaged`], or the file system's refusal.
    pub fn peek(path: &Path, machine: &dyn Machine) -> Result<Option<Contents>, TuneError> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            text => text.tried(|| format!("read the journal {}", path.display()))?,
        };
        Ok(parse(path, &newest(path, &text))?
            .filter(|found| found.boot == boot(machine) && !found.entries.is_empty()))
    }

    /// Until when all of it is to be confirmed, in time since the boot; `None`: it stays.
    pub fn confirm_until(&self) -> Option<Nanos> {
        self.confirm_until
    }

    /// Writes down that what follows is undone unless it is confirmed until then; `None`: that it stays. On disk when this
    /// returns.
    ///
    /// # Errors
    /// The file system's refusal.
    pub fn await_confirmation(&mut self, until: Option<Nanos>) -> Result<(), TuneError> {
        self.confirm_until = until;
        self.rewrite()
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
        let text = self.contents().text()?;
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

    /// Keeps only those entries: the others are undone, or no longer rxlane's. Without any there is nothing to confirm.
    pub(crate) fn keep(&mut self, left: Vec<Entry>) -> Result<(), TuneError> {
        self.entries = left;
        self.confirm_until = self.confirm_until.filter(|_| !self.entries.is_empty());
        self.rewrite()
    }

    fn contents(&self) -> Contents {
        Contents {
            boot: self.boot.clone(),
            confirm_until: self.confirm_until,
            entries: self.entries.clone(),
        }
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

impl Contents {
    /// What a journal that says this has in its file.
    ///
    /// # Errors
    /// Values that no line can hold.
    pub fn text(&self) -> Result<String, TuneError> {
        let mut text = line(&Head {
            boot: self.boot.clone(),
            confirm_until_ns: self.confirm_until.map(|Nanos(ns)| ns),
        })?;
        for entry in &self.entries {
            for new in entry.ours() {
                text += &line(&Line::new(&entry.knob, &entry.old, new))?;
            }
        }
        Ok(text)
    }
}

/// What the text of the journal at `path` says; `None` for an empty file.
///
/// # Errors
/// [`TuneError::Damaged`].
pub fn parse(path: &Path, text: &str) -> Result<Option<Contents>, TuneError> {
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
    Ok(Some(Contents {
        boot: head.boot,
        confirm_until: head.confirm_until_ns.map(Nanos),
        entries,
    }))
}
