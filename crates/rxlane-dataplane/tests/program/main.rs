//! The XDP program against the reference parser and classifier, packet by packet (BPF_PROG_TEST_RUN).
//!
//! Needs root: a network namespace of its own, two veth pairs, static routes and neighbours.

mod by_vlan;
mod early;
mod flows;
mod frames;
mod known;
mod outward;
mod reference;
mod refusing;
mod world;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rxlane_dataplane::testing;
use rxlane_policy::control::control;
use rxlane_policy::headers::parse;
use rxlane_policy::police::{Police, Rate};

use frames::{generate, into_session, into_tunnel, mutate, near_control};
use reference::{Expected, expected, in_order, judge, minus, parse_known};
use world::{
    END, IN_MAC, PASS, PEER, SESSION, STATION, classes, namespace, number, start, tunnels,
};

#[test]
#[ignore = "needs root: make test"]
fn verdicts_agree_with_the_reference_on_generated_and_mutated_packets() {
    let ifindex = namespace();
    let classes = classes();
    let mut router = start(classes.clone());
    let frames = number("RXLANE_FRAMES", 180_000);
    let seed = number("RXLANE_SEED", 20_261_121);
    println!("{frames} frames, seed {seed}");
    let rules = in_order(&classes);
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut before = testing::counts(&router, 0).unwrap();
    let mut seen = std::collections::BTreeMap::new();
    let served: Vec<_> = tunnels()
        .into_iter()
        .map(|t| (ifindex, IN_MAC, t))
        .collect();
    let stations = [
        (ifindex, STATION, END.into()),
        (ifindex, [0; 6], END.into()),
    ];
    for n in 0..frames {
        // As the daemon does: without anybody who watches, `all` goes back to the kernel, and a slow machine takes long.
        if n % 1000 == 0 {
            router.keep_watch().unwrap();
            testing::serve_session(&router, ifindex, SESSION, PEER).unwrap();
            testing::serve_tunnels(&router, &served, &stations).unwrap();
        }
        let mut frame = generate(&mut rng);
        if n % 8 >= 4 {
            frame = into_tunnel(&mut rng, &frame);
        }
        if n % 4 < 2 {
            frame = into_session(&mut rng, &frame);
        }
        if n % 2 == 1 {
            mutate(&mut rng, &mut frame);
        }
        let known = parse_known(&frame);
        let (wanted, untrusted) =
            expected(&classes, &rules, &known.parsed, known.unfinished(&frame));
        let wanted = match (known.is_foreign, known.is_wrong) {
            (true, _) => wanted.in_foreign(),
            (false, true) => wanted.in_wrong(),
            (false, false) => wanted,
        };
        let out =
            testing::run(&router, &frame, ifindex).unwrap_or_else(|e| panic!("{frame:02x?}: {e}"));
        let after = testing::counts(&router, 0).unwrap();
        judge(
            &wanted,
            untrusted,
            (&frame, known.at),
            &out,
            &minus(&after, &before),
        );
        let around = match wanted {
            Expected::Forward(1) => (known.in_session, known.in_tunnel),
            _ => (false, 0),
        };
        *seen.entry(format!("{wanted:?} {around:?}")).or_insert(0u32) += 1;
        before = after;
    }
    router.detach().unwrap();
    // Every outcome must have been tried, or the test proves less than it says.
    assert!(
        seen.len() >= 27 && seen.values().all(|n| *n >= 2),
        "{seen:#?}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn control_packets_are_told_as_the_reference_tells_them() {
    let program = testing::ControlProgram::load().unwrap_or_else(|e| panic!("{e}"));
    let frames = number("RXLANE_FRAMES", 60_000);
    let seed = number("RXLANE_SEED", 20_261_125);
    println!("{frames} frames, seed {seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let mut seen = std::collections::BTreeMap::new();
    for n in 0..frames {
        let mut frame = near_control(&mut rng);
        if n % 8 == 1 {
            frame = into_session(&mut rng, &frame);
        }
        if n % 4 == 3 {
            mutate(&mut rng, &mut frame);
        }
        let Ok(found) = program.of(&frame) else {
            assert!(frame.len() < 14, "{frame:02x?}");
            continue;
        };
        let wanted = control(&frame);
        assert_eq!(found, wanted, "{frame:02x?}");
        *seen.entry(format!("{wanted:?}")).or_insert(0u32) += 1;
    }
    assert!(
        seen.len() == 4 && seen.values().all(|n| *n > 500),
        "{seen:#?}"
    );
}

#[test]
#[ignore = "needs root: make test"]
fn a_burst_conforms_and_the_rest_becomes_the_next_class() {
    let ifindex = namespace();
    let mut classes = classes();
    classes[1].police = Some(Police {
        rate: Rate::Pps(1),
        burst: 5,
    });
    let router = start(classes);
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    // One EF packet that can be forwarded, again and again.
    let frame = loop {
        let f = generate(&mut rng);
        let classes = self::classes();
        let wanted = expected(&classes, &in_order(&classes), &parse(&f, 0, IN_MAC), false);
        if wanted == (Expected::Forward(1), None) {
            break f;
        }
    };
    let begun = std::time::Instant::now();
    for _ in 0..50 {
        testing::run(&router, &frame, ifindex).unwrap();
    }
    let elapsed_s = begun.elapsed().as_secs();
    let counts = testing::counts(&router, 0).unwrap();
    router.detach().unwrap();
    let refilled = counts.classes[1].packets - 5;
    assert!(
        refilled <= elapsed_s + 1,
        "one packet a second: {refilled} in {elapsed_s} s"
    );
    assert_eq!(counts.classes[1].policed, 45 - refilled);
    let rest: u64 = counts.classes[2..].iter().map(|c| c.packets).sum();
    assert_eq!(rest, counts.classes[1].policed);
}

#[test]
#[ignore = "needs root: make test"]
fn a_port_that_is_not_ours_is_passed_untouched() {
    namespace();
    let router = start(classes());
    let frame = generate(&mut Pcg64Mcg::seed_from_u64(3));
    // Without a context the kernel runs the program as if the frame had come in on loopback.
    let out = testing::run(&router, &frame, 0).unwrap();
    router.detach().unwrap();
    assert_eq!(
        out,
        testing::TestRun {
            action: PASS,
            frame
        }
    );
}
