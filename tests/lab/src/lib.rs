//! A lab of its own for each test, and the commands under test.

#![allow(
    missing_docs,
    clippy::missing_panics_doc,
    reason = "for tests, which fail by panics"
)]

pub mod book;
pub mod bulk;
pub mod program;
pub mod slow;

use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::disturb::stolen_ms;
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::{Lab, LabConfig, Place};
use rxlane_bench::threads::Threads;
use rxlane_bench::trial::Trial;
use rxlane_policy::Pps;
use rxlane_system::session;

pub struct TestLab {
    pub lab: Lab,
    files: Vec<PathBuf>,
}

pub const VOICE_ALL: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"EF\" }]\n";
pub const VOICE_ESTABLISHED: &str = "[[class]]\nname = \"voice\"\nlane = \"express\"\ntrust = \"established\"\nmatch = [{ dscp = \"EF\" }]\n";
pub const REST: &str = "[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

impl TestLab {
    pub fn up(name: &str, change: impl FnOnce(&mut LabConfig)) -> Self {
        assert!(
            nix::unistd::geteuid().is_root(),
            "needs root: run `make test`"
        );
        let mut config = LabConfig {
            name: format!("t-{name}"),
            rxlane: binary(),
            ..LabConfig::default()
        };
        if let Ok(left_over) = Lab::find(&config.name) {
            left_over
                .down()
                .expect("an earlier run's lab can be removed");
        }
        change(&mut config);
        Self {
            lab: Lab::up(config).unwrap_or_else(|e| panic!("{e}")),
            files: Vec::new(),
        }
    }

    /// Offers far more than any core forwards through 400 rules, for a second.
    pub fn flood(&self, rt_ratio: f64) -> Trial {
        self.flood_for(rt_ratio, Duration::from_secs(1))
    }

    pub fn flood_for(&self, rt_ratio: f64, length: Duration) -> Trial {
        self.offer_while(500_000.0, rt_ratio, length, || ())
    }

    /// Offers so many packets a second, and on until something is done. Packets count for the `length` of time from its beginning.
    pub fn offer_while(
        &self,
        pps: f64,
        rt_ratio: f64,
        length: Duration,
        done: impl FnOnce(),
    ) -> Trial {
        let traffic = Traffic {
            rt_ratio,
            pattern: Pattern::Poisson,
            frame: Frame::Fixed(128),
            flows: 16,
            seed: 7,
        };
        let mut bed = Bed::new(&self.lab, &traffic).unwrap();
        bed.run_with(Pps(pps), length, &Threads::default(), done)
            .unwrap()
    }

    /// A configuration of the lab's ports, which stand for those of network cards: served in XDP.
    pub fn config(&mut self, name: &str, classes: &str) -> PathBuf {
        let ports = self.lab.router_ports();
        let named: Vec<String> = ports.iter().map(|p| format!("\"{p}\"")).collect();
        let in_xdp: Vec<String> = ports.iter().map(|p| format!("{p} = \"xdp\"")).collect();
        let (named, in_xdp) = (named.join(", "), in_xdp.join(", "));
        let text = format!("ports = [{named}]\ningress = {{ {in_xdp} }}\n{classes}");
        self.file(name, &text)
    }

