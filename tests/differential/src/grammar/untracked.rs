//! Flows that connection tracking does not see, and classes that follow them: `trust = "firewall"`.

use super::Dice;
use super::tracked::{chain, flow, has_table, talk};
use crate::scenario::{Scenario, Statement, Step, Trust};

/// Own dice, so that what else is drawn stays as it was.
const OTHER_DICE: u64 = 0x1656_67b1_9e37_79f9;

/// Of a hundred configurations whose classes follow what Linux does.
const OFTEN: u32 = 45;

pub(super) fn draw(seed: u64, scenario: &mut Scenario) {
    let mut dice = Dice::new(seed ^ OTHER_DICE);
    let dice = &mut dice;
    let trusts = scenario.lanes.classes.iter().map(|c| &c.trust);
    let established = trusts.flatten().any(|t| *t == Trust::Established);
    if !established || !dice.chance(OFTEN) {
        return;
    }
    talk(dice, scenario);
    for class in &mut scenario.lanes.classes {
        class.trust = class.trust.as_ref().map(|_| Trust::Firewall);
    }
    if dice.chance(60) {
        without_tracking(scenario);
        if has_table(scenario) && dice.chance(60) {
            let does = dice.pick(&["drop", "accept", "counter", "meta mark set 0x1"]);
            let rules = [format!("{} {does}", flow(dice))];
            chain(scenario, "stateless", "forward", 20, &rules);
        }
    } else if has_table(scenario) {
        let rules = [format!("{} notrack", flow(dice))];
        chain(scenario, "untracked", "prerouting", -305, &rules);
    }
}

/// Takes away all that has connections tracked.
fn without_tracking(scenario: &mut Scenario) {
    let tracks = |s: &Statement| match s {
        Statement::Nft(line) => ["ct ", "type nat", " fw source ", " fw destination "]
            .iter()
            .any(|part| line.contains(part)),
        _ => false,
    };
    scenario.setup.retain(|s| !tracks(s));
    for step in &mut scenario.steps {
        if let Step::Change(statements) = step {
            statements.retain(|s| !tracks(s));
        }
    }
}
