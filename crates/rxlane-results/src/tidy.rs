//! The one form of all results.

use std::collections::HashMap;

/// The version of the form. It grows when a column goes or means something else, not when a metric or a key is added.
pub const SCHEMA_VERSION: u32 = 1;

/// Who says it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Source {
    /// A measurement.
    Bench,
    /// The model.
    Sim,
}

impl Source {
    /// As in the column `source`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bench => "bench",
            Self::Sim => "sim",
        }
    }
}

/// The value of a key.
#[derive(Debug, Clone, PartialEq)]
pub enum Key {
    /// In the unit of its name.
    Number(f64),
    /// Anything else.
    Text(String),
}

/// A point of a measurement or a sweep, on one device.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    /// Who says it.
    pub source: Source,
    /// What was run: `run`, or `latency`, `throughput`, `sweep`, `regret` of the bench.
    pub kind: String,
    /// Position, from 0.
    pub point: u64,
    /// Name of a scenario's case; empty without cases.
    pub case: String,
    /// The device under test, which the model may stand for; empty where a scenario says what it is.
    pub device: String,
    /// What is varied, by the dotted key that a scenario has for it.
    pub keys: Vec<(String, Key)>,
}

#[derive(Debug, Clone, Copy)]
struct Value {
    point: u32,
    metric: u32,
    value: f64,
    ci95: f64,
    low: f64,
    high: f64,
}

/// Results, a row a point, device, class and metric.
#[derive(Debug, Clone, Default)]
pub struct Tidy {
    points: Vec<Point>,
    /// Class and metric.
    metrics: Vec<(String, String)>,
    place: HashMap<(String, String), u32>,
    values: Vec<Value>,
    /// All keys in the order in which they came.
    keys: Vec<String>,
}

/// A row.
#[derive(Debug, Clone, Copy)]
pub struct RowOf<'a> {
    /// Where.
    pub point: &'a Point,
    of: &'a (String, String),
    /// The value, in [`RowOf::unit`].
    pub value: f64,
    /// Half of its 95 % confidence interval; NaN where there is none.
    pub ci95: f64,
    /// The least of what the value is the median of; NaN where that is not known.
    pub low: f64,
    /// The greatest.
    pub high: f64,
}

impl<'a> RowOf<'a> {
    /// The class; `all` for what is not of one class.
    pub fn class(&self) -> &'a str {
        &self.of.0
    }

    /// The metric, without the class.
    pub fn metric(&self) -> &'a str {
        &self.of.1
    }

    /// The unit of the value; empty where there is none.
    pub fn unit(&self) -> &'static str {
        crate::unit::of(self.metric()).unwrap_or("")
    }

    /// The device under test.
    pub fn device(&self) -> &'a str {
        &self.point.device
    }

    /// The value of a key; none where the point does not have it.
    pub fn key(&self, name: &str) -> Option<&'a Key> {
        let mut keys = self.point.keys.iter();
        keys.find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// Class and metric of a metric's full name: `latency_us.rt.p99` is `rt`, `latency_us.p99`.
pub fn class_of(name: &str) -> (String, String) {
    let is_class = |part: &&str| {
        let number = part.strip_prefix('c');
        ["rt", "be"].contains(part)
            || number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    let parts: Vec<&str> = name.split('.').collect();
    match parts.iter().skip(1).find(|p| is_class(p)) {
        None => ("all".into(), name.into()),
        Some(class) => {
            let rest: Vec<&str> = parts.iter().filter(|p| *p != class).copied().collect();
            ((*class).into(), rest.join("."))
        }
    }
}

impl Tidy {
    /// Begins a point; what is added from here on is of it.
    pub fn begin(&mut self, point: Point) {
        for (key, _) in &point.keys {
            if !self.keys.contains(key) {
                self.keys.push(key.clone());
            }
        }
        self.points.push(point);
    }

    /// Adds a metric of the point.
    pub fn add(&mut self, class: &str, metric: &str, value: f64) {
        self.add_with(class, metric, value, f64::NAN, [f64::NAN; 2]);
    }

    /// As [`Tidy::add`], with an interval and the least and greatest of what it is the median of.
    pub fn add_with(&mut self, class: &str, metric: &str, value: f64, ci95: f64, range: [f64; 2]) {
        let of = (class.to_owned(), metric.to_owned());
        let next = self.metrics.len() as u32;
        let metric = *self.place.entry(of).or_insert_with_key(|of| {
            self.metrics.push(of.clone());
            next
        });
        self.values.push(Value {
            point: self.points.len().saturating_sub(1) as u32,
            metric,
            value,
            ci95,
            low: range[0],
            high: range[1],
        });
    }

    /// Names of the keys, of whatever point.
    pub fn keys(&self) -> &[String] {
        &self.keys
    }

    /// Whether all points that have a key have a number.
    pub fn is_number(&self, key: &str) -> bool {
        let values = self.points.iter().flat_map(|p| &p.keys);
        values
            .filter(|(name, _)| name == key)
            .all(|(_, v)| matches!(v, Key::Number(_)))
    }

    /// Number of rows.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The rows in the order of points.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = RowOf<'_>> {
        self.values.iter().map(|v| RowOf {
            point: &self.points[v.point as usize],
            of: &self.metrics[v.metric as usize],
            value: v.value,
            ci95: v.ci95,
            low: v.low,
            high: v.high,
        })
    }
}

impl Key {
    /// As text.
    pub fn text(&self) -> String {
        match self {
            Self::Number(v) => v.to_string(),
            Self::Text(v) => v.clone(),
        }
    }

    /// As a number; NaN for a text.
    pub fn number(&self) -> f64 {
        match self {
            Self::Number(v) => *v,
            Self::Text(_) => f64::NAN,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_told_from_the_name_of_a_metric() {
        for (name, class, metric) in [
            ("latency_us.rt.p99", "rt", "latency_us.p99"),
            ("loss.c12", "c12", "loss"),
            ("loss", "all", "loss"),
            ("irq_per_s.core0.vector1", "all", "irq_per_s.core0.vector1"),
            ("served.core1", "all", "served.core1"),
            ("cpu", "all", "cpu"),
        ] {
            assert_eq!(class_of(name), (class.to_owned(), metric.to_owned()));
        }
    }
}
