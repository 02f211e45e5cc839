//! What others see of a running router: metrics, and the status socket.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use rxlane_dataplane::instance::Instance;
use test_lab::{REST, TestLab, VOICE_ALL, binary, udp, wait_for};

const LISTEN: &str = "127.0.0.1:9817";

fn with_metrics(classes: &str) -> String {
    format!("{classes}[metrics]\nlisten = \"{LISTEN}\"\n")
}

fn connect(t: &TestLab) -> Option<TcpStream> {
    let stream = rxlane_system::netns::within(&t.lab.netns(Place::Router), false, || {
        Ok(TcpStream::connect(LISTEN).ok())
    });
    stream.expect("the namespace")
}

/// What comes back; nothing if nobody listens, or the other side had enough.
fn scrape(t: &TestLab) -> Option<String> {
    let mut stream = connect(t)?;
    let request = "GET /metrics HTTP/1.1\r\nHost: router\r\nAccept: */*\r\n\r\n";
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    (!text.is_empty()).then_some(text)
}

fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find_map(|l| l.strip_prefix(series));
    let line = line.unwrap_or_else(|| panic!("{text} should have {series}"));
    line.trim().parse().expect("a number")
}

/// Alerts, dashboard and book name no metric that is not there.
fn whoever_reads_metrics_finds_them(text: &str) {
    let readers = [
        include_str!("../../../contrib/prometheus/rules.yml"),
        include_str!("../../../contrib/grafana/rxlane.json"),
        include_str!("../../../docs/src/how-to/monitor.md"),
    ];
    let mut read = 0;
    for name in readers
        .iter()
        .flat_map(|r| r.split(|c: char| !(c.is_ascii_lowercase() || c == '_')))
        .filter(|word| word.starts_with("rxlane_") && !word.starts_with("rxlane_engine"))
    {
        let there = |l: &str| {
            l.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with([' ', '{']))
        };
        assert!(text.lines().any(there), "{name} is not in {text}");
        read += 1;
    }
    assert!(read > 50, "{read}");
}

fn instance_of(t: &TestLab) -> Instance {
    rxlane_system::netns::within(&t.lab.netns(Place::Router), false, || {
        Ok(Instance::current().expect("an instance"))
    })
    .expect("the namespace")
}

