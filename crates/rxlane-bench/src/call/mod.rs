//! Calls beside TCP: closed loops, which send more until some queue on their way is full, and answer to what is lost.

mod answers;
mod beside;
mod drops;
mod exchange;
mod link;
mod load;
mod options;
mod quality;
mod results;
mod rounds;
mod rrul;
mod trial;
mod web;

use std::collections::BTreeMap;

use rxlane_system::stop;

pub use self::answers::Answered;
pub use self::beside::Beside;
pub use self::drops::Drops;
pub use self::load::{Direction, Load, Matrix};
pub use self::options::Options;
pub use self::results::{CallDut, CallPoint, CallReport};
use self::rounds::rounds;
pub(crate) use self::rrul::within;
pub use self::rrul::{RrulReport, RrulTrial, Series, rrul};
use self::trial::{Trial, hosts};
use crate::BenchError;
use crate::lab::{Lab, LabConfig};
use crate::median::median;
use crate::session::progress;

/// Measures calls beside every load, each device in turn.
///
/// # Errors
/// What [`BenchError`] names, such as a congestion control or qdisc that this kernel has not.
pub fn call(options: &Options, matrix: &Matrix) -> Result<CallReport, BenchError> {
    options.check(matrix)?;
    stop::listen();
    let loads = matrix.firewalls.iter().map(|f| matrix.loads(*f).len());
    let trials = loads.sum::<usize>() * options.duts.len() * options.repeat as usize;
    let bar = progress(trials as u64);
    let (mut points, mut settings) = (Vec::new(), BTreeMap::new());
    for firewall in &matrix.firewalls {
        let lab = Lab::up(LabConfig {
            firewall: *firewall,
            hosts_send: !options.in_xdp,
            ..options.lab.clone()
        })?;
        let mut measure = || {
            hosts(&lab, options)?;
            for load in matrix.loads(*firewall) {
                let rounds = rounds(options, *firewall, &bar, |dut, _| {
                    trial::run(&lab, dut, &load, options)
                })?;
                points.push(point(&load, options, &rounds));
            }
            settings = lab.tune()?.settings;
            Ok::<_, BenchError>(())
        };
        let outcome = measure();
        lab.down()?;
        outcome?;
    }
    bar.finish_and_clear();
    Ok(CallReport {
        seconds: options.seconds,
        repeat: options.repeat,
        calls: options.calls,
        settings: rounds::settings(options, settings),
        points,
    })
}

fn point(load: &Load, options: &Options, rounds: &[Vec<Trial>]) -> CallPoint {
    let mut duts: Vec<CallDut> = Vec::new();
    for (i, dut) in options.duts.iter().enumerate() {
        let of = |value: &dyn Fn(&Trial) -> f64| median(rounds.iter().map(|r| value(&r[i])));
        let mut result = CallDut {
            name: dut.name().to_owned(),
            tcp_bps: of(&|t| t.tcp_bps),
            fairness: of(&|t| t.fairness),
            retransmits: of(&|t| t.retransmits),
            marked: of(&|t| t.marked),
            call_sent: of(&|t| t.sent),
            call_lost: of(&|t| t.lost),
            rtt_p50_us: of(&|t| t.rtt_p50_us),
            rtt_p99_us: of(&|t| t.rtt_p99_us),
            rtt_max_us: of(&|t| t.rtt_max_us),
            mean_opinion_score: of(&|t| t.mean_opinion_score),
            drops: Drops {
                ring: of(&|t| t.drops.ring),
                core: of(&|t| t.drops.core),
                egress: of(&|t| t.drops.egress),
            },
            beside: Answered::medians(&rounds.iter().map(|r| &r[i].beside[..]).collect::<Vec<_>>()),
            worse: Vec::new(),
        };
        if let Some(first) = duts.first() {
            result.worse = result.worse_than(first);
        }
        duts.push(result);
    }
    CallPoint {
        load: load.clone(),
        duts,
    }
}
