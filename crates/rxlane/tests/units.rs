//! What the units of systemd do, by calling what they call in the order in which systemd does.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{Background, REST, TestLab, VOICE_ALL, binary, error_of, wait_for};

const SERVICE: &str = include_str!("../../../contrib/systemd/rxlane.service");
const LANES: &str = include_str!("../../../contrib/systemd/rxlane-lanes.service");

/// What a unit says to a key, over all its lines.
fn said<'a>(unit: &'a str, key: &str) -> Vec<&'a str> {
    let lines = unit.lines().filter_map(|l| l.split_once('='));
    let of_key = lines.filter(|(k, _)| *k == key);
    of_key.flat_map(|(_, v)| v.split_whitespace()).collect()
}

/// The arguments of the command that a unit has for a key, with the test's file instead of the packaged one.
fn arguments(unit: &str, key: &str, config: &Path) -> Vec<String> {
    let mut words = said(unit, key).into_iter();
    let program = words.next().expect("a command");
    assert_eq!(program.trim_start_matches('-'), "/usr/sbin/rxlane");
    words
        .filter(|word| *word != "$OPTIONS")
        .map(|word| match word {
            "/etc/rxlane/rxlane.toml" => config.display().to_string(),
            word => word.to_owned(),
        })
        .collect()
}

fn call(t: &TestLab, unit: &str, key: &str, config: &Path) -> Output {
    let arguments = arguments(unit, key, config);
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    t.rxlane(&arguments)
}

fn log_of(t: &TestLab) -> PathBuf {
    std::env::temp_dir().join(format!("{}-unit.log", t.lab.config.name))
}

/// What starting the unit starts; what it said, if it ends.
fn start(t: &TestLab, config: &Path) -> Result<Background, String> {
    let log = log_of(t);
    let child = Command::new(binary())
        .args(["--netns", &t.lab.netns(Place::Router)])
        .args(arguments(SERVICE, "ExecStart", config))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log).unwrap())
        .spawn()
        .unwrap();
    let mut router = Background(child);
    let mut ended = false;
    wait_for("the router serves or has ended", || {
        ended = matches!(router.0.try_wait(), Ok(Some(_)));
        let text = std::fs::read_to_string(&log).unwrap();
        ended || text.contains("serving ")
    });
    let text = std::fs::read_to_string(&log).unwrap();
    if ended { Err(text) } else { Ok(router) }
}

/// Ends the daemon as a restart of the unit does.
fn end_for_a_restart(router: Background) {
    assert_eq!(said(SERVICE, "RestartKillSignal"), ["SIGUSR1"]);
    router.end(Signal::SIGUSR1);
}

