//! The guard of the programs against `rxlane_policy::overload`, and what waits at their links against `rxlane_policy::egress`, event by event
//! and number by number.
//!
//! Needs root: the kernel runs the guard (BPF_PROG_TEST_RUN).

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_bpf::lockstep::{EVENTS, Event, Lockstep};
use rxlane_policy::Nanos;
use rxlane_policy::egress::{self, StandingQueue};
use rxlane_policy::overload::{
    Core, Gap, GuardedClass, Moment, Park, Plan, PollEnd, Service, Verdict,
};

const SEQUENCES: u64 = 500;
const BUDGET: u32 = 64;

/// One to eight classes, the first of them mostly express.
fn plan(rng: &mut Pcg64Mcg) -> Plan {
    let classes = rng.random_range(1..=8);
    let express = rng.random_range(0..=classes.min(3));
    let target =
        |rng: &mut Pcg64Mcg| Nanos([0, 5_000, 34_000, 100_000, u64::MAX][rng.random_range(0..5)]);
    let classes: Vec<GuardedClass> = (0..classes)
        .map(|i| GuardedClass {
            service: if i < express {
                Service::Express
            } else {
                let weight = [0, 1, 3, 1000, u32::MAX][rng.random_range(0..5)];
                Service::Stack { weight }
            },
            target: target(rng),
        })
        .collect();
    let ring = [0, 64, 256, 4096][rng.random_range(0..4)];
    Plan::new(&classes, ring, rng.random_bool(0.3)).expect("one to eight classes")
}

/// A core and the traffic that comes to it, which changes now and then.
struct Traffic {
    rng: Pcg64Mcg,
    now: u64,
    others: u64,
    packet_ns: u64,
    drop_ns: u64,
    /// Of 100 polls so many take all that they may.
    full: u32,
    idle_ns: u64,
    rings: u32,
    flows: u32,
}

impl Traffic {
    fn change(&mut self) {
        let rng = &mut self.rng;
        self.packet_ns = [50, 600, 2_300, 5_000, 250_000][rng.random_range(0..5)];
        self.drop_ns = [60, 200, 600][rng.random_range(0..3)];
        self.full = [0, 50, 95, 100, 100, 100][rng.random_range(0..6)];
        self.idle_ns = [0, 0, 500, 3_000, 40_000][rng.random_range(0..5)];
        self.rings = [1, 1, 2, 9][rng.random_range(0..4)];
        self.flows = [1, 8, u32::MAX][rng.random_range(0..3)];
    }

    fn moment(&self) -> Moment {
        Moment {
            now: Nanos(self.now),
            others: Nanos(self.others),
        }
    }

    /// Clocks step back, stall and jump.
    fn pass(&mut self, ns: u64) {
        self.now = match self.rng.random_range(0..3000) {
            0 => self.now.saturating_sub(10_000),
            1 => self.now + 60_000,
            4 | 5 => {
                // A thread of higher priority, of whose time the host may know.
                self.others += self.rng.random_range(0..80_000);
                self.now + 60_000
            }
            2 => self.now + 3_000_000,
            3 => self.now + 2_000_000_000,
            _ => self.now + ns,
        };
    }
}

#[derive(Default)]
struct Count {
    events: u64,
    guarded_polls: u64,
    drops: u64,
    parking_polls: u64,
}

/// One sequence of polls. Both are asked the same, whatever they answered.
fn sequence(guard: &Lockstep, seed: u64, count: &mut Count) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let plan = plan(&mut rng);
    guard.begin(&plan).expect("a guard");
    let (mut core, mut park) = (Core::default(), Park::default());
    let mut t = Traffic {
        rng,
        now: 1_000_000_000,
        others: 0,
        packet_ns: 600,
        drop_ns: 200,
        full: 100,
        idle_ns: 0,
        rings: 1,
        flows: 8,
    };
    let (mut events, mut expected) = (Vec::new(), Vec::new());
    for poll in 0..160 {
        if poll % 40 == 0 && poll > 0 {
            t.change();
        }
        let napi = 8193 + t.rng.random_range(0..t.rings);
        let idle = t.rng.random_range(0..=t.idle_ns);
        t.others = 0;
        // The kernel does the most of some packets later, and the host may be told more than there was time for.
        let deferred = match t.rng.random_range(0..4) {
            0 => t.rng.random_range(0..=20 * t.packet_ns),
            _ => 0,
        };
        t.pass(idle + deferred);
        let mut tell = |event: Event, passes: bool| {
            events.push(event);
            expected.push(passes);
        };
        count.guarded_polls += u64::from(core.is_guarded());
        // A host that learns of the guard in the middle of a poll does not tell of its begin.
        if t.rng.random_bool(0.98) {
            let gap = Gap {
                idle: Nanos(idle),
                deferred: Nanos(deferred),
            };
            let empty = t.rng.random_bool(0.9);
            let parks = park.poll_begins(&core, t.moment().now, empty);
            count.parking_polls += u64::from(parks);
            tell(Event::ring_is_empty(empty, t.moment().now), parks);
            core.poll_begins(napi, t.moment(), gap);
            tell(Event::begin(napi, t.moment(), gap), false);
        }
        t.others = 0;
        let work = if t.rng.random_range(0..100) < t.full {
            BUDGET
        } else {
            t.rng.random_range(0..BUDGET)
        };
        for before in 0..work {
            let class = t.rng.random_range(0..8u32);
            let hash = t.rng.random_range(0..t.flows);
            let verdict = core.packet(&plan, class as usize, hash, before, || t.moment());
            let passes = verdict == Verdict::Pass;
            count.drops += u64::from(!passes);
            tell(Event::packet(class, hash, before, t.moment()), passes);
            let takes = if passes { t.packet_ns } else { t.drop_ns };
            t.pass(takes);
        }
        let end = PollEnd {
            napi,
            at: t.moment(),
            work,
            packets: if t.rng.random_bool(0.9) {
                work
            } else {
                work / 3
            },
            budget: if t.rng.random_bool(0.001) { 0 } else { BUDGET },
            express: t.rng.random_bool(0.7),
            held: t.rng.random_bool(0.05),
        };
        core.poll_ends(&plan, end);
        tell(Event::end(&end), false);
        if events.len() > EVENTS - BUDGET as usize - 3 {
            let (passes, numbers) = guard.carry_out(&events).expect("it runs");
            let differs = passes.iter().zip(&expected).position(|(a, b)| a != b);
            assert_eq!(differs, None, "seed {seed}, poll {poll}: {events:?}");
            let ours = core.numbers();
            assert_eq!(numbers.len(), ours.len());
            let differs = numbers.iter().zip(&ours).position(|(a, b)| a != b);
            let both = differs.map(|at| (numbers[at], ours[at]));
            assert_eq!(differs, None, "seed {seed}, poll {poll}: {both:?}");
            count.events += events.len() as u64;
            events.clear();
            expected.clear();
        }
    }
}

