//! Devices in turn, and the settings that they had.

use std::collections::BTreeMap;

use indicatif::ProgressBar;

use super::options::Options;
use crate::BenchError;
use crate::dut::Dut;
use crate::in_turn::in_turn;
use crate::lab::Firewall;

/// Each device in turn, in so many rounds, which are numbered from 1 on.
pub(super) fn rounds<T>(
    options: &Options,
    firewall: Firewall,
    bar: &ProgressBar,
    mut trial: impl FnMut(&Dut, u32) -> Result<T, BenchError>,
) -> Result<Vec<Vec<T>>, BenchError> {
    let round = |n: u32| {
        in_turn(n - 1, options.duts.len(), |i| {
            let dut = &options.duts[i];
            bar.set_message(format!("{} behind {firewall}, round {n}", dut.name()));
            let of = trial(dut, n)?;
            bar.inc(1);
            Ok(of)
        })
    };
    (1..=options.repeat).map(round).collect()
}

/// Settings of the lab that count here.
pub(super) fn settings(
    options: &Options,
    mut of_lab: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    // Of test packets, which nobody sends here; and what is varied.
    for other in ["firewall", "sink"] {
        of_lab.remove(other);
    }
    of_lab.insert("idle".into(), "the router's core halts".into());
    if !options.merges {
        let text = "merges nothing on the router's ports (gro_max_size)".to_owned();
        of_lab.insert("gro".into(), text);
    }
    if options.host_queue > 0 {
        let text = format!("pfifo_fast, {} packets", options.host_queue);
        of_lab.insert("queue of each host".into(), text);
    }
    let qdisc = options.qdisc.clone();
    of_lab.insert(
        "qdisc of the router".into(),
        qdisc.unwrap_or("default".into()),
    );
    of_lab
}
