//! Traffic, stages and throttling by code: what they do, and what ends a run.

use std::path::Path;

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_policy::Ps;
use rxlane_policy::throttle::Sample;
use rxlane_sim::SimError;
use rxlane_sim::custom::{Arrivals, Coming, Controller, Custom, Fault, ServiceTimes};
use rxlane_sim::outcome::{Outcome, simulate};
use rxlane_sim::run::{all_cores, run_sweep_on};
use rxlane_sim::scenario::{Scenario, parse};
use rxlane_sim::stop::Stop;
use rxlane_sim::sweep::Sweep;

/// Poisson arrivals of two classes, in batches.
struct Drawn {
    rng: Pcg64Mcg,
    at: f64,
    mean_ns: f64,
    batch: usize,
}

impl Arrivals for Drawn {
    fn next(&mut self, batch: &mut Vec<Coming>) -> Result<(), Fault> {
        for _ in 0..self.batch {
            self.at -= self.mean_ns * (1.0 - self.rng.random::<f64>()).ln();
            batch.push(Coming {
                at: Ps::from_ns(self.at),
                class: usize::from(self.rng.random::<f64>() > 0.3),
                bytes: 64,
            });
        }
        Ok(())
    }
}

fn drawn(mean_ns: f64, batch: usize) -> Custom {
    Custom::default().arrivals(move |start| {
        let rng = Pcg64Mcg::seed_from_u64(start.seed);
        Ok(Box::new(Drawn {
            rng,
            at: 0.0,
            mean_ns,
            batch,
        }))
    })
}

fn scenario(custom: Custom) -> Scenario {
    let mut scenario = Scenario {
        seconds: 0.05,
        custom,
        ..Scenario::default()
    };
    scenario.traffic.rt_ratio = 0.3;
    scenario.traffic.frame = 64;
    scenario.check().unwrap();
    scenario
}

fn get(outcome: &Outcome, name: &str) -> f64 {
    outcome.get(name).unwrap()
}

/// Arrivals of a list, once.
struct Once(Vec<Coming>);

impl Arrivals for Once {
    fn next(&mut self, batch: &mut Vec<Coming>) -> Result<(), Fault> {
        batch.append(&mut self.0);
        Ok(())
    }
}

fn once(packets: &[(f64, usize, u32)]) -> Scenario {
    let packets: Vec<Coming> = packets
        .iter()
        .map(|(us, class, bytes)| Coming {
            at: Ps::from_us(*us),
            class: *class,
            bytes: *bytes,
        })
        .collect();
    let mut scenario =
        scenario(Custom::default().arrivals(move |_| Ok(Box::new(Once(packets.clone())))));
    scenario.warmup_s = 0.0;
    scenario
}

#[test]
fn poisson_arrivals_by_code_wait_as_long_as_built_in_ones() {
    let by_code = simulate(&scenario(drawn(1000.0, 500)), 0).unwrap();
    let built_in = simulate(&scenario(Custom::default()), 0).unwrap();
    for name in [
        "arrived",
        "waiting_us.rt.mean",
        "latency_us.mean",
        "irq_per_s",
    ] {
        let (a, b) = (get(&by_code, name), get(&built_in, name));
        assert!((a / b - 1.0).abs() < 0.03, "{name}: {a} {b}");
    }
}

#[test]
fn equal_seeds_give_equal_results_whatever_the_batch_and_the_threads() {
    let of = |batch, replication| {
        simulate(&scenario(drawn(700.0, batch)), replication)
            .unwrap()
            .metrics
    };
    assert_eq!(of(1, 0), of(1000, 0));
    assert_ne!(of(1, 0), of(1, 1));
    let text = "seconds = 0.01\nreplications = 2\n[sweep]\n\"cpu.packet_ns\" = [300, 571, 900]\n";
    let loaded = parse(text, Path::new("s.toml"), &[]).unwrap();
    let sweep = Sweep::new(&loaded.with_custom(drawn(700.0, 64)).unwrap()).unwrap();
    let rows = |threads| {
        let mut rows = Vec::new();
        run_sweep_on(threads, &sweep, 0..3, &Stop::never(), |row| {
            rows.push(row);
            Ok(())
        })
        .unwrap();
        rows.sort_by_key(|r| r.index);
        rows
    };
    assert_eq!(rows(all_cores()), rows(1.try_into().unwrap()));
    assert!(rows(all_cores())[0].get("arrived").unwrap() > 1e4);
}

#[test]
fn cores_of_a_nic_share_the_packets_by_code() {
    let mut two = scenario(drawn(1000.0, 100));
    two.cpu.cores = 2;
    let one = simulate(&scenario(drawn(1000.0, 100)), 0).unwrap();
    // Each core ends with the packet that it is at.
    let (of_two, of_one) = (
        get(&simulate(&two, 0).unwrap(), "arrived"),
        get(&one, "arrived"),
    );
    assert!((of_two / of_one - 1.0).abs() < 1e-3, "{of_two} {of_one}");
}

