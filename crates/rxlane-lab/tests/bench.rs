//! What the benchmark says, on small sizes. Functional: what is measured and kept, never how fast.

use std::time::Duration;

use rxlane_bench::bed::Bed;
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::lab::{Drive, Over, Place};
use rxlane_bench::threads::Threads;
use rxlane_policy::Pps;
use rxlane_system::{netns, threads};
use test_lab::{REST, TestLab, VOICE_ALL, error_of, json_of, rxlane_lab};

/// A firewall behind which any machine's kernel is slower than any machine's generator.
const SLOW: &str = "linear:2000";

#[test]
#[ignore = "needs root: make test"]
fn a_mix_of_frames_arrives_in_its_shares_and_with_right_headers() {
    mix_of_frames(Drive::TestRun);
    mix_of_frames(Drive::Circle);
}

fn mix_of_frames(generator: Drive) {
    let t = TestLab::up("imix", |config| config.generator = generator);
    let traffic = Traffic {
        rt_ratio: 0.5,
        pattern: Pattern::Cbr,
        frame: Frame::Imix,
        flows: 4,
        seed: 3,
    };
    let mut bed = Bed::new(&t.lab, &traffic).unwrap();
    t.lab.tune().unwrap();
    let trial = bed
        .run(
            Pps(5_000.0),
            Duration::from_millis(800),
            &Threads::default(),
        )
        .unwrap();
    drop(bed);
    // The kernel forwards only what has sound lengths and header checksums.
    let (rt, be) = (&trial.classes[0], &trial.classes[1]);
    assert!(rt.received > 0.9 * rt.sent && be.received > 0.9 * be.sent);
    let text = t.must(Place::Router, "ip -json -stats link show in0");
    let links: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rx = &links[0]["stats64"]["rx"];
    let mean = rx["bytes"].as_f64().unwrap() / rx["packets"].as_f64().unwrap();
    let wanted = Frame::Imix.mean_bytes() - 4.0;
    assert!(
        (mean / wanted - 1.0).abs() < 0.15,
        "{mean} of {wanted} bytes"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn blank_frames_go_round_for_as_long_as_packets_are_sent() {
    let t = TestLab::up("circle", |config| {
        config.generator = Drive::Circle;
        config.ports = 2;
    });
    let traffic = Traffic {
        rt_ratio: 0.5,
        pattern: Pattern::Cbr,
        frame: Frame::Fixed(64),
        flows: 4,
        seed: 3,
    };
    let mut bed = Bed::new(&t.lab, &traffic).unwrap();
    t.lab.tune().unwrap();
    let sink = netns::within(&t.lab.netns(Place::Sink), true, || {
        Ok(threads::napi_of_device("snk0"))
    })
    .unwrap();
    let ran_ns = || -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/schedstat", sink[0])).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    };
    // Twice: the second time there are no blanks left of the first.
    for _ in 0..2 {
        let before = ran_ns();
        let length = Duration::from_millis(500);
        let trial = bed.run(Pps(10_000.0), length, &Threads::default()).unwrap();
        let during = ran_ns() - before;
        assert!(during > 100_000_000, "the sink polled for {during} ns");
        for class in &trial.classes {
            assert!(class.sent > 1_000.0, "{class:?}");
            assert!(class.received <= class.sent && class.received > 0.9 * class.sent);
            assert_eq!(class.reordered, 0.0);
        }
        let before = ran_ns();
        std::thread::sleep(Duration::from_millis(200));
        let after = ran_ns() - before;
        assert!(after < 50_000_000, "and for {after} ns with nothing to do");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_profile_is_offered_stage_by_stage() {
    let report = json_of(&format!(
        "bench steps --dut kernel --firewall {SLOW} --profile 0.2x@300ms,0.4x@300ms --pattern cbr --repeat 1 --json"
    ));
    let dut = &report["duts"][0];
    let sent = |stage: usize, class: usize| dut["stages"][stage]["sent"][class].as_f64().unwrap();
    let totals = [sent(0, 0) + sent(0, 1), sent(1, 0) + sent(1, 1)];
    let wanted = report["capacity_pps"].as_f64().unwrap() * 0.2 * 0.3;
    assert!(
        (totals[0] / wanted - 1.0).abs() < 0.1,
        "{totals:?} {wanted}"
    );
    // What a stall held back is made up for in the next stage.
    assert!((totals[1] / totals[0] - 2.0).abs() < 0.5, "{totals:?}");
    let points = dut["points"].as_array().unwrap();
    assert_eq!(points.len(), 600);
    let in_bins: f64 = points
        .iter()
        .map(|p| p["sent"][0].as_f64().unwrap() + p["sent"][1].as_f64().unwrap())
        .sum();
    assert_eq!(in_bins, totals[0] + totals[1]);
    // The kernel forwards at least some of them: bins are of both ends.
    let lost: f64 = points.iter().map(|p| p["lost"][1].as_f64().unwrap()).sum();
    assert!(lost < in_bins / 2.0, "{lost} of {in_bins}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_matrix_goes_on_where_it_ended_and_refuses_the_file_of_another() {
    let file = std::env::temp_dir().join("t-regret.jsonl");
    let _ = std::fs::remove_file(&file);
    let command = format!(
        "bench regret --dut kernel,express --firewalls {SLOW} --frames 128 --ratios 0.2 --loads 0.1x,0.3x --tcp 0 --seconds 0.2 --json --record {}",
        file.display()
    );
    let none = json_of(&format!("{command} --minutes 0"));
    assert_eq!(none["complete"], false);
    assert_eq!(none["points"].as_array().unwrap().len(), 0);
    let all = json_of(&command);
    assert_eq!(all["complete"], true);
    let points = all["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        assert_eq!(point["firewall"], SLOW);
        let names: Vec<&str> = point["duts"]
            .as_array()
            .unwrap()
            .iter()
            .map(|d| d["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["kernel", "express"]);
        assert!(point["duts"][1]["forwarded_pps"].as_f64() > Some(0.0));
    }
    assert_eq!(json_of(&command)["points"], all["points"], "as it was");
    let other: Vec<&str> = command.split_whitespace().collect();
    let refused = rxlane_lab(&[&other[..], &["--seed", "2"]].concat());
    std::fs::remove_file(&file).unwrap();
    let said = error_of(&refused);
    assert!(said.contains("begun with other settings"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn every_program_has_a_cost_and_goes_the_way_it_is_measured_for() {
    let report = json_of("bench cost --pps 0 --rounds 1 --json");
    let programs = report["programs"].as_array().unwrap();
    for wanted in [
        "a bare redirect",
        "to the stack, 255 rules",
        "express, prefixes",
        "express, established, rp_filter = 2",
        "express, established, 600,000 routes",
    ] {
        let found = programs.iter().find(|p| p["what"] == wanted);
        let found = found.unwrap_or_else(|| panic!("{wanted}: {report:#}"));
        assert!(found["ns"].as_f64() > Some(0.0), "{found}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_core_that_halts_is_said_to_and_its_use_is_counted_all_the_same() {
    let report = json_of(
        "bench latency --dut kernel --offered 5k --firewall 400 --seconds 0.5 --repeat 1 --halt --json",
    );
    assert_eq!(report["settings"]["idle"], "the core halts");
    let used = report["duts"][0]["cpu"].as_f64().unwrap();
    assert!(used > 0.0 && used < 1.0, "{used}");
}

/// Of a run on a machine that others may keep busy: then it is not valid, and says so, and what is asked here holds all the same.
fn json_even_if_invalid(args: &str) -> serde_json::Value {
    let words: Vec<&str> = args.split_whitespace().collect();
    let out = rxlane_lab(&words);
    let said = String::from_utf8_lossy(&out.stderr);
    let report: serde_json::Value =
        serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(report["valid"], out.status.success(), "{said}");
    report
}

#[test]
#[ignore = "needs root: make test"]
fn each_of_two_cores_forwards_its_half_of_the_flows_in_order() {
    let report = json_even_if_invalid(
        "bench latency --cores 2 --share-cores --dut kernel,express-all --offered 20k --pattern cbr --seconds 0.4 --repeat 1 --json",
    );
    for dut in report["duts"].as_array().unwrap() {
        let cores = dut["cores"].as_array().unwrap();
        let of =
            |what: &str| -> Vec<f64> { cores.iter().map(|c| c[what].as_f64().unwrap()).collect() };
        let (pps, both) = (of("forwarded_pps"), dut["forwarded_pps"].as_f64().unwrap());
        assert_eq!(pps.len(), 2, "{dut}");
        assert!((pps[0] + pps[1] - both).abs() < 1.0, "{dut}");
        assert!(
            pps.iter().all(|pps| (pps / both - 0.5).abs() < 0.1),
            "{dut}"
        );
        for share in [of("router_share"), of("traffic_share")].concat() {
            assert!(share > 0.0, "{dut}");
        }
        for class in dut["classes"].as_array().unwrap() {
            assert_eq!(class["reordered"], 0.0, "{dut}");
        }
    }
    let refused = "bench latency --cores 2 --share-cores --offered 20k --generator test-run";
    let words: Vec<&str> = refused.split_whitespace().collect();
    let said = error_of(&rxlane_lab(&words));
    assert!(said.contains("--generator circle"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_hog_is_named_and_what_it_had_of_the_core_is_measured_in_every_point() {
    let report = json_of(
        "bench sweep --dut kernel,express --loads 5k --ratios 0.2 --hogs none,60/100us --seconds 0.4 --repeat 1 --json",
    );
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 4);
    for (i, point) in points.iter().enumerate() {
        let (had, used) = (
            point["hog_share"].as_f64().unwrap(),
            point["cpu"].as_f64().unwrap(),
        );
        if i < 2 {
            assert_eq!((point["hog"].is_null(), had), (true, 0.0), "{point}");
            continue;
        }
        assert_eq!(point["hog"]["takes_us"], 60.0);
        assert_eq!(point["hog"]["every_us"], 100.0);
        // What is left of the core suffices for so few packets, and nothing else has such a priority.
        assert!(had > 0.3 && had < used, "{point}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn tcp_beside_the_packets_brings_bytes_through_every_device() {
    let report = json_even_if_invalid(
        "bench latency --dut kernel,express --offered 5k --firewall stateful:9 --tcp 2 --seconds 0.5 --repeat 1 --json",
    );
    assert_eq!(report["tcp"], 2);
    let setting = report["settings"]["tcp"].as_str().unwrap();
    assert!(setting.starts_with("2 bulk connections, "), "{setting}");
    for dut in report["duts"].as_array().unwrap() {
        assert!(dut["tcp_bps"].as_f64() > Some(1e5), "{dut}");
        assert!(dut["classes"][0]["received"].as_f64() > Some(0.0), "{dut}");
    }
    let refused = rxlane_lab(&["bench", "latency", "--offered", "5k", "--tcp", "65"]);
    assert!(error_of(&refused).contains("use up to 64"));
    let refused = rxlane_lab(&[
        "bench",
        "latency",
        "--dut",
        "xdp-drop",
        "--offered",
        "5k",
        "--tcp",
        "1",
    ]);
    let said = error_of(&refused);
    assert!(said.contains("through the router (--tcp)"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn what_the_core_does_is_split_into_shares_that_add_up() {
    let report = json_even_if_invalid(&format!(
        "bench latency --dut kernel,express --offered 30k --firewall {SLOW} --hog 100/500us --seconds 1 --repeat 1 --json"
    ));
    for dut in report["duts"].as_array().unwrap() {
        let core = &dut["core"];
        let share = |name: &str| {
            core[name]
                .as_f64()
                .unwrap_or_else(|| panic!("{name}: {dut:#}"))
        };
        let names = [
            "receive", "programs", "express", "stack", "drops", "hog", "other", "idle",
        ];
        let sum: f64 = names.iter().map(|name| share(name)).sum();
        assert!((sum - 1.0).abs() < 1e-6, "{sum}: {core}");
        assert_eq!(share("hog"), dut["hog_share"].as_f64().unwrap());
        assert!(share("samples") > 10.0, "{core}");
        // With so many rules the stack is what there is to do.
        assert!(
            share("stack") > share("receive") + share("express"),
            "{core}"
        );
    }
    let kernel = &report["duts"][0]["core"];
    assert_eq!(
        (&kernel["programs"], &kernel["express"]),
        (&0.0.into(), &0.0.into())
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_flowtable_is_used_or_refused_by_the_name_of_what_the_kernel_lacks() {
    let words = "bench latency --dut kernel --offered 20k --firewall flowtable:9 --seconds 0.3 --repeat 1 --json";
    let out = rxlane_lab(&words.split_whitespace().collect::<Vec<_>>());
    if out.status.success() {
        let report: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(report["settings"]["firewall"], "flowtable:9");
        assert!(report["duts"][0]["forwarded_pps"].as_f64() > Some(10_000.0));
        return;
    }
    let said = error_of(&out);
    assert!(said.contains("this kernel lacks"), "{said}");
    assert!(
        said.contains("FLOW_TABLE") || said.contains("FLOW_OFFLOAD"),
        "{said}"
    );
    assert!(said.contains("--firewall stateful:N"), "{said}");
}

#[test]
#[ignore = "needs root: make test"]
fn packets_are_express_to_addresses_on_devices_over_the_ports() {
    for over in [Over::Bridge, Over::Macvlan] {
        let mut t = TestLab::up("over", |config| config.over = over);
        let _router = t.router(&(VOICE_ALL.to_owned() + REST));
        let trial = t.offer_while(2_000.0, 0.5, Duration::from_millis(500), || ());
        for class in &trial.classes {
            assert!(class.sent > 0.0, "{over}");
            assert!(class.received > 0.9 * class.sent, "{over}: {class:?}");
        }
        assert!(t.class("voice", "express") > 100, "{over}");
    }
}

#[test]
fn frames_that_have_no_room_and_programs_that_know_no_tags_are_refused() {
    for (args, wanted) in [
        (
            "--over vlan --dut xdp-fib",
            "it knows Ethernet and IP alone",
        ),
        (
            "--over vrf --firewall flowtable:9",
            "the flowtable finds none",
        ),
        ("--over token-ring", "use one of port, vlan"),
        ("--over gre --frame 64", "at least 88 bytes"),
        ("--over vlan --frame imix", "at least 68 bytes"),
    ] {
        let mut words = vec!["bench", "latency"];
        words.extend(args.split_whitespace());
        let out = rxlane_lab(&words);
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(!out.status.success() && said.contains(wanted), "{said}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_sweep_of_the_engine_is_laid_beside_its_model() {
    let model = std::env::temp_dir().join("t-model.toml");
    std::fs::write(&model, "seconds = 0.1\n[cpu]\npacket_ns = 2000\n").unwrap();
    let out = rxlane_lab(&[
        "bench",
        "sweep",
        "--dut",
        "afxdp",
        "--strategy",
        "sq,ll-wfq",
        "--loads",
        "5k",
        "--ratios",
        "0.3",
        "--seconds",
        "0.2",
        "--repeat",
        "1",
        "--json",
        "--with-sim",
        model.to_str().unwrap(),
    ]);
    let kernel = rxlane_lab(&[
        "bench",
        "sweep",
        "--dut",
        "kernel",
        "--with-sim",
        model.to_str().unwrap(),
    ]);
    assert!(error_of(&kernel).contains("no AF_XDP engine"));
    std::fs::remove_file(&model).unwrap();
    let report: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2);
    for point in points {
        let modelled = point["predicted"]["forwarded_pps"].as_f64().unwrap();
        assert!((modelled / 5000.0 - 1.0).abs() < 0.2, "{point:#}");
        assert!(point["predicted"]["mean_us"][0].as_f64() >= Some(2.0));
        assert!(point["wakeups_per_s"].as_f64() > Some(0.0));
    }
}
