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
fn the_reference_pages_are_what_the_program_says() {
    let made = std::env::temp_dir().join(format!("rxlane-reference-{}", std::process::id()));
    std::fs::create_dir_all(&made).unwrap();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_rxlane"))
        .arg("reference")
        .arg(&made)
        .output()
        .unwrap();
    assert!(out.status.success(), "{out:?}");
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference");
    for page in ["commands.md", "configuration.md", "status.md"] {
        let read = |folder: &std::path::Path| std::fs::read_to_string(folder.join(page)).unwrap();
        assert!(
            read(&made) == read(&kept),
            "docs/src/reference/{page} is out of date: run `make docs`"
        );
    }
    std::fs::remove_dir_all(made).unwrap();
}