#[test]
fn traffic_ends_where_batches_do_and_the_link_keeps_packets_apart() {
    let outcome = simulate(&once(&[(1.0, 0, 1500), (1.0, 1, 1500), (9.0, 1, 64)]), 0).unwrap();
    assert_eq!(
        (get(&outcome, "arrived"), get(&outcome, "packets.rt")),
        (3.0, 1.0)
    );
    // 1500 bytes and what is around them take 1 Mbit/s for 12.16 ms, so two of them do not come within 20.
    let mut slow = once(&[(1.0, 0, 1500), (1.0, 1, 1500)]);
    (slow.seconds, slow.nic.link_bps) = (0.02, 1e6);
    assert_eq!(get(&simulate(&slow, 0).unwrap(), "arrived"), 1.0);
    assert_eq!(get(&simulate(&once(&[]), 0).unwrap(), "arrived"), 0.0);
}

#[test]
fn what_code_gives_that_cannot_be_ends_the_run_by_name() {
    for (packets, said) in [
        (
            vec![(2.0, 0, 64), (1.0, 0, 64)],
            "arrivals by code: a packet at 1000 ns comes after one at 2000 ns",
        ),
        (vec![(1.0, 2, 64)], "class 2: there are 2, from 0 on"),
        (vec![(1.0, 0, 63)], "a frame of 63 bytes"),
    ] {
        let error = simulate(&once(&packets), 0).unwrap_err();
        assert!(
            matches!(error, SimError::Custom { .. }) && error.to_string().contains(said),
            "{error}"
        );
    }
    let refuses = Custom::default().arrivals(|_| Err("no licence".into()));
    let error = simulate(&scenario(refuses), 0).unwrap_err().to_string();
    assert_eq!(error, "arrivals by code: no licence");
}

/// The same service time for all packets of a class.
struct Constant([f64; 2]);

impl ServiceTimes for Constant {
    fn next(&mut self, class: usize, batch: &mut Vec<f64>) -> Result<(), Fault> {
        batch.extend([self.0[class]; 10]);
        Ok(())
    }
}

fn staged(times: [f64; 2]) -> Custom {
    Custom::default().service(move |_| Ok(Box::new(Constant(times))))
}

#[test]
fn a_stage_by_code_is_that_of_a_file_where_its_times_are_constant() {
    let text = "seconds = 0.05\n[traffic]\nrt_ratio = 0.3\nframe = 64\n[[stage]]\nname = \"s\"\npacket_ns = 300\nclasses = [1]\n";
    let by_file = simulate(&parse(text, Path::new("s.toml"), &[]).unwrap().scenario, 0).unwrap();
    let by_code = simulate(&scenario(staged([0.0, 300.0])), 0).unwrap();
    for name in [
        "cpu_stage",
        "latency_us.be.mean",
        "latency_us.rt.p99",
        "irq_per_s",
    ] {
        let (a, b) = (get(&by_code, name), get(&by_file, name));
        assert!((a / b - 1.0).abs() < 1e-9, "{name}: {a} {b}");
    }
    for (ns, said) in [(f64::NAN, "NaN ns is no time"), (-1.0, "-1 ns is no time")] {
        let error = simulate(&scenario(staged([ns, ns])), 0)
            .unwrap_err()
            .to_string();
        assert!(
            error.starts_with("stage by code") && error.contains(said),
            "{error}"
        );
    }
}

/// A constant interval.
struct Every(f64);

impl Controller for Every {
    fn update(&mut self, sample: Sample) -> Result<f64, Fault> {
        assert!(sample.packets > 0);
        Ok(self.0)
    }
}

#[test]
fn throttling_by_code_is_that_of_a_file_where_it_is_constant() {
    let by = |ns| {
        simulate(
            &scenario(Custom::default().controller(move |_| Ok(Box::new(Every(ns))))),
            0,
        )
    };
    let text = "seconds = 0.05\n[traffic]\nrt_ratio = 0.3\nframe = 64\n[interrupt]\nthrottling = { algorithm = \"static\", interval_ns = 50000 }\n";
    let by_file = simulate(&parse(text, Path::new("s.toml"), &[]).unwrap().scenario, 0).unwrap();
    assert_eq!(by(50_000.0).unwrap().metrics, by_file.metrics);
    let error = by(f64::INFINITY).unwrap_err().to_string();
    assert!(
        error.starts_with("throttling by code: inf ns is no time"),
        "{error}"
    );
}

#[test]
fn code_without_a_place_in_the_scenario_is_refused() {
    let loaded = |text| parse(text, Path::new("s.toml"), &[]).unwrap();
    let express = loaded("[reception]\nscheme = \"express\"\n").with_custom(staged([0.0; 2]));
    let said = express.unwrap_err().to_string();
    assert!(
        said.starts_with("stage = code: a stage by code needs the scheme napi"),
        "{said}"
    );
}
