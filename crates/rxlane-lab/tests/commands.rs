//! The command as people and scripts use it: pipes, disks and files. Needs no privilege.

use std::process::Output;

use test_lab::program::{Program, text};

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_rxlane-lab"));

fn rxlane_lab(arguments: &[&str]) -> Output {
    PROGRAM.run(arguments)
}

const SHORT: [&str; 5] = ["sim", "run", "examples/sim.toml", "--set", "seconds=0.01"];

fn printing() -> Vec<Vec<&'static str>> {
    let with = |option| [&SHORT[..], &[option]].concat();
    let plan = "plan --service-time 2us --rt-rate 100k --target 300us";
    vec![
        SHORT.to_vec(),
        with("--json"),
        with("--csv"),
        plan.split(' ').collect(),
        vec!["completions", "bash"],
    ]
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    let printing = printing();
    let printing: Vec<&[&str]> = printing.iter().map(Vec::as_slice).collect();
    PROGRAM.readers_may_leave(&printing);
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    let printing = printing();
    let printing: Vec<&[&str]> = printing.iter().map(Vec::as_slice).collect();
    PROGRAM.full_disks_are_told(&printing);
}

#[test]
fn a_result_that_cannot_be_written_is_refused_before_the_work() {
    // A day of virtual time: whoever begins with it does not end in time for this test.
    let long = ["sim", "run", "examples/sim.toml", "--set", "seconds=1e5"];
    for option in ["--json", "--csv", "--parquet"] {
        let out = rxlane_lab(&[&long[..], &[option, "/no/such/folder/out"]].concat());
        assert!(!out.status.success());
        let said = text(&out.stderr);
        assert!(said.contains("cannot write /no/such/folder/out"), "{said}");
    }
    let out = rxlane_lab(&["sim", "reproduce", "--html", "/no/such/folder/out"]);
    assert!(text(&out.stderr).contains("cannot write"));
}

#[test]
fn a_disk_that_is_full_at_the_end_is_told() {
    let short = ["sim", "run", "examples/sim.toml", "--set", "seconds=0.01"];
    for option in ["--json", "--csv", "--parquet"] {
        let out = rxlane_lab(&[&short[..], &[option, "/dev/full"]].concat());
        assert!(!out.status.success());
        let said = text(&out.stderr);
        assert!(
            said.contains("cannot write /dev/full: No space left"),
            "{said}"
        );
    }
}

#[test]
fn a_scenario_is_an_argument_an_option_or_standard_input() {
    let scenario = "seconds = 0.01\n";
    for out in [
        rxlane_lab(&[
            "sim",
            "run",
            "-c",
            "examples/sim.toml",
            "--set",
            "seconds=0.01",
        ]),
        PROGRAM.with_input(&["sim", "run", "-"], scenario),
        PROGRAM.with_input(&["sim", "run", "-c", "-"], scenario),
    ] {
        assert!(text(&out.stdout).contains("throughput_pps"), "{out:?}");
    }
}

#[test]
fn settings_of_a_scenario_take_numbers_with_a_multiple() {
    let run = |pps: &str| {
        let set = format!("traffic.pps={pps}");
        let base = [
            "sim",
            "run",
            "examples/sim.toml",
            "--set",
            "seconds=0.01",
            "--json",
        ];
        let out = rxlane_lab(&[&base[..], &["--set", &set]].concat());
        assert!(out.status.success(), "{out:?}");
        text(&out.stdout)
    };
    assert_eq!(run("1.6M"), run("1.6e6"));
    assert_eq!(run("200k"), run("200000"));
}

#[test]
fn what_tune_has_recorded_is_drawn_and_nothing_else() {
    let page = std::env::temp_dir().join(format!("rxlane-loads-{}.html", std::process::id()));
    let page_name = page.to_str().unwrap();
    let record = r#"{"seconds": 1, "loads": {"0": [{"user": 0.1, "system": 0, "hard_irq": 0.1, "soft_irq": 0.2, "steal": 0, "idle": 0.6}]}, "interrupts_per_s": 9,
        "net_rx_per_s": [5], "rx_pps": 7, "losses": {"nic": 1, "backlog": 2, "socket": 3}, "squeezed": 4}"#;
    let recorded =
        format!(r#"{{"records": [{{"when": "before", "record": {record}}}], "plan": {{}}}}"#);
    let out = PROGRAM.with_input(&["loads", "-", "--html", page_name], &recorded);
    assert!(out.status.success(), "{out:?}");
    let drawn = std::fs::read_to_string(&page).unwrap();
    assert!(
        drawn.contains("Core 0") && drawn.contains("<svg"),
        "{drawn}"
    );
    let out = PROGRAM.with_input(&["loads", "-", "--html", page_name], "{}");
    let said = text(&out.stderr);
    assert!(
        !out.status.success() && said.contains("tune measure --json"),
        "{said}"
    );
    std::fs::remove_file(&page).unwrap();
}
