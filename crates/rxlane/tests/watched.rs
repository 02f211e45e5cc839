//! What those who watch a router can do to it and to one another: nothing.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use rxlane_dataplane::instance::Instance;
use test_lab::{Background, REST, TestLab, VOICE_ALL, wait_for};

const LISTEN: &str = "127.0.0.1:9818";

fn router(t: &mut TestLab) -> Background {
    t.router(&format!(
        "{VOICE_ALL}{REST}[metrics]\nlisten = \"{LISTEN}\"\n"
    ))
}

fn socket_of(t: &TestLab) -> PathBuf {
    within(t, || Instance::current().expect("an instance").socket())
}

fn within<T: Send>(t: &TestLab, what: impl FnOnce() -> T + Send) -> T {
    rxlane_system::netns::within(&t.lab.netns(Place::Router), false, || Ok(what()))
        .expect("the namespace")
}

fn metrics(t: &TestLab) -> Option<TcpStream> {
    within(t, || TcpStream::connect(LISTEN).ok())
}

/// The first line of what comes back.
fn answer(stream: &mut (impl Read + Write), request: &[u8]) -> String {
    // Whoever has heard enough closes, which the writer may find out.
    let _ = stream.write_all(request);
    let mut text = Vec::new();
    let _ = stream.read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    text.lines().next().unwrap_or_default().to_owned()
}

fn status_answers(socket: &Path) -> bool {
    let mut stream = UnixStream::connect(socket).expect("it listens");
    stream
        .set_read_timeout(Some(Duration::from_secs(20)))
        .unwrap();
    answer(&mut stream, b"GET /status.json HTTP/1.1\r\n\r\n") == "HTTP/1.1 200 OK"
}

#[test]
#[ignore = "needs root: make test"]
fn whoever_holds_connections_to_metrics_keeps_nobody_from_the_status_nor_from_metrics() {
    let mut t = TestLab::up("starved", |_| ());
    let router = router(&mut t);
    let socket = socket_of(&t);
    wait_for("metrics are there", || metrics(&t).is_some());
    // Half a request, and then nothing.
    let mut held = Vec::new();
    for _ in 0..20 {
        for _ in 0..10 {
            let mut stream = metrics(&t).expect("it listens");
            let _ = stream.write_all(b"GET /m");
            held.push(stream);
        }
        assert!(status_answers(&socket));
    }
    wait_for("metrics answer beside those", || {
        let mut stream = metrics(&t).expect("it listens");
        answer(&mut stream, b"GET /metrics HTTP/1.1\r\n\r\n") == "HTTP/1.1 200 OK"
    });
    let threads = std::fs::read_dir(format!("/proc/{}/task", router.0.id()));
    assert!(threads.unwrap().count() < 24);
}

#[test]
#[ignore = "needs root: make test"]
fn a_thousand_connections_to_the_socket_keep_the_next_one_waiting_and_no_more() {
    let mut t = TestLab::up("thousand", |_| ());
    let router = router(&mut t);
    let socket = socket_of(&t);
    let flood = std::thread::spawn({
        let socket = socket.clone();
        move || {
            let all: Vec<UnixStream> = (0..1000)
                .filter_map(|i| {
                    let mut stream = UnixStream::connect(&socket).ok()?;
                    // Some ask and do not read what comes.
                    if i % 2 == 0 {
                        let _ = stream.write_all(b"GET /status.json HTTP/1.1\r\n\r\n");
                    }
                    Some(stream)
                })
                .collect();
            all.len()
        }
    });
    wait_for("the status answers meanwhile", || status_answers(&socket));
    assert_eq!(flood.join().unwrap(), 1000);
    wait_for("and afterwards", || status_answers(&socket));
    // The daemon's own thread does not know of them.
    t.reloaded();
    let open = std::fs::read_dir(format!("/proc/{}/fd", router.0.id()));
    assert!(open.unwrap().count() < 300);
}

