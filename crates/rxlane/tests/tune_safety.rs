//! `rxlane tune` does not cut off who runs it: interfaces over which a machine is reached, and changes that wait to be
//! confirmed.

mod tuned;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::wait_for;

use tuned::Tuned;

/// Only what belongs to the lab: the machine's own interrupts stay alone.
const APPLY: &str =
    "--ports in0,out0 --profile power --window 0.5 --skip other-interrupts,buffers,idle";
/// Somebody at the generator is logged in to the router.
const SESSION: &str = "10.10.0.2 50000 10.10.0.1 22";
const SET: &str = "125000\n1\n";
const UNSET: &str = "0\n0\n";

/// A lab whose ports are as a kernel makes them.
fn untouched(name: &str) -> Tuned {
    let t = Tuned::up(name);
    assert_eq!(t.deferral(), [UNSET, UNSET]);
    t
}

impl Tuned {
    /// A command line, for a shell too.
    fn line(&self, args: &str) -> String {
        let journal = match args {
            plan if plan.starts_with("plan") => String::new(),
            _ => format!(" --journal {}", self.journal.display()),
        };
        format!(
            "{} --netns {} tune {args}{journal}",
            test_lab::binary().display(),
            self.t.lab.netns(Place::Router)
        )
    }

    /// In an environment with or without a session.
    fn run(&self, args: &str, session: Option<&str>) -> Output {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("exec {}", self.line(args))]);
        command.env_remove("SSH_CONNECTION");
        if let Some(session) = session {
            command.env("SSH_CONNECTION", session);
        }
        command.stdin(Stdio::null()).output().expect("a shell")
    }

    fn must(&self, args: &str) -> String {
        self.must_in(args, None)
    }

    fn must_in(&self, args: &str, session: Option<&str>) -> String {
        let out = self.run(args, session);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tune {args}: {text}{errors}");
        text
    }

    fn refused(&self, args: &str) -> String {
        let out = self.run(args, None);
        assert!(!out.status.success(), "tune {args} succeeds");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(text.trim().lines().count(), 1, "one line: {text}");
        text
    }

    /// Of both ports of the router.
    fn deferral(&self) -> [String; 2] {
        ["in0", "out0"].map(|port| {
            let base = format!("/sys/class/net/{port}");
            let files = format!("cat {base}/gro_flush_timeout {base}/napi_defer_hard_irqs");
            self.t.must(Place::Router, &files)
        })
    }

    /// Process of the guard of this test.
    fn guard(&self) -> Option<String> {
        let wanted = format!("\0guard\0{}", self.journal.display());
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let mut names = processes.filter_map(|p| p.file_name().into_string().ok());
        names.find(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(&wanted)
        })
    }
}

