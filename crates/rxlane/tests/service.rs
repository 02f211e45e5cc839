//! The daemon under a service manager: what it says over the socket that `sd_notify(3)` describes.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{Background, REST, TestLab, VOICE_ALL, binary, wait_for};

fn next(socket: &UnixDatagram) -> String {
    let mut text = [0; 2048];
    let n = socket.recv(&mut text).expect("the daemon says something");
    String::from_utf8_lossy(&text[..n]).into_owned()
}

/// A socket that the daemon talks to, and where it is.
fn socket(name: &str) -> (UnixDatagram, PathBuf) {
    let path = std::env::temp_dir().join(name);
    let _ = std::fs::remove_file(&path);
    let socket = UnixDatagram::bind(&path).unwrap();
    let patience = Some(Duration::from_secs(60));
    socket.set_read_timeout(patience).unwrap();
    (socket, path)
}

#[test]
#[ignore = "needs root: make test"]
fn the_service_manager_hears_of_readiness_reloads_refusals_and_the_end() {
    let mut t = TestLab::up("notify", |_| ());
    let classes = format!("{VOICE_ALL}{REST}");
    let config = t.config("router", &classes);
    let (socket, path) = socket("t-notify.sock");
    let child = std::process::Command::new(binary())
        .args(["--netns", &t.lab.netns(Place::Router), "run"])
        .arg("-c")
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let router = Background(child);

    let ready = next(&socket);
    assert!(ready.contains("READY=1"), "{ready}");
    assert!(
        ready.contains("STATUS=serving 2 classes on in0 (native)"),
        "{ready}"
    );
    // Ready means attached: whoever waits for it may send packets at once.
    let status = t.rxlane(&["status", "--json"]);
    assert!(status.status.success());

    router.signal(Signal::SIGHUP);
    let reloading = next(&socket);
    assert!(reloading.contains("RELOADING=1"), "{reloading}");
    assert!(reloading.contains("MONOTONIC_USEC="), "{reloading}");
    assert!(next(&socket).contains("READY=1"));

    std::fs::write(&config, "ports = [").unwrap();
    router.signal(Signal::SIGHUP);
    assert!(next(&socket).contains("RELOADING=1"));
    let refused = next(&socket);
    assert!(refused.contains("READY=1"), "{refused}");
    assert!(refused.contains("STATUS=refused"), "{refused}");

    router.end(Signal::SIGTERM);
    assert!(next(&socket).contains("STOPPING=1"));
    let _ = std::fs::remove_file(&path);
}

#[test]
#[ignore = "needs root: make test"]
fn a_restart_leaves_the_lanes_and_the_watchdog_is_fed() {
    let mut t = TestLab::up("restart", |_| ());
    let config = t.config("router", &format!("{VOICE_ALL}{REST}"));
    let (socket, path) = socket("t-watchdog.sock");
    let child = std::process::Command::new(binary())
        .args(["--netns", &t.lab.netns(Place::Router), "run"])
        .arg(&config)
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "2000000")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut router = Background(child);
    assert!(next(&socket).contains("READY=1"));
    for _ in 0..3 {
        assert!(next(&socket).contains("WATCHDOG=1"));
    }
    // What RestartKillSignal= of the unit sends.
    router.signal(Signal::SIGUSR1);
    assert!(router.0.wait().unwrap().success());
    let mut log = String::new();
    std::io::Read::read_to_string(&mut router.0.stderr.take().unwrap(), &mut log).unwrap();
    assert!(log.contains("the lanes go on"), "{log}");
    // No colours in a log that is no terminal.
    assert!(!log.contains('\u{1b}'), "{log:?}");
    let left = t.status_json().expect("the lanes are there");
    assert!(left["daemon"].is_null());
    assert_eq!(left["ports"][0]["mode"], "native");
    let router = t.router_from(&config);
    assert!(t.status_json().expect("taken over")["daemon"].is_u64());
    router.end(Signal::SIGTERM);
    assert!(t.status_json().is_none(), "stopping detaches");
    let _ = std::fs::remove_file(&path);
}

