//! Where knobs are turned: this machine, or a recorded tree of another one.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::Knob;
use super::cpus::{self, Cpus};
use crate::ethtool::{Ethtool, Setting};
use crate::filters::{self, Filter};
use crate::threads::{self, Scheduling};
use crate::{SystemError, Tried};

/// A machine's knobs and files.
pub trait Machine {
    /// A knob's value; `None` where the machine has no such knob.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    fn get(&self, knob: &Knob) -> Result<Option<String>, SystemError>;

    /// Turns a knob.
    ///
    /// # Errors
    /// When the kernel or the driver refuses.
    fn set(&self, knob: &Knob, value: &str) -> Result<(), SystemError>;

    /// Its files.
    fn files(&self) -> &Files;

    /// Whether its counters move: a recorded tree stands still.
    fn is_live(&self) -> bool;

    /// A file's text; `None` when it cannot be read.
    fn read(&self, path: &str) -> Option<String> {
        std::fs::read_to_string(self.files().at(path)).ok()
    }

    /// Names in a directory, sorted; none when there is no such directory.
    fn list(&self, path: &str) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.files().at(path))
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().into_string().ok())
            .collect();
        names.sort();
        names
    }

    /// Whether a file may be written by its owner: the kernel takes that away from interrupts that their driver places.
    fn is_writable(&self, path: &str) -> bool {
        const OWNER: u32 = 0o200;
        std::fs::metadata(self.files().at(path)).is_ok_and(|m| m.permissions().mode() & OWNER != 0)
    }

    /// Last part of what a symbolic link points to.
    fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.files().at(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
}

const NO_QUEUE: &str = "none";
/// Scheduling of a thread, as a value: an ordinary one, or SCHED_FIFO with the priority after it.
pub(super) const NORMAL: &str = "normal";
pub(super) const FIFO: &str = "fifo ";

fn number(knob: &Knob, value: &str) -> Result<u32, SystemError> {
    let value = value.trim().parse().map_err(std::io::Error::other);
    value.tried(|| format!("read a value of {knob}"))
}

/// Files below a root.
#[derive(Debug, Clone)]
pub struct Files {
    root: PathBuf,
}

impl Files {
    fn at(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn get(&self, path: &str) -> Result<Option<String>, SystemError> {
        match std::fs::read_to_string(self.at(path)) {
            Ok(text) => Ok(Some(text.trim_end().to_owned())),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(e).tried(|| format!("read {path}")),
        }
    }

    fn set(&self, path: &str, value: &str) -> Result<(), SystemError> {
        // Opened without being created: a device may have gone.
        let mut file = std::fs::OpenOptions::new()
            .write(true)
            .truncate(true)
            .open(self.at(path))
            .tried(|| format!("open {path} to write `{value}`"))?;
        std::io::Write::write_all(&mut file, format!("{value}\n").as_bytes())
            .tried(|| format!("write `{value}` to {path}"))
    }
}

/// This machine.
#[derive(Debug)]
pub struct Live {
    files: Files,
    ethtool: Ethtool,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            files: Files { root: "/".into() },
            ethtool: Ethtool::default(),
        }
    }
}

impl Machine for Live {
    fn get(&self, knob: &Knob) -> Result<Option<String>, SystemError> {
        match knob {
            Knob::File { path } => self.files.get(path),
            Knob::Ethtool { device, setting } => {
                Ok(self.ethtool.get(device, *setting)?.map(|v| v.to_string()))
            }
            Knob::Filtering { device } => {
                Ok(filters::enabled(device)?.map(|on| u8::from(on).to_string()))
            }
            Knob::Filter { device, dscp, v6 } => {
                let filter = Filter {
                    dscp: *dscp,
                    v6: *v6,
                };
                let queue = filters::get(device, filter)?;
                Ok(queue.map(|q| q.map_or_else(|| NO_QUEUE.into(), |q| q.to_string())))
            }
            Knob::RssTable { device } => {
                let table = filters::rss_table(device)?;
                Ok(table.map(|t| t.iter().map(u32::to_string).collect::<Vec<_>>().join(",")))
            }
            Knob::QueueThread { device, queue } => {
                let thread = threads::napi_of_queue(device, *queue);
                Ok(thread.map(|t| match threads::fifo_priority(t) {
                    None => NORMAL.into(),
                    Some(priority) => format!("{FIFO}{priority}"),
                }))
            }
            Knob::NapiThreads { device } => {
                let threads = threads::napi_of_device(device);
                let mut cores = Cpus::new();
                for thread in &threads {
                    cores.extend(threads::cores(*thread)?);
                }
                Ok((!threads.is_empty()).then(|| cpus::list(&cores)))
            }
        }
    }

