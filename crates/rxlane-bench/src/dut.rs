//! Devices under test: the kernel alone, or rxlane in one of its configurations.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::BenchError;
use crate::lab::{Lab, Place};

/// What forwards.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dut {
    /// Plain Linux forwarding.
    Kernel,
    /// Whatever is behind real ports.
    External,
    /// rxlane with the benchmark's configuration of that name.
    Rxlane(String, String),
    /// Plain Linux forwarding under `rxlane tune watch` with these options.
    Watched(String, Vec<String>),
}

/// RT is what the benchmark marks EF.
fn voice(trust: &str) -> String {
    format!(
        "[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"{trust}\"\nmatch = [{{ dscp = \"EF\" }}]\n\n"
    )
}

fn rest(keys: &str) -> String {
    format!("[[class]]\nname = \"be\"\nlane = \"stack\"\n{keys}")
}

/// Names that `--dut` takes, with what each is.
pub const DUTS: [(&str, &str); 12] = [
    ("kernel", "plain Linux forwarding"),
    ("express", "RT express, BE by the stack, defaults otherwise"),
    (
        "express-established",
        "the same with trust = \"established\"",
    ),
    ("express-throughput", "the same with aim = \"throughput\""),
    (
        "express-queue",
        "the same with overload = \"queue\" on the polling core",
    ),
    ("express-all", "everything express"),
    ("express-rules", "as express, behind 255 more rules"),
    (
        "afxdp",
        "the AF_XDP engine forwards both classes; see --strategy, --prb, --itr",
    ),
    (
        "afxdp-mixed",
        "the engine forwards RT and gives BE to the stack",
    ),
    (
        "afxdp-stack",
        "the engine's rings and budgets in front of the stack, which forwards both",
    ),
    (
        "watch-LAW",
        "plain Linux forwarding under rxlane tune watch with the law linear, linear:R_MAX:R_MIN:RHO_MAX, three-state or net-dim",
    ),
    ("external", "a router behind --in and --out"),
];

impl std::str::FromStr for Dut {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let classes = match text {
            "kernel" => return Ok(Self::Kernel),
            "external" => return Ok(Self::External),
            "express" => voice("all") + &rest(""),
            "express-established" => voice("established") + &rest(""),
            "express-throughput" => voice("all") + &rest("aim = \"throughput\"\n"),
            "express-queue" => voice("all") + &rest("overload = \"queue\"\n"),
            "express-all" => {
                voice("all") + "[[class]]\nname = \"be\"\nlane = \"express\"\ntrust = \"all\"\n"
            }
            "afxdp" | "afxdp-mixed" | "afxdp-stack" => return Engine::default().dut(text),
            "express-rules" => many_rules() + &voice("all") + &rest(""),
            _ if text.starts_with("watch-") => return watched(text),
            _ => {
                let names: Vec<&str> = DUTS.iter().map(|(n, _)| *n).collect();
                return Err(format!(
                    "`{text}` is no device under test: use {}",
                    names.join(", ")
                ));
            }
        };
        Ok(Self::Rxlane(text.into(), classes))
    }
}

/// Variants of the AF_XDP engine.
#[derive(Debug, Clone, Default)]
pub struct Engine {
    /// `sq`, `rr`, `ll-rr`, `ll-wfq`; the default where there is none.
    pub strategy: Option<String>,
    /// Ring budgets, BE first.
    pub prb: Option<Vec<u32>>,
    /// `off`, `three-state`, `linear`, `net-dim`, `linear:R_MAX:R_MIN:RHO_MAX`, or an interval for `static`, ns.
    pub itr: Option<String>,
}

impl Engine {
    /// `afxdp`, `afxdp-mixed` or `afxdp-stack` with these settings.
    ///
    /// # Errors
    /// An unknown strategy or algorithm.
    pub fn dut(&self, base: &str) -> Result<Dut, String> {
        let mut name = base.to_owned();
        let mut keys = String::new();
        if let Some(strategy) = &self.strategy {
            if !["sq", "rr", "ll-rr", "ll-wfq"].contains(&strategy.as_str()) {
                return Err(format!(
                    "`{strategy}` is no strategy: use sq, rr, ll-rr or ll-wfq"
                ));
            }
            name += &format!("-{strategy}");
            keys += &format!("strategy = \"{strategy}\"\n");
        }
        let budgeted = !matches!(self.strategy.as_deref(), Some("sq" | "rr"));
        match (&self.prb, self.strategy.as_deref()) {
            (Some(prb), Some("ll-rr")) => keys += &format!("prb = {:?}\n", &prb[..1]),
            (Some(prb), _) if budgeted => keys += &format!("prb = {prb:?}\n"),
            _ => {}
        }
        if let Some(itr) = &self.itr {
            name += &format!("-{itr}");
            keys += &throttling(itr)?;
        }
        let forwarded = "lane = \"express\"\ntrust = \"all\"\n";
        let by_stack = "lane = \"stack\"\n";
        let (rt, be) = match base {
            "afxdp-stack" => (by_stack, by_stack),
            "afxdp-mixed" => (forwarded, by_stack),
            _ => (forwarded, forwarded),
        };
        let text = format!(
            "datapath = \"afxdp\"\n[afxdp]\n{keys}\n[[class]]\nname = \"rt\"\n{rt}match = [{{ dscp = \"EF\" }}]\n\n[[class]]\nname = \"be\"\n{be}"
        );
        Ok(Dut::Rxlane(name, text))
    }
}

