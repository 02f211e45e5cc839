//! The machine's batches of the stack, which routers of all namespaces share: alone in its file, because other tests' routers would
//! change them, too.

mod common;

use nix::sys::signal::Signal;

use common::{REST, TestLab, VOICE_ALL};

const SETTING: &str = "/proc/sys/net/core/gro_normal_batch";

fn batch() -> u32 {
    let text = std::fs::read_to_string(SETTING).expect("the machine's own namespace");
    text.trim().parse().expect("a number")
}

/// Sets it back, however the test ends.
struct Original(u32);

impl Drop for Original {
    fn drop(&mut self) {
        let _ = std::fs::write(SETTING, self.0.to_string());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn the_stack_takes_whole_polls_from_the_first_router_until_the_last() {
    let _original = Original(batch());
    std::fs::write(SETTING, "11").expect("root");
    let classes = VOICE_ALL.to_owned() + REST;
    let mut one = TestLab::up("batch1", |_| ());
    let mut two = TestLab::up("batch2", |_| ());

    let first = one.router(&classes);
    assert_eq!(batch(), 64);
    let second = two.router(&classes);
    first.end(Signal::SIGTERM);
    assert_eq!(batch(), 64, "the second needs it still");
    second.end(Signal::SIGTERM);
    assert_eq!(batch(), 11, "as it was before the first");

    // A killed daemon leaves its router, and what that needs; so does the one that takes over from it.
    one.router(&classes).end(Signal::SIGKILL);
    one.router(&classes).end(Signal::SIGKILL);
    assert_eq!(batch(), 64);
    assert!(one.rxlane(&["detach"]).status.success());
    assert_eq!(batch(), 11);

    // What somebody else has set since is left alone, and so is what is long enough.
    let third = one.router(&classes);
    std::fs::write(SETTING, "32").expect("root");
    third.end(Signal::SIGTERM);
    assert_eq!(batch(), 32);
    std::fs::write(SETTING, "128").expect("root");
    let fourth = one.router(&classes);
    assert_eq!(batch(), 128);
    fourth.end(Signal::SIGTERM);
    assert_eq!(batch(), 128);
}
