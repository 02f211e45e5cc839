//! What rules of their own say of statements that no row judges. As with rows, what has no data does not hold.

use std::collections::BTreeMap;

use crate::interval::Interval;
use crate::judge::percent;

/// What a rule says of a statement.
#[derive(Debug, Clone)]
pub(crate) struct Claim {
    pub(crate) holds: bool,
    /// When it holds.
    pub(crate) rule: String,
    /// The numbers that decide it.
    pub(crate) model: String,
}

/// What the rules of a paper say, by statement.
#[derive(Debug)]
pub(crate) struct Claims {
    all: BTreeMap<&'static str, Claim>,
    /// Every computed number is multiplied by it: 1, but for tests, in which a rule must reject what it is given.
    factor: f64,
}

impl Claims {
    pub(crate) fn new(factor: f64) -> Self {
        Self {
            all: BTreeMap::new(),
            factor,
        }
    }

    pub(crate) fn into_map(self) -> BTreeMap<&'static str, Claim> {
        self.all
    }

    /// A condition on results of simulations.
    pub(crate) fn rule(
        &mut self,
        id: &'static str,
        holds: bool,
        rule: impl Into<String>,
        model: impl Into<String>,
    ) {
        let claim = Claim {
            holds,
            rule: rule.into(),
            model: model.into(),
        };
        let before = self.all.insert(id, claim);
        debug_assert!(before.is_none(), "{id} is judged twice");
    }

    /// A number that simulations give, whose whole interval must be within the tolerance.
    pub(crate) fn number(
        &mut self,
        id: &'static str,
        what: &str,
        model: Interval,
        stated: f64,
        tolerance: f64,
    ) {
        self.rule(
            id,
            model.within(tolerance, stated),
            near(what, stated, tolerance),
            shown(model.mean),
        );
    }

    /// A number of formulas and costs, without simulation.
    pub(crate) fn computed(
        &mut self,
        id: &'static str,
        what: &str,
        value: f64,
        stated: f64,
        tolerance: f64,
    ) {
        let value = Interval::exact(value * self.factor);
        self.number(id, what, value, stated, tolerance);
    }

    /// As [`Claims::computed`], of which only a least value is stated.
    pub(crate) fn computed_at_least(
        &mut self,
        id: &'static str,
        what: &str,
        value: f64,
        least: f64,
    ) {
        let value = value * self.factor;
        self.rule(
            id,
            value >= least,
            format!("{what}: at least {}", shown(least)),
            shown(value),
        );
    }
}

fn near(what: &str, stated: f64, tolerance: f64) -> String {
    if tolerance == 0.0 {
        return format!("{what}: exactly {}", shown(stated));
    }
    format!("{what}: within {} of {}", percent(tolerance), shown(stated))
}

/// A number with the digits that it deserves.
pub(crate) fn shown(v: f64) -> String {
    crate::judge::rounded(v).to_string()
}

/// Means in a row, each times a factor.
pub(crate) fn list(all: impl IntoIterator<Item = Interval>, factor: f64) -> String {
    let all: Vec<String> = all.into_iter().map(|x| shown(x.mean * factor)).collect();
    all.join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::PAPERS;
    use crate::statement::{By, statements_of};
    use crate::table::{Data, Rows};

    fn empty(paper: &crate::Paper) -> Data {
        let mut data = Data::default();
        for file in paper.experiments {
            data.put(file, Rows::new(Vec::new()));
        }
        data
    }

    fn holding(paper: &crate::Paper, factor: f64) -> BTreeSet<&'static str> {
        let mut claims = Claims::new(factor);
        (paper.claims)(&empty(paper), &mut claims).unwrap();
        let all = claims.into_map().into_iter();
        all.filter(|(_, c)| c.holds).map(|(id, _)| id).collect()
    }

    #[test]
    fn without_data_no_rule_on_simulations_holds() {
        for paper in &PAPERS {
            let lines = statements_of(paper);
            let holding = holding(paper, 1.0);
            for line in lines.iter().filter(|l| l.by == By::Rule) {
                assert!(!holding.contains(line.id.as_str()), "{}", line.id);
            }
        }
    }

    #[test]
    fn every_computed_number_can_be_wrong() {
        for paper in &PAPERS {
            let right = holding(paper, 1.0);
            let wrong = [0.5, 1.5].map(|factor| holding(paper, factor));
            for line in statements_of(paper) {
                if line.by == By::Arithmetic && right.contains(line.id.as_str()) {
                    let rejects = wrong.iter().any(|w| !w.contains(line.id.as_str()));
                    assert!(rejects, "{} holds whatever is computed", line.id);
                }
            }
        }
    }

    #[test]
    fn every_statement_with_a_rule_of_its_own_has_one_and_no_other_does() {
        for paper in &PAPERS {
            let mut claims = Claims::new(1.0);
            (paper.claims)(&empty(paper), &mut claims).unwrap();
            let lines = statements_of(paper);
            let own = lines
                .iter()
                .filter(|l| matches!(l.by, By::Rule | By::Arithmetic));
            let own: BTreeSet<&str> = own.map(|l| l.id.as_str()).collect();
            let judged: BTreeSet<&str> = claims.into_map().into_keys().collect();
            assert_eq!(own, judged, "{}", paper.name);
        }
    }
}
