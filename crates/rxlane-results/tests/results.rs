//! What is read of what rxlane writes, and what is refused.

use rxlane_results::{Format, Key, ResultsError, RowOf, Tidy, of_csv, of_json};

const SIM: &str = r#"[
 {"index": 0, "case": "a", "keys": {"traffic.pps": 1000000.0, "reception.strategy": "sq"},
  "metrics": {"loss": {"mean": 0.25, "ci95": 0.01}, "latency_us.rt.p99": {"mean": 12.5, "ci95": null}}},
 {"index": 1, "case": "a", "keys": {"traffic.pps": 2000000.0, "reception.strategy": "rr"},
  "metrics": {"loss": {"mean": 0.5, "ci95": null}}}]"#;

const CSV: &str = "case,reception.strategy,index,traffic.pps,loss,loss.ci95,latency_us.rt.p99\n\
    a,sq,0,1000000,0.25,0.01,12.5\na,rr,1,2000000,0.5,,\n";

const SWEEP: &str = r#"{"schema_version": 1, "kernel_capacity_pps": 4e5, "tcp": 0, "settings": {},
 "traffic": {"rt_ratio": 0.1, "pattern": "poisson", "frame": 128, "flows": 16, "seed": 1},
 "points": [{"rt_ratio": 0.3, "asked_pps": 2e5, "hog": {"takes_us": 300, "every_us": 500}, "valid": true, "name": "express",
   "offered_pps": 199000.0, "forwarded_pps": 198000.0, "cpu": 0.4, "packet_ns": null, "core": {"idle": 0.6, "samples": 9},
   "classes": [{"name": "rt", "sent": 100, "received": 90, "lost": 10, "reordered": 0, "latency_us": {"p50": 3.0, "mean": 4.0}},
               {"name": "be", "sent": 300, "received": 300, "lost": 0, "reordered": 0, "latency_us": {"p50": 5.0, "mean": 6.0}}],
   "predicted": {"forwarded_pps": 2e5, "mean_us": [3.5, 5.5], "cpu": 0.41, "stable": true}},
  {"rt_ratio": 0.3, "asked_pps": 9e6, "hog": null, "valid": false, "name": "express", "classes": []}]}"#;

fn find<'a>(tidy: &'a Tidy, source: &str, class: &str, metric: &str) -> RowOf<'a> {
    let is_it = |r: &RowOf<'_>| {
        r.point.source.name() == source && r.class() == class && r.metric() == metric
    };
    let found = tidy.rows().find(is_it);
    found.unwrap_or_else(|| panic!("{source} {class} {metric}"))
}

/// Rows as texts, whatever the order of rows and keys.
fn described(tidy: &Tidy) -> Vec<String> {
    let row = |r: RowOf<'_>| {
        let mut keys: Vec<String> = tidy
            .keys()
            .iter()
            .map(|k| format!("{k}={:?}", r.key(k)))
            .collect();
        keys.sort();
        let at = r.point;
        let what = (r.class(), r.metric(), r.unit());
        format!("{:?} {} {what:?} {} {keys:?}", at.source, at.point, r.value)
    };
    let mut rows: Vec<String> = tidy.rows().filter(|r| !r.value.is_nan()).map(row).collect();
    rows.sort();
    rows
}

fn written(tidy: &Tidy, format: Format) -> Vec<u8> {
    let mut bytes = Vec::new();
    tidy.write(format, &mut bytes).unwrap();
    bytes
}

#[test]
fn points_of_the_simulator_are_the_same_rows_from_json_and_csv() {
    let (json, csv) = (
        of_json(SIM.as_bytes()).unwrap(),
        of_csv(CSV.as_bytes()).unwrap(),
    );
    let p99 = find(&json, "sim", "rt", "latency_us.p99");
    assert_eq!((p99.value, p99.unit()), (12.5, "us"));
    assert_eq!(p99.key("reception.strategy"), Some(&Key::Text("sq".into())));
    assert_eq!(find(&csv, "sim", "all", "loss").ci95, 0.01);
    assert_eq!(json.len(), 3);
    assert_eq!(described(&json), described(&csv));
}

