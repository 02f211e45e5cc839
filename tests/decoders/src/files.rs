//! Files: what somebody wrote, and what an earlier version or a crash left.

use std::path::Path;

use rxlane_bench::lab::LabConfig;
use rxlane_tune::journal;
use rxlane_tune::plan::TunePlan;

/// A router's configuration means the same when it is written and read again; each complaint is one line about a line
/// that is there.
pub(crate) fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    match rxlane_config::parse(text) {
        Ok(config) => {
            let again = rxlane_config::to_toml(&config);
            match rxlane_config::parse(&again) {
                Ok(same) => assert_eq!(same, config, "{again}"),
                Err(c) => panic!("line {c} in\n{again}"),
            }
        }
        Err(complaints) => {
            let lines = text.matches('\n').count() + 1;
            assert!(!complaints.all.is_empty());
            for complaint in &complaints.all {
                assert!((1..=lines).contains(&complaint.line), "{complaint:?}");
                let one_line = !complaint.message.is_empty() && !complaint.message.contains('\n');
                assert!(one_line, "{complaint:?}");
            }
            assert!(!complaints.excerpts("file", false).is_empty());
        }
    }
}

/// A router with rules on everything that a packet may lack.
fn classes() -> rxlane_sim::capture::Classes {
    let text = "ports = [\"a\"]\n[[class]]\nname = \"rt\"\nlane = \"express\"\ntrust = \"all\"\n\
        match = [{ dscp = \"EF\", src_port = 5, vlan = 7, bytes = { offset = 20, value = 1 } }]\n\
        [[class]]\nname = \"rest\"\nlane = \"stack\"\n";
    let router = rxlane_config::parse(text).expect("a configuration");
    rxlane_sim::capture::Classes::new(&router.ports, &router.classes, None, None)
        .expect("rules that compile")
}

/// Gaps of a capture are numbers that time can have, and so are classes.
pub(crate) fn capture(bytes: &[u8]) {
    let are_times = |gaps: &[f64]| gaps.iter().all(|g| g.is_finite() && *g >= 0.0);
    match rxlane_sim::capture::read(bytes) {
        Ok(gaps) => {
            let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
            assert!(are_times(&gaps) && (mean - 1.0).abs() < 1e-6, "{gaps:?}");
        }
        Err(complaint) => assert!(!complaint.contains('\n'), "{complaint}"),
    }
    match rxlane_sim::capture::classified(bytes, &classes()) {
        Ok(recording) => {
            let sound = |p: &rxlane_sim::capture::Recorded| p.gap >= 0.0 && p.class < 2;
            assert!(recording.packets.iter().all(sound) && recording.pps > 0.0);
        }
        Err(complaint) => assert!(!complaint.contains('\n'), "{complaint}"),
    }
    match rxlane_bench::capture_gaps(bytes) {
        Ok(gaps) => assert!(
            are_times(&gaps) && gaps.iter().sum::<f64>() > 0.0,
            "{gaps:?}"
        ),
        Err(complaint) => assert!(!complaint.contains('\n'), "{complaint}"),
    }
}

/// What is in a journal is in it still when it has been written anew.
pub(crate) fn journal(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    let path = Path::new("journal");
    match journal::parse(path, text) {
        Ok(None) => {}
        Ok(Some(contents)) => {
            let again = contents.text().expect("it was written before");
            let same = journal::parse(path, &again).expect("whole");
            assert_eq!(same, Some(contents));
        }
        Err(damaged) => assert!(!damaged.to_string().contains('\n'), "{damaged}"),
    }
}

/// Plans, labs and results are the same when they are written and read again.
pub(crate) fn json(bytes: &[u8]) {
    for read in [
        rxlane_results::of_json(bytes),
        rxlane_results::of_csv(bytes),
    ] {
        match read {
            Ok(results) => {
                let mut again = Vec::new();
                let written = results.write(rxlane_results::Format::Json, &mut again);
                written.expect("memory takes everything");
                let same = rxlane_results::of_json(&again).expect("whole");
                assert_eq!(same.len(), results.len());
            }
            Err(complaint) => assert!(!complaint.to_string().contains('\n'), "{complaint}"),
        }
    }
    if let Ok(lab) = serde_json::from_slice::<LabConfig>(bytes) {
        let again = serde_json::to_vec(&lab).expect("it has only text and numbers");
        let same: LabConfig = serde_json::from_slice(&again).expect("whole");
        assert_eq!(same, lab);
    }
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if let Ok(plan) = TunePlan::of_saved(text) {
        let again = serde_json::json!({ "plan": plan }).to_string();
        let same = TunePlan::of_saved(&again).expect("whole");
        assert_eq!(same, plan);
        for change in &plan.changes {
            let held = change.knob.check_names().is_err();
            let path = change.knob.file().unwrap_or_default();
            assert!(held || !path.contains("/../"), "{path}");
        }
    }
}
