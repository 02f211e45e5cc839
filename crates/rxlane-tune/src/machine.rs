//! Where knobs are turned: this machine, or a recorded tree of another one.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rxlane_system::ethtool::Ethtool;
use rxlane_system::filters;
use rxlane_system::napi::{self, Napi};
use rxlane_system::threads;
use rxlane_system::{SystemError, Tried};

use crate::cpus::Cpus;
use crate::inventory::Window;
use crate::load::{Counters, Load};
use crate::{Knob, TuneError, Value};

/// What was seen of the cores over a while.
#[derive(Debug, Clone)]
pub struct Observed {
    /// How long, in s; 0: since boot.
    pub seconds: f64,
    /// Counters at the beginning.
    pub first: Counters,
    /// Counters at the end.
    pub last: Counters,
    /// Loads of each core in equal parts of that time, oldest first.
    pub samples: Vec<BTreeMap<usize, Load>>,
}

/// A machine's knobs and files.
pub trait Machine {
    /// A knob's value; `None` where the machine has no such knob, or a value that is none of its kind.
    ///
    /// # Errors
    /// When the kernel refuses to tell.
    fn get(&self, knob: &Knob) -> Result<Option<Value>, TuneError>;

    /// Turns a knob.
    ///
    /// # Errors
    /// When the kernel or the driver refuses.
    fn set(&self, knob: &Knob, value: &Value) -> Result<(), TuneError>;

    /// The trees `/proc` and `/sys` of the machine.
    fn files(&self) -> &Files;

    /// Looks at the cores for a window; `meanwhile` is told the progress, 0 to 1.
    fn observe(&self, window: Window, meanwhile: &mut dyn FnMut(f64)) -> Observed;

    /// NAPI instances of a device, where the kernel tells.
    fn napi(&self, ifindex: u32) -> Vec<Napi>;

    /// CPU time that the NAPI threads of a device have had, in ns.
    fn napi_thread_ns(&self, device: &str) -> u64;

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

    /// Whether its owner may turn a knob that is a file: the kernel takes that away from interrupts that their driver
    /// places.
    fn is_writable(&self, knob: &Knob) -> bool {
        const OWNER: u32 = 0o200;
        knob.file()
            .and_then(|path| std::fs::metadata(self.files().at(&path)).ok())
            .is_some_and(|m| m.permissions().mode() & OWNER != 0)
    }

    /// Last part of what a symbolic link points to.
    fn link(&self, path: &str) -> Option<String> {
        let target = std::fs::read_link(self.files().at(path)).ok()?;
        Some(target.file_name()?.to_str()?.to_owned())
    }
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

/// The machine that the program runs on.
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
    fn get(&self, knob: &Knob) -> Result<Option<Value>, TuneError> {
        if let Some(path) = knob.file() {
            return Ok(self.files.get(&path)?.and_then(|text| knob.parse(&text)));
        }
        Ok(match knob {
            Knob::Ethtool { device, setting } => self
                .ethtool
                .get(device, *setting)?
                .and_then(|v| knob.parse(&v.to_string())),
            Knob::Filtering { device } => filters::enabled(device)?.map(Value::Switch),
            Knob::Filter { device, .. } | Knob::PortFilter { device, .. } => match knob.filter() {
                Some(filter) => filters::get(device, filter)?.map(Value::Queue),
                None => None,
            },
            Knob::RssTable { device } => filters::rss_table(device)?.map(Value::Queues),
            Knob::QueueThread { device, queue } => {
                let thread = threads::napi_of_queue(device, *queue);
                thread.and_then(threads::scheduling).map(Value::Scheduling)
            }
            Knob::NapiThreads { device } => {
                let threads = threads::napi_of_device(device);
                let mut cores = Cpus::new();
                for thread in &threads {
                    cores.extend(threads::cores(*thread)?);
                }
                (!threads.is_empty()).then_some(Value::Cores(cores))
            }
            _ => None,
        })
    }

