//! The command as people and scripts use it: pipes, disks, files and mistakes. Needs no privilege.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use serde_json::Value;
use test_lab::program::{Program, text};

const PROGRAM: Program = Program(env!("CARGO_BIN_EXE_rxlane"));

fn rxlane(arguments: &[&str]) -> Output {
    PROGRAM.run(arguments)
}

/// Commands that print, and need nothing.
const PRINTING: [&[&str]; 4] = [
    &["check", "examples/voice.toml"],
    &["check", "--json", "examples/voice.toml"],
    &["schema"],
    &["completions", "bash"],
];

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    PROGRAM.readers_may_leave(&PRINTING);
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    PROGRAM.full_disks_are_told(&PRINTING);
}

#[test]
fn what_went_to_the_lab_is_run_there_with_all_its_arguments() {
    let out = rxlane(&["--netns", "none", "bench", "latency", "--offered", "2z"]);
    let said = text(&out.stderr);
    let now = "rxlane: this is a command of rxlane-lab now: rxlane-lab --netns none bench latency --offered 2z";
    assert!(said.starts_with(now), "{said}");
    assert!(said.contains("`2z` is no rate") || said.contains("rxlane-lab is not installed"));
    assert!(!out.status.success());
}

#[test]
fn the_configuration_is_an_argument_an_option_or_standard_input() {
    let voice = include_str!("../../../examples/voice.toml");
    let file = "examples/voice.toml";
    for out in [
        rxlane(&["check", file]),
        rxlane(&["check", "-c", file]),
        PROGRAM.with_input(&["check", "-"], voice),
        PROGRAM.with_input(&["check", "-c", "-"], voice),
    ] {
        let said = text(&out.stdout);
        assert!(
            said.contains("2 ports, 3 classes, 2 rules: fine"),
            "{out:?}"
        );
    }
    assert!(!rxlane(&["check", file, "-c", file]).status.success());
    let out = PROGRAM.with_input(&["run", "-c", "-"], voice);
    assert!(text(&out.stderr).contains("run needs a file"), "{out:?}");
}

const WRONG: &str = "ports = [\"wan0\"]\n\n[[class]]\nname = \"voice\"\nlane = \"expres\"\ntrsut = \"all\"\n\n[[class]]\nname = \"rest\"\nlane = \"stack\"\nring = \"many\"\n";

#[test]
fn every_mistake_is_shown_with_its_line() {
    let out = PROGRAM.with_input(&["check", "-"], WRONG);
    assert_eq!(out.status.code(), Some(1));
    let said = text(&out.stderr);
    for part in [
        " --> -:5:8\n",
        "5 | lane = \"expres\"\n",
        "did you mean \"express\"?",
        "did you mean `trust`?",
        "(and 2 other mistakes)\n",
        "`ring` cannot be \"many\": write a whole number",
        "\nrxlane: -:5: \"expres\" is unknown",
    ] {
        assert!(said.contains(part), "{said} should contain {part:?}");
    }
    // No colours where nobody looks.
    assert!(!said.contains('\x1b'), "{said:?}");
}

#[test]
fn complaints_that_nobody_reads_change_nothing() {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut child = PROGRAM
        .command(&["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(writer)
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(WRONG.as_bytes()).unwrap();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn editors_and_ci_read_mistakes_as_json() {
    let out = PROGRAM.with_input(&["check", "--json", "-"], WRONG);
    assert_eq!(out.status.code(), Some(1));
    let verdict: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(verdict["schema_version"], 1);
    assert_eq!(verdict["fine"], false);
    let places: Vec<(u64, u64)> = verdict["mistakes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|m| (m["line"].as_u64().unwrap(), m["column"].as_u64().unwrap()))
        .collect();
    assert_eq!(places, [(5, 8), (6, 1), (11, 8)]);
    let out = rxlane(&["check", "--json", "examples/voice.toml"]);
    let verdict: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(verdict["fine"], true);
}

#[test]
fn cores_that_this_machine_lacks_are_a_warning() {
    let rest = "ports = [\"wan0\"]\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";
    let out = PROGRAM.with_input(&["check", "-"], &format!("{rest}cores = [0, 255]\n"));
    assert!(out.status.success(), "{out:?}");
    let said = text(&out.stdout);
    assert!(said.contains("1 port, 1 class, 0 rules: fine"), "{said}");
    assert!(
        said.contains("warning: class `rest`: core 255 does not exist on this machine"),
        "{said}"
    );
    let out = PROGRAM.with_input(&["check", "-"], &format!("{rest}cores = [256]\n"));
    assert!(text(&out.stderr).contains("rings can be on cores 0 to 255"));
}

#[test]
fn a_file_without_end_is_refused_and_not_read_to_the_end() {
    let out = rxlane(&["check", "/dev/zero"]);
    let said = text(&out.stderr);
    assert!(said.contains("longer than 8192 KiB"), "{said}");
    let missing: PathBuf = "/no/such/rxlane.toml".into();
    let out = rxlane(&["check", missing.to_str().unwrap()]);
    assert_eq!(text(&out.stderr).lines().count(), 1);
}
