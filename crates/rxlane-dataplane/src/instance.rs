//! One router per network namespace: its files, its lock, and what it remembers.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};

use rxlane_bpf::pinned;
use rxlane_bpf::{BpfError, FileTried};
use rxlane_system::{bpffs, netns};
use serde::Serialize;

use crate::DataplaneError;
use crate::clock::monotonic;
use crate::lock::{self, Lock};
use crate::private;
use crate::state::State;
use crate::undo::Ask;

/// A signal comes this soon after what it means, ns.
const ASKED_NS: u64 = 10_000_000_000;
/// Where the state of all routers is kept, one folder per network namespace.
const RUN: &str = "/run/rxlane";

/// Where the pins of all routers are.
fn all_pins() -> PathBuf {
    Path::new(bpffs::MOUNT_POINT).join("rxlane")
}

/// Files and pins of the router of one network namespace.
#[derive(Debug, Clone)]
pub struct Instance {
    /// Pinned BPF objects.
    pub pins: PathBuf,
    run: PathBuf,
}

/// What the name of a port's pinned link begins with, and that of nothing else.
const PORT_LINK: &str = "port_";

impl Instance {
    /// The instance of the calling thread's network namespace.
    ///
    /// # Errors
    /// When /proc cannot be read.
    pub fn current() -> Result<Self, DataplaneError> {
        // Numbers of namespaces are used again, cookies are not.
        let (inode, cookie) = (netns::id()?, netns::cookie()?);
        Ok(Self::named(&format!("net-{inode}-{cookie}")))
    }

    fn named(name: &str) -> Self {
        Self {
            pins: all_pins().join(name),
            run: Path::new(RUN).join(name),
        }
    }