fn classes(t: &TestLab) -> Vec<String> {
    let status = t.status_json().expect("a router");
    let classes = status["classes"].as_array().unwrap().iter();
    classes
        .map(|c| c["name"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn the_unit_of_the_lanes_lives_as_long_as_somebody_may_take_them_over() {
    // Stopped by systemd once rxlane.service is neither active nor about to be started again.
    assert_eq!(said(LANES, "StopWhenUnneeded"), ["yes"]);
    assert_eq!(said(LANES, "RemainAfterExit"), ["yes"]);
    let unit = "rxlane-lanes.service";
    for key in ["Wants", "After"] {
        assert!(said(SERVICE, key).contains(&unit), "{key}");
    }
    // Installed with the other.
    for file in [
        include_str!("../Cargo.toml"),
        include_str!("../../../Makefile"),
    ] {
        assert!(file.contains(unit));
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_failed_unit_has_left_is_removed_and_a_running_router_is_not() {
    let mut t = TestLab::up("unitfail", |_| ());
    let config = t.config("router", &format!("{VOICE_ALL}{REST}"));
    let router = start(&t, &config).unwrap();
    let refused = call(&t, LANES, "ExecStop", &config);
    assert!(error_of(&refused).contains("already running"));
    assert!(t.status_json().is_some());
    // Killed, as by a watchdog, once too often.
    router.end(Signal::SIGKILL);
    assert!(t.status_json().is_some(), "the lanes go on");
    assert!(call(&t, LANES, "ExecStop", &config).status.success());
    assert!(t.status_json().is_none());
    // After an ordinary stop there is nothing to do, which the unit does not mind.
    let router = start(&t, &config).unwrap();
    router.end(Signal::SIGTERM);
    assert!(t.status_json().is_none());
    assert!(said(LANES, "ExecStop")[0].starts_with('-'));
    assert!(error_of(&call(&t, LANES, "ExecStop", &config)).contains("no router"));
}

#[test]
#[ignore = "needs root: make test"]
fn a_restart_with_a_file_that_is_wrong_keeps_the_configuration_in_force() {
    let mut t = TestLab::up("unitfile", |_| ());
    let metrics = "[metrics]\nlisten = \"127.0.0.1:9819\"\n";
    let good = format!("{VOICE_ALL}{REST}{metrics}");
    let config = t.config("router", &good);
    let ports = std::fs::read_to_string(&config).unwrap();
    let wrong: [(&str, &str, Option<String>); 4] = [
        ("syntax", "unclosed", Some("ports = [".into())),
        (
            "senseless",
            "is no DSCP",
            Some(ports.replace("\"EF\"", "99")),
        ),
        ("missing", "No such file", None),
        // check cannot know which cores the router's machine has.
        (
            "impossible",
            "core 4000 does not exist",
            Some(ports.replace("lane = \"stack\"\n", "lane = \"stack\"\ncores = [4000]\n")),
        ),
    ];
    let mut router = start(&t, &config).unwrap();
    for (name, _, text) in wrong {
        end_for_a_restart(router);
        match &text {
            Some(text) => std::fs::write(&config, text).unwrap(),
            None => std::fs::remove_file(&config).unwrap(),
        }
        router = start(&t, &config).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(classes(&t), ["voice", "rest"], "{name}");
        let log = std::fs::read_to_string(log_of(&t)).unwrap();
        let kept = "keeping the configuration that was in force before";
        assert!(log.contains(kept), "{name}: {log}");
        wait_for("the status says so", || {
            !t.status_json().expect("a router")["reload_refused"].is_null()
        });
        wait_for("metrics are where they were", || {
            let listen = "curl -s http://127.0.0.1:9819/metrics";
            t.must(Place::Router, listen)
                .contains("rxlane_config_last_reload_successful 0")
        });
        // With the file mended, all is as ever.
        let mended = good.replace("voice", name);
        t.config("router", &mended);
        assert!(call(&t, SERVICE, "ExecReload", &config).status.success());
        assert_eq!(classes(&t), [name, "rest"]);
        assert!(t.status_json().unwrap()["reload_refused"].is_null());
        t.config("router", &good);
        assert!(call(&t, SERVICE, "ExecReload", &config).status.success());
    }
    router.end(Signal::SIGTERM);
    // Where nothing is in force there is nothing to keep.
    std::fs::write(&config, "ports = [").unwrap();
    let said = start(&t, &config).err().expect("no start");
    assert!(said.contains("rxlane: "), "{said}");
    assert!(t.status_json().is_none());
    let _ = std::fs::remove_file(log_of(&t));
}

#[test]
#[ignore = "needs root: make test"]
fn a_restart_with_a_good_file_forgets_what_was_refused_before() {
    let mut t = TestLab::up("unitgood", |_| ());
    let text = format!("{VOICE_ALL}{REST}");
    let config = t.config("router", &text);
    let router = start(&t, &config).unwrap();
    std::fs::write(&config, "ports = [").unwrap();
    router.signal(Signal::SIGHUP);
    wait_for("it is refused", || {
        !t.status_json().unwrap()["reload_refused"].is_null()
    });
    end_for_a_restart(router);
    t.config("router", &text);
    let _router = start(&t, &config).unwrap();
    wait_for("it is forgotten", || {
        t.status_json().unwrap()["reload_refused"].is_null()
    });
    let _ = std::fs::remove_file(log_of(&t));
}
