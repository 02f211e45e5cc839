//! By how many packets the stack takes what a poll has received (`net.core.gro_normal_batch`, net/core/gro.c).
//!
//! The setting is the machine's: only its own network namespace shows it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};

use nix::sched::{CloneFlags, setns};

use crate::{SystemError, Tried};

const SETTING: &str = "/proc/sys/net/core/gro_normal_batch";
/// Whose namespace is the machine's own, unless they are of a container: the first process, into which not even root may look
/// everywhere, and the parent of the kernel's threads. In a wrong one the setting is missing.
const MACHINE: [&str; 2] = ["/proc/1/ns/net", "/proc/2/ns/net"];

/// The setting, held open: whoever has given up entering namespaces can still change it.
#[derive(Debug)]
pub struct NormalBatch(File);

impl NormalBatch {
    /// Opens the setting from whatever network namespace; `None` where the kernel has none (before Linux 5.4), or the machine's own
    /// namespace is out of reach: from a container, and from another namespace without `CAP_SYS_ADMIN` and `CAP_SYS_PTRACE`.
    pub fn open() -> Option<Self> {
        let open = || OpenOptions::new().read(true).write(true).open(SETTING).ok();
        let file = open().or_else(|| {
            std::thread::scope(|scope| {
                let elsewhere = |path: &'static str| {
                    setns(File::open(path).ok()?, CloneFlags::CLONE_NEWNET).ok()?;
                    open()
                };
                let thread = scope.spawn(move || MACHINE.into_iter().find_map(elsewhere));
                thread.join().ok().flatten()
            })
        });
        file.map(Self)
    }

    /// How many packets.
    ///
    /// # Errors
    /// When the setting cannot be read.
    pub fn get(&self) -> Result<u32, SystemError> {
        let (mut file, mut text) = (&self.0, String::new());
        file.rewind()
            .and_then(|()| file.read_to_string(&mut text))
            .and_then(|_| text.trim().parse().map_err(std::io::Error::other))
            .tried(|| format!("read {SETTING}"))
    }

    /// Changes it.
    ///
    /// # Errors
    /// When the setting cannot be written.
    pub fn set(&self, packets: u32) -> Result<(), SystemError> {
        let mut file = &self.0;
        file.rewind()
            .and_then(|()| file.write_all(packets.to_string().as_bytes()))
            .tried(|| format!("set {SETTING} to {packets}"))
    }
}
