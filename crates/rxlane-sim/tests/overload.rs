//! What overload control promises, in the model: each promise for the guard on random scenarios, and all of them for all
//! controllers as a table, which shows that the promises are not kept by whatever comes along.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::scenario::{Controller, Hog, LoadStep, Scenario, Scheme};
use rxlane_sim::traffic::Pattern;

/// What controls overload, and by how many packets the stack takes what was passed: 8 in Linux.
#[derive(Debug, Clone, Copy)]
struct Under {
    controller: Controller,
    batch: usize,
}

impl From<Controller> for Under {
    fn from(controller: Controller) -> Self {
        Self {
            controller,
            batch: 1,
        }
    }
}

/// A core that spends `stack_ns` on a stack packet; 20 % RT, 256 descriptors.
fn router(under: impl Into<Under>, stack_ns: f64) -> Scenario {
    let Under { controller, batch } = under.into();
    let mut s = Scenario {
        seconds: 0.1,
        warmup_s: 0.03,
        ..Scenario::default()
    };
    s.reception.scheme = Scheme::Express;
    s.express.controller = controller;
    s.express.stack_batch = batch;
    s.nic.link_bps = 2e10;
    s.nic.descriptors = 256;
    s.cpu.packet_ns = stack_ns;
    s.traffic.rt_ratio = 0.2;
    s
}

fn hog(s: &mut Scenario, share: f64) {
    if share > 0.0 {
        s.cpu.hog.push(Hog {
            every_us: 100.0,
            takes_us: 100.0 * share,
        });
    }
}

/// Packets a second that the core serves in full polls, interrupts left out.
fn capacity(s: &Scenario) -> f64 {
    let rt = s.traffic.rt_ratio;
    let left = 1.0
        - s.cpu
            .hog
            .iter()
            .map(|h| h.takes_us / h.every_us)
            .sum::<f64>();
    let flush = s.express.flush_ns / f64::from(s.reception.device_budget);
    1e9 * left / (rt * s.express.redirect_ns + (1.0 - rt) * s.cpu.packet_ns + flush)
}

fn at_load(s: &mut Scenario, load: f64) {
    s.traffic.pps = load * capacity(s);
}

fn run(s: &Scenario) -> Outcome {
    s.check().unwrap();
    simulate(s, 0).unwrap()
}

fn get(o: &Outcome, name: &str) -> f64 {
    o.get(name).unwrap_or_else(|| panic!("no metric {name}"))
}

/// The worst value that was seen of a promise, and where.
#[derive(Debug, Default, Clone)]
struct Seen {
    value: f64,
    at: String,
}

impl Seen {
    fn see(&mut self, value: f64, at: &str) {
        if self.at.is_empty() || value > self.value {
            *self = Self {
                value,
                at: at.to_owned(),
            };
        }
    }
}

/// How far a controller is from each promise, at worst.
#[derive(Debug, Default, Clone)]
struct Worst {
    /// Work conservation: what was dropped and would have fitted into the idle time of the same 10 ms, share of them.
    regret: Seen,
    /// Work conservation: share of packets dropped early at up to 0.85 of the capacity.
    needless: Seen,
    /// Protection: RT lost although dropping all others would have lost none, share.
    rt_loss: Seen,
    /// Protection: RT's wait beyond two targets and a poll of one packet, others' time left out, at 1.5 and more unless RT is lost, us (99.9 %).
    wait_us: Seen,
    /// No trap: difference between throughputs of the same load, after less and after more, share.
    hysteresis: Seen,
    /// No trap: share of packets dropped from 20 ms after overload on.
    trapped: Seen,
    /// Fairness: how far a stack class is from its weight's share.
    unfair: Seen,
    /// Fairness: what the least flow lacks of its class's mean beside one with 70 % of the packets.
    starved: Seen,
}