/// The configuration's `itr` for a word of `--itr`.
fn throttling(word: &str) -> Result<String, String> {
    if let Ok(ns) = word.parse::<u64>() {
        return Ok(format!(
            "itr = {{ algorithm = \"static\", interval_ns = {ns} }}\n"
        ));
    }
    if ["off", "three-state", "linear", "net-dim"].contains(&word) {
        return Ok(format!("itr = \"{word}\"\n"));
    }
    let law: Option<Vec<f64>> = word
        .strip_prefix("linear:")
        .and_then(|law| law.split(':').map(|n| n.parse().ok()).collect());
    match law.as_deref() {
        Some([r_max, r_min, rho_max]) => Ok(format!(
            "itr = {{ algorithm = \"linear\", r_max = {r_max:?}, r_min = {r_min:?}, rho_max_pps = {rho_max:?} }}\n"
        )),
        _ => Err(format!(
            "`{word}` is no throttling: use off, three-state, linear, net-dim, linear:R_MAX:R_MIN:RHO_MAX (per second), or an interval in ns"
        )),
    }
}

/// `watch-LAW`.
fn watched(name: &str) -> Result<Dut, String> {
    let law = name.trim_start_matches("watch-");
    let mut parts = law.split(':');
    let algorithm = parts.next().unwrap_or_default();
    if !["linear", "three-state", "net-dim"].contains(&algorithm) {
        return Err(format!(
            "`{law}` is no law of rxlane tune watch: use linear, linear:R_MAX:R_MIN:RHO_MAX, three-state or net-dim"
        ));
    }
    let mut options = vec!["--law".to_owned(), algorithm.to_owned()];
    let numbers: Vec<&str> = parts.collect();
    if !numbers.is_empty() {
        let all = algorithm == "linear" && numbers.len() == 3;
        if !all || numbers.iter().any(|n| n.parse::<f64>().is_err()) {
            return Err(format!(
                "`{law}`: write linear:R_MAX:R_MIN:RHO_MAX, per second"
            ));
        }
        for (option, number) in ["--r-max", "--r-min", "--rho-max"].iter().zip(numbers) {
            options.extend([(*option).to_owned(), number.to_owned()]);
        }
    }
    Ok(Dut::Watched(name.into(), options))
}

/// Rules that no test packet matches, over several fields.
fn many_rules() -> String {
    let mut text = String::from("[[class]]\nname = \"others\"\nlane = \"stack\"\nmatch = [\n");
    for i in 0..255u32 {
        text += &format!(
            "  {{ src = \"192.0.{}.{}\", dscp = {}, protocol = \"tcp\", dst_port = {} }},\n",
            i / 250,
            i % 250,
            i % 46,
            1000 + i
        );
    }
    text + "]\n\n"
}

impl Dut {
    /// Its name in results.
    pub fn name(&self) -> &str {
        match self {
            Self::Kernel => "kernel",
            Self::External => "external",
            Self::Rxlane(name, _) | Self::Watched(name, _) => name,
        }
    }

