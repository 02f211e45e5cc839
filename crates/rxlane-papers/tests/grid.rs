//! The whole grid of "Building a Low Latency Linux Software Router", V.A.4: its figures are made of slices of it.

use std::path::Path;

use rxlane_sim::run::{Row, run_sweep};
use rxlane_sim::scenario::load;
use rxlane_sim::stop::Stop;
use rxlane_sim::sweep::Sweep;

/// What a core forwards at most of the strategy, pps: the sum of the highest loads over the ratios, which are all overloads.
fn capacity(rows: &[Row], case: &str) -> f64 {
    let full = |r: &&Row| r.case == case && r.key("traffic.pps").is_some_and(|pps| pps > 1.99e6);
    let forwarded = rows
        .iter()
        .filter(full)
        .map(|r| r.require("throughput_pps"));
    let forwarded: Vec<f64> = forwarded.map(Result::unwrap).collect();
    assert_eq!(forwarded.len(), 21, "{case}");
    forwarded.iter().sum::<f64>() / 21.0
}

/// Points of 20 ms: the paper's 56 hours in some seconds.
#[test]
fn at_each_point_of_the_grid_what_is_offered_is_forwarded_up_to_the_capacity_and_no_rt_is_lost() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/low_latency_router/grid.toml");
    let sweep = Sweep::new(&load(&file, &["seconds=0.02".into()]).unwrap()).unwrap();
    assert_eq!(sweep.len(), 4 * 40 * 21);
    let mut rows = Vec::new();
    run_sweep(&sweep, 0..sweep.len(), &Stop::never(), |row| {
        rows.push(row);
        Ok(())
    })
    .unwrap();
    assert_eq!(rows.len(), sweep.len());
    for case in ["SQ", "RR", "LL-RR", "LL-WFQ"] {
        let most = capacity(&rows, case);
        assert!((most / 1.7e6 - 1.0).abs() < 0.02, "{case}: {most}");
        for row in rows.iter().filter(|r| r.case == case) {
            let of = |name: &str| row.require(name).unwrap();
            let [pps, rt] = ["traffic.pps", "traffic.rt_ratio"].map(|k| row.key(k).unwrap());
            let offered = of("arrived") / 0.02;
            // Arrivals are random, and a ring that fills within 20 ms takes up 512 packets of 34,000; RR has two of them.
            let (forwarded, least) = (of("throughput_pps"), offered.min(most));
            assert!(
                (forwarded / least - 1.0).abs() < 0.04 || (forwarded - least).abs() * 0.02 < 20.0,
                "{case} at {pps} with {rt} of RT: {forwarded} of {least}"
            );
            // Of 64 packets 60 may be RT.
            if case == "LL-WFQ" && rt * pps < 0.97 * 60.0 / 64.0 * most {
                assert_eq!(of("ring_dropped.rt"), 0.0, "at {pps} with {rt} of RT");
            }
        }
    }
}
