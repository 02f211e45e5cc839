//! `rxlane tune` on veth ports: NAPI deferral and NAPI threads, which are all that they have.

mod tuned;

use std::process::{Command, Output, Stdio};
use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::Place;
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use test_lab::{Background, REST, VOICE_ALL, wait_for};

use tuned::Tuned;

/// Only what belongs to the lab: the machine's own interrupts stay alone.
const SKIP: &str = "other-interrupts,buffers,idle";

impl Tuned {
    fn tune(&self, args: &str) -> Output {
        let journal = self.journal.to_str().unwrap();
        let mut all: Vec<&str> = vec!["tune"];
        all.extend(args.split(' '));
        all.extend(["--journal", journal]);
        self.t.rxlane(&all)
    }

    fn must(&self, args: &str) -> String {
        let out = self.tune(args);
        let text = String::from_utf8_lossy(&out.stdout).into_owned();
        let errors = String::from_utf8_lossy(&out.stderr);
        assert!(out.status.success(), "tune {args}: {text}{errors}");
        text
    }

    fn refused(&self, args: &str) -> String {
        let out = self.tune(args);
        assert!(!out.status.success(), "tune {args} succeeds");
        let text = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(text.trim().lines().count(), 1, "one line: {text}");
        text
    }

    fn deferral(&self, port: &str) -> String {
        let base = format!("/sys/class/net/{port}");
        self.t.must(
            Place::Router,
            &format!("cat {base}/gro_flush_timeout {base}/napi_defer_hard_irqs"),
        )
    }

    /// Cores of a port's NAPI threads.
    fn cores(&self, port: &str) -> Vec<Vec<usize>> {
        let netns = self.t.lab.netns(Place::Router);
        let threads = rxlane_system::netns::within(&netns, false, || {
            Ok(rxlane_system::threads::napi_of_device(port))
        });
        threads
            .unwrap()
            .iter()
            .map(|t| {
                rxlane_system::threads::cores(*t)
                    .unwrap()
                    .into_iter()
                    .collect()
            })
            .collect()
    }

    fn state(&self) -> String {
        ["in0", "out0"]
            .map(|port| format!("{}{:?}", self.deferral(port), self.cores(port)))
            .concat()
    }