    fn set(&self, knob: &Knob, value: &Value) -> Result<(), TuneError> {
        if let Some(path) = knob.file() {
            return Ok(self.files.set(&path, &knob.text(value))?);
        }
        match (knob, value) {
            (Knob::Ethtool { device, setting }, Value::Packets(n) | Value::Us(n)) => {
                self.ethtool.set(device, *setting, *n)?;
            }
            (Knob::Ethtool { device, setting }, Value::Switch(on)) => {
                self.ethtool.set(device, *setting, u64::from(*on))?;
            }
            (Knob::Filtering { device }, Value::Switch(on)) => filters::enable(device, *on)?,
            (
                Knob::Filter { device, .. } | Knob::PortFilter { device, .. },
                Value::Queue(queue),
            ) => {
                if let Some(filter) = knob.filter() {
                    filters::set(device, filter, *queue)?;
                }
            }
            (Knob::RssTable { device }, Value::Queues(queues)) => {
                filters::set_rss_table(device, queues)?;
            }
            (Knob::QueueThread { device, queue }, Value::Scheduling(how)) => {
                let thread =
                    threads::napi_of_queue(device, *queue).ok_or_else(|| TuneError::Gone {
                        knob: knob.to_string(),
                    })?;
                threads::schedule(thread, *how)?;
            }
            (Knob::NapiThreads { device }, Value::Cores(cores)) => {
                for thread in threads::napi_of_device(device) {
                    threads::pin_to(thread, cores)?;
                }
            }
            _ => {
                return Err(TuneError::WrongKind {
                    knob: knob.to_string(),
                    value: value.to_string(),
                });
            }
        }
        Ok(())
    }

    fn files(&self) -> &Files {
        &self.files
    }

    fn observe(&self, window: Window, meanwhile: &mut dyn FnMut(f64)) -> Observed {
        let started = Instant::now();
        let first = Counters::read(self);
        let mut last = first.clone();
        let mut samples = Vec::new();
        for i in 0..window.samples {
            std::thread::sleep(window.every);
            let now = Counters::read(self);
            samples.push(now.since(&last));
            last = now;
            meanwhile(f64::from(i + 1) / f64::from(window.samples));
        }
        Observed {
            seconds: started.elapsed().as_secs_f64(),
            first,
            last,
            samples,
        }
    }

    fn napi(&self, ifindex: u32) -> Vec<Napi> {
        napi::of_device(ifindex).unwrap_or_default()
    }

    /// The first word of `schedstat` is the run time (Documentation/scheduler/sched-stats.rst).
    fn napi_thread_ns(&self, device: &str) -> u64 {
        threads::napi_of_device(device)
            .iter()
            .filter_map(|t| {
                let text = self.read(&format!("/proc/{t}/schedstat"))?;
                text.split_ascii_whitespace().next()?.parse::<u64>().ok()
            })
            .sum()
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
    pub fn open(root: &Path) -> Result<Self, TuneError> {
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
        if let Some(path) = knob.file() {
            return path;
        }
        match knob {
            Knob::Ethtool { device, setting } => format!("/ethtool/{device}/{}", setting.name()),
            Knob::Filtering { device } => format!("/ethtool/{device}/ntuple-filters"),
            Knob::Filter { device, dscp, v6 } => {
                let version = if *v6 { 6 } else { 4 };
                format!("/ethtool/{device}/filter-v{version}-dscp-{dscp}")
            }
            Knob::PortFilter {
                device,
                protocol,
                port,
                destination,
                v6,
            } => {
                let version = if *v6 { 6 } else { 4 };
                let end = if *destination { "to" } else { "from" };
                format!("/ethtool/{device}/filter-v{version}-{protocol}-{end}-{port}")
            }
            Knob::RssTable { device } => format!("/ethtool/{device}/rss-table"),
            Knob::QueueThread { device, queue } => format!("/napi-threads/{device}-queue-{queue}"),
            Knob::NapiThreads { device } => format!("/napi-threads/{device}"),
            _ => String::new(),
        }
    }
}

impl Machine for Recorded {
    fn get(&self, knob: &Knob) -> Result<Option<Value>, TuneError> {
        let text = self.files.get(&Self::path(knob))?;
        Ok(text.and_then(|text| knob.parse(&text)))
    }

    fn set(&self, knob: &Knob, value: &Value) -> Result<(), TuneError> {
        Ok(self.files.set(&Self::path(knob), &knob.text(value))?)
    }

    fn files(&self) -> &Files {
        &self.files
    }

    /// Its counters stand still, so the window is all the time since that machine has booted.
    fn observe(&self, _: Window, _: &mut dyn FnMut(f64)) -> Observed {
        let last = Counters::read(self);
        let first = last.at_boot();
        Observed {
            seconds: 0.0,
            samples: vec![last.since(&first)],
            first,
            last,
        }
    }

    fn napi(&self, _: u32) -> Vec<Napi> {
        Vec::new()
    }

    fn napi_thread_ns(&self, _: &str) -> u64 {
        0
    }
}
