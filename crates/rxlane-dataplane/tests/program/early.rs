//! A ring that is to be emptied: what a code point alone makes droppable is dropped as if everything had been looked at.

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use rxlane_dataplane::testing::{self, Counts};
use rxlane_policy::class::{Lane, Overload, Trust};
use rxlane_policy::control::{ControlRates, control};
use rxlane_policy::rule::Rule;

use crate::frames::{generate, into_tunnel, mutate, near_control};
use crate::reference::minus;
use crate::world::{PASS, class, express, namespace, number, start_with};

fn stack(overload: Overload) -> Lane {
    match testing::stack_lane() {
        Lane::Stack { ring, aim, .. } => Lane::Stack {
            ring,
            overload,
            aim,
        },
        lane => lane,
    }
}

/// Voice by its code point, something by two fields, and two classes of the stack; or all of that behind other rules.
fn fares(ifindex: u32, first: Vec<Rule>, frames: &[Vec<u8>]) -> Vec<(u32, Counts)> {
    let of = |dscp: u8| Rule {
        dscp: Some(1 << dscp),
        ..Rule::default()
    };
    let by_port = Rule {
        dst_ports: vec![80..=80],
        ..of(34)
    };
    let classes = vec![
        class("voice", express(Trust::All), [first, vec![of(46)]].concat()),
        class("bulk", stack(Overload::Shed), vec![of(10), by_port]),
        class("rest", stack(Overload::Auto), Vec::new()),
    ];
    // More than there are: whether one comes first is not to depend on time.
    let rates = ControlRates {
        source_pps: 1_000_000,
        all_pps: 10_000_000,
    };
    let mut router = start_with(&["p0", "p1"], classes, rates);
    let mut fares = Vec::new();
    for (n, frame) in frames.iter().enumerate() {
        // As the daemon does.
        if n % 1000 == 0 {
            router.keep_watch().unwrap();
        }
        testing::empty_rings(&router, 0).unwrap();
        let before = testing::counts(&router, 0).unwrap();
        let out =
            testing::run(&router, frame, ifindex).unwrap_or_else(|e| panic!("{frame:02x?}: {e}"));
        let mut counted = minus(&testing::counts(&router, 0).unwrap(), &before);
        counted.classes.iter_mut().for_each(|c| c.looked_up = 0);
        fares.push((out.action, counted));
    }
    router.detach().unwrap();
    fares
}

#[test]
#[ignore = "needs root: make test"]
fn a_ring_that_is_to_be_emptied_drops_by_the_code_point_what_all_fields_would_drop() {
    let ifindex = namespace();
    let seed = number("RXLANE_SEED", 20_261_130);
    let n = number("RXLANE_FRAMES", 20_000);
    println!("{n} frames, seed {seed}");
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let frame = |n| {
        let mut frame = match n % 4 {
            0 => near_control(&mut rng),
            1 => {
                let inner = generate(&mut rng);
                into_tunnel(&mut rng, &inner)
            }
            _ => generate(&mut rng),
        };
        if n % 3 == 0 {
            mutate(&mut rng, &mut frame);
        }
        frame
    };
    let mut frames: Vec<Vec<u8>> = (0..n).map(frame).collect();
    frames.retain(|frame| frame.len() >= 14);

    let short = fares(ifindex, Vec::new(), &frames);
    // A rule that takes nothing, before all others: no code point decides alone any more.
    let nothing = Rule {
        dst: vec!["203.0.113.0/32".parse().unwrap()],
        ..Rule::default()
    };
    let long = fares(ifindex, vec![nothing], &frames);

    let drops = |counts: &Counts| counts.classes.iter().map(|c| c.early_drops).sum::<u64>();
    let (mut dropped, mut first) = (0, 0);
    for (frame, (short, long)) in frames.iter().zip(short.into_iter().zip(long)) {
        dropped += drops(&short.1);
        first += u64::from(control(frame).is_some() && long.0 == PASS);
        // Linux drops what is malformed, of which it gets a few.
        if drops(&short.1) == 1 && drops(&long.1) == 0 {
            let reasons = long.1.reasons.iter().sum::<u64>();
            assert!(
                reasons == 1 && control(frame).is_none(),
                "{frame:02x?}: {long:?}"
            );
            continue;
        }
        assert_eq!(short, long, "{frame:02x?}");
    }
    assert!(
        dropped > n / 8 && first > n / 40,
        "{dropped} of {n} were dropped, {first} came first"
    );
}
