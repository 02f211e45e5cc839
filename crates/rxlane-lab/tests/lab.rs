//! Labs, real ports, and what a run that was killed leaves.

use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use test_lab::{TestLab, error_of, rxlane_lab, wait_for};

#[test]
#[ignore = "needs root: make test"]
fn a_lab_touches_only_what_it_made() {
    let name = "t-foreign-ns";
    let ip = |line: &str| {
        assert!(
            Command::new("ip")
                .args(line.split_whitespace())
                .status()
                .unwrap()
                .success()
        )
    };
    ip(&format!("netns add {name}-router"));
    let message = error_of(&rxlane_lab(&["lab", "up", "--name", name]));
    assert!(message.contains("no lab made it"), "{message}");
    let message = error_of(&rxlane_lab(&["lab", "down", "--name", name]));
    assert!(message.contains("no lab"), "{message}");
    ip(&format!("netns delete {name}-router"));
    let message = error_of(&rxlane_lab(&["lab", "up", "--name", "a/b"]));
    assert!(message.contains("--name"), "{message}");
    // Ctrl-C while it is being built leaves nothing either.
    let mut child = Command::new(test_lab::built("rxlane-lab"))
        .args(["lab", "up", "--name", "t-ctrlc", "--ports", "32"])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for("it has begun", || {
        Path::new("/run/netns/t-ctrlc-gen").exists()
    });
    nix::sys::signal::kill(
        nix::unistd::Pid::from_raw(child.id() as i32),
        Signal::SIGINT,
    )
    .unwrap();
    assert!(!child.wait().unwrap().success());
    for place in ["gen", "router", "sink"] {
        assert!(!Path::new(&format!("/run/netns/t-ctrlc-{place}")).exists());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_lab_places_only_its_own_napi_threads() {
    let first = TestLab::up("own1", |_| ());
    let threads = || {
        let netns = first.lab.netns(Place::Router);
        rxlane_system::netns::within(&netns, false, || {
            Ok(rxlane_system::threads::napi_of_device("in0"))
        })
        .unwrap()
    };
    let ids = threads();
    assert!(!ids.is_empty());
    for id in &ids {
        rxlane_system::threads::pin(*id, 1).unwrap();
    }
    // A second lab has devices of the same names and puts their threads on core 0.
    let _second = TestLab::up("own2", |_| ());
    // Before Linux 6.8 only the names tell whose a thread is, and the second one's have the same.
    let told = rxlane_system::netns::within(&first.lab.netns(Place::Router), false, || {
        let in0 = rxlane_system::links::by_name("in0")?.ifindex;
        Ok(rxlane_system::napi::of_device(in0).is_ok_and(|all| !all.is_empty()))
    })
    .unwrap();
    let now = threads();
    if told {
        assert_eq!(now, ids);
    }
    assert!(ids.iter().all(|id| now.contains(id)), "{ids:?} {now:?}");
    for id in &ids {
        assert_eq!(rxlane_system::threads::cores(*id).unwrap(), [1].into());
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_killed_benchmark_left_goes_with_the_next_lab() {
    let throttling = || std::fs::read_to_string("/proc/sys/kernel/sched_rt_runtime_us").unwrap();
    // Clears what earlier runs left, so that the value below is the machine's own.
    let up_and_down = || {
        for verb in ["up", "down"] {
            assert!(
                rxlane_lab(&["lab", verb, "--name", "t-next"])
                    .status
                    .success()
            );
        }
    };
    up_and_down();
    let before = throttling();
    let mut bench = Command::new(test_lab::built("rxlane-lab"))
        .args(["bench", "latency", "--dut", "express", "--offered", "10k"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let sink = format!("/run/netns/rxbench{}-sink", bench.id());
    let record = format!("/run/rxlane-lab/rxbench{}.json", bench.id());
    wait_for("its lab is there", || Path::new(&sink).exists());
    bench.kill().unwrap();
    bench.wait().unwrap();
    assert!(Path::new(&sink).exists());
    assert!(Path::new(&record).exists());
    up_and_down();
    assert!(!Path::new(&sink).exists(), "its namespaces");
    assert_eq!(throttling(), before, "the machine's real-time throttling");
    assert!(!Path::new(&record).exists(), "its record");
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_on_real_ports_is_measured_without_a_lab() {
    // The lab's generator and sink ends moved into one namespace stand in for a machine with two ports.
    let t = TestLab::up("ports", |_| ());
    let generator = t.lab.netns(Place::Gen);
    t.must(Place::Sink, &format!("ip link set snk0 netns {generator}"));
    t.must(Place::Gen, "ip addr add 10.20.0.2/24 dev snk0; ip link set snk0 up; sysctl -q -w net.ipv4.conf.all.arp_ignore=1");
    let run = |args: &str| {
        let words: Vec<&str> = args.split_whitespace().collect();
        rxlane_lab(
            &[
                &["--netns", &generator, "bench", "latency"],
                words.as_slice(),
            ]
            .concat(),
        )
    };
    let ports = "--in gen0 --out snk0 --src 10.10.0.2 --dst 10.20.0.2 --gateway 02:00:00:01:00:01";
    let out = run(&format!(
        "{ports} --offered 2k --seconds 0.5 --repeat 1 --json"
    ));
    let report: serde_json::Value = serde_json::from_slice(&out.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&out.stderr)));
    assert_eq!(report["duts"][0]["name"], "external");
    let classes = report["duts"][0]["classes"].as_array().unwrap();
    assert!(
        classes
            .iter()
            .all(|c| c["received"].as_f64().unwrap() > 0.0),
        "{report}"
    );
    let message = error_of(&run(&format!("{ports} --offered 2x")));
    assert!(message.contains("packets a second"), "{message}");
}
