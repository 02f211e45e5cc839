//! `rxlane health`: whether this router is as well as its neighbours must believe, for redundancy and monitoring.

use std::time::Duration;

use rxlane_dataplane::queues::{Queue, QueueStatus};
use serde::Serialize;

use crate::commands::status;
use crate::output;
use crate::snapshot::Snapshot;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane health                           one line; exit code 1 if something is wrong
  rxlane health --overloaded-s 10         a core that is overloaded for longer is wrong, too
  rxlane health --rt-loss 0.1 --json      for machines

keepalived, FRR and BIRD can withdraw a router by it: docs/src/how-to/health.md")]
pub(crate) struct Args {
    /// Look for so many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    interval: f64,
    /// Lost packets of express classes that are wrong, per cent of them
    #[arg(long, value_name = "PERCENT", default_value_t = 1.0, value_parser = percent)]
    rt_loss: f64,
    /// A core that is overloaded for longer is wrong; without this, overload alone is what the lanes are for
    #[arg(long, value_name = "SECONDS")]
    overloaded_s: Option<f64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(s) if (0.1..=60.0).contains(&s) => Ok(s),
        _ => Err("write seconds between 0.1 and 60".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(p) if (0.0..=100.0).contains(&p) => Ok(p),
        _ => Err("write a percentage between 0 and 100".into()),
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Health {
    healthy: bool,
    /// What is wrong, each with what to do.
    wrong: Vec<String>,
    /// Packets of express classes within the interval, and those that were lost on the way to a lane or behind it.
    rt_packets: u64,
    rt_lost: u64,
    /// For how long the core that is overloaded longest has been; 0: none is.
    overloaded_s: f64,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let health = match look(args) {
        Ok(health) => health,
        Err(why) => Health {
            healthy: false,
            wrong: vec![why],
            rt_packets: 0,
            rt_lost: 0,
            overloaded_s: 0.0,
        },
    };
    if args.json {
        output::json(&health)?;
    }
    if !health.healthy {
        return Err(format!("unhealthy: {}", health.wrong.join("; ")));
    }
    if !args.json {
        println!(
            "healthy: {} of {} express packets lost in {} s, {}",
            health.rt_lost,
            health.rt_packets,
            args.interval,
            match health.overloaded_s {
                0.0 => "no core is overloaded".to_owned(),
                s => format!("a core is overloaded for {s:.1} s"),
            }
        );
    }
    Ok(())
}

fn look(args: &Args) -> Result<Health, String> {
    let before = Snapshot::of_json(&status::as_json()?)?;
    std::thread::sleep(Duration::from_secs_f64(args.interval));
    let after = Snapshot::of_json(&status::as_json()?)?;
    Ok(judge(&before, &after, args.rt_loss, args.overloaded_s))
}

/// What two looks at a router say of it.
fn judge(before: &Snapshot, after: &Snapshot, rt_loss: f64, overloaded_s: Option<f64>) -> Health {
    let mut wrong = Vec::new();
    if after.daemon.is_none() {
        wrong.push("the daemon is gone: start it, or `rxlane detach`".to_owned());
    }
    for port in &after.ports {
        if port.ifindex.is_none() {
            wrong.push(format!("port `{}` is not there", port.name));
        } else if port.mode.is_none() {
            wrong.push(format!(
                "nothing is attached to port `{}`: `rxlane status` says why",
                port.name
            ));
        }
    }
    let rt_packets = express_packets(after).saturating_sub(express_packets(before));
    let rt_lost = lost(after).saturating_sub(lost(before));
    let share = rt_lost as f64 * 100.0 / (rt_packets + rt_lost).max(1) as f64;
    if rt_lost > 0 && share > rt_loss {
        wrong.push(format!(
            "{share:.1} % of express packets were lost ({rt_lost} of {}): `rxlane status` says in which queue",
            rt_packets + rt_lost
        ));
    }
    let bound_us = after.rt_bound.t_max_ns.map(|ns| ns / 1e3);
    let waits = after.cores.iter().map(|core| core.longest_wait_lately_us);
    let waited_us = waits.fold(0.0, f64::max);
    if let Some(bound_us) = bound_us.filter(|bound| waited_us > *bound) {
        wrong.push(format!(
            "express packets waited for {waited_us:.0} us within the last seconds, and the bound is {bound_us:.0} us"
        ));
    }
    let longest = after.cores.iter().map(|core| core.overloaded_for_s);
    let longest = longest.fold(0.0, f64::max);
    if let Some(most) = overloaded_s.filter(|most| longest > *most) {
        wrong.push(format!(
            "a core is overloaded for {longest:.0} s, and {most} s were allowed: give it less traffic, fewer rules or more cores"
        ));
    }
    Health {
        healthy: wrong.is_empty(),
        wrong,
        rt_packets,
        rt_lost,
        overloaded_s: longest,
    }
}

fn is_express(snapshot: &Snapshot, class: &str) -> bool {
    snapshot.class(class).is_some_and(|c| c.lane != "stack")
}

fn express_packets(snapshot: &Snapshot) -> u64 {
    let express = snapshot.classes.iter().filter(|c| c.lane != "stack");
    express.map(|c| c.counters.express + c.counters.fast).sum()
}

/// Of express classes, of Rx rings, which hold packets of all classes, and what drivers refused, which is express alone.
fn lost(snapshot: &Snapshot) -> u64 {
    let may_be_express = |queue: &QueueStatus| match &queue.class {
        Some(class) => is_express(snapshot, class),
        None => matches!(queue.queue, Queue::RxRing | Queue::TxRing),
    };
    let queues = snapshot.queues.iter();
    queues.filter(|q| may_be_express(q)).map(|q| q.lost).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::example;

    fn seen(change: impl FnOnce(&mut Snapshot)) -> Snapshot {
        let mut snapshot = example(1000);
        for port in &mut snapshot.ports {
            port.mode = Some("native".into());
        }
        snapshot.queues.clear();
        change(&mut snapshot);
        snapshot
    }

    fn wrong(after: &Snapshot) -> Vec<String> {
        judge(&seen(|_| ()), after, 1.0, Some(10.0)).wrong
    }

    #[test]
    fn a_router_on_which_nothing_happens_is_healthy() {
        assert_eq!(wrong(&seen(|_| ())), Vec::<String>::new());
    }

    #[test]
    fn each_thing_that_is_wrong_is_said() {
        let said = |change: fn(&mut Snapshot), what: &str| {
            let wrong = wrong(&seen(change));
            assert!(
                wrong.len() == 1 && wrong[0].contains(what),
                "{what}: {wrong:?}"
            );
        };
        said(|s| s.daemon = None, "the daemon is gone");
        said(|s| s.ports[0].ifindex = None, "is not there");
        said(|s| s.ports[0].mode = None, "nothing is attached");
        said(
            |s| s.cores[0].overloaded_for_s = 11.0,
            "overloaded for 11 s",
        );
        said(
            |s| {
                s.rt_bound.t_max_ns = Some(1e5);
                s.cores[0].longest_wait_lately_us = 1e6;
            },
            "the bound is 100 us",
        );
    }

    #[test]
    fn losses_of_express_classes_and_of_rx_rings_count_and_those_of_the_stack_do_not() {
        let lost = |queue, class: Option<&str>, lost| {
            seen(|s| {
                s.classes[0].counters.express += 1000;
                s.queues.push(QueueStatus {
                    queue,
                    port: None,
                    core: None,
                    class: class.map(str::to_owned),
                    holds: None,
                    waited: None,
                    lost,
                });
            })
        };
        assert_eq!(wrong(&lost(Queue::Core, Some("rest"), 500)).len(), 0);
        assert_eq!(wrong(&lost(Queue::Core, Some("voice"), 9)).len(), 0);
        assert_eq!(wrong(&lost(Queue::Core, Some("voice"), 90)).len(), 1);
        assert_eq!(wrong(&lost(Queue::RxRing, None, 90)).len(), 1);
        assert_eq!(wrong(&lost(Queue::TxRing, None, 90)).len(), 1);
        assert_eq!(wrong(&lost(Queue::Qdisc, None, 90)).len(), 0);
    }
}
