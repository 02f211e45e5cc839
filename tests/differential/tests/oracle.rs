//! The oracle on the router under test, from a fixed seed.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use rxlane_differential::grammar::Kinds;
use rxlane_differential::hunt::{Hunt, Tally};
use rxlane_differential::report::Finding;
use rxlane_differential::trial::{self, Second, Settings};
use rxlane_differential::world;

/// Express packets of each trust below which nothing is proved. Of `established` some two in a configuration are, and a slow machine does 60
/// configurations in two minutes.
const EXPRESS_OF_EACH_TRUST: u64 = 100;
/// Half minutes that are added until there are so many.
const MORE: u32 = 8;

/// The router that RXLANE_UNDER_TEST names, or the one that was built last.
fn router() -> PathBuf {
    if let Some(path) = std::env::var_os("RXLANE_UNDER_TEST") {
        return path.into();
    }
    let this = std::env::current_exe().expect("a test has a path");
    let target = this.ancestors().nth(3).expect("target/PROFILE/deps/NAME");
    let built = ["debug", "release"].map(|profile| target.join(profile).join("rxlane"));
    let mut built = built.into_iter().filter(|path| path.exists());
    let found = built.next();
    found.expect("a router to test: cargo build --bin rxlane, or name one in RXLANE_UNDER_TEST")
}

fn hunt(second: Second, out: &str) -> Hunt {
    assert!(
        nix::unistd::geteuid().is_root(),
        "needs root: run `make test`"
    );
    world::remove_left_over();
    Hunt {
        second,
        seed: 20_260_101,
        configurations: None,
        time: None,
        packets: 300,
        jobs: 6,
        settle: Duration::from_millis(1100),
        start: Duration::from_secs(20),
        late: Duration::from_millis(120),
        without: Vec::new(),
        only: Vec::new(),
        engine: false,
        kinds: Kinds::of_this_kernel(),
        shrinking: 250,
        // One difference is enough to fail by, and others take as long to make small.
        keep_going: false,
        out: std::env::temp_dir().join(out),
    }
}

fn go(hunt: &Hunt) -> Tally {
    go_telling(hunt, &|found| println!("{}", found.text()))
}

fn go_telling(hunt: &Hunt, found: &(dyn Fn(&Finding) + Sync)) -> Tally {
    let tally = hunt.run(&|_| (), found);
    let tally = tally.unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(tally.failures, Vec::<String>::new());
    tally
}

#[test]
#[ignore = "needs root: make test"]
fn two_plain_routers_do_the_same() {
    let mut hunt = hunt(Second::Plain, "rxlane-oracle-plain");
    hunt.configurations = Some(30);
    let tally = go(&hunt);
    assert_eq!(tally.differences, []);
    let unstable = tally.unstable.len() as u64;
    assert!(unstable * 10 < tally.configurations, "{:?}", tally.unstable);
    assert!(tally.left > 3_000, "packets are forwarded: {}", tally.left);
}

#[test]
#[ignore = "needs root: make test"]
fn a_router_with_one_setting_more_is_found_out() {
    use rxlane_differential::scenario::Statement;
    let changes = [
        Statement::Ip("route del default via 10.1.0.10 dev wan0".into()),
        Statement::Nft("insert rule inet fw forwarded udp dport 5004 drop".into()),
    ];
    for change in changes {
        let mut hunt = hunt(
            Second::Changed(vec![change.clone()]),
            "rxlane-oracle-changed",
        );
        hunt.configurations = Some(30);
        // That there is one is enough.
        hunt.shrinking = 5;
        assert!(!go(&hunt).differences.is_empty(), "{change:?}");
    }
}

