//! Makes a difference small: what can be left out while it stays is left out.

mod statements;

use crate::OracleError;
use crate::scenario::{Origin, Packet, Scenario, Statement, Step};

/// Leaves out halves, quarters and so on down to single items while `still` holds; at the end no single one can go.
///
/// # Errors
/// What `still` fails with.
pub fn minimal<T: Clone, E>(
    items: &[T],
    mut still: impl FnMut(&[T]) -> Result<bool, E>,
) -> Result<Vec<T>, E> {
    let mut kept = items.to_vec();
    let mut chunk = kept.len().div_ceil(2);
    while chunk > 0 {
        let mut end = kept.len();
        let mut removed = false;
        // From the end: what comes later needs what comes before, seldom the other way round.
        while end > 0 {
            let from = end.saturating_sub(chunk);
            let rest = [&kept[..from], &kept[end..]].concat();
            if still(&rest)? {
                kept = rest;
                removed = true;
            }
            end = from;
        }
        if chunk > 1 || !removed {
            chunk /= 2;
        }
    }
    Ok(kept)
}

/// The smallest scenario found for which `differs` holds, in so many trials at most.
///
/// # Errors
/// What a trial fails with.
pub fn shrink(
    scenario: &Scenario,
    trials: usize,
    mut differs: impl FnMut(&Scenario) -> Result<bool, OracleError>,
) -> Result<Scenario, OracleError> {
    let mut best = scenario.clone();
    let mut left = trials;
    let mut tried = |candidate: &Scenario| {
        if left == 0 {
            return Ok(false);
        }
        left -= 1;
        differs(candidate)
    };
    let mut size = usize::MAX;
    // What one part needs may go once another is gone.
    while measure(&best) < size {
        size = measure(&best);
        let packets = minimal(&numbers(&best), |kept| tried(&with_packets(&best, kept)))?;
        best = with_packets(&best, &packets);
        // A device goes with its addresses and routes, before those go one by one.
        let devices = minimal(&statements::devices(&best), |kept| {
            tried(&statements::with_devices(&best, kept))
        })?;
        best = statements::with_devices(&best, &devices);
        let setup = minimal(&best.setup, |kept| {
            tried(&Scenario {
                setup: kept.to_vec(),
                ..best.clone()
            })
        })?;
        best.setup = setup;
        let changes = minimal(&changes(&best), |kept| tried(&with_changes(&best, kept)))?;
        best = with_changes(&best, &changes);
        let classes = minimal(&best.lanes.classes, |kept| {
            let mut candidate = best.clone();
            candidate.lanes.classes = kept.to_vec();
            tried(&candidate)
        })?;
        best.lanes.classes = classes;
        if best.lanes.engine {
            let mut candidate = best.clone();
            candidate.lanes.engine = false;
            if tried(&candidate)? {
                best = candidate;
            }
        }
        for n in 0..best.setup.len() {
            while let Some(plainer) = plainer(&best, n, &mut tried)? {
                best = plainer;
            }
        }
        for n in 0..best.lanes.classes.len() {
            let mut candidate = best.clone();
            candidate.lanes.classes[n].policed = false;
            if candidate != best && tried(&candidate)? {
                best = candidate;
            }
            let rules = minimal(&best.lanes.classes[n].rules.clone(), |kept| {
                if kept.is_empty() {
                    return Ok(false);
                }
                let mut candidate = best.clone();
                candidate.lanes.classes[n].rules = kept.to_vec();
                tried(&candidate)
            })?;
            best.lanes.classes[n].rules = rules;
        }
    }
    Ok(best)
}

/// The scenario with a tunnel of one option less, if it still differs so.
fn plainer(
    scenario: &Scenario,
    n: usize,
    tried: &mut impl FnMut(&Scenario) -> Result<bool, OracleError>,
) -> Result<Option<Scenario>, OracleError> {
    for statement in statements::plainer(&scenario.setup[n]) {
        let mut candidate = scenario.clone();
        candidate.setup[n] = statement;
        if tried(&candidate)? {
            return Ok(Some(candidate));
        }
    }
    Ok(None)
}

fn measure(scenario: &Scenario) -> usize {
    let classes: usize = scenario
        .lanes
        .classes
        .iter()
        .map(|c| 1 + c.rules.len())
        .sum();
    scenario.packets() + scenario.setup.len() + changes(scenario).len() + classes
}

fn numbers(scenario: &Scenario) -> Vec<u32> {
    let mut all = Vec::new();
    for step in &scenario.steps {
        if let Step::Send(packets) = step {
            all.extend(packets.iter().map(|p| p.number));
        }
    }
    all
}

/// With these packets only, and without steps that are empty then.
fn with_packets(scenario: &Scenario, kept: &[u32]) -> Scenario {
    let keep = |p: &&Packet| kept.contains(&p.number);
    rebuilt(scenario, |_, step| match step {
        Step::Send(packets) => Step::Send(packets.iter().filter(keep).cloned().collect()),
        change => change.clone(),
    })
}

/// Statements of changes, by the step and their place in it.
fn changes(scenario: &Scenario) -> Vec<(usize, usize)> {
    let mut all = Vec::new();
    for (n, step) in scenario.steps.iter().enumerate() {
        if let Step::Change(statements) = step {
            all.extend((0..statements.len()).map(|place| (n, place)));
        }
    }
    all
}

