//! A device under test at work in a lab.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rxlane_config::{Ingress, RouterConfig};
use rxlane_system::session;

use crate::BenchError;
use crate::bare;
use crate::daemon::{self, Ear, Said};
use crate::dut::{Dut, Observation};
use crate::lab::{Lab, Place};
use crate::xdp_forward::XdpForward;

/// What an emulated machine takes to load the programs and attach them, several times over.
const ATTACH: Duration = Duration::from_secs(60);
/// What a reload takes, of which a second is the verifier's.
const RELOAD: Duration = Duration::from_secs(5);

impl Dut {
    /// Puts it in charge of the lab's router, until the returned guard is dropped.
    ///
    /// # Errors
    /// When the router does not start.
    pub fn install(&self, lab: &Lab) -> Result<Installed, BenchError> {
        if *self == Self::External {
            return Err(BenchError::Parameter(
                "--dut external needs --in and --out".into(),
            ));
        }
        if let Self::Watched(_, options) = self {
            return watch(lab, options);
        }
        if *self == Self::XdpForward {
            let mut installed = Installed::default();
            installed.xdp_forward = Some(XdpForward::load(lab)?);
            return Ok(installed);
        }
        if let Self::Bare(_, what) = self {
            let mut installed = Installed::default();
            installed.links = bare::attach(lab, *what)?;
            return Ok(installed);
        }
        let (name, config, how) = match self {
            Self::Rxlane(name, config) => (name, config, None),
            Self::Observed(name, config, how) => (name, config, Some(*how)),
            _ => return Ok(Installed::default()),
        };
        let mut config = RouterConfig {
            ports: lab.router_ports(),
            ..*config.clone()
        };
        if !lab.config.hosts_send {
            let ports = config.ports.iter().cloned();
            config.ingress = ports.map(|port| (port, Ingress::Xdp)).collect();
        }
        let mut text = rxlane_config::to_toml(&config);
        if how == Some(Observation::Unsampled) {
            text.insert_str(0, "latency = false\n");
        }
        let path =
            std::env::temp_dir().join(format!("rxlane-bench-{}-{name}.toml", std::process::id()));
        std::fs::write(&path, &text).map_err(|source| BenchError::File {
            path: path.display().to_string(),
            source,
        })?;
        let log = path.with_extension("log");
        let mut installed = Installed::of(lab, vec![path, log]);
        installed.ear = Some(Ear::new(name).map_err(|e| BenchError::Dut(e.to_string()))?);
        installed.config = text;
        installed.start()?;
        if how == Some(Observation::Traced) {
            installed.trace()?;
        }
        Ok(installed)
    }
}