/// A line of /proc/PID/task/TID/status, of every thread.
fn of_threads(pid: u32, key: &str) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .flatten()
        .map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).unwrap();
            let line = text.lines().find_map(|l| l.strip_prefix(key));
            line.expect("the kernel says so").trim().to_owned()
        })
        .collect()
}

#[test]
#[ignore = "needs root: make test"]
fn every_thread_of_the_daemon_has_given_up_what_it_does_not_need() {
    let mut t = TestLab::up("confined", |_| ());
    // The engine has threads of its own.
    let router = t.router(&format!("datapath = \"afxdp\"\n{VOICE_ALL}{REST}"));
    let pid = router.0.id();
    let threads = of_threads(pid, "NoNewPrivs:").len();
    assert!(threads > 1, "{threads}");
    assert_eq!(of_threads(pid, "NoNewPrivs:"), vec!["1"; threads]);
    assert_eq!(of_threads(pid, "Seccomp:"), vec!["2"; threads], "filtered");
    // CAP_SYS_MODULE, CAP_SYS_PTRACE, CAP_SYS_BOOT, CAP_SETUID.
    let never = 1u64 << 16 | 1 << 19 | 1 << 22 | 1 << 7;
    for set in ["CapEff:", "CapPrm:", "CapBnd:"] {
        for caps in of_threads(pid, set) {
            let caps = u64::from_str_radix(&caps, 16).unwrap();
            assert_eq!(caps & never, 0, "{set} {caps:x}");
        }
    }
    // And it still does what it must: a reload loads programs.
    t.reloaded();
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_router_left_whose_namespace_is_gone_can_be_removed() {
    let mut t = TestLab::up("gone", |_| ());
    let router = t.router(&format!("{VOICE_ALL}{REST}"));
    let netns = t.lab.netns(Place::Router);
    let pins = rxlane_system::netns::within(&netns, false, || {
        Ok(rxlane_dataplane::instance::Instance::current()
            .expect("an instance")
            .pins)
    })
    .unwrap();
    router.end(Signal::SIGKILL);
    assert!(pins.join("port_in0").exists());
    let ip = std::process::Command::new("ip")
        .args(["netns", "delete", &netns])
        .status();
    assert!(ip.unwrap().success());
    test_lab::wait_for("the namespace is gone", || {
        let out = test_lab::rxlane(&["detach", "--all"]);
        assert!(out.status.success());
        !pins.exists()
    });
}

#[test]
#[ignore = "needs root: make test"]
fn in_the_journal_lines_have_a_priority_and_fields_to_search_for() {
    let mut t = TestLab::up("journal", |_| ());
    let config = t.config("router", &format!("{VOICE_ALL}{REST}"));
    let (socket, path) = socket("t-journal.sock");
    // A journal of its own, that nobody else sees.
    let script = format!(
        "mkdir -p /run/systemd/journal && mount -t tmpfs journal /run/systemd/journal && touch /run/systemd/journal/socket && \
         mount --bind {} /run/systemd/journal/socket && exec 2>/dev/null && \
         JOURNAL_STREAM=$(stat -Lc %d:%i /proc/self/fd/2) exec {} --netns {} run {}",
        path.display(),
        binary().display(),
        t.lab.netns(Place::Router),
        config.display()
    );
    let child = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", &script])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let router = Background(child);
    wait_for("the router", || t.status_json().is_some());
    t.must(Place::Router, "ip link set in0 down && ip link del in0");
    let gone = (0..100).map(|_| next(&socket));
    let mut gone = gone.filter(|line| line.contains("port is gone"));
    let gone = gone.next().expect("a line about the port");
    for field in [
        "MESSAGE=port is gone port=in0",
        "PRIORITY=4",
        "RXLANE_PORT=in0",
        "SYSLOG_IDENTIFIER=rxlane",
        "CODE_FILE=",
    ] {
        assert!(
            gone.lines().any(|l| l.starts_with(field)),
            "{field}: {gone}"
        );
    }
    router.end(Signal::SIGTERM);
    let _ = std::fs::remove_file(&path);
}
