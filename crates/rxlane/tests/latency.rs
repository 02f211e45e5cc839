//! How long packets are inside of the router, as status and metrics show it.

use rxlane_bench::lab::Place;
use serde_json::Value;
use test_lab::{REST, TestLab, VOICE_ALL, wait_for};

/// What was measured of a class.
fn latency(t: &TestLab, class: &str) -> Value {
    let status = t.status_json().expect("a router");
    let classes = status["classes"].as_array().unwrap().clone();
    let found = classes.into_iter().find(|c| c["name"] == class);
    found.expect("the class")["latency"].clone()
}

fn metrics(t: &TestLab) -> Vec<String> {
    let out = t.rxlane(&["status", "--format", "openmetrics"]);
    let text = String::from_utf8(out.stdout).unwrap();
    let of_latency = |l: &&str| l.starts_with("rxlane_class_latency_seconds");
    text.lines().filter(of_latency).map(str::to_owned).collect()
}

/// Names and labels without numbers.
fn series(metrics: &[String]) -> Vec<&str> {
    let name = |line: &String| line.rfind(' ').unwrap_or_default();
    metrics.iter().map(|l| &l[..name(l)]).collect()
}

#[test]
#[ignore = "needs root: make test"]
fn a_sample_of_the_packets_of_both_lanes_is_measured_and_shown_where_counters_are() {
    let mut t = TestLab::up("latency", |_| ());
    let config = t.config("router", &(VOICE_ALL.to_owned() + REST));
    let _router = t.router_from(&config);
    let before = metrics(&t);
    // Two classes, 15 buckets and what is above, sum and count.
    assert_eq!(before.len(), 2 * 18, "{before:?}");
    assert_eq!(latency(&t, "voice")["measured"], 0);
    for (class, mark) in [("voice", "0xb8"), ("rest", "0")] {
        wait_for("some are measured", || {
            t.must(
                Place::Gen,
                &format!("ping -q -f -c 300 -Q {mark} 10.20.0.2"),
            );
            latency(&t, class)["measured"].as_u64().unwrap() >= 3
        });
        let l = latency(&t, class);
        let measured = l["measured"].as_u64().unwrap();
        let all = t.class(class, "express") + t.class(class, "passed");
        assert!(measured < all / 20, "{measured} of {all}");
        let buckets = l["buckets"].as_array().unwrap();
        let sum: u64 = buckets.iter().map(|b| b["packets"].as_u64().unwrap()).sum();
        assert_eq!(sum, measured);
        let us = |name: &str| l[name].as_f64().unwrap();
        assert!(0.0 < us("p50_us") && us("p50_us") <= us("p99_us"), "{l}");
        assert!(us("p99_us") <= us("longest_us"), "{l}");
    }
    let after = metrics(&t);
    assert_eq!(series(&before), series(&after), "traffic adds none");
    let count = |le: &str| {
        let start = format!("rxlane_class_latency_seconds_{le} ");
        let line = after.iter().find_map(|l| l.strip_prefix(&start));
        line.unwrap_or_else(|| panic!("{start} in {after:?}"))
            .parse::<u64>()
            .unwrap()
    };
    let all = count("bucket{le=\"+Inf\",class=\"voice\"}");
    assert_eq!(all, count("count{class=\"voice\"}"));
    assert!(all >= 3);
    let out = t.rxlane(&["status"]);
    let said = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(said.contains("latency inside"), "{said}");

    // Without it nothing is measured, and nothing is said.
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("latency = false\n{text}")).unwrap();
    t.reloaded();
    assert_eq!(latency(&t, "voice"), Value::Null);
    assert_eq!(metrics(&t), [""; 0]);
}