    /// A whole configuration file, removed with the lab.
    pub fn file(&mut self, name: &str, text: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("{}-{name}.toml", self.lab.config.name));
        std::fs::write(&path, text).unwrap();
        self.files.push(path.clone());
        path
    }

    /// Runs a command line in a namespace of the lab.
    pub fn exec(&self, place: Place, line: &str) -> Output {
        Command::new("ip")
            .args(["netns", "exec", &self.lab.netns(place)])
            .args(["sh", "-c", line])
            .stdin(Stdio::null())
            .output()
            .expect("ip netns exec")
    }

    /// The same, and it must succeed.
    pub fn must(&self, place: Place, line: &str) -> String {
        let out = self.exec(place, line);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(
            out.status.success(),
            "{line}: {text}{}",
            String::from_utf8_lossy(&out.stderr)
        );
        text
    }

    /// A command that goes on while the test does.
    pub fn spawn(&self, place: Place, line: &str) -> Background {
        let child = Command::new("ip")
            .args(["netns", "exec", &self.lab.netns(place)])
            .args(["sh", "-c", &format!("exec {line}")])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("ip netns exec");
        Background(child)
    }

    pub fn rxlane(&self, args: &[&str]) -> Output {
        rxlane(&[&["--netns", &self.lab.netns(Place::Router)], args].concat())
    }

    /// A reload that may take as long as a machine with other work lets it.
    pub fn reload(&self, options: &[&str]) -> Output {
        self.rxlane(&[&["reload", "--timeout", "300"], options].concat())
    }

    /// One that the router takes.
    pub fn reloaded(&self) {
        let out = self.reload(&[]);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "reload: {said}");
    }

    /// Starts the router and waits until it serves.
    pub fn router(&mut self, classes: &str) -> Background {
        let config = self.config("router", classes);
        self.router_from(&config)
    }

    pub fn router_from(&self, config: &std::path::Path) -> Background {
        self.try_router_from(config)
            .unwrap_or_else(|e| panic!("{e}"))
    }

    /// The same; what the router said, if it does not start.
    pub fn try_router_from(&self, config: &std::path::Path) -> Result<Background, String> {
        let log = std::env::temp_dir().join(format!("{}.log", self.lab.config.name));
        let file = std::fs::File::create(&log).unwrap();
        let mut command = Command::new(binary());
        command
            .args([
                "--netns",
                &self.lab.netns(Place::Router),
                "run",
                "--accept-bypass",
                "-c",
            ])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file);
        let mut child = session::lead(&mut command).spawn().expect("rxlane starts");
        let pid = child.id();
        // One that has ended already is found below.
        let _ = session::weigh(pid, self.lab.config.generator.nice());
        let mut ended = false;
        wait_for("the router serves", || {
            ended = matches!(child.try_wait(), Ok(Some(_)));
            ended || self.status_json().is_some_and(|s| s["daemon"] == pid)
        });
        if ended {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            return Err(format!("rxlane run ended: {log}"));
        }
        // Attaching made new NAPI threads.
        self.lab.tune().expect("threads can be placed");
        Ok(Background(child))
    }

    /// A router of which nobody has accepted anything to be passed by, once it serves; what it says goes to `said`.
    pub fn strict_router(&self, config: &Path, said: Stdio) -> Background {
        let child = Command::new(binary())
            .args(["--netns", &self.lab.netns(Place::Router), "run", "-c"])
            .arg(config)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(said)
            .spawn()
            .expect("rxlane starts");
        let pid = child.id();
        wait_for("the router serves", || {
            self.status_json().is_some_and(|s| s["daemon"] == pid)
        });
        Background(child)
    }

    pub fn status_json(&self) -> Option<serde_json::Value> {
        let out = self.rxlane(&["status", "--json"]);
        out.status
            .success()
            .then(|| serde_json::from_slice(&out.stdout).expect("status prints JSON"))
    }

    /// A counter of a class.
    pub fn class(&self, class: &str, counter: &str) -> u64 {
        let status = self.status_json().expect("a router");
        let classes = status["classes"].as_array().unwrap();
        let found = classes
            .iter()
            .find(|c| c["name"] == class)
            .expect("the class");
        found[counter]
            .as_u64()
            .unwrap_or_else(|| panic!("no counter {counter}"))
    }

    /// Marked pings through the router, of which so many percent must be lost; how many packets of both ways were express.
    pub fn pings(&self, lost: u32) -> u64 {
        let before = self.class("voice", "express");
        let line = "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2";
        let out = self.exec(Place::Gen, line);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        assert!(text.contains(&format!(" {lost}% packet loss")), "{text}");
        self.class("voice", "express") - before
    }

    /// Talks until so many packets of one exchange are express: while the daemon looks at what has changed, as it does after
    /// its start, all is the kernel's.
    pub fn settle(&self, packets: u64, mut talk: impl FnMut()) {
        wait_for("what is said is express", || {
            let before = self.class("voice", "express");
            talk();
            self.class("voice", "express") == before + packets
        });
    }

    /// Packets of all ports left to the kernel for a reason.
    pub fn to_kernel(&self, reason: &str) -> u64 {
        let status = self.status_json().expect("a router");
        status["ports"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(|p| p["to_kernel"][reason].as_u64())
            .sum()
    }
}