impl Worst {
    /// Invariant, quantity, what was seen, and how much is allowed.
    fn promises(&self, batch: usize) -> [(&'static str, &'static str, &Seen, f64); 8] {
        // Whether a whole poll's batch is seen to be served in this poll or before the next makes polls uneven.
        let hysteresis = if batch > 8 { 0.02 } else { 0.01 };
        [
            ("work conservation", "regret", &self.regret, 0.035),
            (
                "work conservation",
                "dropped needlessly",
                &self.needless,
                0.002,
            ),
            ("protection", "RT loss", &self.rt_loss, 0.0),
            ("protection", "RT wait beyond bound, us", &self.wait_us, 0.0),
            ("no trap", "hysteresis", &self.hysteresis, hysteresis),
            ("no trap", "dropped after overload", &self.trapped, 0.002),
            ("fairness", "class off its weight", &self.unfair, 0.12),
            ("fairness", "least flow below mean", &self.starved, 0.55),
        ]
    }

    fn kept(&self, batch: usize) -> bool {
        self.promises(batch)
            .iter()
            .all(|(_, _, seen, most)| seen.value <= *most)
    }
}

/// Times the capacity.
const LOADS: [f64; 9] = [0.1, 0.5, 0.8, 0.85, 1.0, 1.1, 1.5, 2.0, 4.0];
/// What a stack packet takes, ns, and the share of the core that a thread of higher priority takes.
const CORES: [(f64, f64); 4] = [(600.0, 0.0), (2300.0, 0.0), (5000.0, 0.0), (700.0, 0.6)];
/// The guard is tried with all of them, the others with the first: they need to fail once only.
const SEEDS: [u64; 3] = [1, 2, 3];

fn judge(under: Under) -> Worst {
    let seeds = match under.controller {
        Controller::Guard => &SEEDS[..],
        _ => &SEEDS[..1],
    };
    let mut worst = Worst::default();
    for seed in seeds {
        for (stack_ns, share) in CORES {
            over_loads(&mut worst, under, *seed, stack_ns, share);
            let at = format!("seed {seed}, {} us", stack_ns / 1e3);
            let (hysteresis, trapped) = steps(under, *seed, stack_ns, share);
            worst.hysteresis.see(hysteresis, &at);
            worst.trapped.see(trapped, &at);
        }
        for (first, second, weights) in SHARES {
            let at = format!("seed {seed}, offered {first}:{second}, weights {weights:?}");
            worst
                .unfair
                .see(off_its_weight(under, *seed, first, second, weights), &at);
        }
        let least = least_flow(under, *seed);
        worst
            .starved
            .see(1.0 - least, &format!("seed {seed}, load 1.5"));
    }
    worst
}

fn over_loads(worst: &mut Worst, under: Under, seed: u64, stack_ns: f64, share: f64) {
    for load in LOADS {
        let at = format!("seed {seed}, {} us, load {load}", stack_ns / 1e3);
        let mut s = router(under, stack_ns);
        s.seed = seed;
        hog(&mut s, share);
        at_load(&mut s, load);
        let o = run(&s);
        worst.regret.see(get(&o, "most_regret"), &at);
        if load <= 0.85 {
            worst.needless.see(get(&o, "loss_early"), &at);
        }
        s.express.controller = Controller::DropAll;
        if get(&run(&s), "loss.rt") > 0.0 {
            continue;
        }
        worst.rt_loss.see(get(&o, "loss.rt"), &at);
        if load >= 1.5 && stack_ns < 1000.0 {
            let over = get(&o, "own_wait_us.p999") - 2.0 * s.express.target_us - stack_ns / 1e3;
            worst.wait_us.see(over, &at);
        }
    }
}

