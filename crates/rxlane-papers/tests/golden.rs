//! Every experiment against what it gave before, so that a change of the model cannot go unseen.
//!
//! `RXLANE_GOLDEN=write cargo test -p rxlane-papers --test golden` accepts new results; the diff of
//! `tests/golden.json` and `tests/statements.json` then shows what changed.

use std::collections::BTreeMap;

use rxlane_papers::{judge, run, select, statements};
use rxlane_sim::stop::Stop;
use serde_json::Value;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden.json");

const STATEMENTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/statements.json");

/// Verdicts and models by row.
type Results = BTreeMap<String, (String, Value)>;
/// What became of each statement.
type Findings = BTreeMap<String, String>;

fn results() -> (Results, Findings) {
    let rows = select(&["all".into()]).unwrap();
    let data = run(&rows, &Stop::never(), || ()).unwrap();
    let verdicts = judge(&rows, &data).unwrap();
    let verdicts = verdicts
        .into_iter()
        .map(|v| (v.id, (v.verdict.to_owned(), v.model)))
        .collect();
    let findings = statements(&rows, &data)
        .unwrap()
        .into_iter()
        .map(|s| (s.id, s.finding.to_string()))
        .collect();
    (verdicts, findings)
}

fn write(file: &str, now: &impl serde::Serialize) {
    std::fs::write(file, serde_json::to_string_pretty(now).unwrap() + "\n").unwrap();
}

#[test]
fn every_row_and_statement_of_every_paper_is_as_it_was() {
    let (now, findings) = results();
    if std::env::var("RXLANE_GOLDEN").as_deref() == Ok("write") {
        write(FILE, &now);
        write(STATEMENTS, &findings);
        return;
    }
    let before: Findings =
        serde_json::from_str(&std::fs::read_to_string(STATEMENTS).unwrap()).unwrap();
    assert_eq!(before, findings);
    let before: Results = serde_json::from_str(&std::fs::read_to_string(FILE).unwrap()).unwrap();
    assert_eq!(before.len(), now.len());
    for (id, (verdict, model)) in &before {
        let (verdict_now, model_now) = &now[id];
        assert_eq!(verdict, verdict_now, "{id}: was {model}, is {model_now}");
        match (model.as_f64(), model_now.as_f64()) {
            // Another libm may round another way, which moves single packets.
            (Some(a), Some(b)) => {
                assert!(
                    (a - b).abs() <= 0.01 * a.abs().max(1.0),
                    "{id}: was {a}, is {b}"
                );
            }
            _ => assert_eq!(model, model_now, "{id}"),
        }
    }
}
