//! `rxlane top` on a terminal: tmux is one that can be read.

use std::process::Command;

use rxlane_bench::lab::Place;
use test_lab::{Background, REST, TestLab, VOICE_ALL, binary, error_of, udp, wait_for};

/// A terminal of 80 columns and 24 lines.
struct Terminal(String);

impl Terminal {
    /// Runs a shell's command line in it; what the command returned is said when it has ended.
    fn with(name: &str, line: &str) -> Self {
        let this = Self(format!("rxlane-{name}-{}", std::process::id()));
        let line = format!("{line}; echo ended with $?; sleep 60");
        let begun = this.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "80",
            "-y",
            "24",
            &line,
        ]);
        assert!(begun.is_some(), "tmux begins: {line}");
        this
    }

    fn tmux(&self, args: &[&str]) -> Option<String> {
        let out = Command::new("tmux")
            .args(["-u", "-L", &self.0])
            .args(args)
            .output()
            .expect("tmux, of `make setup`");
        out.status
            .success()
            .then(|| String::from_utf8_lossy(&out.stdout).into_owned())
    }

    fn shows(&self, text: &str) -> bool {
        self.tmux(&["capture-pane", "-p"])
            .is_some_and(|screen| screen.contains(text))
    }

    fn wait_for(&self, text: &str) {
        wait_for(&format!("`{text}` on the screen"), || self.shows(text));
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]).expect("a key");
    }

    /// The process that the shell waits for.
    fn child(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let shell = shell.expect("a shell");
        let children = format!("/proc/{0}/task/{0}/children", shell.trim());
        let child = std::fs::read_to_string(children).expect("a shell's children");
        child.trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux(&["kill-server"]);
    }
}

/// A router of two classes, and a terminal on which it is watched.
fn watched(name: &str, options: &str) -> (TestLab, Background, Terminal) {
    let mut t = TestLab::up(name, |_| ());
    let router = t.router(&(VOICE_ALL.to_owned() + REST));
    let netns = t.lab.netns(Place::Router);
    let top = format!("{} --netns {netns} top {options}", binary().display());
    let terminal = Terminal::with(name, &format!("sh -c 'exec {top}'"));
    terminal.wait_for("running (pid");
    (t, router, terminal)
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_router_does_is_seen_while_it_does_it_and_keys_say_more() {
    let (t, _router, terminal) = watched("top", "--every 0.2");
    for text in [
        "running (pid",
        "voice",
        "express",
        "rest",
        "in0",
        "out0",
        "native",
    ] {
        terminal.wait_for(text);
    }
    let from = udp(&t, Place::Gen, "10.10.0.2:6000");
    // Without a rate there is no share that is express, and with one of unmarked packets it is none.
    wait_for("a rate", || {
        from.send_to(b"x", "10.20.0.2:7000").expect("sent");
        terminal.shows("0 %")
    });
    terminal.press("Down");
    terminal.press("Enter");
    terminal.wait_for("rest: stack lane, pass now, because");
    terminal.press("q");
    terminal.wait_for("q quit");
    terminal.press("p");
    terminal.wait_for("PAUSED");
    terminal.press("?");
    terminal.wait_for("pick a class");
    terminal.press("Escape");
    terminal.press("q");
    terminal.wait_for("ended with 0");
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_that_goes_is_missed_and_one_that_comes_back_is_seen() {
    let (mut t, router, terminal) = watched("topgone", "--every 0.2");
    router.end(nix::sys::signal::Signal::SIGTERM);
    terminal.wait_for("no router in this");
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    wait_for("the new one", || {
        terminal.shows("running (pid") && !terminal.shows("no router in this")
    });
    // Told to end, it leaves a terminal that a shell can go on with.
    let status = Command::new("kill")
        .args(["-TERM", &terminal.child()])
        .status();
    assert!(status.expect("kill").success());
    terminal.wait_for("ended with 0");
}

#[test]
#[ignore = "needs root: make test"]
fn it_ends_with_its_terminal() {
    let (_t, _router, terminal) = watched("tophup", "");
    let process = format!("/proc/{}", terminal.child());
    assert!(std::path::Path::new(&process).exists());
    drop(terminal);
    wait_for("its end", || !std::path::Path::new(&process).exists());
}

#[test]
fn without_a_terminal_the_way_to_the_same_is_named() {
    let out = test_lab::rxlane(&["top"]);
    assert!(!out.status.success());
    assert!(
        error_of(&out).contains("rxlane status"),
        "{}",
        error_of(&out)
    );
}
