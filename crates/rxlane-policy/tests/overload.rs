//! The guard's own rules, on sequences of events that no kernel would make.

use proptest::prelude::*;
use rxlane_policy::Nanos;
use rxlane_policy::overload::{Core, Gap, GuardedClass, Moment, Plan, PollEnd, Service, Verdict};

const NAPI: u32 = 8193;

fn plan(target: u64, stack: &[u32], ring: u32) -> Plan {
    let target = Nanos(target);
    let mut classes = vec![GuardedClass {
        service: Service::Express,
        target,
    }];
    classes.extend(stack.iter().map(|weight| GuardedClass {
        service: Service::Stack { weight: *weight },
        target,
    }));
    Plan::new(&classes, ring, false).unwrap()
}

fn end(now: u64, work: u32) -> PollEnd {
    PollEnd {
        napi: NAPI,
        at: Nanos(now).into(),
        work,
        packets: work,
        budget: 64,
        express: true,
        held: false,
    }
}

/// A core whose ring was full at the end of polls for more than a ms.
fn guarded(plan: &Plan) -> (Core, u64) {
    let mut core = Core::default();
    let mut now = 1_000_000;
    while !core.is_guarded() {
        core.poll_ends(plan, end(now, 64));
        now += 50_000;
        assert!(now < 10_000_000, "never guarded");
    }
    (core, now)
}

#[test]
fn a_core_is_guarded_after_a_ms_of_full_polls_and_not_before() {
    let plan = plan(34_000, &[1], 256);
    assert!((2_000_000..2_200_000).contains(&guarded(&plan).1));
    let mut core = Core::default();
    for poll in 0..1_000 {
        let work = if poll % 20 == 0 { 63 } else { 64 };
        core.poll_ends(&plan, end(1_000_000 + poll * 50_000, work));
    }
    assert!(!core.is_guarded(), "the ring was empty each ms");
}

#[test]
fn without_express_traffic_nothing_is_guarded_unless_it_is_wanted() {
    let class = |service| GuardedClass {
        service,
        target: Nanos(34_000),
    };
    let classes = [class(Service::Express), class(Service::Stack { weight: 1 })];
    for always in [false, true] {
        let plan = Plan::new(&classes, 256, always).unwrap();
        let mut core = Core::default();
        for poll in 0..100 {
            let now = 1_000_000_000 + poll * 50_000;
            let express = false;
            core.poll_ends(
                &plan,
                PollEnd {
                    express,
                    ..end(now, 64)
                },
            );
        }
        assert_eq!(core.is_guarded(), always);
    }
}

#[test]
fn polls_pass_for_the_target_and_not_at_all_once_the_ring_is_too_old() {
    let plan = plan(34_000, &[1], 256);
    let (mut core, mut now) = guarded(&plan);
    let mut poll = |core: &mut Core, packets: u32| {
        core.poll_begins(NAPI, Nanos(now).into(), Nanos(0));
        let (mut passed, mut reads) = (0, 0);
        for packet in 0..packets {
            let verdict = core.packet(&plan, 1, packet, packet, || {
                reads += 1;
                Nanos(now).into()
            });
            passed += u32::from(verdict == Verdict::Pass);
            now += if verdict == Verdict::Pass { 1_000 } else { 200 };
        }
        core.poll_ends(&plan, end(now, packets));
        (passed, reads)
    };
    let passed = poll(&mut core, 64).0;
    assert!((10..=45).contains(&passed), "{passed}");
    // Polls that take the whole device budget pass less and less, and after eight targets nothing.
    let after: Vec<u32> = (0..12).map(|_| poll(&mut core, 64).0).collect();
    assert!(after.is_sorted_by(|a, b| a >= b), "{after:?}");
    assert_eq!(after.last(), Some(&0), "the ring is too old");
    assert_eq!(
        poll(&mut core, 10),
        (0, 0),
        "and nobody needs to know the time"
    );
    assert!(poll(&mut core, 64).0 > 10, "it was empty");
}

#[test]
fn a_ring_that_cannot_be_emptied_passes_a_packet_a_ms() {
    let plan = plan(34_000, &[1], 256);
    let (mut core, mut now) = guarded(&plan);
    // Until the ring is too old, some pass.
    let begin = now + 1_000_000;
    let mut passed = 0;
    while now < begin + 100_000_000 {
        core.poll_begins(NAPI, Nanos(now).into(), Nanos(0));
        for packet in 0..64 {
            let verdict = core.packet(&plan, 1, packet, packet, || Nanos(now).into());
            passed += u32::from(verdict == Verdict::Pass && now >= begin);
            now += 200;
        }
        core.poll_ends(&plan, end(now, 64));
    }
    assert!((90..300).contains(&passed), "{passed} in 100 ms");
}

#[test]
fn an_idle_core_is_not_guarded_for_long() {
    let plan = plan(34_000, &[1], 256);
    let (mut core, begin) = guarded(&plan);
    let mut now = begin;
    while core.is_guarded() {
        now += 50_000;
        core.poll_begins(NAPI, Nanos(now).into(), Nanos(50_000 - 5_000));
        for packet in 0..4 {
            let _ = core.packet(&plan, 1, packet, packet, || Nanos(now).into());
            now += 1_000;
        }
        core.poll_ends(&plan, end(now, 4));
        assert!(
            now < begin + 20_000_000,
            "still guarded after 20 ms of a tenth of the load"
        );
    }
}