    /// The configuration without its ports; `None` where there is none.
    pub fn classes(&self) -> Option<&str> {
        match self {
            Self::Kernel | Self::External | Self::Watched(..) => None,
            Self::Rxlane(_, classes) => Some(classes),
        }
    }

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
        let Self::Rxlane(name, classes) = self else {
            return Ok(Installed {
                child: None,
                files: Vec::new(),
                netns: String::new(),
                config: String::new(),
            });
        };
        let ports: Vec<String> = lab
            .router_ports()
            .iter()
            .map(|p| format!("\"{p}\""))
            .collect();
        let text = format!("ports = [{}]\n\n{classes}", ports.join(", "));
        let path =
            std::env::temp_dir().join(format!("rxlane-bench-{}-{name}.toml", std::process::id()));
        let file_error = |source| BenchError::File {
            path: path.display().to_string(),
            source,
        };
        let mut file = std::fs::File::create(&path).map_err(file_error)?;
        file.write_all(text.as_bytes()).map_err(file_error)?;
        let netns = lab.netns(Place::Router);
        let log_path = path.with_extension("log");
        let log = std::fs::File::create(&log_path).map_err(file_error)?;
        let child = Command::new(executable()?)
            .args(["--netns", &netns, "run", "--accept-bypass", "-c"])
            .arg(&path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.try_clone().map_err(file_error)?)
            .env("RUST_LOG", "warn")
            .spawn()
            .map_err(|e| BenchError::Dut(e.to_string()))?;
        let mut installed = Installed {
            child: Some(child),
            files: vec![path.clone(), log_path.clone()],
            netns,
            config: text,
        };
        installed.wait_until_attached(&log_path)?;
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
    let child = Command::new(executable()?)
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
    let mut installed = Installed {
        child: Some(child),
        files: vec![journal.clone(), journal.with_extension("watch.journal")],
        netns,
        config: String::new(),
    };
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

fn executable() -> Result<PathBuf, BenchError> {
    std::env::var_os("RXLANE_EXE")
        .map_or_else(std::env::current_exe, |e| Ok(e.into()))
        .map_err(|e| BenchError::Dut(format!("cannot find the program itself: {e}")))
}

/// A device under test at work.
pub struct Installed {
    child: Option<Child>,
    /// Configuration, log.
    files: Vec<PathBuf>,
    netns: String,
    config: String,
}

/// A class that no test packet is in, for a reload that changes something.
const ONE_MORE: &str = "[[class]]\nname = \"more\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"AF41\" }]\n\n";

impl Installed {
    fn in_netns<T: Send>(
        &self,
        f: impl FnOnce(rxlane_dataplane::instance::Instance) -> T + Send,
    ) -> Result<Option<T>, BenchError> {
        Ok(rxlane_system::netns::within(&self.netns, false, || {
            Ok(rxlane_dataplane::instance::Instance::current().ok().map(f))
        })?)
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        if let Some(child) = &self.child {
            let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(child.id() as i32), signal);
        }
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
    pub fn reload(&self, one_more: bool) -> Result<(), BenchError> {
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
        let before = self.in_netns(|i| i.reload_count())?;
        self.signal(nix::sys::signal::Signal::SIGHUP);
        let deadline = Instant::now() + Duration::from_secs(5);
        while Instant::now() < deadline {
            if self.in_netns(|i| i.reload_count())? > before {
                return match self.in_netns(|i| i.reload_error())?.flatten() {
                    None => Ok(()),
                    Some(error) => Err(BenchError::Dut(error)),
                };
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err(BenchError::Dut(
            "it did not answer a reload within 5 s".into(),
        ))
    }

    /// Kills the daemon; its programs stay.
    pub fn kill(&mut self) {
        self.signal(nix::sys::signal::Signal::SIGKILL);
        if let Some(child) = &mut self.child {
            let _ = child.wait();
        }
    }

    fn wait_until_attached(&mut self, log: &Path) -> Result<(), BenchError> {
        let Some(child) = &mut self.child else {
            return Ok(());
        };
        let deadline = Instant::now() + Duration::from_secs(20);
        while Instant::now() < deadline {
            if let Ok(Some(_)) = child.try_wait() {
                let text = std::fs::read_to_string(log).unwrap_or_default();
                return Err(BenchError::Dut(
                    text.lines().last().unwrap_or("it ended at once").into(),
                ));
            }
            let pid = child.id();
            let ready = rxlane_system::netns::within(&self.netns, false, || {
                Ok(rxlane_dataplane::instance::Instance::current()
                    .ok()
                    .and_then(|i| i.load_state())
                    .is_some_and(|s| s.pid == pid))
            })?;
            if ready {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Err(BenchError::Dut("it did not attach within 20 s".into()))
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let pid = nix::unistd::Pid::from_raw(child.id() as i32);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
            let _ = child.wait();
            // What a killed daemon left; there is nothing to detach after one that ended by itself.
            let _ = rxlane_system::netns::within(&self.netns, false, || {
                let _ = rxlane_dataplane::router::detach_orphan();
                Ok(())
            });
        }
        for path in &self.files {
            let _ = std::fs::remove_file(path);
        }
    }
}