impl Drop for TestLab {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = std::fs::remove_file(file);
        }
        if let Err(error) = self.lab.down() {
            eprintln!("cannot remove the lab: {error}");
        }
    }
}

/// Ends with the test.
pub struct Background(pub Child);

impl Background {
    pub fn signal(&self, signal: nix::sys::signal::Signal) {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.0.id() as i32), signal).unwrap();
    }

    /// Ends it with a signal and waits.
    pub fn end(mut self, signal: nix::sys::signal::Signal) {
        self.signal(signal);
        let _ = self.0.wait();
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The command under test: the one built with this test, or the one that RXLANE_UNDER_TEST names.
pub fn binary() -> PathBuf {
    std::env::var_os("RXLANE_UNDER_TEST").map_or_else(|| built("rxlane"), PathBuf::from)
}

/// A command that was built with this test, which is in a folder beside it.
pub fn built(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test");
    let folder = test.parent().and_then(Path::parent);
    folder.expect("the folder of commands").join(name)
}

pub fn rxlane(args: &[&str]) -> Output {
    output(&binary(), args)
}

/// The command for who measures and models.
pub fn rxlane_lab(args: &[&str]) -> Output {
    output(&built("rxlane-lab"), args)
}

fn output(command: &Path, args: &[&str]) -> Output {
    Command::new(command)
        .args(args)
        .stdin(Stdio::null())
        .output()
        .unwrap_or_else(|e| panic!("{}: {e}: build it: cargo build", command.display()))
}

/// What `rxlane-lab` prints as JSON.
pub fn json_of(args: &str) -> serde_json::Value {
    let words: Vec<&str> = args.split_whitespace().collect();
    let out = rxlane_lab(&words);
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{args}: {said}");
    serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"))
}

/// The error line of a command that must fail with one.
pub fn error_of(out: &Output) -> String {
    let text = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "must fail: {text}");
    let lines: Vec<&str> = text.lines().filter(|l| l.starts_with("rxlane")).collect();
    assert_eq!(lines.len(), 1, "one clear line: {text}");
    lines[0].to_owned()
}

/// A socket of a host in the lab, which waits half a second for what it is to receive.
pub fn udp(t: &TestLab, place: Place, address: &str) -> UdpSocket {
    let netns = t.lab.netns(place);
    let socket = rxlane_system::netns::within(&netns, false, || {
        Ok(UdpSocket::bind(address).expect("a socket"))
    })
    .expect("the namespace");
    socket
        .set_read_timeout(Some(Duration::from_millis(500)))
        .unwrap();
    socket
}

/// How many times slower than an ordinary machine this one is: RXLANE_TEST_PATIENCE, for emulated ones.
pub fn patience() -> u32 {
    let asked = std::env::var("RXLANE_TEST_PATIENCE").ok();
    asked.and_then(|times| times.parse().ok()).unwrap_or(1)
}

pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20) * patience();
    while !holds() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(20) * patience());
    }
}

/// A trial that lost nothing, or during which the hypervisor took no time from this machine: what is lost while the machine
/// stands still is no router's loss. After some tries it counts all the same.
pub fn undisturbed(mut trial: impl FnMut() -> Trial) -> Trial {
    for _ in 0..4 {
        let before = stolen_ms();
        let one = trial();
        let lost: f64 = one.classes.iter().map(|c| c.lost).sum();
        let stolen = stolen_ms().saturating_sub(before);
        if lost == 0.0 || stolen == 0 {
            return one;
        }
        println!("{lost} lost while the hypervisor took {stolen} ms: again");
    }
    trial()
}