/// A poll of a ring in which each packet takes 0.7 us if it passes; returns how many passed.
fn poll(core: &mut Core, plan: &Plan, napi: u32, class: usize, packets: u32, now: &mut u64) -> u32 {
    core.poll_begins(napi, Nanos(*now).into(), Nanos(0));
    let mut passed = 0;
    for packet in 0..packets {
        let verdict = core.packet(plan, class, packet, packet, || Nanos(*now).into());
        passed += u32::from(verdict == Verdict::Pass);
        *now += if verdict == Verdict::Pass { 700 } else { 200 };
    }
    core.poll_ends(
        plan,
        PollEnd {
            napi,
            ..end(*now, packets)
        },
    );
    passed
}

#[test]
fn a_few_packets_of_a_quiet_ring_pass_while_another_ring_overloads_the_core() {
    let plan = plan(34_000, &[1], 256);
    let (mut core, mut now) = guarded(&plan);
    for turn in 0..200 {
        for full in 0..5 {
            let packets = if full == 4 { 40 } else { 64 };
            poll(&mut core, &plan, NAPI, 1, packets, &mut now);
        }
        if turn % 20 == 10 {
            assert_eq!(poll(&mut core, &plan, NAPI + 1, 1, 5, &mut now), 5);
        }
    }
}

#[test]
fn a_stall_does_not_end_the_guard_of_an_overloaded_core() {
    let plan = plan(34_000, &[1], 256);
    let (mut core, mut now) = guarded(&plan);
    for turn in 0..400 {
        for full in 0..5 {
            let packets = if full == 4 { 40 } else { 64 };
            poll(&mut core, &plan, NAPI, 1, packets, &mut now);
        }
        if turn % 100 == 99 {
            // A hypervisor had the core; what came meanwhile found a full ring.
            now += 3_000_000;
        }
        assert!(core.is_guarded(), "turn {turn}");
    }
}

#[test]
fn a_lower_express_class_is_dropped_though_there_is_nothing_of_the_stack() {
    let class = |service| GuardedClass {
        service,
        target: Nanos(34_000),
    };
    let all = [
        Service::Express,
        Service::Express,
        Service::Stack { weight: 1 },
    ]
    .map(class);
    let plan = Plan::new(&all, 256, false).unwrap();
    let (mut core, mut now) = guarded(&plan);
    let passed: Vec<u32> = (0..100)
        .map(|_| poll(&mut core, &plan, NAPI, 1, 64, &mut now))
        .collect();
    assert_eq!(passed.last(), Some(&0), "{passed:?}");
}

#[derive(Debug, Clone)]
enum Event {
    Begin(u32, u64, u64, u64),
    Packet(usize, u32, u32, u64),
    End(PollEnd),
}

fn event() -> impl Strategy<Value = Event> {
    let gap = || prop_oneof![4 => 0u64..5_000, 1 => 0u64..20_000_000, 1 => any::<u64>()];
    prop_oneof![
        2 => (any::<u32>(), gap(), any::<u64>(), gap()).prop_map(|(n, g, i, d)| Event::Begin(n, g, i, d)),
        8 => (any::<usize>(), any::<(u32, u32)>(), gap()).prop_map(|(c, (h, b), g)| Event::Packet(c, h, b, g)),
        3 => (0u32..3, gap(), prop_oneof![Just(64u32), any::<u32>()], prop_oneof![Just(64u32), any::<u32>()], any::<(bool, bool)>())
            .prop_map(|(napi, now, work, budget, (express, held))| Event::End(PollEnd { napi, at: Nanos(now).into(), work, packets: work, budget, express, held })),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    // Overflows and divisions by zero panic in test builds.
    #[test]
    fn no_sequence_of_events_is_too_strange(
        target in any::<u64>(),
        weights in prop::collection::vec(any::<u32>(), 0..7),
        ring in any::<u32>(),
        backwards in any::<bool>(),
        events in prop::collection::vec(event(), 1..400),
    ) {
        let plan = plan(target, &weights, ring);
        let (mut core, mut now) = match weights.is_empty() {
            true => (Core::default(), 0),
            false => guarded(&plan),
        };
        for event in events {
            let mut at = |gap: u64| {
                now = if backwards { gap } else { now.saturating_add(gap) };
                // Others never had more than the time; but a host may say so.
                Moment { now: Nanos(now), others: Nanos(gap) }
            };
            match event {
                Event::Begin(napi, gap, idle, deferred) => {
                    let between = Gap { idle: Nanos(idle), deferred: Nanos(deferred) };
                    core.poll_begins(napi, at(gap), between);
                }
                Event::Packet(class, hash, before, gap) => {
                    let verdict = core.packet(&plan, class, hash, before, || at(gap));
                    prop_assert!(plan.asks(class) || verdict == Verdict::Pass);
                }
                Event::End(end) => core.poll_ends(&plan, PollEnd { at: at(end.at.now.0), ..end }),
            }
        }
        // Whatever came before: an emptied ring passes its next packet.
        if core.is_guarded() && !weights.is_empty() {
            core.poll_ends(&plan, PollEnd { at: Nanos(now).into(), ..end(now, 0) });
            core.poll_begins(NAPI, Nanos(now).into(), Nanos(0));
            prop_assert_eq!(core.packet(&plan, 1, 0, 0, || Nanos(now).into()), Verdict::Pass);
        }
    }
}