/// Load 1.1 after 0.5 and after 3; and 0.85 after 3, from 20 ms after the change on.
fn steps(under: Under, seed: u64, stack_ns: f64, share: f64) -> (f64, f64) {
    let after = |before: f64, load: f64| {
        let mut s = router(under, stack_ns);
        s.seed = seed;
        hog(&mut s, share);
        s.warmup_s = 0.07;
        s.seconds = 0.4;
        at_load(&mut s, before);
        s.traffic.steps = vec![LoadStep {
            from_s: 0.05,
            factor: load / before,
        }];
        run(&s)
    };
    let (up, down) = (after(0.5, 1.1), after(3.0, 1.1));
    let (up, down) = (get(&up, "throughput_pps"), get(&down, "throughput_pps"));
    let trapped = get(&after(3.0, 0.85), "loss_early");
    ((up - down).abs() / up.max(down), trapped)
}

#[test]
fn the_guard_keeps_what_every_other_controller_breaks() {
    println!("loads: {LOADS:?} times the capacity");
    println!("us a stack packet and share that others take: {CORES:?}");
    println!(
        "seeds: {SEEDS:?} of the guard, {:?} of the others",
        &SEEDS[..1]
    );
    let others = Controller::ALL.into_iter().map(Under::from);
    let batches = [8, 64].map(|batch| Under {
        controller: Controller::Guard,
        batch,
    });
    let mut judged = Vec::new();
    for under in others.chain(batches) {
        let worst = judge(under);
        println!("\n{under:?}");
        for (invariant, quantity, seen, most) in worst.promises(under.batch) {
            let broken = if seen.value > most { "BROKEN" } else { "" };
            println!(
                "  {invariant:<18} {quantity:<25} worst {:>8.4}, at most {most:<6} {broken:<7} {}",
                seen.value, seen.at
            );
        }
        judged.push((under, worst.kept(under.batch)));
    }
    for (under, kept) in judged {
        assert_eq!(kept, under.controller == Controller::Guard, "{under:?}");
    }
}

fn served(o: &Outcome, class: usize) -> f64 {
    get(o, &format!("served.c{class}"))
}

/// Shares of the traffic of two stack classes beside 20 % RT, and their weights.
const SHARES: [(f64, f64, [u32; 2]); 3] =
    [(0.6, 0.2, [1, 1]), (0.4, 0.4, [3, 1]), (0.4, 0.4, [1, 3])];

/// How far the first of two stack classes is from the share of its weight, at twice the capacity.
fn off_its_weight(under: Under, seed: u64, first: f64, second: f64, weights: [u32; 2]) -> f64 {
    let mut s = router(under, 1000.0);
    s.seed = seed;
    s.traffic.flows = 32;
    at_load(&mut s, 2.0);
    s.traffic.shares = vec![0.2, first, second];
    s.express.weights = weights.to_vec();
    let o = run(&s);
    let share = served(&o, 1) / (served(&o, 1) + served(&o, 2)).max(1.0);
    (share - f64::from(weights[0]) / f64::from(weights[0] + weights[1])).abs()
}

/// What the least flow of a class gets of the mean, beside one with 70 % of the packets.
fn least_flow(under: Under, seed: u64) -> f64 {
    let mut s = router(under, 1000.0);
    s.seed = seed;
    s.traffic.flows = 8;
    s.traffic.heaviest_flow = 0.7;
    at_load(&mut s, 1.5);
    get(&run(&s), "least_flow.be")
}

#[test]
fn without_shares_a_heavy_class_and_a_heavy_flow_take_what_they_offer() {
    let none = Under::from(Controller::None);
    assert!(off_its_weight(none, 1, 0.6, 0.2, [1, 1]) > 0.2);
    assert!(least_flow(Controller::Guard.into(), 1) > 1.3 * least_flow(none, 1));
}

#[test]
fn lower_express_classes_outlast_the_stack_and_the_highest_outlasts_them() {
    let mut s = router(Controller::Guard, 1000.0);
    s.traffic.pps = 6e6;
    s.traffic.shares = vec![0.1, 0.1, 0.1, 0.7];
    s.express.classes = 3;
    let o = run(&s);
    let loss: Vec<f64> = (0..4).map(|c| get(&o, &format!("loss.c{c}"))).collect();
    println!("{loss:?}");
    assert!(loss.windows(2).all(|w| w[0] <= w[1] + 0.01), "{loss:?}");
    assert!(loss[0] < loss[3] / 2.0, "{loss:?}");
}

