//! The reference of the book names every key, metric, command and counter.

use rxlane_sim::outcome::simulate;
use rxlane_sim::scenario::Scenario;

/// Every key of a scenario, and every metric of its results.
const DOCS: &str = include_str!("../../../docs/src/reference/scenarios.md");

fn keys(value: &toml::Value, found: &mut Vec<String>) {
    if let toml::Value::Table(table) = value {
        for (key, value) in table {
            found.push(key.clone());
            keys(value, found);
        }
    }
}

#[test]
fn every_key_of_a_scenario_is_documented() {
    let mut found = Vec::new();
    keys(
        &toml::Value::try_from(Scenario::default()).unwrap(),
        &mut found,
    );
    assert!(found.len() > 50, "{found:?}");
    for key in found {
        let written = [
            format!("`{key}`"),
            format!("**{key}**"),
            format!("{key} = "),
        ];
        assert!(written.iter().any(|w| DOCS.contains(w)), "{key}");
    }
}

#[test]
fn every_metric_is_documented() {
    let scenario = Scenario {
        seconds: 0.001,
        ..Scenario::default()
    };
    for (name, _) in simulate(&scenario, 0).unwrap().metrics {
        let first = name.split('.').next().unwrap_or_default();
        let kind = first.split('_').next().unwrap_or_default();
        let documented =
            DOCS.contains(&format!("`{first}")) || DOCS.contains(&format!("`{kind}_*`"));
        assert!(documented, "{name}");
    }
}

#[test]
fn the_reference_page_is_what_the_program_says() {
    test_lab::book::has_pages(env!("CARGO_BIN_EXE_rxlane-lab"), &["lab-commands.md"]);
}