#[test]
#[ignore = "needs root: make test"]
fn the_guard_in_the_kernel_and_that_of_the_policy_agree_in_every_number() {
    let guard = Lockstep::load().expect("it loads");
    let mut count = Count::default();
    for seed in 0..SEQUENCES {
        sequence(&guard, seed, &mut count);
    }
    println!(
        "{SEQUENCES} sequences, {} events, {} polls with a guard, {} in which TCP waits, {} drops",
        count.events, count.guarded_polls, count.parking_polls, count.drops
    );
    assert!(count.guarded_polls > 10_000 && count.drops > 100_000);
    let passes = count.guarded_polls - count.parking_polls;
    assert!(count.parking_polls > 10_000 && passes > 1_000, "{passes}");
}

/// Packets and stopped drivers of one link, with a clock that steps back, stalls and jumps.
fn sequence_of_link(kernel: &Lockstep, seed: u64) -> (usize, usize) {
    let mut rng = Pcg64Mcg::seed_from_u64(seed);
    let bits_per_s = 10_u64.pow(rng.random_range(6..=11)) * rng.random_range(1..=9);
    let link = egress::link_queue(bits_per_s).expect("a rate");
    kernel.begin_link(&link).expect("a link");
    let (mut bucket, mut standing) = (0, StandingQueue::default());
    let frame_ns = 12_000_000_000_000 / bits_per_s;
    let (mut now, mut full, mut stood) = (1_000_000_000_u64, 0, 0);
    for _ in 0..8 {
        let step_ns = match rng.random_range(0..3) {
            0 => frame_ns / 3,
            1 => 2 * frame_ns,
            _ => 3_000_000,
        };
        let (mut events, mut expected) = (Vec::new(), Vec::new());
        for _ in 0..EVENTS {
            now = match rng.random_range(0..1000) {
                0 => now.saturating_sub(10_000),
                1 => now + 2_000_000_000,
                2 => now.saturating_sub(3_000_000_000),
                _ => now + rng.random_range(0..=step_ns),
            };
            let (at, bytes) = (Nanos(now), rng.random_range(60..65_000));
            let (event, passes) = match rng.random_bool(0.5) {
                true => (
                    Event::sent(bytes, at),
                    link.conforms(&mut bucket, at, bytes),
                ),
                false => (Event::driver_is_off(at), standing.driver_is_off(at)),
            };
            let is_sent = event == Event::sent(bytes, at);
            full += usize::from(is_sent && !passes);
            stood += usize::from(!is_sent && passes);
            events.push(event);
            expected.push(passes);
        }
        let (passes, _) = kernel.carry_out(&events).expect("it runs");
        let differs = passes.iter().zip(&expected).position(|(a, b)| a != b);
        assert_eq!(differs, None, "seed {seed}: {events:?}");
        assert_eq!(kernel.link().unwrap(), (bucket, standing.numbers()));
    }
    (full, stood)
}

#[test]
#[ignore = "needs root: make test"]
fn links_in_the_kernel_and_those_of_the_policy_are_full_at_the_same_packets() {
    let kernel = Lockstep::load().expect("it loads");
    let all = (0..SEQUENCES).map(|seed| sequence_of_link(&kernel, seed));
    let (full, stood) = all.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    println!("{SEQUENCES} sequences, full at {full} packets, driver off for long {stood} times");
    assert!(full > 10_000 && stood > 10_000);
}
