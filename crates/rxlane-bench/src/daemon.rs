//! The router's daemon, as a service manager sees it: started, told by signals, and heard over the socket that
//! `sd_notify(3)` describes.

use std::io;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How long a daemon may take to end.
const END: Duration = Duration::from_secs(2);

/// Asks a process to end, and waits for it; one that does not is killed, because what it runs in goes away.
pub(crate) fn end(pid: Pid) {
    let deadline = Instant::now() + END;
    let mut signal = Some(Signal::SIGTERM);
    while Instant::now() < deadline {
        if kill(pid, signal.take()).is_err() {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = kill(pid, Signal::SIGKILL);
}

/// Removes what a killed daemon left in a network namespace; mostly there is nothing.
pub(crate) fn detach(rxlane: &Path, netns: &str) {
    let outcome = Command::new(rxlane)
        .args(["--netns", netns, "detach"])
        .output();
    match outcome {
        Ok(output) => tracing::debug!(
            netns,
            "detach: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        ),
        Err(error) => tracing::warn!(%error, "cannot run {}", rxlane.display()),
    }
}

/// What a daemon says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Said {
    /// It is at work, for the first time or again.
    pub(crate) ready: bool,
    /// What it did last, or why it refused.
    pub(crate) status: String,
}

/// Where a daemon says what it does.
pub(crate) struct Ear {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Ear {
    /// A socket for a daemon that is started with [`Ear::path`] in `NOTIFY_SOCKET`.
    pub(crate) fn new(name: &str) -> io::Result<Self> {
        let path =
            std::env::temp_dir().join(format!("rxlane-bench-{}-{name}.sock", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(Duration::from_millis(20)))?;
        Ok(Self { socket, path })
    }

    /// Its place in the file system.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What is said within `time`, until it is ready. None when the process ends before.
    pub(crate) fn ready_within(&self, time: Duration, child: &mut Child) -> Option<Said> {
        let deadline = Instant::now() + time;
        while Instant::now() < deadline {
            match self.hear() {
                Some(said) if said.ready => return Some(said),
                Some(_) => {}
                None if child.try_wait().is_ok_and(|status| status.is_some()) => return None,
                None => {}
            }
        }
        None
    }

    fn hear(&self) -> Option<Said> {
        let mut text = [0; 2048];
        let n = self.socket.recv(&mut text).ok()?;
        Some(parse(&String::from_utf8_lossy(&text[..n])))
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

fn parse(message: &str) -> Said {
    let value = |name: &str| message.lines().find_map(|line| line.strip_prefix(name));
    Said {
        ready: value("READY=") == Some("1"),
        status: value("STATUS=").unwrap_or_default().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_and_status_are_read_from_one_message() {
        let said = parse("READY=1\nSTATUS=serving 2 classes\n");
        assert!(said.ready);
        assert_eq!(said.status, "serving 2 classes");
        assert!(!parse("RELOADING=1\nMONOTONIC_USEC=5").ready);
    }
}
