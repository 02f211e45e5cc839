//! A simulation ends when it is asked to, in the middle of whatever it is at.

use std::num::NonZeroUsize;
use std::time::Duration;

use rxlane_sim::SimError;
use rxlane_sim::outcome::simulate_until;
use rxlane_sim::run::{replications, run_sweep_on};
use rxlane_sim::scenario::parse;
use rxlane_sim::stop::Stop;
use rxlane_sim::sweep::Sweep;

/// Each would take minutes or hours.
const LONG: [(&str, &str); 7] = [
    ("packets", "[traffic]\npps = 1e6"),
    (
        "one packet lasts a second",
        "[traffic]\npps = 8e6\n[cpu]\npacket_ns = 1e9",
    ),
    (
        "interrupts take all of the core",
        "[traffic]\npps = 4e6\n[cpu]\nisr_ns = 1e4\n[reception]\nscheme = \"softnet\"",
    ),
    (
        "disturbances take all of the core",
        "[traffic]\npps = 0\n[[cpu.disturbance]]\nname = \"others\"\nper_second = 1e6\nns = 1e4",
    ),
    (
        "cores share a lock",
        "[traffic]\npps = 4e6\n[nic]\ntx_lock_ns = 500\n[cpu]\ncores = 2",
    ),
    (
        "flows go round the cores",
        "[traffic]\npps = 4e6\n[cpu]\ncores = 2\nspread = \"round-robin\"",
    ),
    (
        "lanes",
        "[traffic]\npps = 4e6\nrt_ratio = 0.2\n[reception]\nscheme = \"express\"",
    ),
];

/// Asked after some of the work has been done.
fn asked_soon() -> Stop {
    let stop = Stop::new();
    let asks = stop.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        asks.ask();
    });
    stop
}

#[test]
fn a_run_ends_wherever_it_is_when_it_is_asked_to() {
    for (what, text) in LONG {
        let text = format!("seconds = 100000\n{text}");
        let scenario = parse(&text, "s.toml".as_ref(), &[]).unwrap().scenario;
        let ended = simulate_until(&scenario, 0, &asked_soon());
        assert!(matches!(ended, Err(SimError::Stopped)), "{what}");
    }
}

#[test]
fn a_sweep_that_is_stopped_keeps_what_was_finished_and_is_no_error() {
    let text = "[sweep]\nseconds = [0.001, 100000.0]";
    let sweep = Sweep::new(&parse(text, "s.toml".as_ref(), &[]).unwrap()).unwrap();
    let mut kept = Vec::new();
    run_sweep_on(NonZeroUsize::MIN, &sweep, 0..2, &asked_soon(), |row| {
        kept.push(row.index);
        Ok(())
    })
    .unwrap();
    assert_eq!(kept, [0]);
}

#[test]
fn replications_are_the_same_on_any_number_of_threads() {
    let text = "seconds = 0.01\nreplications = 5\n[traffic]\npps = 1.6e6";
    let scenario = parse(text, "s.toml".as_ref(), &[]).unwrap().scenario;
    let on = |threads| {
        let threads = NonZeroUsize::new(threads).unwrap();
        let outcomes = replications(&scenario, threads, &Stop::never(), || ()).unwrap();
        outcomes.into_iter().map(|o| o.metrics).collect::<Vec<_>>()
    };
    assert_eq!(on(1), on(3));
}
