//! Calls and probes beside real TCP, on small sizes. Functional: what is measured and kept, never how fast.

use std::process::Command;

use test_lab::{error_of, json_of, rxlane_lab};

#[test]
#[ignore = "needs root: make test"]
fn calls_go_on_beside_tcp_in_each_direction_and_what_came_of_both_is_counted() {
    let report = json_of(
        "bench call --dut kernel,express-established --flows 2 --direction down,both --congestion reno --ecn on --firewalls stateful:4 \
         --calls 2 --seconds 0.5 --repeat 1 --json",
    );
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{report}");
    for (point, direction) in points.iter().zip(["down", "both"]) {
        assert_eq!(point["direction"], direction);
        assert_eq!(point["firewall"], "stateful:4");
        assert_eq!(
            (&point["congestion"], &point["ecn"]),
            (&"reno".into(), &true.into())
        );
        let duts = point["duts"].as_array().unwrap();
        assert_eq!(duts.len(), 2);
        for dut in duts {
            let of = |name: &str| dut[name].as_f64().unwrap_or(f64::NAN);
            assert!(of("tcp_bps") > 1e6, "{dut}");
            assert!(
                of("call_sent") > 10.0 && of("call_lost") < of("call_sent"),
                "{dut}"
            );
            assert!(of("rtt_p50_us") <= of("rtt_p99_us"), "{dut}");
            assert!((1.0..=4.5).contains(&of("mean_opinion_score")), "{dut}");
            assert!((0.2..=1.0).contains(&of("fairness")), "{dut}");
        }
        // What is worse is worse than the first.
        assert_eq!(duts[0]["worse"], serde_json::json!([]));
    }
    assert_eq!(
        report["settings"]["queue of each host"],
        "pfifo_fast, 1000 packets"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_matrix_of_regret_ends_with_closed_loops() {
    let report = json_of(
        "bench regret --dut kernel,express --firewalls linear:2000 --frames 128 --ratios 0.2 --loads 0.1x --tcp 2 --seconds 0.2 --json",
    );
    let calls = &report["calls"];
    assert_eq!(calls["points"].as_array().unwrap().len(), 1, "{report}");
    let point = &calls["points"][0];
    assert_eq!(
        (&point["firewall"], &point["flows"]),
        (&"linear:2000".into(), &2.into())
    );
    assert!(point["duts"][1]["tcp_bps"].as_f64() > Some(1e5), "{point}");
}

#[test]
#[ignore = "needs root: make test"]
fn a_link_of_a_rate_lets_no_more_through_at_either_hook_and_its_queue_is_the_one_that_overflows() {
    const LINK_BPS: f64 = 0.05e9;
    // Long beside what had waited for a lost segment when the time begins to count, and is read at once then.
    for hook in ["", "--xdp"] {
        let report = json_of(&format!(
            "bench call --dut kernel,express-established --flows 4 --firewalls stateful:4 --link-out 0.05 --qdisc pfifo_fast --calls 2 --seconds 6 \
             --repeat 1 --json {hook}",
        ));
        let point = &report["points"][0];
        assert_eq!(point["link_bps"], LINK_BPS as u64);
        for dut in point["duts"].as_array().unwrap() {
            let of = |name: &str| dut[name].as_f64().unwrap_or(f64::NAN);
            assert!((1e6..1.02 * LINK_BPS).contains(&of("tcp_bps")), "{dut}");
            assert!(of("call_lost") < of("call_sent"), "{dut}");
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn hosts_send_no_faster_than_their_links_and_games_names_and_pages_are_answered_beside_calls() {
    const LINK_BPS: f64 = 0.05e9;
    let report = json_of(
        "bench call --dut kernel,express-established --flows 1 --firewalls stateful:4 --link-in 0.05,none --games 1 --names 10 --pages 1 \
         --seconds 5 --repeat 1 --json",
    );
    let points = report["points"].as_array().unwrap();
    assert_eq!(points[0]["link_in_bps"], LINK_BPS as u64);
    assert_eq!(points[1]["link_in_bps"], serde_json::Value::Null);
    for dut in points[0]["duts"].as_array().unwrap() {
        let tcp_bps = dut["tcp_bps"].as_f64().unwrap_or(f64::NAN);
        assert!((1e6..1.02 * LINK_BPS).contains(&tcp_bps), "{dut}");
    }
    for dut in points.iter().flat_map(|p| p["duts"].as_array().unwrap()) {
        let beside = dut["beside"].as_array().unwrap();
        let kinds: Vec<_> = beside.iter().map(|b| b["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["games", "names", "pages"]);
        for of in beside {
            let n = |name: &str| of[name].as_f64().unwrap_or(f64::NAN);
            assert!(n("asked") >= 1.0 && n("lost") < n("asked"), "{of}");
            assert!(n("p50_us") <= n("p99_us"), "{of}");
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_kernel_lacks_for_calls_beside_tcp_is_named() {
    for (args, wanted) in [
        ("--congestion nosuch", "congestion control `nosuch`"),
        ("--qdisc nosuch", "--qdisc nosuch"),
        ("--flows 65", "use at most 64"),
        ("--calls 0", "use 1 to 200"),
        ("--games 201", "--games 201: use at most 200"),
        ("--pages 65", "--pages 65: use at most 64"),
        ("--seconds 0.1", "use 0.5 to 3600"),
    ] {
        let common = "bench call --dut kernel --firewalls none --seconds 0.5 --repeat 1 --flows 1";
        let given = |flag: &str| args.starts_with(flag);
        let mut words: Vec<&str> = common.split_whitespace().collect();
        // A flag may be given once.
        if let Some(at) = words.iter().position(|w| w.starts_with("--") && given(w)) {
            words.drain(at..at + 2);
        }
        words.extend(args.split_whitespace());
        let said = error_of(&rxlane_lab(&words));
        assert!(said.contains(wanted), "{args}: {said}");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn probes_in_three_code_points_are_heard_before_beside_and_behind_eight_connections() {
    let dir = tempfile::tempdir().unwrap();
    let report = json_of(&format!(
        "bench rrul --dut kernel,express-established --firewall stateful:4 --seconds 1 --repeat 1 --json --flent {} --html {}",
        dir.path().display(),
        dir.path().join("rrul.html").display()
    ));
    let trials = report["trials"].as_array().unwrap();
    assert_eq!(trials.len(), 2);
    for trial in trials {
        let series = trial["series"].as_array().unwrap();
        assert_eq!(series.len(), 8 + 3);
        for one in series {
            let points = one["points"].as_array().unwrap();
            let at = |i: usize| points[i][0].as_f64().unwrap();
            assert!(points.len() >= 2, "{one}");
            let is_probe = one["name"].as_str().unwrap().starts_with("Ping");
            let (first, last) = (at(0), at(points.len() - 1));
            match is_probe {
                true => assert!(first < 5.0 && last > 6.0, "{one}"),
                false => assert!(first > 5.0, "{one}"),
            }
        }
        let name = format!("rrul-{}-1.flent.gz", trial["dut"].as_str().unwrap());
        let text = Command::new("gzip")
            .arg("-dc")
            .arg(dir.path().join(name))
            .output()
            .unwrap();
        let flent: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
        assert_eq!(
            (&flent["version"], &flent["metadata"]["NAME"]),
            (&4.into(), &"rrul".into())
        );
        for wanted in ["TCP download EF", "TCP totals", "Ping (ms) avg"] {
            let values = flent["results"][wanted].as_array().unwrap();
            assert_eq!(values.len(), flent["x_values"].as_array().unwrap().len());
            assert!(values.iter().any(|v| v.is_number()), "{wanted}");
        }
    }
    let page = std::fs::read_to_string(dir.path().join("rrul.html")).unwrap();
    assert!(page.contains("<svg"));
}