#[test]
#[ignore = "needs root: make test"]
fn the_interface_of_a_default_route_is_left_out_of_plan_apply_and_watch() {
    for (name, route, port) in [
        ("tdefault4", "ip route add default via 10.20.0.2", "out0"),
        ("tdefault6", "ip -6 route add default dev in0", "in0"),
    ] {
        let t = untouched(name);
        t.t.must(Place::Router, route);
        let left = format!("note: {port} is left alone, because it has the IPv");
        assert!(t.must(&format!("plan {APPLY}")).contains(&left));
        let said = t.must(&format!("apply {APPLY}"));
        assert!(said.contains(&left), "{said}");
        let set = |of: &str| if of == port { UNSET } else { SET };
        assert_eq!(t.deferral(), [set("in0"), set("out0")]);
        t.must("revert");
        let said = t.refused(&format!("watch --ports {port} --seconds 0.3"));
        assert!(said.contains("--include-management"), "{said}");
        t.must(&format!("apply {APPLY} --include-management"));
        assert_eq!(t.deferral(), [SET, SET]);
        t.must("revert");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn the_interface_of_an_ssh_session_is_left_out_however_the_session_is_known() {
    let t = untouched("tsession");
    let left = "in0 is left alone, because the SSH session of 10.10.0.2";
    let plan = format!("plan {APPLY}");
    assert!(!t.must(&plan).contains(left));
    assert!(t.must_in(&plan, Some(SESSION)).contains(left));
    // sudo(8) takes the variable away; the shell above it has it.
    let below = format!("env -u SSH_CONNECTION {}; true", t.line(&plan));
    let out = Command::new("sh")
        .args(["-c", &below])
        .env("SSH_CONNECTION", SESSION)
        .output()
        .unwrap();
    assert!(
        String::from_utf8_lossy(&out.stdout).contains(left),
        "{out:?}"
    );
    // A server whose environment nobody can ask, with the name of its program.
    let server = t.journal.with_file_name("sshd");
    std::fs::copy("/usr/bin/socat", &server).expect("socat is installed");
    let listen = format!("{} TCP-LISTEN:2222,reuseaddr EXEC:cat", server.display());
    let sshd = t.t.spawn(Place::Router, &listen);
    wait_for("the server listens", || {
        t.t.must(Place::Router, "ss -ltn").contains(":2222")
    });
    let client = t.t.spawn(Place::Gen, "socat PIPE TCP:10.10.0.1:2222");
    wait_for("the server's session is seen", || {
        t.must(&plan).contains(left)
    });
    drop((client, sshd));
    std::fs::remove_file(server).unwrap();
}

#[test]
#[ignore = "needs root: make test"]
fn a_saved_plan_that_names_the_way_in_is_refused_whole() {
    let t = untouched("tnames");
    let file = t.journal.with_extension("plan.json");
    std::fs::write(&file, t.must(&format!("plan {APPLY} --json"))).unwrap();
    t.t.must(Place::Router, "ip route add default via 10.20.0.2");
    let apply = format!("apply {}", file.display());
    let said = t.refused(&apply);
    assert!(
        said.contains("out0") && said.contains("IPv4 default route"),
        "{said}"
    );
    assert_eq!(t.deferral(), [UNSET, UNSET]);
    t.must(&format!("{apply} --include-management"));
    assert_eq!(t.deferral(), [SET, SET]);
    t.must("revert");
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_not_confirmed_is_undone_although_apply_and_its_session_are_gone() {
    let t = untouched("tconfirm");
    let line = t.line(&format!("apply {APPLY} --confirm 4"));
    // A session with its shell, as of somebody who is logged in, all of which the end of a connection kills.
    let mut session = Command::new("setsid")
        .args(["sh", "-c", &format!("{line}; sleep 100")])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("the changes are in force", || t.deferral() == [SET, SET]);
    let status = t.must("status");
    assert!(status.contains("rxlane tune confirm"), "{status}");
    let group = nix::unistd::Pid::from_raw(session.id() as i32);
    for signal in [Signal::SIGHUP, Signal::SIGKILL] {
        let _ = nix::sys::signal::killpg(group, signal);
    }
    let _ = session.wait();
    assert!(t.guard().is_some(), "the guard outlives the session");
    assert_eq!(t.deferral(), [SET, SET]);
    wait_for("the changes are undone", || t.deferral() == [UNSET, UNSET]);
    wait_for("the guard is gone", || t.guard().is_none());
    assert!(t.must("status").contains("nothing is applied"));
    assert!(t.refused("confirm").contains("nothing waits"));
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_confirmed_stays_and_its_guard_goes() {
    let t = untouched("tkept");
    let said = t.must(&format!("apply {APPLY} --confirm 3"));
    assert!(said.contains("tune confirm keeps them"), "{said}");
    assert!(t.must("confirm").contains("in force"));
    wait_for("the guard is gone", || t.guard().is_none());
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(t.deferral(), [SET, SET]);
    assert!(!t.must("status").contains("confirm"));
    t.must("revert");
    assert_eq!(t.deferral(), [UNSET, UNSET]);
}

#[test]
#[ignore = "needs root: make test"]
fn what_lost_its_guard_is_named_and_undone_by_the_next_command() {
    let t = untouched("tguard");
    let apply = format!("apply {APPLY}");
    t.must(&format!("{apply} --confirm 600"));
    let guard = t.guard().expect("there is a guard");
    let killed = Command::new("kill").args(["-KILL", &guard]).status();
    assert!(killed.is_ok_and(|s| s.success()));
    wait_for("status says so", || t.must("status").contains("was killed"));
    assert_eq!(t.deferral(), [SET, SET]);
    let said = t.must(&apply);
    assert!(
        said.contains("was not confirmed, so it is undone first"),
        "{said}"
    );
    assert_eq!(t.deferral(), [SET, SET]);
    t.must("revert");
    assert_eq!(t.deferral(), [UNSET, UNSET]);
}

#[test]
#[ignore = "needs root: make test"]
fn undoing_by_hand_ends_the_waiting() {
    let t = untouched("thand");
    t.must(&format!("apply {APPLY} --confirm 600"));
    t.must("revert");
    assert_eq!(t.deferral(), [UNSET, UNSET]);
    wait_for("the guard is gone", || t.guard().is_none());
    assert!(t.refused("confirm").contains("nothing waits"));
}
