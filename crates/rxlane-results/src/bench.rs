//! JSON of `rxlane-lab bench`, as docs/src/reference/bench-json.md describes it.

use serde_json::{Map, Value};

use crate::ResultsError;
use crate::json::{foreign, key};
use crate::tidy::{Key, Point, Source, Tidy};

type Object = Map<String, Value>;

/// Fields of a device's result, and the metrics that they are: those of the simulator, where it has them.
const OF_A_DEVICE: [(&str, &str); 9] = [
    ("forwarded_pps", "throughput_pps"),
    ("offered_pps", "offered_pps"),
    ("cpu", "cpu"),
    ("hog_share", "hog_share"),
    ("stalled", "stalled"),
    ("tcp_bps", "tcp_bps"),
    ("packet_ns", "packet_ns"),
    ("wakeups_per_s", "wakeups_per_s"),
    ("worker_wakeups_per_s", "worker_wakeups_per_s"),
];
const OF_A_CLASS: [&str; 5] = ["sent", "received", "lost", "lost_unstalled", "reordered"];

/// A report, told by its fields.
pub(crate) fn read(report: &Object) -> Result<Tidy, ResultsError> {
    let has = |name: &str| report.contains_key(name);
    let points = || items(report, "points");
    let first = |name: &str| points().first().is_some_and(|p| p.contains_key(name));
    let mut all = Tidy::default();
    if has("disturbances") {
        return Err(ResultsError::NotTidy("disturb"));
    }
    if has("profile") {
        return Err(ResultsError::NotTidy("steps"));
    }
    if has("programs") {
        return Err(ResultsError::NotTidy("cost"));
    }
    if has("points_wanted") {
        regret(&points(), &mut all)?;
    } else if has("duts") && has("trials") {
        throughput(report, &mut all)?;
    } else if has("duts") && has("kernel_capacity_pps") {
        latency(report, &mut all)?;
    } else if has("points") && (first("asked_pps") || points().is_empty()) {
        sweep(report, &mut all)?;
    } else {
        return Err(foreign("an object that no `rxlane-lab bench` writes"));
    }
    Ok(all)
}

fn items<'a>(of: &'a Object, name: &str) -> Vec<&'a Object> {
    let list = of.get(name).and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .filter_map(Value::as_object)
        .collect()
}

fn number(of: &Object, name: &str) -> Option<f64> {
    of.get(name)?.as_f64()
}

fn text<'a>(of: &'a Object, name: &str) -> Result<&'a str, ResultsError> {
    let found = of.get(name).and_then(Value::as_str);
    found.ok_or_else(|| foreign(format!("a result without `{name}`")))
}

/// Keys that the traffic of a report says.
fn of_traffic(report: &Object) -> Vec<(String, Key)> {
    let traffic = report.get("traffic").and_then(Value::as_object);
    let of = |name: &str| traffic?.get(name).map(key);
    let known = ["rt_ratio", "frame", "flows"].map(|name| (format!("traffic.{name}"), of(name)));
    known
        .into_iter()
        .filter_map(|(name, v)| Some((name, v?)))
        .collect()
}

fn set(keys: &mut Vec<(String, Key)>, name: &str, value: Option<&Value>) {
    if let Some(value) = value.filter(|v| !v.is_null()) {
        keys.retain(|(key, _)| key != name);
        keys.push((name.into(), key(value)));
    }
}

/// What a hog takes, as `--hog` says it.
fn hog(of: &Object) -> Option<Key> {
    let hog = of.get("hog")?.as_object()?;
    let (takes, every) = (number(hog, "takes_us")?, number(hog, "every_us")?);
    Some(Key::Text(format!("{takes}/{every}us")))
}

fn latency(report: &Object, all: &mut Tidy) -> Result<(), ResultsError> {
    let mut keys = of_traffic(report);
    set(&mut keys, "traffic.pps", report.get("offered_pps"));
    keys.extend(hog(report).map(|hog| ("bench.hog".into(), hog)));
    for dut in items(report, "duts") {
        device(dut, "latency", 0, keys.clone(), report, all)?;
    }
    Ok(())
}

