//! FRR in a namespace of a lab: some of its daemons, with all their files in a folder of their own.

use std::os::unix::fs::chown;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use nix::unistd::User;
use rxlane_bench::lab::Place;
use serde_json::Value;
use test_lab::{Background, TestLab, wait_for};

/// Nothing keeps a daemon from running: a router's daemons have cores of their own. Its threads take turns: one of bgpd's may wait for
/// another without sleeping.
pub(crate) const ALWAYS: &str = "chrt -r 1";
/// As much of the core as the generator: what takes a daemon seconds must not end the load meanwhile.
pub(crate) const SHARING: &str = "sh -c 'renice -n -10 -p $$ >/dev/null; exec \"$@\"' -";

/// Where Debian has the daemons.
const DAEMONS: &str = "/usr/lib/frr";

pub(crate) struct Frr {
    folder: PathBuf,
    daemons: Vec<(String, Background)>,
}

impl Frr {
    /// Starts zebra and some more daemons, each with its configuration, on the core of the traffic.
    pub(crate) fn up(
        t: &TestLab,
        place: Place,
        scheduling: &str,
        daemons: &[(&str, String)],
    ) -> Self {
        let folder = std::env::temp_dir().join(format!("{}-frr", t.lab.netns(place)));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("a folder");
        // They give root up, and make their sockets and logs after that.
        let frr = User::from_name("frr").expect("users can be read");
        let frr = frr.expect("the user frr, whom the package frr makes: make test");
        chown(&folder, Some(frr.uid.as_raw()), Some(frr.gid.as_raw())).expect("its folder");
        let mut this = Self {
            folder,
            daemons: Vec::new(),
        };
        this.start(t, place, scheduling, "zebra", "");
        wait_for("zebra listens", || this.folder.join("zserv").exists());
        for (daemon, config) in daemons {
            this.start(t, place, scheduling, daemon, config);
        }
        this
    }

    fn start(&mut self, t: &TestLab, place: Place, scheduling: &str, daemon: &str, config: &str) {
        let folder = self.folder.display();
        let file = self.folder.join(format!("{daemon}.conf"));
        let text = format!("log file {folder}/{daemon}.log\n{config}");
        std::fs::write(&file, text).expect("a file");
        let own = match daemon {
            "bfdd" => format!("--bfdctl {folder}/bfdd.ctl"),
            _ => String::new(),
        };
        let line = format!(
            "taskset -c {} {scheduling} {DAEMONS}/{daemon} --vty_socket {folder} -z {folder}/zserv -i {folder}/{daemon}.pid -f {} -P 0 {own}",
            t.lab.config.traffic_core,
            file.display(),
        );
        self.daemons
            .push((daemon.to_owned(), t.spawn(place, &line)));
    }

    /// What `vtysh` shows of something; null while the daemon is not there yet.
    pub(crate) fn show(&self, what: &str) -> Value {
        let shown = Command::new("vtysh")
            .arg("--vty_socket")
            .arg(&self.folder)
            .args(["-c", &format!("show {what} json")])
            .stdin(Stdio::null())
            .output()
            .expect("vtysh, of the package frr: make test");
        serde_json::from_slice(&shown.stdout).unwrap_or_default()
    }

    /// How many lines of a daemon's log say something.
    pub(crate) fn logged(&self, daemon: &str, text: &str) -> u64 {
        let log = self.folder.join(format!("{daemon}.log"));
        let log = std::fs::read_to_string(log).unwrap_or_default();
        log.lines().filter(|line| line.contains(text)).count() as u64
    }

    pub(crate) fn signal(&self, daemon: &str, signal: Signal) {
        let found = self.daemons.iter().find(|(name, _)| name == daemon);
        found.expect("a daemon that was started").1.signal(signal);
    }
}

impl Drop for Frr {
    /// Asked to end, zebra takes its routes out of the kernel.
    fn drop(&mut self) {
        for (_, daemon) in self.daemons.drain(..).rev() {
            daemon.end(Signal::SIGTERM);
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
