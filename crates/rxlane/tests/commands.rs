//! The command as people and scripts use it: pipes, disks, files and mistakes. Needs no privilege.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rxlane"));
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    command.args(arguments).current_dir(root);
    command
}

fn rxlane(arguments: &[&str]) -> Output {
    command(arguments).output().expect("rxlane runs")
}

fn with_input(arguments: &[&str], input: &str) -> Output {
    let mut child = command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("rxlane starts");
    // It may have said no before it has read everything.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const PLAN: [&str; 7] = [
    "plan",
    "--service-time",
    "2us",
    "--rt-rate",
    "100k",
    "--target",
    "300us",
];
/// Commands that print, and need nothing.
const PRINTING: [&[&str]; 8] = [
    &["check", "examples/voice.toml"],
    &["check", "--json", "examples/voice.toml"],
    &["sim", "run", "examples/sim.toml", "--set", "seconds=0.01"],
    &[
        "sim",
        "run",
        "examples/sim.toml",
        "--set",
        "seconds=0.01",
        "--json",
    ],
    &[
        "sim",
        "run",
        "examples/sim.toml",
        "--set",
        "seconds=0.01",
        "--csv",
    ],
    &PLAN,
    &["schema"],
    &["completions", "bash"],
];

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    for arguments in PRINTING {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let out = command(arguments).stdout(writer).output().unwrap();
        assert!(out.status.success(), "{arguments:?}: {out:?}");
        assert_eq!(text(&out.stderr), "", "{arguments:?}");
    }
}

#[test]
fn a_full_disk_is_one_line_and_a_failure() {
    for arguments in PRINTING {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let out = command(arguments).stdout(full).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{arguments:?}: {out:?}");
        let said = text(&out.stderr);
        assert!(said.contains("No space left on device"), "{said}");
        assert_eq!(said.lines().count(), 1, "{arguments:?}: {said}");
    }
}

#[test]
fn a_result_that_cannot_be_written_is_refused_before_the_work() {
    // A day of virtual time: whoever begins with it does not end in time for this test.
    let long = ["sim", "run", "examples/sim.toml", "--set", "seconds=1e5"];
    for option in ["--json", "--csv", "--parquet"] {
        let out = rxlane(&[&long[..], &[option, "/no/such/folder/out"]].concat());
        assert!(!out.status.success());
        let said = text(&out.stderr);
        assert!(said.contains("cannot write /no/such/folder/out"), "{said}");
    }
    let out = rxlane(&["sim", "reproduce", "--html", "/no/such/folder/out"]);
    assert!(text(&out.stderr).contains("cannot write"));
}

#[test]
fn a_disk_that_is_full_at_the_end_is_told() {
    let short = ["sim", "run", "examples/sim.toml", "--set", "seconds=0.01"];
    for option in ["--json", "--csv", "--parquet"] {
        let out = rxlane(&[&short[..], &[option, "/dev/full"]].concat());
        assert!(!out.status.success());
        let said = text(&out.stderr);
        assert!(
            said.contains("cannot write /dev/full: No space left"),
            "{said}"
        );
    }
}

#[test]
fn the_configuration_is_an_argument_an_option_or_standard_input() {
    let voice = include_str!("../../../examples/voice.toml");
    let file = "examples/voice.toml";
    for out in [
        rxlane(&["check", file]),
        rxlane(&["check", "-c", file]),
        with_input(&["check", "-"], voice),
        with_input(&["check", "-c", "-"], voice),
    ] {
        let said = text(&out.stdout);
        assert!(
            said.contains("2 ports, 3 classes, 2 rules: fine"),
            "{out:?}"
        );
    }
    assert!(!rxlane(&["check", file, "-c", file]).status.success());
    let scenario = "seconds = 0.01\n";
    for out in [
        rxlane(&[
            "sim",
            "run",
            "-c",
            "examples/sim.toml",
            "--set",
            "seconds=0.01",
        ]),
        with_input(&["sim", "run", "-"], scenario),
        with_input(&["sim", "run", "-c", "-"], scenario),
    ] {
        assert!(text(&out.stdout).contains("throughput_pps"), "{out:?}");
    }
    let out = with_input(&["run", "-c", "-"], voice);
    assert!(text(&out.stderr).contains("run needs a file"), "{out:?}");
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
        let out = rxlane(&[&base[..], &["--set", &set]].concat());
        assert!(out.status.success(), "{out:?}");
        text(&out.stdout)
    };
    assert_eq!(run("1.6M"), run("1.6e6"));
    assert_eq!(run("200k"), run("200000"));
}

const WRONG: &str = "ports = [\"wan0\"]\n\n[[class]]\nname = \"voice\"\nlane = \"expres\"\ntrsut = \"all\"\n\n[[class]]\nname = \"rest\"\nlane = \"stack\"\nring = \"many\"\n";

#[test]
fn every_mistake_is_shown_with_its_line() {
    let out = with_input(&["check", "-"], WRONG);
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
    let mut child = command(&["check", "-"])
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
    let out = with_input(&["check", "--json", "-"], WRONG);
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
    let out = with_input(&["check", "-"], &format!("{rest}cores = [0, 255]\n"));
    assert!(out.status.success(), "{out:?}");
    let said = text(&out.stdout);
    assert!(said.contains("1 port, 1 class, 0 rules: fine"), "{said}");
    assert!(
        said.contains("warning: class `rest`: core 255 does not exist on this machine"),
        "{said}"
    );
    let out = with_input(&["check", "-"], &format!("{rest}cores = [256]\n"));
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
