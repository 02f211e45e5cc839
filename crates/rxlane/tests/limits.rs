//! A router as large as one can be: what `check` takes, `run` and `reload` take, too, and what it refuses changes nothing.

use std::fmt::Write as _;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{REST, TestLab, VOICE_ALL, error_of, udp, wait_for};

/// A class of so many addresses, that of the receiver last, in classes with other names.
fn many(name: &str, addresses: usize) -> String {
    let mut list = String::new();
    for i in 1..addresses {
        write!(list, "\"11.{}.{}.{}\",", i >> 16, i >> 8 & 255, i & 255).unwrap();
    }
    let class = |rule: &str| {
        format!("[[class]]\nname = \"{name}\"\nlane = \"stack\"\nmatch = [{rule}]\n{REST}")
    };
    class(&format!("{{ dst = [{list} \"10.20.0.2\"] }}"))
}

#[test]
#[ignore = "needs root: make test"]
fn what_check_takes_is_taken_by_run_and_reload_and_what_it_refuses_changes_nothing() {
    let mut t = TestLab::up("limits", |_| ());
    let config = t.config("router", &many("block", 100_000));
    let file = config.to_str().unwrap().to_owned();
    let arrives_in = |t: &TestLab, class: &str| {
        let sender = udp(t, Place::Gen, "0.0.0.0:0");
        let before = t.class(class, "packets");
        wait_for("packets are in the class", || {
            sender.send_to(b"hello", "10.20.0.2:4000").expect("sent");
            t.class(class, "packets") > before
        });
    };
    let out = t.rxlane(&["check", &file]);
    assert!(out.status.success(), "{}", error_of(&out));
    let router = t.router_from(&config);
    arrives_in(&t, "block");
    t.config("router", &many("again", 100_000));
    t.reloaded();
    arrives_in(&t, "again");
    t.config("router", &many("toomany", 100_001));
    let refused = error_of(&t.rxlane(&["check", &file]));
    assert!(refused.contains("100001 prefixes"), "{refused}");
    let refused = error_of(&t.reload(&[]));
    assert!(refused.contains("100001 prefixes"), "{refused}");
    arrives_in(&t, "again");
    t.config("router", &format!("{VOICE_ALL}{REST}"));
    t.reloaded();
    router.end(Signal::SIGTERM);
}
