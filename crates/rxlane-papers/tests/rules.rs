//! A verdict must be able to fail: without data, and on a model that lacks what the row claims.

use std::collections::BTreeMap;

use rxlane_papers::{Data, PAPERS, Rows, Use, judge, references, select, statements, wrong_models};
use rxlane_sim::stop::Stop;

/// The papers' experiments, without a row.
fn empty() -> BTreeMap<&'static str, Data> {
    PAPERS
        .iter()
        .map(|paper| {
            let mut data = Data::default();
            for file in paper.experiments {
                data.put(file, Rows::new(Vec::new()));
            }
            (paper.name, data)
        })
        .collect()
}

#[test]
fn without_data_only_formulas_and_constants_are_met() {
    let rows = select(&["all".into()]).unwrap();
    for v in judge(&rows, &empty()).unwrap() {
        let needs_none = matches!(v.usage, Use::Arithmetic | Use::Constant);
        assert_eq!(v.holds(), needs_none, "{}: {v:?}", v.id);
    }
}

#[test]
fn every_rule_names_its_quantity_its_tolerance_and_its_effect() {
    let rows = select(&["all".into()]).unwrap();
    for v in judge(&rows, &BTreeMap::new()).unwrap() {
        assert_eq!(v.rule, "none", "without a paper's data there is no rule");
    }
    for v in judge(&rows, &empty()).unwrap() {
        for text in [&v.judged, &v.rule, &v.effect] {
            assert!(!text.is_empty() && text != "none", "{}: {v:?}", v.id);
        }
    }
}

#[test]
fn what_the_model_meets_some_wrong_model_does_not() {
    // RXLANE_EVERY=3 takes one paper of three.
    let every = std::env::var("RXLANE_EVERY").map_or(1, |n| n.parse().expect("a number"));
    let papers = PAPERS.iter().skip(every - 1).step_by(every);
    let papers: Vec<String> = papers.map(|paper| paper.name.to_owned()).collect();
    let rows = select(&papers).unwrap();
    let uses: BTreeMap<String, Use> = references().into_iter().map(|r| (r.id, r.usage)).collect();
    let by = simulated();
    let mut unbroken = Vec::new();
    for matrix in wrong_models(&rows, &Stop::never(), || ()).unwrap() {
        println!("{matrix}");
        for (id, rejecting) in matrix.rejections() {
            if matches!(uses[id], Use::Fit | Use::Predict) {
                assert!(rejecting > 0, "{id}: no wrong model breaks its rule");
            }
        }
        let contradictions = matrix.contradictions();
        for (id, paper) in &by {
            if *paper == matrix.paper && contradictions.get(id.as_str()).is_none_or(|n| *n == 0) {
                unbroken.push(id.clone());
            }
        }
    }
    assert!(
        unbroken.is_empty(),
        "statements that hold, and that no wrong model contradicts: {unbroken:?}"
    );
}

/// Statements that a rule on simulations says hold, by the golden results, with their papers.
fn simulated() -> Vec<(String, &'static str)> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/statements.json");
    let golden: BTreeMap<String, String> =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let all = statements(&select(&["all".into()]).unwrap(), &empty()).unwrap();
    let all = all.into_iter();
    all.filter(|s| s.by == "rule" && golden[&s.id] == "holds")
        .map(|s| (s.id, s.paper))
        .collect()
}