    fn watch(&self, args: &str) -> Background {
        let child = Command::new(test_lab::binary())
            .args(["--netns", &self.t.lab.netns(Place::Router), "tune", "watch"])
            .args(args.split(' '))
            .args(["--journal", self.journal.to_str().unwrap()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("rxlane starts");
        Background(child)
    }

    fn load(&self, pps: f64, seconds: f64) {
        let traffic = Traffic {
            rt_ratio: 0.2,
            pattern: Pattern::Poisson,
            frame: Frame::Fixed(128),
            flows: 4,
            seed: 1,
        };
        let mut bed = Bed::new(&self.t.lab, &traffic).unwrap();
        bed.run(
            Pps(pps),
            Duration::from_secs_f64(seconds),
            &Threads::default(),
        )
        .unwrap();
    }
}

#[test]
#[ignore = "needs root: make test"]
fn applying_a_plan_and_reverting_it_restores_every_port() {
    let t = Tuned::up("tune");
    let before = t.state();
    assert_eq!(t.deferral("in0"), "0\n0\n");
    let args = format!("--ports in0,out0 --profile throughput --window 0.5 --skip {SKIP}");
    let said = t.must(&format!("apply {args}"));
    assert!(said.contains("changes are in force"), "{said}");
    assert_eq!(t.deferral("in0"), "125000\n1\n");
    let cores = t.cores("in0");
    assert!(!cores.is_empty() && cores.iter().all(|c| c.len() == 1));
    let status = t.must("status");
    assert!(status.contains("gro_flush_timeout"), "{status}");
    assert!(
        t.refused(&format!("apply {args}"))
            .contains("in force already")
    );
    // It still forwards.
    let out = t.t.must(Place::Gen, "ping -c 3 -i 0.2 -W 2 10.20.0.2");
    assert!(out.contains(" 0% packet loss"), "{out}");
    t.must("revert");
    assert_eq!(t.state(), before);
    assert!(t.must("status").contains("nothing is applied"));
    assert!(t.must("revert").contains("nothing is applied"));
}

#[test]
#[ignore = "needs root: make test"]
fn a_saved_plan_is_applied_and_one_that_is_out_of_date_changes_nothing() {
    let t = Tuned::up("tunesaved");
    let args = format!("plan --ports in0 --profile power --window 0.5 --skip {SKIP} --json");
    let all: Vec<&str> = std::iter::once("tune").chain(args.split(' ')).collect();
    let plan = t.t.rxlane(&all);
    let file = t.journal.with_extension("plan.json");
    std::fs::write(&file, &plan.stdout).unwrap();
    let apply = format!("apply {}", file.display());
    t.must(&apply);
    assert_eq!(t.deferral("in0"), "125000\n1\n");
    t.must("revert");
    t.t.must(
        Place::Router,
        "echo 7000 > /sys/class/net/in0/gro_flush_timeout",
    );
    let before = t.state();
    assert!(t.refused(&apply).contains("plan again"));
    assert_eq!(t.state(), before);
    std::fs::write(&file, "no plan").unwrap();
    assert!(t.refused(&apply).contains("is no plan"));
    let _ = std::fs::remove_file(&file);
}

#[test]
#[ignore = "needs root: make test"]
fn what_someone_else_set_meanwhile_is_reported_and_stays() {
    let t = Tuned::up("tuneother");
    t.must(&format!(
        "apply --ports in0,out0 --profile power --window 0.5 --skip {SKIP}"
    ));
    t.t.must(
        Place::Router,
        "echo 7000 > /sys/class/net/in0/gro_flush_timeout",
    );
    assert!(t.must("status").contains("changed by someone else"));
    let said = t.must("revert");
    assert!(
        said.contains("left alone") && said.contains("`7000`"),
        "{said}"
    );
    assert_eq!(t.deferral("in0"), "7000\n0\n");
    assert_eq!(t.deferral("out0"), "0\n0\n");
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_is_unplugged_is_reported_and_the_others_are_restored() {
    let t = Tuned::up("tunegone");
    t.must(&format!(
        "apply --ports in0,out0 --profile power --window 0.5 --skip {SKIP}"
    ));
    t.t.must(Place::Router, "ip link delete in0");
    let said = t.must("revert");
    assert!(said.contains("gone"), "{said}");
    assert_eq!(t.deferral("out0"), "0\n0\n");
    assert!(t.refused("apply --ports in0 --window 0.5").contains("in0"));
}

#[test]
#[ignore = "needs root: make test"]
fn watch_follows_the_packet_rate_and_stopping_it_undoes_everything() {
    let t = Tuned::up("watch");
    let before = t.state();
    let watch = t.watch("--ports in0 --keep-cores --r-max 50000 --r-min 5000 --rho-max 100000");
    let timeout = || -> u64 { t.deferral("in0").lines().next().unwrap().parse().unwrap() };
    // Idle: 1 / r_max, as far as a port is ever idle.
    wait_for("the idle interval is set", || {
        (20_000..22_500).contains(&timeout())
    });
    // Under 60,000 packets/s: 1 / (50,000 - 0.6 x 45,000) s is 43 us. Asked while the load is there, because it is back
    // at the idle interval soon afterwards, and until it is over, because a slow machine sends less.
    let longest = std::thread::scope(|scope| {
        let load = scope.spawn(|| t.load(60_000.0, 3.0));
        let mut longest = 0;
        while !load.is_finished() {
            longest = longest.max(timeout());
            std::thread::sleep(Duration::from_millis(50));
        }
        load.join().unwrap();
        longest
    });
    assert!(longest > 25_000, "{longest}");
    wait_for("the interval is that of an idle port again", || {
        timeout() < 25_000
    });
    assert!(t.must("status").contains("gro_flush_timeout"));
    assert!(
        t.refused("watch --ports in0 --seconds 1")
            .contains("another rxlane tune")
    );
    watch.end(Signal::SIGTERM);
    assert_eq!(t.state(), before);
    assert!(t.must("status").contains("nothing is applied"));
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_killed_watch_left_is_undone_by_the_next_or_by_revert() {
    let t = Tuned::up("watchkill");
    let before = t.state();
    let start = || {
        let watch = t.watch("--ports in0,out0 --keep-cores");
        wait_for("it has changed something", || t.state() != before);
        watch.end(Signal::SIGKILL);
        assert_ne!(t.state(), before);
    };
    start();
    t.must("revert");
    assert_eq!(t.state(), before);
    start();
    let said = t.must("watch --ports in0 --keep-cores --seconds 0.3");
    assert!(said.contains("decisions"), "{said}");
    assert_eq!(t.state(), before);
}

#[test]
#[ignore = "needs root: make test"]
fn measuring_before_and_after_draws_a_report_and_leaves_nothing() {
    let t = Tuned::up("measure");
    let before = t.state();
    let html = t.journal.with_extension("html");
    let said = t.must(&format!(
        "measure --ports in0,out0 --profile power --window 0.5 --seconds 1 --apply --skip {SKIP} --html {}",
        html.display()
    ));
    assert!(said.contains("after") && said.contains("backlog"), "{said}");
    let page = std::fs::read_to_string(&html).unwrap();
    assert!(page.contains("<svg") && page.contains("Core 1"));
    assert_eq!(t.state(), before);
    let _ = std::fs::remove_file(&html);
}

#[test]
#[ignore = "needs root: make test"]
fn only_the_kinds_of_change_that_are_asked_for_are_made() {
    let t = Tuned::up("tuneonly");
    let cores = t.cores("in0");
    t.must("apply --ports in0,out0 --profile power --window 0.5 --only moderation");
    assert_eq!(t.deferral("in0"), "125000\n1\n");
    assert_eq!(t.cores("in0"), cores);
    t.must("revert");
}

/// veths sort nothing, so what is applied is nothing; but it is asked of the ports of the configuration, and changes of others are
/// beside it.
#[test]
#[ignore = "needs root: make test"]
fn what_the_service_of_the_queues_runs_does_what_it_says_beside_other_changes() {
    let mut t = Tuned::up("tunequeues");
    let classes = format!("{VOICE_ALL}{REST}");
    let config = t.t.file(
        "queues",
        &format!("ports = [\"in0\", \"absent0\"]\n{classes}"),
    );
    t.must("apply --ports out0 --profile power --window 0.5 --only moderation");
    let journal = t.journal.with_extension("queues.journal");
    let unit = include_str!("../../../contrib/systemd/rxlane-queues.service");
    let run = |key: &str| {
        let commands = unit.lines().filter_map(|line| line.strip_prefix(key));
        let said = commands.map(|command| {
            let command = command
                .trim_start_matches('-')
                .replace("/etc/rxlane/rxlane.toml", config.to_str().unwrap())
                .replace(
                    "/var/lib/rxlane/tune.queues.journal",
                    journal.to_str().unwrap(),
                );
            let words = command.split(' ').filter(|word| *word != "$OPTIONS");
            let words: Vec<&str> = words.collect();
            assert_eq!(words[0], "/usr/sbin/rxlane");
            let out = t.t.rxlane(&words[1..]);
            let said = String::from_utf8_lossy(&out.stdout).into_owned();
            assert!(out.status.success(), "{command}: {said}{out:?}");
            said
        });
        said.collect::<Vec<_>>()
    };
    assert_eq!(run("ExecStartPre=").len(), 1);
    for key in ["ExecStart=", "ExecReload="] {
        let said = run(key).pop().unwrap();
        assert!(said.contains("in0 cannot sort RT packets"), "{said}");
        assert!(!said.contains("out0"), "{said}");
        assert!(said.contains("0 changes are in force"), "{said}");
    }
    assert_eq!(run("ExecStop=").len(), 1);
    assert_eq!(t.deferral("out0"), "125000\n1\n");
    t.must("revert");
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_wrong_with_a_request_is_one_line() {
    let t = Tuned::up("tunewrong");
    for (args, complaint) in [
        ("apply --ports nic7 --window 0.5", "nic7"),
        ("apply --ports in0 --delay 0", "--delay"),
        ("apply /no/such/plan.json", "cannot read"),
        ("watch --ports nic7", "nic7"),
        ("watch --ports in0 --law off --keep-cores", "nothing to do"),
        ("watch --ports in0 --r-max 1 --r-min 5", "r_m"),
        ("measure --ports in0 --seconds 0", "--seconds"),
    ] {
        let said = t.refused(args);
        assert!(said.contains(complaint), "{args}: {said}");
    }
    std::fs::write(&t.journal, "{\"boot\":\n").unwrap();
    let said = t.refused("status");
    assert!(
        said.contains("line 1") && said.contains("damaged"),
        "{said}"
    );
}
