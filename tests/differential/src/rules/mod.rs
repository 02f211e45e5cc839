//! The oracle of the evaluator: rulesets and flows at random, and whether the kernel does what the evaluator says.
//!
//! Of a flow its first packet is sent, then an answer, then more in both directions. Where the evaluator says `accept` all packets of that
//! kind must arrive, where it says `drop` none may. `depends` is counted by its reasons.

mod grammar;
mod iptables;
mod talk;

use std::collections::BTreeMap;

use rxlane_ruleset::Table;
use rxlane_ruleset::evaluate::{Answer, Evaluator, Flow, Outcome, Stage};
use rxlane_ruleset::nft::Elements;
use rxlane_system::{links, netns, ruleset};

use self::talk::{Talk, setup};
use crate::OracleError;
use crate::apply::tool_with_input;
use crate::grammar::Dice;
use crate::world::World;

/// Rulesets in one world: connections are remembered there.
const PER_WORLD: u64 = 40;
/// A difference must be seen so many times.
const AGAIN: usize = 3;

/// What was found.
#[derive(Debug, Default)]
pub struct Tally {
    /// Rulesets that the kernel took.
    pub rulesets: u64,
    /// Rulesets that it refused: mistakes of the grammar.
    pub refused: BTreeMap<String, u64>,
    /// Packets that were sent.
    pub packets: u64,
    /// Answers by what they say.
    pub answers: BTreeMap<&'static str, u64>,
    /// Why answers depend.
    pub reasons: BTreeMap<String, u64>,
    /// What the kernel did otherwise.
    pub differences: Vec<String>,
}

/// Draws so many rulesets, the first with this seed, and asks about so many flows of each.
///
/// # Errors
/// When a world cannot be made.
pub fn hunt(
    seed: u64,
    rulesets: u64,
    flows: usize,
    mut done: impl FnMut(&Tally) -> bool,
) -> Result<Tally, OracleError> {
    let mut tally = Tally::default();
    let mut world = None;
    for n in 0..rulesets {
        if n % PER_WORLD == 0 {
            drop(world.take());
        }
        let world = match &mut world {
            Some(world) => world,
            none => none.insert(World::up("rules", &setup())?),
        };
        one(world, seed + n, flows, &mut tally)?;
        if done(&tally) {
            break;
        }
    }
    Ok(tally)
}

/// What a seed draws.
pub fn drawn(seed: u64) -> String {
    grammar::draw(&mut Dice::new(seed))
}

fn one(world: &World, seed: u64, flows: usize, tally: &mut Tally) -> Result<(), OracleError> {
    let mut dice = Dice::new(seed);
    let drawn = grammar::draw(&mut dice);
    let Some(mut text) = load(world, &drawn, tally) else {
        return Ok(());
    };
    restore(world, "iptables-legacy-restore", iptables::EMPTY)?;
    if dice.chance(40) {
        let (tool, rules) = iptables::draw(&mut dice);
        match restore(world, tool, &rules) {
            Ok(_) => text += &format!("\n{tool}:\n{rules}"),
            Err(refused) => {
                let said = refused.to_string().replace('\n', " ");
                *tally.refused.entry(said).or_default() += 1;
            }
        }
    }
    tally.rulesets += 1;
    let (tables, devices) = netns::within(world.router(), false, || {
        let links = links::all()?;
        let (tables, _) = ruleset::tables(&links, Elements::All)?;
        let devices = links.iter().map(|l| (l.ifindex, l.name.clone()));
        Ok((tables, devices.collect::<BTreeMap<u32, String>>()))
    })?;
    let rules = Rules {
        seed,
        text: &text,
        tables: &tables,
        devices: &devices,
    };
    for _ in 0..flows {
        let mut talk = Talk::draw(world, &mut dice);
        let wrong = rules.try_flow(&mut talk, tally)?;
        let Some(mut wrong) = wrong else { continue };
        let mut again = 1;
        while again < AGAIN {
            talk.be_patient();
            talk.renew(&mut dice);
            match rules.try_flow(&mut talk, tally)? {
                Some(difference) => wrong = difference,
                None => break,
            }
            again += 1;
        }
        if again == AGAIN {
            tally.differences.push(wrong);
        }
    }
    Ok(())
}

