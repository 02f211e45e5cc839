//! One router per network namespace: its files, its lock, and what it remembers.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use nix::fcntl::{Flock, FlockArg};
use serde::{Deserialize, Serialize};

use crate::DataplaneError;
use crate::config::RouterConfig;
use crate::error::FileTried;
use crate::features::Features;

/// Where the state of all routers is kept, one folder per network namespace.
const RUN: &str = "/run/rxlane";

/// Files and pins of the router of one network namespace.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Pinned BPF objects.
    pub pins: PathBuf,
    run: PathBuf,
}

/// What is known about a running or orphaned router besides its maps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct State {
    /// Version of rxlane that attached it; another version takes over from scratch.
    pub version: String,
    /// Process that runs or ran it.
    pub pid: u32,
    /// File the configuration came from.
    pub config_file: PathBuf,
    /// The configuration.
    pub config: RouterConfig,
    /// Slot and XDP mode of each port, present or not.
    pub ports: BTreeMap<String, PortState>,
    /// The kernel's features.
    pub features: Features,
    /// Things the operator should know.
    pub warnings: Vec<String>,
}

/// A configured port.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortState {
    /// Position in the maps.
    pub slot: u8,
    /// Index of the device; `None` while it is gone.
    pub ifindex: Option<u32>,
    /// `native` or `generic`.
    pub mode: Option<String>,
}

impl Instance {
    /// The instance of the calling thread's network namespace.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn current() -> Result<Self, DataplaneError> {
        let name = format!("net-{}", rxlane_system::netns::id()?);
        Ok(Self {
            pins: Path::new(rxlane_system::bpffs::MOUNT_POINT)
                .join("rxlane")
                .join(&name),
            run: Path::new(RUN).join(name),
        })
    }

    /// Creates the folders.
    ///
    /// # Errors
    /// When they cannot be made, or the BPF file system cannot be mounted.
    pub fn create(&self) -> Result<(), DataplaneError> {
        rxlane_system::bpffs::ensure_mounted()?;
        std::fs::create_dir_all(&self.pins).at(&self.pins)?;
        std::fs::create_dir_all(&self.run).at(&self.run)
    }

    /// Takes the lock of the running daemon, which ends with the process.
    ///
    /// # Errors
    /// [`DataplaneError::AlreadyRunning`] while another daemon holds it.
    pub fn lock(&self) -> Result<Flock<File>, DataplaneError> {
        std::fs::create_dir_all(&self.run).at(&self.run)?;
        let path = self.run.join("lock");
        let file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&path)
            .at(&path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(mut lock) => {
                lock.set_len(0).at(&path)?;
                write!(lock, "{}", std::process::id()).at(&path)?;
                Ok(lock)
            }
            Err((mut file, nix::errno::Errno::EWOULDBLOCK)) => {
                let mut text = String::new();
                file.read_to_string(&mut text).at(&path)?;
                Err(DataplaneError::AlreadyRunning(
                    text.trim().parse().unwrap_or(0),
                ))
            }
            Err((_, errno)) => Err(std::io::Error::from(errno)).at(&path),
        }
    }

    /// Process id of the running daemon.
    pub fn daemon(&self) -> Option<u32> {
        match self.lock() {
            Err(DataplaneError::AlreadyRunning(pid)) => Some(pid),
            _ => None,
        }
    }

    fn state_path(&self) -> PathBuf {
        self.run.join("state.json")
    }

    /// What the last daemon wrote.
    pub fn load_state(&self) -> Option<State> {
        serde_json::from_slice(&std::fs::read(self.state_path()).ok()?).ok()
    }

    /// Replaces the state in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_state(&self, state: &State) -> Result<(), DataplaneError> {
        let path = self.state_path();
        let new = path.with_extension("new");
        let json = serde_json::to_vec_pretty(state)
            .map_err(std::io::Error::from)
            .at(&path)?;
        std::fs::write(&new, json).at(&new)?;
        std::fs::rename(&new, &path).at(&path)
    }

    /// Reloads that the daemon has answered so far.
    pub fn reload_count(&self) -> u64 {
        self.reload_report().map_or(0, |(count, _)| count)
    }

    /// Why the last reload was refused.
    pub fn reload_error(&self) -> Option<String> {
        self.reload_report()?.1
    }

    fn reload_path(&self) -> PathBuf {
        self.run.join("reload.json")
    }

    fn reload_report(&self) -> Option<(u64, Option<String>)> {
        serde_json::from_slice(&std::fs::read(self.reload_path()).ok()?).ok()
    }

    /// Answers a reload, for whoever asked for it.
    pub(crate) fn report_reload(&self, error: Option<&str>) -> Result<(), DataplaneError> {
        let path = self.reload_path();
        let new = path.with_extension("new");
        let json = serde_json::to_vec(&(self.reload_count() + 1, error))
            .map_err(std::io::Error::from)
            .at(&path)?;
        std::fs::write(&new, json).at(&new)?;
        std::fs::rename(&new, &path).at(&path)
    }

    /// Whether a router, running or orphaned, is attached here.
    pub fn exists(&self) -> bool {
        self.pins.join("watch").exists() || self.load_state().is_some()
    }

    /// Removes pins of a router that cannot be taken over.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_pins(&self) -> Result<(), DataplaneError> {
        remove_tree(&self.pins)
    }

    /// Removes pins and files. Removing the pin of a link detaches it.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self) -> Result<(), DataplaneError> {
        for path in [&self.pins, &self.run] {
            remove_tree(path)?;
        }
        // The parents go with the last instance; others may still be there.
        for parent in [self.pins.parent(), self.run.parent()]
            .into_iter()
            .flatten()
        {
            let _ = std::fs::remove_dir(parent);
        }
        Ok(())
    }
}

fn remove_tree(path: &Path) -> Result<(), DataplaneError> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at(path),
        _ => Ok(()),
    }
}
