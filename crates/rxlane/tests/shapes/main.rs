//! Every program, for every shape of configuration, on the kernel that this runs on: it is loaded, it is attached,
//! it forwards, and the verifier's effort stays far from its limit.
//!
//! Needs root and the lab's tools (`make setup`). RXLANE_RESULTS=FILE writes a line a shape, for the table of kernels;
//! RXLANE_EVERY=3 tries one of three.

mod pairs;
mod shape;
mod traffic;

use std::io::Write as _;

use nix::sys::signal::Signal;
use rxlane_bench::lab::Place;
use rxlane_bpf::verifier::{Accepted, LIMIT};
use test_lab::{REST, TestLab, VOICE_ALL, VOICE_ESTABLISHED};

use shape::Shape;
use traffic::Traffic;

/// What became of a shape.
struct ShapeResult {
    loaded: bool,
    forwarded: bool,
    /// Verified instructions of each program.
    programs: Vec<Accepted>,
    why: String,
}

fn attempt(t: &mut TestLab, traffic: &Traffic, shape: &Shape) -> ShapeResult {
    let mut outcome = ShapeResult {
        loaded: false,
        forwarded: false,
        programs: Vec::new(),
        why: String::new(),
    };
    let path = t.file("shape", &shape.toml);
    let router = match t.try_router_from(&path) {
        Ok(router) => router,
        Err(why) => {
            outcome.why = why;
            return outcome;
        }
    };
    outcome.loaded = true;
    // While its ports settle (addresses, carriers), a router looks around, and on an emulated machine that may take longer
    // than some conversations.
    let begun = std::time::Instant::now();
    while begun.elapsed() < std::time::Duration::from_secs(120) {
        if let Err(why) = traffic.converse() {
            outcome.why = why;
            break;
        }
        let status = t.status_json().expect("a router");
        // A command that is too old to tell has none.
        outcome.programs = serde_json::from_value(status["programs"].clone()).unwrap_or_default();
        outcome.forwarded = !shape.express || express(&status) > 0;
        if outcome.forwarded {
            outcome.why.clear();
            break;
        }
        outcome.why = format!("nothing took the express lane: {}", status["ports"]);
        std::thread::sleep(std::time::Duration::from_secs(1));
    }
    router.end(Signal::SIGTERM);
    outcome
}

/// Packets that took the express lane or, with an engine, its rings.
fn express(status: &serde_json::Value) -> u64 {
    let counters: &[&str] = if status["engine"].is_null() {
        &["express"]
    } else {
        &["express", "queued"]
    };
    let classes = status["classes"].as_array().into_iter().flatten();
    classes
        .flat_map(|c| counters.iter().map(move |n| c[*n].as_u64().unwrap_or(0)))
        .sum()
}

/// What this kernel has and lacks, a line each, as `rxlane check --live` finds it.
fn features(t: &mut TestLab) -> Vec<String> {
    let simplest = t.config("features", REST);
    let out = t.rxlane(&[
        "check",
        "--live",
        "--json",
        "-c",
        &simplest.to_string_lossy(),
    ]);
    let found: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
    let features = found["features"]["features"].as_array();
    let line = |feature: &serde_json::Value| {
        let present = if feature["present"] == true {
            "yes"
        } else {
            "no"
        };
        let text = |key: &str| feature[key].as_str().unwrap_or_default().to_owned();
        format!("feature\t{}\t{present}\t{}", text("name"), text("without"))
    };
    features.into_iter().flatten().map(line).collect()
}

/// A lab whose router tracks connections, because a rule of its firewall asks for their state.
fn tracking_lab(name: &str) -> TestLab {
    let t = TestLab::up(name, |_| ());
    t.must(Place::Router, "nft add table inet track && nft add chain inet track seen '{ type filter hook forward priority 0; }' && nft add rule inet track seen ct state invalid drop");
    t
}

/// A line of the results, on disk before the next shape is tried.
fn record(line: &str) {
    if let Ok(path) = std::env::var("RXLANE_RESULTS") {
        let mut file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .expect("the results can be written");
        writeln!(file, "{line}").expect("the results can be written");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn every_shape_of_configuration_loads_and_forwards_on_this_kernel() {
    let mut t = tracking_lab("shapes");
    let traffic = Traffic::open(&t.lab);
    let mut failed = Vec::new();
    features(&mut t).iter().for_each(|line| record(line));
    // One of so many: an emulated machine that has no time for all.
    let every = std::env::var("RXLANE_EVERY").map_or(1, |n| n.parse().expect("a number"));
    for shape in shape::shapes().into_iter().step_by(every) {
        let o = attempt(&mut t, &traffic, &shape);
        let programs: Vec<String> = o
            .programs
            .iter()
            .map(|p| format!("{}={}", p.name, p.verified_instructions))
            .collect();
        let verdict = |good| if good { "yes" } else { "no" };
        let why = o.why.replace(['\t', '\n'], " ");
        record(&format!(
            "shape\t{}\t{}\t{}\t{}\t{why}",
            shape.name,
            verdict(o.loaded),
            verdict(o.forwarded),
            programs.join(" ")
        ));
        if !o.forwarded {
            failed.push(format!("{}: {why}", shape.name));
        }
        for p in o.programs {
            let verified = p.verified_instructions;
            if verified == 0 || verified > LIMIT / 2 {
                failed.push(format!(
                    "{}: {} takes {verified} verified instructions of {LIMIT}",
                    shape.name, p.name
                ));
            }
        }
    }
    assert!(
        failed.is_empty(),
        "{} shapes failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_conversation_goes_on_through_reload_kill_take_over_and_detach() {
    let mut t = tracking_lab("lives");
    let traffic = Traffic::open(&t.lab);
    let converse = |when: &str| {
        traffic
            .converse()
            .unwrap_or_else(|lost| panic!("{when}: {lost}"));
    };
    let plain = VOICE_ALL.to_owned() + REST;
    let engine = format!("datapath = \"afxdp\"\n[afxdp]\n{plain}");
    // A daemon that starts without an engine drops what one needs.
    let mut router = t.router(&engine);
    converse("after the start");
    for (to, classes) in [
        ("the full program", VOICE_ESTABLISHED.to_owned() + REST),
        ("the engine", engine),
        ("the plain program", plain.clone()),
    ] {
        t.config("router", &classes);
        t.reloaded();
        t.lab.tune().expect("threads can be placed");
        converse(&format!("after a reload to {to}"));
    }
    let express = t.class("voice", "express");
    let killed = std::time::Instant::now();
    router.end(Signal::SIGKILL);
    converse("without the daemon");
    // Ten seconds after the daemon all is the kernel's, which a machine that stands still may take.
    let in_time = killed.elapsed() < std::time::Duration::from_secs(8);
    let went_on = t.class("voice", "express") > express;
    assert!(went_on || !in_time, "the lanes went on");
    router = t.router(&plain);
    converse("after the take-over");
    assert!(t.class("voice", "express") > express, "with its counters");
    router.end(Signal::SIGKILL);
    assert!(t.rxlane(&["detach"]).status.success());
    let links = t.must(Place::Router, "ip -details link show");
    assert!(!links.contains("xdp"), "nothing is left: {links}");
    converse("after the detach");
}
