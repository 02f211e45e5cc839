//! A network namespace with two ports, and what its rules are.

use std::io::Write;
use std::process::{Command, Stdio};

use nix::sched::{CloneFlags, unshare};
use rxlane_ruleset::Ruleset;
use rxlane_system::links;

/// Runs on a thread in a network namespace of its own, with two ports.
pub(crate) fn beside<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            unshare(CloneFlags::CLONE_NEWNET).expect("needs root: run `make test`");
            sh("ip link set lo up; ip link add lan0 type veth peer name lan1; ip link add wan0 type veth peer name wan1");
            work()
        });
        let joined = thread.join();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    })
}

pub(crate) fn sh(command: &str) {
    let status = Command::new("sh").args(["-ec", command]).status();
    assert!(status.is_ok_and(|s| s.success()), "{command}");
}

pub(crate) fn load(tool: &str, arguments: &[&str], text: &str) {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap_or_else(|e| panic!("{tool}: {e}"));
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(text.as_bytes()).unwrap();
    drop(stdin);
    assert!(child.wait().unwrap().success(), "{tool} takes {text}");
}

/// `;;` stands for the end of a line.
pub(crate) fn nft(text: &str) {
    load("nft", &["-f", "-"], &text.replace(";;", "\n"));
}

pub(crate) fn read() -> Ruleset {
    rxlane_system::ruleset::read(&links::all().unwrap()).unwrap()
}