    /// Routers of namespaces that are gone: no daemon runs, no device is attached, and no namespace has the number.
    ///
    /// # Errors
    /// When folders cannot be listed.
    pub fn abandoned() -> Result<Vec<Self>, DataplaneError> {
        let alive = netns::all_ids();
        let mut found = Vec::new();
        let mut names: Vec<String> = Vec::new();
        for folder in [all_pins(), PathBuf::from(RUN)] {
            for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
                names.extend(entry.file_name().to_str().map(str::to_owned));
            }
        }
        names.sort();
        names.dedup();
        for name in names {
            let mut parts = name.strip_prefix("net-").unwrap_or_default().split('-');
            let inode: Option<u64> = parts.next().and_then(|n| n.parse().ok());
            let instance = Self::named(&name);
            let gone = inode.is_some_and(|inode| !alive.contains(&inode));
            if gone && instance.daemon().is_none() && !instance.is_attached() {
                found.push(instance);
            }
        }
        Ok(found)
    }

    /// Whether a link of a port still has its device.
    fn is_attached(&self) -> bool {
        self.port_links()
            .filter_map(|path| libbpf_rs::Link::open(path).ok())
            .any(|link| pinned::link_ifindex(&link).is_some())
    }

    /// Where the link of a port is pinned. The BPF file system takes no dots, and interfaces have no colons.
    pub(crate) fn port_link(&self, port: &str) -> PathBuf {
        let name = port.replace('.', ":");
        self.pins.join(format!("{PORT_LINK}{name}"))
    }

    /// The links of all ports.
    pub(crate) fn port_links(&self) -> impl Iterator<Item = PathBuf> {
        std::fs::read_dir(&self.pins)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|entry| entry.file_name().to_string_lossy().starts_with(PORT_LINK))
            .map(|entry| entry.path())
    }

    /// Name of the folders.
    pub fn name(&self) -> String {
        let name = self.run.file_name().unwrap_or_default();
        name.to_string_lossy().into_owned()
    }

    /// Creates the folders.
    ///
    /// # Errors
    /// When they cannot be made, or the BPF file system cannot be mounted.
    pub fn create(&self) -> Result<(), DataplaneError> {
        bpffs::ensure_mounted()?;
        bpffs::own_folder(&all_pins())?;
        bpffs::own_folder(&self.pins)?;
        self.create_run()
    }

    /// Makes the folder of files and closes to others what it holds.
    fn create_run(&self) -> Result<(), DataplaneError> {
        if self.run.starts_with(RUN) {
            private::folder(Path::new(RUN))?;
        }
        private::folder(&self.run)?;
        private::tighten(&self.run)
    }

    /// Takes the lock of the running daemon, which ends with the process.
    ///
    /// # Errors
    /// [`DataplaneError::AlreadyRunning`] while another daemon holds it.
    pub fn lock(&self) -> Result<Lock, DataplaneError> {
        self.create_run()?;
        let path = self.lock_path();
        lock::take(&path)?.ok_or_else(|| DataplaneError::AlreadyRunning(self.daemon().unwrap_or(0)))
    }

    /// Takes the lock of whoever traces.
    ///
    /// # Errors
    /// [`DataplaneError::Traced`] while another process holds it.
    pub(crate) fn lock_trace(&self) -> Result<Lock, DataplaneError> {
        let path = self.run.join("trace.lock");
        lock::take(&path)?.ok_or_else(|| DataplaneError::Traced(lock::holder(&path).unwrap_or(0)))
    }

    /// Process id of the running daemon. Asking takes no lock, so it never stands in a starting daemon's way.
    pub fn daemon(&self) -> Option<u32> {
        lock::holder(&self.lock_path())
    }

    /// Socket of the daemon that answers whoever may not read the maps.
    pub fn socket(&self) -> PathBuf {
        self.run.join("rxlane.sock")
    }

    /// Where the socket of the machine's own router, which is of no other namespace, is found without knowing names.
    pub fn well_known_socket() -> PathBuf {
        Path::new(RUN).join("rxlane.sock")
    }

    fn lock_path(&self) -> PathBuf {
        self.run.join("lock")
    }

    fn state_path(&self) -> PathBuf {
        self.run.join("state.json")
    }

    /// What the last daemon wrote.
    pub fn load_state(&self) -> Option<State> {
        serde_json::from_slice(&private::read(&self.state_path())?).ok()
    }

    /// Replaces the state in one step.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn save_state(&self, state: &State) -> Result<(), BpfError> {
        replace(&self.state_path(), state)
    }

    fn turned_off_path(&self) -> PathBuf {
        self.run.join("turned-off.json")
    }

    /// Features of ports that were turned off, to be turned on again ([`crate::tags`]).
    pub(crate) fn load_turned_off(&self) -> BTreeMap<String, BTreeSet<String>> {
        private::read(&self.turned_off_path())
            .and_then(|json| serde_json::from_slice(&json).ok())
            .unwrap_or_default()
    }

    pub(crate) fn save_turned_off(
        &self,
        by_port: &BTreeMap<String, BTreeSet<String>>,
    ) -> Result<(), BpfError> {
        replace(&self.turned_off_path(), by_port)
    }

    fn normal_batch_path(&self) -> PathBuf {
        self.run.join("gro-normal-batch")
    }

    /// What the machine's setting was before the first of all routers changed it ([`crate::gro_batch`]).
    pub(crate) fn load_normal_batch(&self) -> Option<u32> {
        serde_json::from_slice(&private::read(&self.normal_batch_path())?).ok()
    }

    pub(crate) fn save_normal_batch(&self, packets: u32) -> Result<(), BpfError> {
        replace(&self.normal_batch_path(), &packets)
    }

    pub(crate) fn forget_normal_batch(&self) {
        // Without the file there is nothing to forget.
        let _ = std::fs::remove_file(self.normal_batch_path());
    }

    /// Held while the machine's setting or what is remembered of it is looked at or changed, for moments; `None` while another holds it.
    pub(crate) fn lock_normal_batch() -> Result<Option<Lock>, DataplaneError> {
        let run = Path::new(RUN);
        private::folder(run)?;
        Ok(lock::take(&run.join("gro-normal-batch.lock"))?)
    }

    /// The instances of all namespaces, of those that are gone too.
    pub(crate) fn all() -> Result<Vec<Self>, BpfError> {
        let run = Path::new(RUN);
        let entries = match std::fs::read_dir(run) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).at(run),
        };
        let names = entries.flatten().map(|entry| entry.file_name());
        Ok(names
            .filter_map(|name| {
                name.to_str()
                    .filter(|n| n.starts_with("net-"))
                    .map(Self::named)
            })
            .collect())
    }

    /// Reloads that the daemon has answered so far.
    pub fn reload_count(&self) -> u64 {
        self.reload_report().map_or(0, |(count, _)| count)
    }

    /// Why the last reload was refused.
    pub fn reload_error(&self) -> Option<String> {
        self.reload_report()?.1
    }

    fn ask_path(&self) -> PathBuf {
        self.run.join("ask.json")
    }

    /// Says what the next SIGHUP is to mean.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn ask(&self, what: Ask) -> Result<(), BpfError> {
        replace(&self.ask_path(), &(what, monotonic().0))
    }

    /// What was asked for last, once. What somebody asked for who then sent no signal is not what the next one means.
    pub(crate) fn take_ask(&self) -> Option<Ask> {
        let path = self.ask_path();
        let asked = private::read(&path)?;
        let _ = std::fs::remove_file(path);
        let (what, at_ns): (Ask, u64) = serde_json::from_slice(&asked).ok()?;
        (monotonic().0.saturating_sub(at_ns) < ASKED_NS).then_some(what)
    }

    fn reload_path(&self) -> PathBuf {
        self.run.join("reload.json")
    }

    fn reload_report(&self) -> Option<(u64, Option<String>)> {
        serde_json::from_slice(&private::read(&self.reload_path())?).ok()
    }

    /// Answers a reload, for whoever asked for it.
    pub(crate) fn report_reload(&self, error: Option<&str>) -> Result<(), BpfError> {
        replace(&self.reload_path(), &(self.reload_count() + 1, error))
    }

    /// Whether a router, running or orphaned, is attached here.
    pub fn exists(&self) -> bool {
        self.pins.join("overload").exists() || self.load_state().is_some()
    }

    /// Detaches from all ports, and removes the pins.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_pins(&self) -> Result<(), BpfError> {
        let fast = self.fast_links().into_iter().map(|(_, path)| path);
        for link in self.port_links().chain(fast) {
            pinned::detach(&link)?;
        }
        remove_tree(&self.pins)
    }

    /// Detaches from all ports, and removes pins and files.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove(&self) -> Result<(), DataplaneError> {
        self.remove_pins()?;
        remove_tree(&self.run)?;
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

