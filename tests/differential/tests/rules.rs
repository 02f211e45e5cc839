//! The oracle of the evaluator of rules, from a fixed seed.

use rxlane_differential::{rules, world};

#[test]
#[ignore = "needs root: make test"]
fn the_kernel_does_with_flows_what_the_evaluator_says() {
    world::remove_left_over();
    let tally = rules::hunt(20_261_129, 160, 30, |tally| !tally.differences.is_empty())
        .expect("rulesets are loaded");
    let differences = tally.differences.join("\n\n");
    assert!(differences.is_empty(), "{differences}");
    assert_eq!(tally.rulesets, 160, "{:?}", tally.refused);
    for (said, least) in [("accept", 1000), ("drop", 500), ("depends", 50)] {
        let times = tally.answers.get(said).copied().unwrap_or_default();
        assert!(times > least, "{said}: {:?}", tally.answers);
    }
}