#[test]
#[ignore = "needs root: make test"]
fn long_and_odd_requests_are_answered_with_what_is_wrong_with_them() {
    let mut t = TestLab::up("odd", |_| ());
    let _router = router(&mut t);
    let socket = socket_of(&t);
    let asked = |request: &[u8]| {
        let mut stream = UnixStream::connect(&socket).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        answer(&mut stream, request)
    };
    let header = format!("GET / HTTP/1.1\r\nX: {}\r\n\r\n", "x".repeat(9000));
    assert!(asked(header.as_bytes()).starts_with("HTTP/1.1 431"));
    let many = format!("GET / HTTP/1.1\r\n{}\r\n", "X: x\r\n".repeat(100));
    assert!(asked(many.as_bytes()).starts_with("HTTP/1.1 431"));
    assert!(asked(&[0; 64]).starts_with("HTTP/1.1 400"));
    assert!(asked(b"DELETE /status HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(asked(b"GET /../../etc/shadow HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    // Half of one is closed without an answer.
    assert_eq!(asked(b"GET /status HTTP/1.1\r\n"), "");
    assert!(status_answers(&socket));
}

/// A line of /proc/PID/task/TID/status, of every thread, by its name.
fn of_threads(pid: u32, key: &str) -> Vec<(String, String)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks
        .flatten()
        .filter_map(|task| {
            let text = std::fs::read_to_string(task.path().join("status")).ok()?;
            let of = |key: &str| {
                text.lines()
                    .find_map(|l| l.strip_prefix(key))
                    .map(str::trim)
            };
            Some((of("Name:")?.to_owned(), of(key)?.to_owned()))
        })
        .collect()
}

#[test]
#[ignore = "needs root: make test"]
fn whoever_answers_strangers_has_no_capability() {
    let mut t = TestLab::up("powerless", |_| ());
    let router = router(&mut t);
    let pid = router.0.id();
    let _idle = UnixStream::connect(socket_of(&t)).unwrap();
    let mut answering = Vec::new();
    wait_for("somebody answers", || {
        answering = of_threads(pid, "CapPrm:");
        answering.retain(|(name, _)| name == "rxlane-observe" || name == "rxlane-answer");
        answering.len() >= 2
    });
    assert!(
        answering
            .iter()
            .all(|(_, caps)| caps.trim_start_matches('0').is_empty()),
        "{answering:?}"
    );
    // Metrics may move to a folder that is another's: the daemon's own thread makes the socket.
    let folder = std::env::temp_dir().join("t-powerless");
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir(&folder).unwrap();
    nix::unistd::chown(&folder, Some(65534.into()), Some(65534.into())).unwrap();
    std::fs::set_permissions(&folder, PermissionsExt::from_mode(0o700)).unwrap();
    let listen = folder.join("m.sock");
    t.config(
        "router",
        &format!(
            "{VOICE_ALL}{REST}[metrics]\nlisten = \"{}\"\n",
            listen.display()
        ),
    );
    t.reloaded();
    wait_for("metrics are there", || {
        UnixStream::connect(&listen).is_ok_and(|mut stream| {
            answer(&mut stream, b"GET /metrics HTTP/1.1\r\n\r\n") == "HTTP/1.1 200 OK"
        })
    });
    drop(router);
    std::fs::remove_dir_all(&folder).unwrap();
}

/// What a process of nobody's is told that opens a file for reading, as who wants a read lock on it must.
fn opened_by_nobody(file: &Path) -> String {
    let out = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat"])
        .arg(file)
        .output()
        .expect("setpriv");
    String::from_utf8_lossy(&out.stderr).into_owned()
}

#[test]
#[ignore = "needs root: make test"]
fn whatever_the_umask_files_are_roots_alone_and_the_group_still_may_look() {
    let mut t = TestLab::up("umask", |_| ());
    let config = t.config("router", &format!("{VOICE_ALL}{REST}"));
    for umask in ["000", "022", "077"] {
        let line = format!(
            "umask {umask} && exec {} --netns {} run --accept-bypass -c {}",
            test_lab::binary().display(),
            t.lab.netns(Place::Router),
            config.display()
        );
        let child = Command::new("sh").args(["-c", &line]).spawn();
        let router = Background(child.expect("sh"));
        wait_for("the router serves", || {
            t.status_json().is_some_and(|s| s["daemon"].is_u64())
        });
        let socket = socket_of(&t);
        wait_for("its socket answers", || {
            socket.exists() && status_answers(&socket)
        });
        let run = socket.parent().unwrap();
        // A reload leaves files of its own.
        t.reloaded();
        for folder in [run, run.parent().unwrap()] {
            let mode = std::fs::metadata(folder).unwrap().mode();
            assert_eq!(mode & 0o7777, 0o755, "{umask} {folder:?}");
        }
        let mut files = vec![run.parent().unwrap().join("gro-normal-batch.lock")];
        files.extend(std::fs::read_dir(run).unwrap().flatten().map(|e| e.path()));
        files.retain(|f| f.exists() && *f != socket);
        assert!(files.len() >= 3, "{files:?}");
        for file in &files {
            let mode = std::fs::metadata(file).unwrap().mode();
            assert_eq!(mode & 0o777, 0o600, "{umask} {file:?}");
            let said = opened_by_nobody(file);
            assert!(said.contains("Permission denied"), "{said}");
        }
        let group = std::fs::metadata(&socket).unwrap();
        assert_eq!(group.mode() & 0o777, 0o660);
        router.end(Signal::SIGTERM);
        wait_for("it is gone", || !run.exists());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_start_attaches_anew_where_what_an_earlier_daemon_left_cannot_be_taken_over() {
    let mut t = TestLab::up("anew", |_| ());
    const VERSION: &str = concat!("\"version\":\"", env!("CARGO_PKG_VERSION"), "\"");
    let other = |state: &str| state.replace(VERSION, "\"version\":\"0.0.1\"");
    let broken = |state: &str| state[..state.len() / 2].to_owned();
    for left in [other as fn(&str) -> String, broken] {
        let router = router(&mut t);
        let state = socket_of(&t).parent().unwrap().join("state.json");
        router.end(Signal::SIGKILL);
        let written = || std::fs::read_to_string(&state).unwrap_or_default();
        std::fs::write(&state, left(&written())).unwrap();
        let router = self::router(&mut t);
        wait_for("it has a state of its own", || {
            let state = written();
            state.contains(VERSION) && state.ends_with('}')
        });
        let status = t.status_json().expect("it is attached anew");
        assert!(status["daemon"].is_u64());
        assert_eq!(status["ports"][0]["mode"], "native");
        router.end(Signal::SIGTERM);
        assert!(t.status_json().is_none());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn files_that_an_earlier_daemon_left_open_to_all_are_closed_and_odd_ones_refused() {
    let mut t = TestLab::up("leftover", |_| ());
    let router = router(&mut t);
    let run = socket_of(&t).parent().unwrap().to_owned();
    router.end(Signal::SIGKILL);
    for file in ["lock", "state.json"] {
        std::fs::set_permissions(run.join(file), PermissionsExt::from_mode(0o644)).unwrap();
    }
    let router = self::router(&mut t);
    for file in ["lock", "state.json"] {
        let mode = std::fs::metadata(run.join(file)).unwrap().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    router.end(Signal::SIGKILL);
    // Opening a pipe would wait for a reader for ever.
    std::fs::remove_file(run.join("lock")).unwrap();
    nix::unistd::mkfifo(&run.join("lock"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let config = t.config("router", &format!("{VOICE_ALL}{REST}"));
    let refused = t.rxlane(&["run", "-c", config.to_str().unwrap()]);
    assert!(test_lab::error_of(&refused).contains("lock"), "{refused:?}");
    std::fs::remove_file(run.join("lock")).unwrap();
    assert!(t.rxlane(&["detach"]).status.success());
}