/// Starts `rxlane tune watch` on the router's ingress.
fn watch(lab: &Lab, options: &[String]) -> Result<Installed, BenchError> {
    let netns = lab.netns(Place::Router);
    let journal = std::env::temp_dir().join(format!("rxlane-bench-{}.journal", std::process::id()));
    let ports: Vec<String> = lab
        .router_ports()
        .into_iter()
        .filter(|p| p.starts_with("in"))
        .collect();
    let child = Command::new(&lab.config.rxlane)
        .args([
            "--netns",
            &netns,
            "tune",
            "watch",
            "--keep-cores",
            "--ports",
        ])
        .arg(ports.join(","))
        .args(options)
        .arg("--journal")
        .arg(&journal)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|e| BenchError::Dut(e.to_string()))?;
    let files = vec![journal.clone(), journal.with_extension("watch.journal")];
    let mut installed = Installed::of(lab, files);
    installed.child = Some(child);
    // Its first decision is a change, of which its journal tells.
    let deadline = Instant::now() + Duration::from_secs(10);
    while std::fs::read_to_string(&installed.files[1]).map_or(0, |t| t.lines().count()) < 2 {
        let ended = installed
            .child
            .as_mut()
            .is_some_and(|c| c.try_wait().is_ok_and(|s| s.is_some()));
        if ended || Instant::now() > deadline {
            return Err(BenchError::Dut("rxlane tune watch did not begin".into()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(installed)
}

/// A device under test at work.
#[derive(Default)]
pub struct Installed {
    child: Option<Child>,
    /// Where the daemon says that it serves.
    ear: Option<Ear>,
    /// `rxlane trace` beside it.
    tracer: Option<Child>,
    /// The command that it is.
    rxlane: PathBuf,
    /// Files that go with it: the configuration and the log of the daemon.
    files: Vec<PathBuf>,
    netns: String,
    config: String,
    /// The generator's nice level, for the daemon.
    nice: i32,
    /// Programs that are attached as long as it lives.
    links: Vec<OwnedFd>,
    xdp_forward: Option<XdpForward>,
}

/// A class that no test packet is in, for a reload that changes something.
const ONE_MORE: &str = "[[class]]\nname = \"more\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"AF41\" }]\n\n";

impl Installed {
    /// What is in the lab's router, with the files that go with it.
    fn of(lab: &Lab, files: Vec<PathBuf>) -> Self {
        let mut installed = Self::default();
        installed.rxlane = lab.config.rxlane.clone();
        installed.netns = lab.netns(Place::Router);
        installed.nice = lab.config.generator.nice();
        installed.files = files;
        installed
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        if let Some(child) = &self.child {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal);
        }
    }

    /// Traces packets as somebody at a terminal would, who reads none of it.
    fn trace(&mut self) -> Result<(), BenchError> {
        let tracer = Command::new(&self.rxlane)
            .args(["--netns", &self.netns, "trace", "--json"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        self.tracer = Some(tracer.map_err(|e| BenchError::Dut(e.to_string()))?);
        Ok(())
    }

    /// Threads of the daemon that serve packets.
    pub fn workers(&self) -> Vec<i32> {
        let Some(child) = &self.child else {
            return Vec::new();
        };
        let tasks = format!("/proc/{}/task", child.id());
        std::fs::read_dir(tasks)
            .into_iter()
            .flatten()
            .flatten()
            .filter(|task| {
                std::fs::read_to_string(task.path().join("comm"))
                    .is_ok_and(|name| name.starts_with("rxlane-rx/"))
            })
            .filter_map(|task| task.file_name().to_str()?.parse().ok())
            .collect()
    }

    /// Makes the daemon read its configuration with one more class, or without it again. Starts no
    /// process, which would disturb the machine more than the reload does.
    ///
    /// # Errors
    /// When the daemon refuses it or does not answer.
    pub fn reload(&mut self, one_more: bool) -> Result<(), BenchError> {
        let Some(path) = self.files.first() else {
            return Ok(());
        };
        let text = if one_more {
            self.config
                .replacen("[[class]]", &format!("{ONE_MORE}[[class]]"), 1)
        } else {
            self.config.clone()
        };
        std::fs::write(path, text).map_err(|source| BenchError::File {
            path: path.display().to_string(),
            source,
        })?;
        self.signal(nix::sys::signal::Signal::SIGHUP);
        match self.ready_within(RELOAD) {
            Some(said) if said.status.starts_with("refused") => Err(BenchError::Dut(said.status)),
            Some(_) => Ok(()),
            None => Err(BenchError::Dut(format!(
                "it did not answer a reload within {} s",
                RELOAD.as_secs()
            ))),
        }
    }

    fn ready_within(&mut self, time: Duration) -> Option<Said> {
        self.ear.as_ref()?.ready_within(time, self.child.as_mut()?)
    }

    /// Starts the daemon with its configuration, and waits until it serves.
    ///
    /// # Errors
    /// When it does not.
    pub fn start(&mut self) -> Result<(), BenchError> {
        let (Some(ear), [config, log, ..]) = (&self.ear, &self.files[..]) else {
            return Ok(());
        };
        let log = log.clone();
        let file = std::fs::File::create(&log).map_err(|source| BenchError::File {
            path: log.display().to_string(),
            source,
        })?;
        let mut command = Command::new(&self.rxlane);
        command
            .args(["--netns", &self.netns, "run", "--accept-bypass", "-c"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .env("RUST_LOG", "warn")
            .env("NOTIFY_SOCKET", ear.path());
        let child = session::lead(&mut command)
            .spawn()
            .map_err(|e| BenchError::Dut(e.to_string()))?;
        // One that has ended already is found below.
        if let Err(error) = session::weigh(child.id(), self.nice) {
            tracing::warn!(%error, "the daemon gets little of the generator's core");
        }
        self.child = Some(child);
        self.wait_until_attached(&log)
    }

    /// Ends the daemon by a signal: SIGTERM removes its programs, after SIGUSR1 and SIGKILL they stay.
    pub fn end(&mut self, signal: nix::sys::signal::Signal) {
        self.signal(signal);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }

    fn wait_until_attached(&mut self, log: &Path) -> Result<(), BenchError> {
        if self.ready_within(ATTACH).is_some() {
            return Ok(());
        }
        let ended = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_some());
        if self.child.as_mut().is_some_and(ended) {
            let said = last_line(log).unwrap_or_else(|| "it ended at once".into());
            return Err(BenchError::Dut(said));
        }
        let said = last_line(log).unwrap_or_else(|| "nothing".into());
        Err(BenchError::Dut(format!(
            "it did not attach within {} s; it said last: {said}",
            ATTACH.as_secs()
        )))
    }
}

fn last_line(log: &Path) -> Option<String> {
    let text = std::fs::read_to_string(log).ok()?;
    text.lines().last().map(str::to_owned)
}

impl Drop for Installed {
    fn drop(&mut self) {
        self.links.clear();
        if let Some(tracer) = &mut self.tracer {
            daemon::end(nix::unistd::Pid::from_raw(tracer.id() as i32));
            let _ = tracer.wait();
        }
        if let Some(child) = &mut self.child {
            let status = match child.try_wait() {
                Ok(None) => {
                    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
                    let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
                    child.wait().ok()
                }
                // One that was killed has been waited for, and its number may be another's.
                ended => ended.ok().flatten(),
            };
            // There is nothing to detach after one that ended by itself.
            if !status.is_some_and(|s| s.success()) {
                daemon::detach(&self.rxlane, &self.netns);
            }
        }
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}