/// Writes a file as JSON in one step: whoever reads it finds the old or the new.
fn replace(path: &Path, what: &impl Serialize) -> Result<(), BpfError> {
    let new = path.with_extension("new");
    let json = serde_json::to_vec(what)
        .map_err(std::io::Error::from)
        .at(path)?;
    let mut file = private::open(&new)?;
    file.set_len(0).at(&new)?;
    file.write_all(&json).at(&new)?;
    std::fs::rename(&new, path).at(path)
}

fn remove_tree(path: &Path) -> Result<(), BpfError> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e).at(path),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_the_daemon_never_hinders_one_that_starts() {
        let directory = std::env::temp_dir().join(format!("rxlane-lock-{}", std::process::id()));
        let instance = Instance {
            pins: directory.clone(),
            run: directory.clone(),
        };
        assert_eq!(instance.daemon(), None);
        let stop = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                    let daemon = instance.daemon();
                    assert!(daemon.is_none_or(|pid| pid == std::process::id()));
                }
            });
            for _ in 0..1000 {
                let lock = instance.lock().expect("nobody else holds it");
                assert_eq!(instance.daemon(), Some(std::process::id()));
                assert!(matches!(
                    instance.lock(),
                    Err(DataplaneError::AlreadyRunning(pid)) if pid == std::process::id()
                ));
                drop(lock);
            }
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        assert_eq!(instance.daemon(), None);
        std::fs::remove_dir_all(directory).unwrap();
    }
}