#[test]
#[ignore = "needs root: make test"]
fn metrics_count_what_status_counts_and_reloads_are_seen() {
    let mut t = TestLab::up("metrics", |_| ());
    // With a rate, RT packets have a bound.
    let voice = VOICE_ALL.replace("match", "police = { pps = \"10k\", burst = 100 }\nmatch");
    let config = t.config("router", &with_metrics(&format!("{voice}{REST}")));
    let router = t.router_from(&config);
    let sender = udp(&t, Place::Gen, "0.0.0.0:0");
    for _ in 0..50 {
        sender.send_to(b"hello", "10.20.0.2:4000").expect("sent");
    }
    let series = "rxlane_class_packets_total{class=\"rest\",port=\"in0\"}";
    wait_for("packets are counted", || {
        scrape(&t).is_some_and(|text| value(&text, series) >= 50.0)
    });
    let text = scrape(&t).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
    assert!(text.contains("Content-Type: application/openmetrics-text"));
    assert!(text.ends_with("# EOF\n"), "{text}");
    assert_eq!(value(&text, "rxlane_daemon_up"), 1.0);
    assert_eq!(value(&text, "rxlane_config_last_reload_successful"), 1.0);
    assert_eq!(
        value(
            &text,
            "rxlane_queue_lost_packets_total{queue=\"core\",port=\"in0\",class=\"rest\"}"
        ),
        0.0
    );
    assert_eq!(value(&text, "rxlane_port_attached{port=\"out0\"}"), 1.0);
    assert!(text.contains("rxlane_build_info{version="), "{text}");
    // Reasons that have not happened are there, too.
    value(
        &text,
        "rxlane_to_kernel_packets_total{port=\"in0\",reason=\"ttl\"}",
    );
    whoever_reads_metrics_finds_them(&text);

    std::fs::write(&config, "ports = [").unwrap();
    router.signal(Signal::SIGHUP);
    wait_for("the refused reload is seen", || {
        let text = scrape(&t).expect("an answer");
        value(&text, "rxlane_config_last_reload_successful") == 0.0
            && value(&text, "rxlane_config_reloads_total") == 1.0
    });
    // And without the daemon from the maps, in the format of the textfile collector.
    router.end(Signal::SIGKILL);
    let out = t.rxlane(&["status", "--format", "prometheus"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert!(
        text.contains("# TYPE rxlane_class_packets_total counter\n"),
        "{text}"
    );
    assert!(!text.contains("# EOF"), "{text}");
    assert_eq!(value(&text, "rxlane_daemon_up"), 0.0);
    assert!(value(&text, series) >= 50.0);
}

#[test]
#[ignore = "needs root: make test"]
fn scrapers_that_say_and_read_nothing_stop_neither_the_router_nor_others_for_good() {
    let mut t = TestLab::up("scrapers", |_| ());
    let router = t.router(&with_metrics(&format!("{VOICE_ALL}{REST}")));
    wait_for("metrics are there", || scrape(&t).is_some());
    let silent: Vec<TcpStream> = (0..40).filter_map(|_| connect(&t)).collect();
    assert_eq!(silent.len(), 40);
    // The daemon's own thread does not know of them.
    t.reloaded();
    assert!(t.rxlane(&["status"]).status.success());
    wait_for("their time is over", || scrape(&t).is_some());
    let threads = std::fs::read_dir(format!("/proc/{}/task", router.0.id()));
    assert!(threads.unwrap().count() < 16);
    drop(silent);
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_starts_although_the_port_is_taken_and_listens_once_it_is_free() {
    let mut t = TestLab::up("taken", |_| ());
    let taken = rxlane_system::netns::within(&t.lab.netns(Place::Router), false, || {
        Ok(TcpListener::bind(LISTEN).expect("free"))
    })
    .unwrap();
    let _router = t.router(&with_metrics(&format!("{VOICE_ALL}{REST}")));
    let log = std::env::temp_dir().join(format!("{}.log", t.lab.config.name));
    let mut complaints = 0;
    wait_for("the log says so", || {
        let log = std::fs::read_to_string(&log).unwrap();
        complaints = log.matches("somebody else listens there").count();
        complaints > 0
    });
    assert_eq!(complaints, 1);
    drop(taken);
    wait_for("metrics are there", || scrape(&t).is_some());
    // A reload without the table ends it.
    let _ = t.config("router", &format!("{VOICE_ALL}{REST}"));
    t.reloaded();
    wait_for("nobody listens", || connect(&t).is_none());
}

#[test]
#[ignore = "needs root: make test"]
fn metrics_may_be_on_a_socket_of_the_same_group() {
    let path = std::env::temp_dir().join("t-metrics.sock");
    let _ = std::fs::remove_file(&path);
    let mut t = TestLab::up("metricsocket", |_| ());
    let listen = format!("[metrics]\nlisten = \"{}\"\n", path.display());
    let _router = t.router(&format!("{VOICE_ALL}{REST}{listen}"));
    let ask = |what: &str| {
        let mut stream = std::os::unix::net::UnixStream::connect(&path).expect("it listens");
        write!(stream, "GET {what} HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    };
    assert_eq!(value(&ask("/metrics"), "rxlane_daemon_up"), 1.0);
    // Metrics, and nothing else.
    assert!(ask("/status").starts_with("HTTP/1.1 404"));
    let of = |path: &std::path::Path| {
        let found = std::fs::metadata(path).unwrap();
        (found.permissions().mode(), found.gid())
    };
    assert_eq!(of(&path), of(&instance_of(&t).socket()));
    let _ = std::fs::remove_file(&path);
}

/// `rxlane status` of a process that may nothing, as this user and group.
fn as_somebody(t: &TestLab, uid: &str, gid: &str) -> std::process::Output {
    let netns = t.lab.netns(Place::Router);
    Command::new("ip")
        .args(["netns", "exec", &netns, "setpriv", "--clear-groups"])
        .args(["--reuid", uid, "--regid", gid, "--inh-caps=-all"])
        .arg("--bounding-set=-all")
        .arg(binary())
        .arg("status")
        .output()
        .expect("setpriv")
}

#[test]
#[ignore = "needs root: make test"]
fn the_group_may_look_and_others_are_told_to_join_it() {
    let mut t = TestLab::up("socket", |_| ());
    let router = t.router(&format!("{VOICE_ALL}{REST}"));
    let socket = instance_of(&t).socket();
    let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o660);
    // Whatever the group is called on this machine, the socket belongs to one.
    let gid = std::fs::metadata(&socket).unwrap().gid().to_string();
    let member = as_somebody(&t, "65534", &gid);
    let said = String::from_utf8_lossy(&member.stdout).into_owned();
    assert!(member.status.success(), "{member:?}");
    assert!(said.contains("voice"), "{said}");
    assert!(said.starts_with("running (pid "), "{said}");
    let first = said.lines().next().unwrap_or_default();
    assert!(
        first.contains("; no help now: no core is overloaded"),
        "{first}"
    );
    let stranger = as_somebody(&t, "65534", "65534");
    let said = test_lab::error_of(&stranger);
    assert!(said.contains("adduser $USER rxlane"), "{said}");

    router.end(Signal::SIGKILL);
    let said = test_lab::error_of(&as_somebody(&t, "65534", &gid));
    assert!(said.contains("the daemon is gone"), "{said}");
    // The next one takes the place of the socket that was left.
    let router = t.router(&format!("{VOICE_ALL}{REST}"));
    wait_for("the socket answers", || {
        as_somebody(&t, "65534", &gid).status.success()
    });
    router.end(Signal::SIGTERM);
    assert!(!socket.exists());
    let said = test_lab::error_of(&as_somebody(&t, "65534", &gid));
    assert!(said.contains("no router runs"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn what_init_writes_for_a_machine_starts_there() {
    for firewall in ["none", "stateful:20"] {
        let mut t = TestLab::up("init", |c| c.firewall = firewall.parse().unwrap());
        let out = t.rxlane(&["init"]);
        assert!(out.status.success(), "{}", test_lab::error_of(&out));
        let text = String::from_utf8(out.stdout).unwrap();
        assert!(text.contains("ports = [\"in0\", \"out0\"]"), "{text}");
        // Nobody is believed whose flow Linux does not forward.
        assert!(text.contains("trust = \"firewall\""), "{text}");
        assert!(!text.contains("trust = \"all\""), "{text}");
        let config = t.file("init", &text);
        // Kept, because somebody may have changed it.
        let name = config.to_str().unwrap();
        let again = t.rxlane(&["init", "-o", name]);
        assert!(test_lab::error_of(&again).contains("--force"));
        let live = t.rxlane(&["check", "--live", "--json", name]);
        assert!(live.status.success(), "{}", test_lab::error_of(&live));
        let verdict: serde_json::Value = serde_json::from_slice(&live.stdout).unwrap();
        assert_eq!(verdict["fine"], true);
        let warnings = verdict["warnings"].as_array().unwrap();
        assert!(warnings.is_empty(), "{warnings:?}");
        let _router = t.router_from(&config);
    }
}