fn sweep(report: &Object, all: &mut Tidy) -> Result<(), ResultsError> {
    for (index, point) in (0..).zip(items(report, "points")) {
        let mut keys = of_traffic(report);
        set(&mut keys, "traffic.pps", point.get("asked_pps"));
        set(&mut keys, "traffic.rt_ratio", point.get("rt_ratio"));
        keys.extend(hog(point).map(|hog| ("bench.hog".into(), hog)));
        device(point, "sweep", index, keys.clone(), point, all)?;
        if let Some(model) = point.get("predicted").and_then(Value::as_object) {
            predicted(model, at("sweep", index, text(point, "name")?, keys), all);
        }
    }
    Ok(())
}

fn regret(points: &[&Object], all: &mut Tidy) -> Result<(), ResultsError> {
    for (index, point) in (0..).zip(points) {
        let mut keys = Vec::new();
        for (name, field) in [
            ("traffic.pps", "offered_pps"),
            ("traffic.rt_ratio", "rt_ratio"),
            ("traffic.frame", "frame"),
            ("bench.load", "load"),
        ] {
            set(&mut keys, name, point.get(field));
        }
        let firewall = point.get("firewall").map(|v| match v {
            Value::String(name) => Key::Text(name.clone()),
            other => Key::Text(other.to_string()),
        });
        keys.extend(firewall.map(|f| ("bench.firewall".into(), f)));
        for dut in items(point, "duts") {
            device(dut, "regret", index, keys.clone(), point, all)?;
        }
    }
    Ok(())
}

fn throughput(report: &Object, all: &mut Tidy) -> Result<(), ResultsError> {
    for dut in items(report, "duts") {
        all.begin(at("throughput", 0, text(dut, "name")?, of_traffic(report)));
        let or_none = |name| number(dut, name).unwrap_or(f64::NAN);
        let range = [or_none("min_pps"), or_none("max_pps")];
        all.add_with("all", "throughput_pps", or_none("pps"), f64::NAN, range);
        all.add("all", "throughput_bps", or_none("bps"));
    }
    Ok(())
}

fn at(kind: &str, point: u64, device: &str, keys: Vec<(String, Key)>) -> Point {
    Point {
        source: Source::Bench,
        kind: kind.into(),
        point,
        case: String::new(),
        device: device.into(),
        keys,
    }
}

/// The result of a device, which stands only where its generator has kept up.
fn device(
    dut: &Object,
    kind: &str,
    point: u64,
    keys: Vec<(String, Key)>,
    run: &Object,
    all: &mut Tidy,
) -> Result<(), ResultsError> {
    if run.get("valid").and_then(Value::as_bool) == Some(false) {
        return Ok(());
    }
    all.begin(at(kind, point, text(dut, "name")?, keys));
    for (field, metric) in OF_A_DEVICE {
        if let Some(value) = number(dut, field) {
            all.add("all", metric, value);
        }
    }
    let core = dut.get("core").and_then(Value::as_object);
    for (name, value) in core.into_iter().flatten() {
        if let Some(value) = value.as_f64() {
            all.add("all", &format!("core.{name}"), value);
        }
    }
    let (mut sent, mut lost) = (0.0, 0.0);
    for class in items(dut, "classes") {
        let name = text(class, "name")?;
        for field in OF_A_CLASS {
            if let Some(value) = number(class, field) {
                all.add(name, field, value);
            }
        }
        let of = |field| number(class, field).unwrap_or(0.0);
        sent += of("sent");
        lost += of("lost");
        all.add(name, "loss", of("lost") / of("sent").max(1.0));
        let latency = class.get("latency_us").and_then(Value::as_object);
        for (quantile, value) in latency.into_iter().flatten() {
            if let Some(value) = value.as_f64() {
                all.add(name, &format!("latency_us.{quantile}"), value);
            }
        }
    }
    all.add("all", "loss", lost / f64::max(sent, 1.0));
    Ok(())
}

/// What a model said of the same point.
fn predicted(model: &Object, mut point: Point, all: &mut Tidy) {
    point.source = Source::Sim;
    all.begin(point);
    for (field, metric) in [("forwarded_pps", "throughput_pps"), ("cpu", "cpu")] {
        if let Some(value) = number(model, field) {
            all.add("all", metric, value);
        }
    }
    let means = model.get("mean_us").and_then(Value::as_array);
    for (class, mean) in ["rt", "be"].into_iter().zip(means.into_iter().flatten()) {
        if let Some(mean) = mean.as_f64() {
            all.add(class, "latency_us.mean", mean);
        }
    }
    if let Some(stable) = model.get("stable").and_then(Value::as_bool) {
        all.add("all", "stable", f64::from(u8::from(stable)));
    }
}
