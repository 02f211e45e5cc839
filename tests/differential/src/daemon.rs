//! The router under test: started, heard over the socket that `sd_notify(3)` describes, asked, ended.

use std::io::Read as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rxlane_system::Tried;

use crate::OracleError;
use crate::scenario::Lanes;

/// How long it may take to end.
const END: Duration = Duration::from_secs(3);

/// `rxlane run`; ended and detached when dropped.
#[derive(Debug)]
pub(crate) struct Daemon {
    child: Child,
    rxlane: PathBuf,
    netns: String,
    files: [PathBuf; 2],
}

/// How a start went.
pub(crate) enum Start {
    /// It serves.
    Serving(Daemon),
    /// It has refused, which it may.
    Refused(String),
}

impl Daemon {
    /// Starts it in a namespace and waits so long until it serves.
    pub(crate) fn start(
        rxlane: &Path,
        netns: &str,
        lanes: &Lanes,
        patience: Duration,
    ) -> Result<Start, OracleError> {
        let file = |suffix: &str| std::env::temp_dir().join(format!("{netns}.{suffix}"));
        let (config, socket_path) = (file("toml"), file("sock"));
        std::fs::write(&config, lanes.toml()).map_err(|source| OracleError::File {
            path: config.clone(),
            source,
        })?;
        let _ = std::fs::remove_file(&socket_path);
        let listen = || format!("listen on {}", socket_path.display());
        let ear = UnixDatagram::bind(&socket_path).tried(listen)?;
        ear.set_read_timeout(Some(Duration::from_millis(20)))
            .tried(listen)?;
        let child = Command::new(rxlane)
            .args(["--netns", netns, "run", "-c"])
            .arg(&config)
            .env("NOTIFY_SOCKET", &socket_path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .tried(|| format!("run {}", rxlane.display()))?;
        let mut daemon = Self {
            child,
            rxlane: rxlane.into(),
            netns: netns.into(),
            files: [config, socket_path.clone()],
        };
        let deadline = Instant::now() + patience;
        let mut text = [0; 2048];
        while Instant::now() < deadline {
            if let Ok(n) = ear.recv(&mut text) {
                if String::from_utf8_lossy(&text[..n]).contains("READY=1") {
                    return Ok(Start::Serving(daemon));
                }
            } else if matches!(daemon.child.try_wait(), Ok(Some(_))) {
                return Ok(Start::Refused(daemon.words()));
            }
        }
        let _ = daemon.child.kill();
        Err(OracleError::Silent {
            seconds: patience.as_secs(),
            words: daemon.words(),
        })
    }

    /// `rxlane status --json`, if it answers.
    pub(crate) fn status(&self) -> Option<serde_json::Value> {
        let output = Command::new(&self.rxlane)
            .args(["--netns", &self.netns, "status", "--json"])
            .output()
            .ok()?;
        serde_json::from_slice(&output.stdout).ok()
    }

    /// The line in which it said what is wrong.
    fn words(&mut self) -> String {
        let mut text = String::new();
        if let Some(stderr) = self.child.stderr.as_mut() {
            let _ = stderr.read_to_string(&mut text);
        }
        let error = text.lines().find(|l| l.starts_with("rxlane: "));
        error.unwrap_or(text.trim()).to_owned()
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = kill(Pid::from_raw(self.child.id() as i32), Signal::SIGTERM);
        let deadline = Instant::now() + END;
        while matches!(self.child.try_wait(), Ok(None)) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = self.child.kill();
            let _ = self.child.wait();
            let _ = Command::new(&self.rxlane)
                .args(["--netns", &self.netns, "detach"])
                .output();
        }
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
    }
}