/// Loads rules of iptables.
fn restore(world: &World, tool: &str, rules: &str) -> Result<String, OracleError> {
    tool_with_input("ip", &["netns", "exec", world.router(), tool], rules)
}

/// Loads a ruleset without the rules that `nft` refuses, such as comparisons that contradict each other, chains that call each other. What was
/// loaded.
fn load(world: &World, drawn: &str, tally: &mut Tally) -> Option<String> {
    let mut lines: Vec<&str> = drawn.lines().collect();
    for _ in 0..lines.len() {
        let text = lines.join("\n");
        let refused = tool_with_input(
            "ip",
            &["netns", "exec", world.router(), "nft", "-f", "-"],
            &format!("flush ruleset; {text}\n"),
        );
        let Err(refused) = refused else {
            return Some(text);
        };
        let said = refused.to_string();
        let place = said.split("/dev/stdin:").nth(1);
        let line = place.and_then(|p| p.split(':').next()?.parse::<usize>().ok());
        let why = said.split("Error: ").nth(1).unwrap_or(&said);
        let why = why.split_whitespace().take(6).collect::<Vec<_>>().join(" ");
        *tally.refused.entry(why).or_default() += 1;
        let line = line.filter(|n| lines.get(n - 1).is_some_and(|l| l.starts_with("  ")))?;
        lines.remove(line - 1);
    }
    None
}

struct Rules<'a> {
    seed: u64,
    text: &'a str,
    tables: &'a [Table],
    devices: &'a BTreeMap<u32, String>,
}

impl Rules<'_> {
    /// Has a flow talk; what the kernel does otherwise than it should.
    fn try_flow(
        &self,
        talk: &mut Talk<'_>,
        tally: &mut Tally,
    ) -> Result<Option<String>, OracleError> {
        let evaluator = Evaluator {
            tables: self.tables,
            devices: self.devices,
        };
        let flow = talk.flow();
        let answer = evaluator.answer(&flow, Stage::Opening);
        let arrived = talk.open()?;
        if let wrong @ Some(_) = self.judge(&flow, Stage::Opening, &answer, &[arrived], tally) {
            return Ok(wrong);
        }
        // Whoever hears nothing does not answer.
        if !arrived || !talk.establish()? {
            return Ok(None);
        }
        let answer = evaluator.answer(&flow, Stage::Established);
        let arrived = talk.go_on()?;
        if let wrong @ Some(_) = self.judge(&flow, Stage::Established, &answer, &arrived, tally) {
            return Ok(wrong);
        }
        let answer = evaluator.answer(&flow, Stage::Answering);
        let arrived = talk.come_back()?;
        Ok(self.judge(&flow, Stage::Answering, &answer, &arrived, tally))
    }

    fn judge(
        &self,
        flow: &Flow,
        stage: Stage,
        answer: &Answer,
        arrived: &[bool],
        tally: &mut Tally,
    ) -> Option<String> {
        tally.packets += arrived.len() as u64;
        *tally.answers.entry(answer.outcome.name()).or_default() += 1;
        let is_wrong = match answer.outcome {
            Outcome::Accept => arrived.contains(&false),
            Outcome::Drop => arrived.contains(&true),
            Outcome::Depends => {
                for deciding in &answer.because {
                    if let Some(why) = &deciding.why {
                        *tally.reasons.entry(why.clone()).or_default() += 1;
                    }
                }
                false
            }
        };
        let because = || {
            let all = answer.because.iter().map(ToString::to_string);
            all.collect::<Vec<_>>().join("\n  ")
        };
        is_wrong.then(|| {
            format!(
                "seed {}\n{}\n{flow:?}\n{stage:?}: {}, arrived {arrived:?}\n  {}",
                self.seed,
                grammar::without_sets(self.text),
                answer.outcome.name(),
                because()
            )
        })
    }
}
