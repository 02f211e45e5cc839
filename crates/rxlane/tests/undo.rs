//! Reloads that are undone unless somebody confirms them.

use std::path::PathBuf;

use nix::sys::signal::Signal;
use serde_json::Value;
use test_lab::{Background, REST, TestLab, VOICE_ALL, error_of, wait_for};

const OTHER: &str = "[[class]]\nname = \"other\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"CS7\" }]\n";

/// A router of the classes voice and rest, and its file.
fn start(name: &str) -> (TestLab, Background, PathBuf) {
    let mut t = TestLab::up(name, |_| ());
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let router = t.router_from(&config);
    (t, router, config)
}

/// Writes a file of other classes and reloads it.
fn change(t: &mut TestLab, options: &[&str]) -> String {
    t.config("router", &(OTHER.to_owned() + REST));
    said(t, options)
}

fn said(t: &TestLab, options: &[&str]) -> String {
    let out = t.reload(options);
    assert!(out.status.success(), "{}", error_of(&out));
    String::from_utf8_lossy(&out.stdout).into_owned()
}

/// The first class, and whether something waits to be confirmed.
fn in_force(t: &TestLab) -> (String, bool) {
    let status = t.status_json().expect("a router");
    let first = status["classes"][0]["name"].as_str().unwrap().to_owned();
    (first, status["undone_in_s"] != Value::Null)
}

#[test]
#[ignore = "needs root: make test"]
fn a_reload_is_undone_unless_it_is_confirmed_in_time() {
    let (mut t, _router, _) = start("undo");
    let out = change(&mut t, &["--timeout-undo", "6"]);
    assert!(out.contains("undone in 6 s"), "{out}");
    assert_eq!(in_force(&t), ("other".into(), true));
    let status = t.rxlane(&["status"]);
    let text = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(text.contains("rxlane reload --confirm"), "{text}");
    // Whoever asked for it is gone by now; the daemon is not.
    wait_for("it is undone", || in_force(&t) == ("voice".into(), false));
    let late = error_of(&t.reload(&["--confirm"]));
    assert!(late.contains("nothing waits to be confirmed"), "{late}");

    change(&mut t, &["--timeout-undo"]);
    let out = said(&t, &["--confirm"]);
    assert!(out.starts_with("confirmed"), "{out}");
    assert_eq!(in_force(&t), ("other".into(), false));
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_gone_back_to_is_what_was_confirmed_last_whatever_came_between() {
    let (mut t, _router, _) = start("undonow");
    change(&mut t, &["--timeout-undo"]);
    t.config("router", &(OTHER.replace("other", "third") + REST));
    said(&t, &[]);
    assert_eq!(in_force(&t), ("third".into(), true));
    // A file with a mistake changes nothing of that.
    t.config("router", "lane");
    error_of(&t.reload(&["--timeout-undo", "1"]));
    assert_eq!(in_force(&t), ("third".into(), true));
    let out = said(&t, &["--undo"]);
    assert!(out.starts_with("undone"), "{out}");
    assert_eq!(in_force(&t), ("voice".into(), false));
    assert!(t.reload(&["--undo"]).status.code() != Some(0));
}

#[test]
#[ignore = "needs root: make test"]
fn a_daemon_that_takes_over_goes_on_waiting_and_one_that_was_stopped_forgets() {
    let (mut t, router, config) = start("undokill");
    change(&mut t, &["--timeout-undo", "8"]);
    router.end(Signal::SIGKILL);
    let router = t.router_from(&config);
    assert_eq!(in_force(&t).0, "other");
    wait_for("it is undone", || in_force(&t) == ("voice".into(), false));

    said(&t, &["--timeout-undo", "300"]);
    assert_eq!(in_force(&t), ("other".into(), true));
    router.end(Signal::SIGTERM);
    let _router = t.router_from(&config);
    assert_eq!(in_force(&t), ("other".into(), false));
}
