//! Start, reload, crash, take-over, ports that come and go, and everything that can be wrong at a start.
//!
//! Needs root and the lab's tools (`make setup`).

use std::time::Duration;

use nix::sys::signal::Signal;
use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::Place;
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use test_lab::{REST, TestLab, VOICE_ALL, error_of, rxlane, undisturbed, wait_for};

/// Low enough that a stall of a shared machine loses nothing; RXLANE_TEST_PPS raises it on a quiet one.
fn rate() -> Pps {
    let pps = std::env::var("RXLANE_TEST_PPS")
        .ok()
        .and_then(|v| v.parse().ok())
        .unwrap_or(5_000.0);
    Pps(pps)
}

fn traffic() -> Traffic {
    Traffic {
        rt_ratio: 0.3,
        pattern: Pattern::Poisson,
        frame: Frame::Fixed(128),
        flows: 16,
        seed: 7,
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_reload_under_load_loses_and_reorders_nothing() {
    let mut t = TestLab::up("reload", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
    bed.run(rate(), Duration::from_millis(300), &Threads::default())
        .unwrap();
    let more = "[[class]]\nname = \"video\"\nlane = \"express\"\ntrust = \"all\"\nmatch = [{ dscp = \"AF41\" }]\n";
    let mut reload_often = || {
        let both = [
            VOICE_ALL.to_owned() + more + REST,
            VOICE_ALL.to_owned() + REST,
        ];
        for classes in both.iter().cycle().take(6) {
            t.config("router", classes);
            t.reloaded();
        }
    };
    let (length, threads) = (Duration::from_secs(3), Threads::default());
    let trial = undisturbed(|| {
        bed.run_with(rate(), length, &threads, &mut reload_often)
            .unwrap()
    });
    println!(
        "reload at {} pps: {} lost of {}",
        rate().0,
        trial.classes.iter().map(|c| c.lost).sum::<f64>(),
        trial.classes.iter().map(|c| c.sent).sum::<f64>()
    );
    for class in &trial.classes {
        assert_eq!(
            (class.lost, class.reordered),
            (0.0, 0.0),
            "{}: {} sent",
            class.name,
            class.sent
        );
    }
    // Other classes begin to count anew, and on a machine that stands still the last reload may come after the packets.
    bed.run(rate(), Duration::from_millis(300), &Threads::default())
        .unwrap();
    assert!(t.class("voice", "express") > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_refused_reload_keeps_the_old_configuration_and_says_why() {
    let mut t = TestLab::up("refuse", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.config("router", &(VOICE_ALL.to_owned() + "rings = 4\n" + REST));
    let message = error_of(&t.reload(&[]));
    assert!(message.contains("unknown key `rings`"), "{message}");
    let path = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let text = std::fs::read_to_string(&path)
        .unwrap()
        .replace("\"out0\"", "\"out0\", \"the-other-name-of-out0\"");
    std::fs::write(&path, text).unwrap();
    let alt = "ip link property add dev out0 altname the-other-name-of-out0";
    t.must(Place::Router, alt);
    let message = error_of(&t.reload(&[]));
    assert!(message.contains("names of one interface"), "{message}");
    assert_eq!(
        t.status_json().unwrap()["ports"].as_array().unwrap().len(),
        2
    );
    t.must(Place::Gen, "ping -Q 0xb8 -c 3 -i 0.2 10.20.0.2");
    assert!(t.class("voice", "express") > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_killed_daemon_leaves_a_working_router_that_the_next_start_takes_over() {
    let mut t = TestLab::up("kill", |_| ());
    let classes = VOICE_ALL.to_owned() + REST;
    let mut router = Some(t.router(&classes));
    let mut bed = Bed::new(&t.lab, &traffic()).unwrap();
    let threads = Threads::default();
    bed.run(rate(), Duration::from_millis(300), &threads)
        .unwrap();
    let before = t.class("voice", "express");
    let trial = undisturbed(|| {
        let mut router = Some(router.take().unwrap_or_else(|| t.router(&classes)));
        let kill = || router.take().unwrap().end(Signal::SIGKILL);
        bed.run_with(rate(), Duration::from_secs(1), &threads, kill)
            .unwrap()
    });
    for class in &trial.classes {
        println!(
            "kill -9 at {} pps: {} lost of {} of {}",
            rate().0,
            class.lost,
            class.sent,
            class.name
        );
    }
    assert_eq!(trial.classes[0].lost, 0.0, "the express lane went on");
    let orphaned = t.class("voice", "express");
    assert!(orphaned > before);
    assert!(t.status_json().unwrap()["daemon"].is_null());
    let _again = t.router(&classes);
    assert!(
        t.class("voice", "express") >= orphaned,
        "taken over with its counters"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn sigterm_and_detach_leave_nothing_but_the_kernels_forwarding() {
    let mut t = TestLab::up("term", |_| ());
    let classes = VOICE_ALL.to_owned() + REST;
    let xdp = |t: &TestLab| {
        t.must(Place::Router, "ip -details link show in0")
            .contains("xdp")
    };
    let router = t.router(&classes);
    assert!(xdp(&t));
    router.end(Signal::SIGTERM);
    assert!(!xdp(&t));
    assert!(error_of(&t.rxlane(&["status"])).contains("no router"));
    t.must(Place::Gen, "ping -Q 0xb8 -c 2 -i 0.2 10.20.0.2");
    t.router(&classes).end(Signal::SIGKILL);
    assert!(xdp(&t));
    assert!(t.rxlane(&["detach"]).status.success());
    assert!(!xdp(&t));
    assert!(error_of(&t.rxlane(&["detach"])).contains("no router"));
    t.must(Place::Gen, "ping -Q 0xb8 -c 2 -i 0.2 10.20.0.2");
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_vanishes_and_comes_back_is_served_again() {
    let mut t = TestLab::up("flap", |_| ());
    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    t.must(Place::Router, "ip link del out0");
    wait_for("the port is gone", || {
        t.status_json().unwrap()["ports"][1]["ifindex"].is_null()
    });
    let sink = t.lab.netns(Place::Sink);
    t.must(
        Place::Router,
        &format!("ip link add out0 type veth peer name snk0 netns {sink}"),
    );
    t.must(
        Place::Router,
        "ip addr add 10.20.0.1/24 dev out0; ip link set out0 up",
    );
    t.must(Place::Sink, "ip addr add 10.20.0.2/24 dev snk0; ip link set snk0 up; ip route add default via 10.20.0.1");
    t.must(Place::Sink, "ethtool -K snk0 gro on tx off");
    wait_for("the port is back", || {
        t.status_json().unwrap()["ports"][1]["mode"] == "native"
    });
    // The new veth takes frames from XDP as soon as its peer polls; drivers are asked once a second.
    // Addresses and links of the new port still change for a while, and each change makes the daemon look around.
    wait_for("both directions are express again, and stay so", || {
        let before = t.class("voice", "express");
        t.exec(Place::Gen, "ping -Q 0xb8 -c 5 -i 0.2 -W 1 10.20.0.2");
        t.class("voice", "express") == before + 10
    });
}

#[test]
#[ignore = "needs root: make test"]
fn what_is_wrong_at_a_start_is_one_line_and_changes_nothing() {
    let mut t = TestLab::up("wrong", |_| ());
    let good = t.config("good", &(VOICE_ALL.to_owned() + REST));
    let good = good.to_str().unwrap();
    let untouched = |t: &TestLab| {
        assert!(
            !t.must(Place::Router, "ip -details link show")
                .contains("xdp"),
            "nothing is attached"
        );
    };
    let missing = t.config("missing", &(VOICE_ALL.to_owned() + REST));
    let text = std::fs::read_to_string(&missing)
        .unwrap()
        .replace("out0", "nope0");
    std::fs::write(&missing, format!("datapath = \"afxdp\"\n{text}")).unwrap();
    let message = error_of(&t.rxlane(&["run", "-c", missing.to_str().unwrap()]));
    assert!(message.contains("`nope0`: no such interface"), "{message}");
    untouched(&t);

    let message = error_of(&t.rxlane(&["run", "-c", "/nonexistent.toml"]));
    assert!(message.contains("/nonexistent.toml"), "{message}");
    let message = error_of(&rxlane(&["--netns", "no-such-ns", "status"]));
    assert!(message.contains("`no-such-ns`"), "{message}");

    t.must(Place::Router, "nft add table inet fw && nft add chain inet fw forwarded '{ type filter hook forward priority 0; policy drop; }'");
    let message = error_of(&t.rxlane(&["run", "-c", good]));
    assert!(
        message.contains("--accept-bypass") && message.contains("fw forwarded"),
        "{message}"
    );
    untouched(&t);
    t.must(Place::Router, "nft flush ruleset");

    let exe = test_lab::binary();
    let out = std::process::Command::new("setpriv")
        .args([
            "--reuid",
            "65534",
            "--regid",
            "65534",
            "--clear-groups",
            exe.to_str().unwrap(),
            "run",
            "-c",
            good,
        ])
        .output()
        .unwrap();
    let message = error_of(&out);
    assert!(message.contains("run as root"), "{message}");

    let _router = t.router(&(VOICE_ALL.to_owned() + REST));
    let message = error_of(&t.rxlane(&["run", "--accept-bypass", "-c", good]));
    assert!(
        message.contains("already running") && message.contains("pid"),
        "{message}"
    );
    assert!(
        t.status_json().is_some(),
        "the running one is not disturbed"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_driver_without_native_xdp_is_served_generically_with_a_warning() {
    let mut t = TestLab::up("generic", |_| ());
    // Its driver has no native XDP.
    t.must(
        Place::Router,
        "ip link add mirror0 type ifb; ip link set mirror0 up",
    );
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let text = std::fs::read_to_string(&config)
        .unwrap()
        .replace("\"out0\"", "\"out0\", \"mirror0\"");
    std::fs::write(&config, text).unwrap();
    let _router = t.router_from(&config);
    let status = t.status_json().unwrap();
    assert_eq!(status["ports"][0]["mode"], "native");
    assert_eq!(status["ports"][2]["mode"], "generic");
    let warnings = status["warnings"].to_string();
    assert!(
        warnings.contains("`mirror0`: the driver has no native XDP"),
        "{warnings}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_foreign_xdp_program_is_respected() {
    let mut t = TestLab::up("foreign", |_| ());
    let owner = t.router(&(VOICE_ALL.to_owned() + REST));
    let good = t.config("good", &(VOICE_ALL.to_owned() + REST));
    owner.end(Signal::SIGKILL);
    // Held by a descriptor instead of our pins, the program is somebody else's.
    let router = t.lab.netns(Place::Router);
    let link = rxlane_system::netns::within(&router, false, || {
        let instance = rxlane_dataplane::instance::Instance::current().unwrap();
        let pin = instance.pins.join("port_in0");
        let link = libbpf_rs::Link::open(&pin).unwrap();
        std::fs::remove_file(&pin).unwrap();
        let held = std::os::fd::AsFd::as_fd(&link)
            .try_clone_to_owned()
            .unwrap();
        instance.remove_pins().unwrap();
        Ok(held)
    })
    .unwrap();
    let message = error_of(&t.rxlane(&["run", "--accept-bypass", "-c", good.to_str().unwrap()]));
    assert!(
        message.contains("already attached") && message.contains("in0"),
        "{message}"
    );
    assert!(
        !t.must(Place::Router, "ip -details link show out0")
            .contains("xdp"),
        "nothing is left half-applied"
    );
    drop(link);
}