#[test]
fn a_sweep_of_the_bench_has_the_names_of_the_simulator_and_its_prediction_beside_it() {
    let tidy = of_json(SWEEP.as_bytes()).unwrap();
    let (measured, said) = (
        find(&tidy, "bench", "all", "throughput_pps"),
        find(&tidy, "sim", "all", "throughput_pps"),
    );
    assert_eq!((measured.value, said.value), (198_000.0, 2e5));
    assert_eq!((measured.device(), said.device()), ("express", "express"));
    assert_eq!(measured.key("traffic.pps"), Some(&Key::Number(2e5)));
    assert_eq!(measured.key("traffic.rt_ratio"), Some(&Key::Number(0.3)));
    assert_eq!(
        measured.key("bench.hog"),
        Some(&Key::Text("300/500us".into()))
    );
    assert_eq!(find(&tidy, "bench", "rt", "loss").value, 0.1);
    assert_eq!(find(&tidy, "bench", "all", "loss").value, 0.025);
    assert_eq!(find(&tidy, "sim", "be", "latency_us.mean").value, 5.5);
    assert_eq!(find(&tidy, "bench", "all", "core.idle").unit(), "1");
    // What the generator could not send is no result.
    assert!(tidy.rows().all(|r| r.point.point == 0));
}

#[test]
fn the_form_is_the_same_in_every_format() {
    for text in [SIM, SWEEP] {
        let tidy = of_json(text.as_bytes()).unwrap();
        let json = of_json(&written(&tidy, Format::Json)).unwrap();
        let csv = of_csv(&written(&tidy, Format::Csv)).unwrap();
        assert_eq!(described(&tidy), described(&json));
        assert_eq!(described(&tidy), described(&csv));
    }
}

#[test]
fn what_is_cut_short_foreign_or_of_a_later_version_is_refused_with_the_cure() {
    let tidy = of_json(SWEEP.as_bytes()).unwrap();
    let csv = String::from_utf8(written(&tidy, Format::Csv)).unwrap();
    let json = String::from_utf8(written(&tidy, Format::Json)).unwrap();
    for (said, wanted) in [
        (
            of_json(&json.as_bytes()[..json.len() / 2]),
            "ends in the middle",
        ),
        (of_json(&SWEEP.as_bytes()[..200]), "ends in the middle"),
        (
            of_csv(&csv.as_bytes()[..csv.len() - 9]),
            "ends in the middle",
        ),
        (of_csv(b"case,index,loss\na,0\n"), "ends in the middle"),
        (of_json(b"{]"), "not JSON"),
        (of_json(b"{\"a\": 1}"), "rxlane-lab bench --json"),
        (of_json(b"[1, 2]"), "without index and metrics"),
        (of_json(b"3"), "neither points"),
        (of_csv(b"a,b\n1,2\n"), "without the columns"),
        (
            of_csv(b"case,index,loss\na,0,much\n"),
            "loss = much is no number",
        ),
        (
            of_json(b"{\"schema_version\": 2, \"rows\": []}"),
            "schema_version is 2, and this rxlane reads 1",
        ),
        (
            of_csv(csv.replace("\n1,", "\n7,").as_bytes()),
            "schema_version is 7",
        ),
        (
            of_json(b"{\"schema_version\": 1, \"rows\": [{\"source\": \"sim\"}]}"),
            "row 1 lacks",
        ),
        (
            of_json(b"{\"disturbances\": []}"),
            "bench disturb` has no tidy form",
        ),
    ] {
        let said = said.map(|t| t.len()).unwrap_err().to_string();
        assert!(said.contains(wanted) && !said.contains('\n'), "{said}");
    }
    assert!(matches!(
        Format::of("a.txt".as_ref()),
        Err(ResultsError::Output(_))
    ));
}
