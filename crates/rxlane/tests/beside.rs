//! A port that carries another XDP program: which it is, whose, and what takes it off.

use std::path::Path;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use rxlane_dataplane::instance::Instance;
use test_lab::{REST, TestLab, VOICE_ALL, error_of, wait_for};

/// Where the foreign program is pinned.
const PIN: &str = "/sys/fs/bpf/t-beside";

/// Removes the pin with the test.
struct Unpin;

impl Drop for Unpin {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(PIN);
    }
}

/// Leaves a program on in0 that is nobody's of rxlane: the link by which it is attached has another name.
fn leave_a_foreign_program(t: &mut TestLab) {
    let owner = t.router(&(VOICE_ALL.to_owned() + REST));
    owner.end(Signal::SIGKILL);
    let take = || {
        let instance = Instance::current().expect("an instance");
        std::fs::rename(instance.pins.join("port_in0"), PIN).expect("another name");
        instance.remove_pins().expect("all other pins");
        Ok(())
    };
    rxlane_system::netns::within(&t.lab.netns(Place::Router), false, take).expect("the namespace");
}

#[test]
#[ignore = "needs root: make test"]
fn a_program_that_is_pinned_is_named_with_its_path_and_one_that_a_process_holds_with_that() {
    let mut t = TestLab::up("beside", |_| ());
    let _ = std::fs::remove_file(PIN);
    let _unpin = Unpin;
    leave_a_foreign_program(&mut t);
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let file = config.to_str().unwrap();
    let run = ["run", "--accept-bypass", "-c", file];
    let check = ["check", "--live", "--accept-bypass", file];
    let says = |command: &[&str], parts: &[&str]| {
        let said = error_of(&t.rxlane(command));
        for part in parts {
            assert!(said.contains(part), "{part}: {said}");
        }
    };
    for command in [&run[..], &check] {
        says(
            command,
            &[
                "port `in0`",
                "`rxlane_plain` (id ",
                "pinned at /sys/fs/bpf/t-beside; to remove it: rm /sys/fs/bpf/t-beside)",
            ],
        );
    }
    let held = libbpf_rs::Link::open(Path::new(PIN)).expect("the link");
    std::fs::remove_file(PIN).expect("its pin");
    let me = format!("(pid {})", std::process::id());
    says(&run, &["held by ", &me, "; to remove it: end "]);
    // And that is so.
    drop(held);
    wait_for("the port is free", || t.rxlane(&check).status.success());
}
