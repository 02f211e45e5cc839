//! What the controller does when a core cannot keep up. Functional: who is served and in what order,
//! never how fast.

mod common;

use common::{REST, TestLab, VOICE_ALL};
use rxlane_bench::bench::{Pattern, Traffic};
use rxlane_bench::trial::{Bed, Threads};

/// Far more than any core forwards through 400 rules.
const FLOOD_PPS: f64 = 500_000.0;

fn flood(
    classes: &str,
    rt_ratio: f64,
    name: &str,
) -> (TestLab, rxlane_bench::trial::Trial, common::Background) {
    let mut t = TestLab::up(name, |c| c.firewall = 400);
    let router = t.router(classes);
    let traffic = Traffic {
        rt_ratio,
        pattern: Pattern::Poisson,
        frame: 128,
        flows: 16,
        seed: 7,
    };
    let mut bed = Bed::new(&t.lab, &traffic).unwrap();
    let trial = bed.run(FLOOD_PPS, 1.0, &Threads::default()).unwrap();
    drop(bed);
    (t, trial, router)
}

#[test]
fn shedding_protects_rt_and_reorders_nothing() {
    let (t, trial, _router) = flood(&(VOICE_ALL.to_owned() + REST), 0.1, "shed");
    let share = |class: usize| trial.classes[class].received / trial.classes[class].sent;
    assert!(share(0) > 2.0 * share(1), "RT {} BE {}", share(0), share(1));
    assert!(trial.classes[1].received > 0.0, "BE is not starved");
    assert_eq!(trial.classes[0].reordered + trial.classes[1].reordered, 0.0);
    assert!(t.class("rest", "early_drops") > 0);
    assert_eq!(
        t.class("rest", "queued"),
        0,
        "the class shares the polling core"
    );
    let rest = (
        t.class("rest", "packets"),
        t.class("rest", "passed") + t.class("rest", "early_drops"),
    );
    assert_eq!(rest.0, rest.1, "every packet is accounted for");
}

#[test]
fn without_express_traffic_nothing_is_shed() {
    let (t, _, _router) = flood(&(VOICE_ALL.to_owned() + REST), 0.0, "noexpress");
    // What the stack makes of a flood is its affair: on a slow machine nothing arrives within the trial.
    assert!(t.class("rest", "passed") > 0);
    assert_eq!(t.class("rest", "passed"), t.class("rest", "packets"));
    assert_eq!(t.class("rest", "early_drops"), 0);
}

#[test]
fn queueing_fills_a_bounded_ring_and_reorders_nothing() {
    let queue = REST.to_owned() + "overload = \"queue\"\nring = 256\ncores = [0]\npriority = 10\n";
    let (t, trial, _router) = flood(&(VOICE_ALL.to_owned() + &queue), 0.1, "queue");
    assert_eq!(trial.classes[0].reordered + trial.classes[1].reordered, 0.0);
    assert!(t.class("rest", "queued") > 0);
    let status = t.status_json().unwrap();
    let ring = &status["classes"][1]["rings"][0];
    assert_eq!(ring["size"], 256);
    assert!(
        ring["drops"].as_u64().unwrap() > 0,
        "the ring was full: {ring}"
    );
    let (entered, served) = (
        ring["enqueued"].as_u64().unwrap(),
        ring["dequeued"].as_u64().unwrap(),
    );
    assert!(entered >= served && entered - served <= 256, "{ring}");
    assert_eq!(
        t.class("rest", "queued"),
        entered + ring["drops"].as_u64().unwrap()
    );
}