    fn set(&self, knob: &Knob, value: &str) -> Result<(), SystemError> {
        match knob {
            Knob::File { path } => self.files.set(path, value),
            Knob::Ethtool { device, setting } => {
                self.ethtool
                    .set(device, *setting, u64::from(number(knob, value)?))
            }
            Knob::Filtering { device } => filters::enable(device, value.trim() == "1"),
            Knob::Filter { device, dscp, v6 } => {
                let filter = Filter {
                    dscp: *dscp,
                    v6: *v6,
                };
                let queue = match value {
                    NO_QUEUE => None,
                    queue => Some(number(knob, queue)?),
                };
                filters::set(device, filter, queue)
            }
            Knob::RssTable { device } => {
                let table = value.split(',').map(|q| number(knob, q));
                filters::set_rss_table(device, &table.collect::<Result<Vec<u32>, _>>()?)
            }
            Knob::QueueThread { device, queue } => {
                let thread =
                    threads::napi_of_queue(device, *queue).ok_or_else(|| SystemError::Gone {
                        knob: knob.to_string(),
                    })?;
                let how = match value.strip_prefix(FIFO) {
                    Some(priority) => Scheduling::Fifo(number(knob, priority)? as i32),
                    None => Scheduling::Nice(0),
                };
                threads::schedule(thread, how)
            }
            Knob::NapiThreads { device } => {
                let cores = cpus::parse_list(value).unwrap_or_default();
                for thread in threads::napi_of_device(device) {
                    threads::pin_to(thread, &cores)?;
                }
                Ok(())
            }
        }
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn is_live(&self) -> bool {
        true
    }
}

/// A tree of another machine's files: `proc` and `sys` as they were, and `ethtool/DEVICE/SETTING`.
#[derive(Debug, Clone)]
pub struct Recorded {
    files: Files,
}

impl Recorded {
    /// The tree below `root`.
    ///
    /// # Errors
    /// When there is no `proc` and `sys` in it.
    pub fn open(root: &Path) -> Result<Self, SystemError> {
        for part in ["proc", "sys"] {
            std::fs::metadata(root.join(part)).tried(|| {
                format!(
                    "use {} as a recorded tree, which holds proc and sys",
                    root.display()
                )
            })?;
        }
        Ok(Self {
            files: Files { root: root.into() },
        })
    }

    fn path(knob: &Knob) -> String {
        match knob {
            Knob::File { path } => path.clone(),
            Knob::Ethtool { device, setting } => Self::setting(device, *setting),
            Knob::Filtering { device } => format!("/ethtool/{device}/ntuple-filters"),
            Knob::Filter { device, dscp, v6 } => {
                format!(
                    "/ethtool/{device}/filter-v{}-dscp-{dscp}",
                    if *v6 { 6 } else { 4 }
                )
            }
            Knob::RssTable { device } => format!("/ethtool/{device}/rss-table"),
            Knob::QueueThread { device, queue } => format!("/napi-threads/{device}-queue-{queue}"),
            Knob::NapiThreads { device } => format!("/napi-threads/{device}"),
        }
    }

    fn setting(device: &str, setting: Setting) -> String {
        format!("/ethtool/{device}/{}", setting.name())
    }
}

impl Machine for Recorded {
    fn get(&self, knob: &Knob) -> Result<Option<String>, SystemError> {
        self.files.get(&Self::path(knob))
    }

    fn set(&self, knob: &Knob, value: &str) -> Result<(), SystemError> {
        self.files.set(&Self::path(knob), value)
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn is_live(&self) -> bool {
        false
    }
}