/// Those in `known` that need more than this kernel may have are replayed in emulated machines (tests/vm/test-oracle).
fn replay(known: &str) -> trial::Outcome {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("known")
        .join(known);
    let finding = Finding::read(&file).expect("a finding");
    let settings = Settings {
        second: Second::Rxlane(router()),
        settle: Duration::from_millis(1100),
        start: Duration::from_secs(20),
        late: Duration::from_millis(120),
        quiet: Duration::from_millis(10),
        tag: "known".into(),
    };
    let outcome = trial::run(&finding.scenario, &settings).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(outcome.invalid, Vec::<String>::new());
    assert_eq!(outcome.mismatches, []);
    outcome
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_without_ipv4_address_is_strict_where_others_are_loose() {
    let outcome = replay("loose-without-address.json");
    assert_eq!(
        outcome.express.values().sum::<u64>(),
        0,
        "Linux drops it, and must have got it"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn tags_that_a_device_below_has_taken_out_of_the_frame_are_not_sent_on() {
    for known in ["tagged-into-bridge.json", "tagged-into-macvlan.json"] {
        let outcome = replay(known);
        assert!(outcome.left > 0, "{known}: Linux takes the tag off");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn rules_and_multipath_routes_go_by_what_is_behind_ipv6_extension_headers() {
    for known in ["rule-behind-options.json", "multipath-behind-options.json"] {
        let outcome = replay(known);
        assert!(outcome.left > 0, "{known}: Linux answers or forwards it");
    }
}

#[test]
#[ignore = "needs root: make test"]
fn a_next_hop_that_comes_alive_without_news_is_used_again() {
    assert!(replay("nexthop-comes-alive.json").left > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_locked_route_mtu_above_that_of_the_port_is_sent_by_linux() {
    assert!(replay("route-mtu-above-the-port.json").left > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn a_flow_whose_source_has_no_way_back_any_more_is_for_linux() {
    assert!(replay("source-becomes-unreachable.json").left > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn errors_go_where_linux_sends_what_they_are_about() {
    assert!(replay("icmp-error-over-multipath.json").left > 0);
}

#[test]
#[ignore = "needs root: make test"]
fn what_a_macvlan_device_copies_leaves_twice() {
    let outcome = replay("copied-by-macvlan.json");
    let statuses = outcome.status.expect("it runs");
    assert!(
        statuses["classes"][0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("`copies` takes or copies packets")),
        "{statuses:#}"
    );
    // What was asked and answered, and four of these twice.
    assert!(outcome.left > outcome.sent, "{} left", outcome.left);
}

#[test]
#[ignore = "needs root: make test"]
fn the_express_lane_sends_what_plain_linux_would_have_sent() {
    let seconds = std::env::var("RXLANE_ORACLE_SECONDS").ok();
    let seconds = seconds.map_or(120, |s| {
        s.parse().expect("RXLANE_ORACLE_SECONDS is a number")
    });
    let mut hunt = hunt(Second::Rxlane(router()), "rxlane-oracle");
    hunt.time = Some(Duration::from_secs(seconds));
    let mut express: BTreeMap<&str, u64> = BTreeMap::new();
    // A slow machine takes longer for as much.
    for _ in 0..=MORE {
        let findings = Mutex::new(String::new());
        let tally = go_telling(&hunt, &|found| {
            *findings.lock().unwrap() += &found.text();
        });
        println!("{tally:#?}");
        let found = findings.into_inner().unwrap();
        assert!(
            tally.differences.is_empty(),
            "files to replay: {:?}\n{found}",
            tally.differences
        );
        // Differences that did not come again, and trials that were made again, are seldom: otherwise they say something.
        let seldom = 2 + tally.configurations / 5;
        let unstable = tally.unstable.len() as u64;
        assert!(unstable <= seldom, "not confirmed: {:?}", tally.unstable);
        assert!(tally.again <= seldom, "made again: {:?}", tally.again);
        for trust in ["established", "prefixes", "all"] {
            *express.entry(trust).or_default() += tally.express.get(trust).copied().unwrap_or(0);
        }
        if express.values().all(|n| *n >= EXPRESS_OF_EACH_TRUST) {
            return;
        }
        hunt.seed += tally.configurations + 1;
        hunt.time = Some(Duration::from_secs(30));
    }
    panic!("too few packets were express to prove anything: {express:?}");
}