fn with_changes(scenario: &Scenario, kept: &[(usize, usize)]) -> Scenario {
    rebuilt(scenario, |n, step| match step {
        Step::Change(statements) => {
            let of_this = statements.iter().enumerate();
            let keep = of_this.filter(|(place, _)| kept.contains(&(n, *place)));
            Step::Change(keep.map(|(_, s): (usize, &Statement)| s.clone()).collect())
        }
        send => send.clone(),
    })
}

fn rebuilt(scenario: &Scenario, step: impl Fn(usize, &Step) -> Step) -> Scenario {
    let steps = scenario.steps.iter().enumerate().map(|(n, s)| step(n, s));
    let empty = |s: &Step| match s {
        Step::Send(packets) => packets.is_empty(),
        Step::Change(statements) => statements.is_empty(),
    };
    Scenario {
        steps: steps.filter(|s| !empty(s)).collect(),
        ..scenario.clone()
    }
}

/// A packet with those that it answers, first ones first: what a mismatch about it needs at least.
pub fn with_ancestors(scenario: &Scenario, number: u32) -> Vec<u32> {
    let mut line = vec![number];
    let packets = scenario.steps.iter().rev().filter_map(|s| match s {
        Step::Send(packets) => Some(packets.iter().rev()),
        Step::Change(_) => None,
    });
    for packet in packets.flatten() {
        if let Origin::Answer(answer) = &packet.origin
            && line.contains(&packet.number)
        {
            line.push(answer.to);
        }
    }
    line.reverse();
    line
}

/// The scenario without statements and packets in whose text one of these is.
pub fn without(scenario: &Scenario, words: &[String]) -> Scenario {
    let known = |text: &str| words.iter().any(|w| text.contains(w.as_str()));
    let keep = |s: &&Statement| !known(&s.command());
    let mut left = rebuilt(scenario, |_, step| match step {
        Step::Send(all) => Step::Send(all.iter().filter(|p| !known(&p.what)).cloned().collect()),
        Step::Change(all) => Step::Change(all.iter().filter(keep).cloned().collect()),
    });
    left.setup = scenario.setup.iter().filter(keep).cloned().collect();
    left
}

/// The scenario up to a step, with these packets only.
pub fn cut(scenario: &Scenario, last_step: usize, packets: Option<&[u32]>) -> Scenario {
    let mut until = scenario.clone();
    until.steps.truncate(last_step + 1);
    match packets {
        Some(numbers) => with_packets(&until, numbers),
        None => until,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar;

    #[test]
    fn what_is_needed_together_stays_and_nothing_else() {
        let all: Vec<u32> = (0..100).collect();
        let mut trials = 0;
        let kept = minimal(&all, |kept| {
            trials += 1;
            Ok::<_, ()>([3, 58, 59].iter().all(|n| kept.contains(n)))
        });
        assert_eq!(kept, Ok(vec![3, 58, 59]));
        assert!(trials < 100, "{trials} trials");
    }

    #[test]
    fn a_tunnel_shrinks_to_what_it_needs() {
        let mut scenario = grammar::draw(1, 10, &grammar::Kinds::default());
        let [made, other] = [1, 2].map(|n| {
            let name = format!("gre{n}");
            [
                format!("link add {name} type gre local 10.1.0.1 remote 10.1.0.1{n} ttl 64 tos inherit key 7"),
                format!("link set {name} up"),
                format!("route add 192.0.{n}.0/24 dev {name}"),
            ]
            .map(Statement::Ip)
        });
        scenario.setup = [made, other].concat();
        let needed = |line: &str| line.contains("gre1") && line.contains("tos inherit");
        let shrunk = shrink(&scenario, 1000, |s| {
            Ok(s.setup.iter().any(|s| needed(&s.command())))
        })
        .expect("no trial fails");
        let left: Vec<String> = shrunk.setup.iter().map(Statement::command).collect();
        assert_eq!(
            left,
            ["ip link add gre1 type gre local 10.1.0.1 remote 10.1.0.11 tos inherit"]
        );
    }

    #[test]
    fn a_scenario_shrinks_to_one_packet_one_statement_and_one_class() {
        let drawn = (0..).map(|seed| grammar::draw(seed, 100, &grammar::Kinds::default()));
        let mut drawn = drawn.filter(|s| !s.lanes.classes.is_empty());
        let scenario = drawn.next().expect("seeds do not end");
        let statement = scenario.setup[3].clone();
        let number = numbers(&scenario)[17];
        let shrunk = shrink(&scenario, 1000, |s| {
            Ok(s.setup.contains(&statement)
                && numbers(s).contains(&number)
                && !s.lanes.classes.is_empty())
        })
        .expect("no trial fails");
        assert_eq!(shrunk.setup, [statement]);
        assert_eq!(numbers(&shrunk), [number]);
        assert_eq!(shrunk.steps.len(), 1);
        assert_eq!(shrunk.lanes.classes.len(), 1);
        assert_eq!(shrunk.lanes.classes[0].rules.len(), 1);
    }
}
