//! `rxlane-lab sim` and `rxlane-lab plan` as people use them. Needs no privilege.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn rxlane(arguments: &[&str], folder: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rxlane-lab"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .expect("rxlane runs")
}

fn stdout(o: &Output) -> String {
    assert!(o.status.success(), "{}", String::from_utf8_lossy(&o.stderr));
    String::from_utf8_lossy(&o.stdout).into_owned()
}

/// The one line that a failing command says.
fn complaint(o: &Output) -> String {
    assert!(!o.status.success());
    let text = String::from_utf8_lossy(&o.stderr).into_owned();
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text
}

/// What is said of options that cannot be.
fn usage(o: &Output) -> String {
    assert_eq!(o.status.code(), Some(2));
    String::from_utf8_lossy(&o.stderr).into_owned()
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("rxlane-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

const SWEEP: &str = r#"
seconds = 0.05
[sweep]
"traffic.pps" = { from = 0.1e6, to = 1.5e6, step = 0.1e6 }
"traffic.rt_ratio" = { from = 0.0, to = 1.0, step = 0.1 }
"#;

#[test]
fn one_scenario_gives_every_metric_and_set_changes_it() {
    let f = Folder::new("sim-one");
    f.write("a.toml", "seconds = 0.05\n[traffic]\npps = 1.0e6\n");
    let rows: Value =
        serde_json::from_str(&stdout(&rxlane(&["sim", "run", "a.toml", "--json"], &f.0))).unwrap();
    let metric =
        |rows: &Value, name: &str| -> f64 { rows[0]["metrics"][name]["mean"].as_f64().unwrap() };
    assert!((metric(&rows, "throughput_pps") / 1e6 - 1.0).abs() < 0.03);
    assert_eq!(metric(&rows, "loss"), 0.0);
    let arguments = ["sim", "run", "a.toml", "--set", "traffic.pps=2e6", "--json"];
    let over: Value = serde_json::from_str(&stdout(&rxlane(&arguments, &f.0))).unwrap();
    assert!(metric(&over, "loss") > 0.1);
    let text = stdout(&rxlane(&["sim", "run", "a.toml"], &f.0));
    assert!(text.contains("latency_us.rt.p99"), "{text}");
}

#[test]
fn a_sweep_is_written_as_json_csv_and_parquet_with_a_row_a_point() {
    let f = Folder::new("sim-formats");
    f.write("a.toml", SWEEP);
    for (flag, out) in [
        ("--json", "o.json"),
        ("--csv", "o.csv"),
        ("--parquet", "o.parquet"),
    ] {
        stdout(&rxlane(&["sim", "run", "a.toml", flag, out], &f.0));
    }
    let read = |name: &str| std::fs::read(f.0.join(name)).unwrap();
    let json: Value = serde_json::from_slice(&read("o.json")).unwrap();
    assert_eq!(json.as_array().unwrap().len(), 165);
    let csv = String::from_utf8(read("o.csv")).unwrap();
    assert_eq!(csv.lines().count(), 166);
    assert!(
        csv.starts_with("case,index,traffic.pps,traffic.rt_ratio,arrived"),
        "{}",
        &csv[..80]
    );
    let parquet = read("o.parquet");
    assert_eq!(
        (&parquet[..4], &parquet[parquet.len() - 4..]),
        (&b"PAR1"[..], &b"PAR1"[..])
    );
    assert!(!f.0.join("o.csv.partial").exists());
}

#[test]
fn an_interrupted_sweep_keeps_what_it_finished_and_resume_ends_with_the_same_bytes() {
    let f = Folder::new("sim-resume");
    f.write("a.toml", SWEEP);
    stdout(&rxlane(
        &[
            "sim",
            "run",
            "a.toml",
            "--set",
            "seconds=1",
            "--json",
            "whole.json",
        ],
        &f.0,
    ));
    let arguments = [
        "sim",
        "run",
        "a.toml",
        "--set",
        "seconds=1",
        "--json",
        "o.json",
    ];
    let mut child = Command::new(env!("CARGO_BIN_EXE_rxlane-lab"))
        .args(arguments)
        .current_dir(&f.0)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let partial = f.0.join("o.json.partial");
    let rows = || std::fs::read_to_string(&partial).map_or(0, |t| t.lines().count());
    let deadline = Instant::now() + Duration::from_secs(60);
    while rows() < 5 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(2));
    }
    let pid = nix::unistd::Pid::from_raw(child.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
    assert!(!child.wait().unwrap().success());
    let kept = rows() - 1;
    assert!((4..165).contains(&kept), "{kept} rows");
    let other = rxlane(
        &["sim", "run", "a.toml", "--json", "o.json", "--resume"],
        &f.0,
    );
    assert!(complaint(&other).contains("another scenario"));
    let resumed: Vec<&str> = arguments.iter().copied().chain(["--resume"]).collect();
    stdout(&rxlane(&resumed, &f.0));
    let read = |name: &str| std::fs::read(f.0.join(name)).unwrap();
    assert!(
        read("o.json") == read("whole.json"),
        "resumed and whole sweep differ"
    );
    assert!(!partial.exists());
}

#[test]
fn what_cannot_be_is_one_line_with_file_line_and_cure() {
    let f = Folder::new("sim-bad");
    f.write("key.toml", "seconds = 1\nsecond = 1\n");
    f.write("rate.toml", "[traffic]\npps = -1\n");
    f.write(
        "many.toml",
        "[sweep]\n\"traffic.pps\" = { from = 1e6, to = 2e6, step = 0.5 }\n",
    );
    let says = |file: &str| complaint(&rxlane(&["sim", "run", file], &f.0));
    assert!(
        says("key.toml").contains("key.toml:2:"),
        "{}",
        says("key.toml")
    );
    assert!(says("rate.toml").contains("rate.toml:2: traffic.pps = -1"));
    assert!(says("many.toml").contains("--yes"), "{}", says("many.toml"));
    assert!(says("none.toml").contains("none.toml"));
    let row = rxlane(&["sim", "reproduce", "XX-01"], &f.0);
    assert!(complaint(&row).contains("no such experiment"));
}

#[test]
fn reproduce_prints_a_verdict_with_its_rule_for_each_row() {
    let f = Folder::new("sim-reproduce");
    let text = stdout(&rxlane(
        &[
            "sim",
            "reproduce",
            "NIC-05",
            "NIC-07",
            "--statements",
            "--json",
            "--html",
            "r.html",
        ],
        &f.0,
    ));
    let all: Value = serde_json::from_str(&text).unwrap();
    let rows = all["verdicts"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert_eq!(
        (&rows[0]["id"], &rows[0]["use"]),
        (&"NIC-05".into(), &"fit".into())
    );
    for row in rows {
        assert_eq!(row["verdict"], "reproduced", "{row}");
        assert!(row["model"].as_f64().unwrap() > 2e5, "{row}");
        for key in ["paper", "paper_value", "ci95", "rule", "note"] {
            assert!(!row[key].is_null(), "{key}: {row}");
        }
    }
    // The paper's statements, by a row, by a rule, and not testable for a reason.
    let statements = all["statements"].as_array().unwrap();
    let of = |id: &str| statements.iter().find(|s| s["id"] == id).unwrap();
    for (id, finding, by) in [
        ("R001-021", "holds", "NIC-07"),
        ("R001-003", "contradicted", "arithmetic"),
        ("A3", "holds", "rule"),
        ("R001-011", "not-testable", ""),
    ] {
        assert_eq!(
            (&of(id)["finding"], &of(id)["by"]),
            (&finding.into(), &by.into()),
            "{id}"
        );
        let reason = if by.is_empty() { "note" } else { "rule" };
        assert_ne!(of(id)[reason], "", "{id}");
    }
    let counts = all["findings"].as_object().unwrap().values();
    let counted: u64 = counts.map(|n| n.as_u64().unwrap()).sum();
    assert_eq!(counted, statements.len() as u64);
    let html = std::fs::read_to_string(f.0.join("r.html")).unwrap();
    assert!(html.contains("Statements") && html.contains("R001-021"));
    assert_eq!(html.matches("<figure>").count(), 5);
    assert!(
        !html.contains("http://") || !html.contains("src="),
        "self-contained"
    );
}

#[test]
fn plan_derives_the_paper_s_ring_budgets_and_refuses_what_no_budget_can_do() {
    let f = Folder::new("plan");
    let plan = |rt: &str, more: &[&str]| {
        let arguments = ["plan", "--lane", "engine", "--service-time", "600ns"];
        let target = ["--rt-rate", rt, "--target", "3.6us"];
        rxlane(&[&arguments[..], &target, more].concat(), &f.0)
    };
    let one = |rt: &str, more: &[&str]| plan(rt, &[&["--ports", "1"], more].concat());
    let json: Value = serde_json::from_str(&stdout(&one("500k", &["--json"]))).unwrap();
    assert_eq!(
        (
            &json["lane"],
            &json["be_ring_budget"],
            &json["rt_ring_budget"]
        ),
        (&"engine".into(), &4.into(), &60.into())
    );
    let text = stdout(&one("833k", &[]));
    assert!(text.contains("so b = 3"), "{text}");
    assert!(complaint(&one("1.7M", &[])).contains("RT traffic alone needs 102 % of the core"));
    // 65 packets of 600 ns beside an RT load of 0.3.
    let two_ports = complaint(&plan("500k", &[]));
    assert!(
        two_ports.contains("55.71 us, which is the least target"),
        "{two_ports}"
    );
    // Low-latency-router V.B.1 needs ten cores of 1.5 Mpps for such a link.
    let line = stdout(&one("100k", &["--link", "10G", "--frame", "64"]));
    assert!(line.contains("14.881 Mpps of 64 bytes"), "{line}");
    assert!(line.contains("9 that share nothing"), "{line}");
    assert!(usage(&one("100k", &["--link", "0"])).contains("is no link"));
    let both = one("100k", &["--link", "1G", "--total-rate", "1M"]);
    assert!(usage(&both).contains("cannot be used with"));
}

#[test]
fn plan_gives_the_bound_of_the_express_lane_by_default() {
    let f = Folder::new("plan-express");
    let plan = |target: &str, more: &[&str]| {
        let arguments = ["plan", "--service-time", "2us", "--rt-rate", "100k"];
        rxlane(
            &[&arguments[..], &["--target", target], more].concat(),
            &f.0,
        )
    };
    let json: Value = serde_json::from_str(&stdout(&plan("300us", &["--json"]))).unwrap();
    assert_eq!(
        (
            &json["lane"],
            &json["setting"],
            &json["bound"]["ring_budget"]
        ),
        (&"express".into(), &"latency".into(), &136.0.into())
    );
    assert!(stdout(&plan("1ms", &[])).contains("Stack classes: shed, aim = \"throughput\""));
    for impossible in ["1us", "0"] {
        let why = complaint(&plan(impossible, &[]));
        assert!(why.contains("17.0 us, which is the least target"), "{why}");
    }
}

#[test]
fn a_router_that_was_measured_is_laid_beside_the_model_and_what_is_no_measurement_is_refused_first()
{
    let folder = Folder::new("measured");
    folder.write("none.json", "{}");
    let o = rxlane(&["sim", "reproduce", "--measured", "none.json"], &folder.0);
    let said = complaint(&o);
    assert!(
        said.contains("none.json") && said.contains("bench sweep --json"),
        "{said}"
    );

    // A router whose default law waits for its timer, and whose other one does not.
    let mut points = Vec::new();
    for (law, us) in [
        ("off", 10.0),
        ("three-state", 60.0),
        ("linear:100000:8000:1000000", 12.0),
    ] {
        for load in [0.2, 0.4, 0.6, 0.8, 1.0, 1.2] {
            let forwarded = f64::min(load, 1.0) * 1e6;
            points.push(serde_json::json!({
                "name": format!("afxdp-stack-{law}"), "rt_ratio": 0.2, "offered_pps": load * 1e6, "forwarded_pps": forwarded,
                "valid": true, "cpu": load, "classes": [
                    { "latency_us": { "mean": us }, "received": 1.0 }, { "latency_us": { "mean": us }, "received": 4.0 },
                ],
            }));
        }
    }
    folder.write(
        "itr.json",
        &serde_json::json!({ "points": points }).to_string(),
    );
    let o = rxlane(
        &[
            "sim",
            "reproduce",
            "ITR-06",
            "--measured",
            "itr.json",
            "--json",
        ],
        &folder.0,
    );
    let all: Value = serde_json::from_str(&stdout(&o)).unwrap();
    let of = |id: &str| {
        let rows = all["measured"].as_array().unwrap();
        rows.iter().find(|r| r["id"] == id).unwrap().clone()
    };
    assert_eq!(of("ITR-06")["measured"], 6.0);
    assert_eq!(of("ITR-06")["agrees"], true);
    assert!(of("ITR-06")["modelled"].as_f64() > Some(3.0));
    let closed = of("ITR-11")["measured"].as_f64().unwrap();
    assert!((closed - 0.96).abs() < 1e-6, "{closed}");
    assert_eq!(of("ITR-09")["agrees"], true);
}