#[test]
fn a_hypervisor_that_steals_3_ms_at_a_time_makes_nobody_drop() {
    let mut s = router(Controller::Guard, 700.0);
    s.seconds = 0.5;
    s.cpu.hog.push(Hog {
        every_us: 50_000.0,
        takes_us: 3_000.0,
    });
    at_load(&mut s, 0.5);
    let o = run(&s);
    assert_eq!(get(&o, "dropped_early"), 0.0);
}

#[test]
fn impossible_targets_and_packets_dearer_than_the_target_never_stall() {
    for (target_us, stack_ns) in [(0.0, 700.0), (34.0, 50_000.0), (1e9, 700.0)] {
        let mut s = router(Controller::Guard, stack_ns);
        s.express.target_us = target_us;
        at_load(&mut s, 2.0);
        let o = run(&s);
        let be = get(&o, "served.be") * stack_ns / 1e9 / s.seconds;
        println!("target {target_us} us, packet {stack_ns} ns: stack takes {be:.3} of the core");
        assert!(be > 0.02, "{be}");
    }
}

prop_compose! {
    fn overloaded()(
        seed in any::<u64>(),
        (stack_ns, load) in (600.0..5000.0, 0.1..4.0),
        (rt, share) in (0.0..0.5, prop_oneof![Just(0.0), 0.2..0.8]),
        ring in prop_oneof![Just(256usize), Just(512), Just(1024)],
        jitter in prop_oneof![Just(None), (0.0..1.0).prop_map(Some)],
        batch in prop_oneof![Just(1usize), Just(8), Just(64)],
    ) -> Scenario {
        let mut s = router(Controller::Guard, stack_ns);
        s.express.stack_batch = batch;
        s.seed = seed;
        s.seconds = 0.06;
        s.nic.link_bps = 1e11;
        s.nic.descriptors = ring;
        s.traffic.rt_ratio = rt;
        if let Some(jitter) = jitter {
            s.traffic.pattern = Pattern::Cbr { jitter };
        }
        hog(&mut s, share);
        at_load(&mut s, load);
        s
    }
}

/// The same in each run, so that a change is what breaks a promise; `PROPTEST_RNG_SEED` tries others (10,000 of them: at most 0.079).
fn the_same_scenarios() -> ProptestConfig {
    let asked = ProptestConfig::default();
    ProptestConfig {
        cases: 80,
        rng_seed: match asked.rng_seed {
            RngSeed::Random => RngSeed::Fixed(1),
            fixed => fixed,
        },
        ..asked
    }
}

proptest! {
    #![proptest_config(the_same_scenarios())]

    #[test]
    fn rt_is_lost_last(s in overloaded()) {
        let mut best = s.clone();
        best.express.controller = Controller::DropAll;
        let (guard, best) = (run(&s), run(&best));
        let (lost, least) = (get(&guard, "loss.rt"), get(&best, "loss.rt"));
        println!("random: seed {}, {:.0} pps: RT lost {lost:.4}, {least:.4} if all else is dropped", s.seed, s.traffic.pps);
        prop_assert!(lost <= least + 0.01, "{} of RT lost, {} if all else is dropped", lost, least);
        // Half of what others leave: RT and the drops of all others.
        let used = get(&best, "cpu") - get(&best, "cpu_other");
        if least == 0.0 && used <= 0.5 * (1.0 - get(&best, "cpu_other")) {
            prop_assert_eq!(lost, 0.0);
        }
    }

    #[test]
    fn nothing_is_dropped_that_there_was_time_for(s in overloaded()) {
        let o = run(&s);
        println!("random: seed {}, {:.0} pps: regret {:.4}", s.seed, s.traffic.pps, get(&o, "most_regret"));
        prop_assert!(get(&o, "most_regret") <= 0.08, "{}", get(&o, "most_regret"));
    }
}
