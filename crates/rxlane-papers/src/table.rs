//! Looking results up: rows by case and swept values.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use rxlane_sim::SimError;
use rxlane_sim::run::{Estimate, Row};

use crate::interval::Interval;

/// The sweeps of a paper, by file.
///
/// Rules and figures ask by name, and what they ask for must be there: a name that no sweep has is remembered, and
/// [`Data::check_names`] makes it an error instead of a row that misses.
#[derive(Debug, Clone, Default)]
pub struct Data {
    sweeps: BTreeMap<String, Rows>,
    unknown: OnceLock<String>,
}

impl Data {
    /// Adds a sweep.
    pub fn put(&mut self, file: &str, rows: Rows) {
        self.sweeps.insert(file.to_owned(), rows);
    }

    /// The rows of a file.
    pub fn of(&self, file: &str) -> &Rows {
        static NONE: Rows = Rows {
            rows: Vec::new(),
            unknown: OnceLock::new(),
        };
        self.sweeps.get(file).unwrap_or_else(|| {
            self.unknown.get_or_init(|| file.into());
            &NONE
        })
    }

    /// With every sweep changed.
    pub(crate) fn each(self, change: impl Fn(Rows) -> Rows) -> Self {
        Self {
            sweeps: self
                .sweeps
                .into_iter()
                .map(|(file, rows)| (file, change(rows)))
                .collect(),
            unknown: OnceLock::new(),
        }
    }

    /// Whether everything that was asked for so far exists.
    ///
    /// # Errors
    /// [`SimError::Name`] for the first file, case, key or metric that does not.
    pub fn check_names(&self) -> Result<(), SimError> {
        let asked = std::iter::once(&self.unknown).chain(self.sweeps.values().map(|r| &r.unknown));
        match asked.filter_map(OnceLock::get).next() {
            Some(name) => Err(SimError::Name { name: name.clone() }),
            None => Ok(()),
        }
    }
}

/// The rows of a sweep.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    rows: Vec<Row>,
    /// The first name that was asked for and is in no row.
    unknown: OnceLock<String>,
}

fn same(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
}

impl Rows {
    /// Of a finished sweep.
    pub fn new(rows: Vec<Row>) -> Self {
        Self {
            rows,
            unknown: OnceLock::new(),
        }
    }

    /// With the names of cases exchanged, of the pairs that are there.
    pub(crate) fn exchanged(mut self, pairs: &[(&str, &str)]) -> Self {
        let cases: Vec<String> = self.cases().iter().map(|c| (*c).to_owned()).collect();
        let has = |case: &str| cases.iter().any(|c| c == case);
        let pairs: Vec<&(&str, &str)> = pairs.iter().filter(|(a, b)| has(a) && has(b)).collect();
        for row in &mut self.rows {
            let other = pairs.iter().find_map(|(a, b)| match row.case.as_str() {
                case if case == *a => Some(*b),
                case if case == *b => Some(*a),
                _ => None,
            });
            if let Some(other) = other {
                row.case = other.to_owned();
            }
        }
        self
    }

    fn must_know(&self, name: &str, knows: impl Fn(&Row) -> bool) {
        if !self.rows.is_empty() && !self.rows.iter().any(knows) {
            self.unknown.get_or_init(|| name.into());
        }
    }

    /// Rows of a case where these keys have these values.
    pub fn matching<'a>(
        &'a self,
        case: &'a str,
        keys: &'a [(&'a str, f64)],
    ) -> impl Iterator<Item = &'a Row> + 'a {
        self.must_know(case, |r| r.case == case);
        for (key, _) in keys {
            self.must_know(key, |r| r.key(key).is_some());
        }
        self.rows.iter().filter(move |r| {
            r.case == case
                && keys
                    .iter()
                    .all(|(key, value)| r.key(key).is_some_and(|v| same(v, *value)))
        })
    }

    /// A metric of the one row that matches; NaN without one.
    pub fn at(&self, case: &str, keys: &[(&str, f64)], metric: &str) -> Estimate {
        self.must_know(metric, |r| r.get(metric).is_some());
        self.matching(case, keys)
            .next()
            .and_then(|r| r.estimate(metric).cloned())
            .unwrap_or(Estimate {
                name: metric.to_owned(),
                mean: f64::NAN,
                ci95: None,
            })
    }

    /// A metric over a swept key, rising.
    pub fn curve(
        &self,
        case: &str,
        keys: &[(&str, f64)],
        x: &str,
        metric: &str,
    ) -> Vec<(f64, f64)> {
        self.must_know(metric, |r| r.get(metric).is_some());
        self.must_know(x, |r| r.key(x).is_some());
        let mut points: Vec<(f64, f64)> = self
            .matching(case, keys)
            .filter_map(|r| Some((r.key(x)?, r.get(metric)?)))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points
    }

    /// A metric of the one row that matches, with its interval.
    pub(crate) fn get(&self, case: &str, keys: &[(&str, f64)], metric: &str) -> Interval {
        Interval::of(&self.at(case, keys, metric))
    }

    /// As [`Rows::curve`], with intervals.
    pub(crate) fn points(&self, case: &str, keys: &[(&str, f64)], x: &str, metric: &str) -> Curve {
        self.must_know(metric, |r| r.get(metric).is_some());
        self.must_know(x, |r| r.key(x).is_some());
        let mut points: Vec<(f64, Interval)> = self
            .matching(case, keys)
            .filter_map(|r| Some((r.key(x)?, Interval::of(r.estimate(metric)?))))
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Curve(points)
    }

    /// A metric averaged over the rows that match and that `keep` keeps.
    pub(crate) fn mean(&self, case: &str, metric: &str, keep: impl Fn(&Row) -> bool) -> Interval {
        self.must_know(metric, |r| r.get(metric).is_some());
        Interval::mean_of(
            self.matching(case, &[])
                .filter(|r| keep(r))
                .filter_map(|r| r.estimate(metric))
                .map(Interval::of),
        )
    }

    /// Cases in their order.
    pub fn cases(&self) -> Vec<&str> {
        let mut cases: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !cases.contains(&row.case.as_str()) {
                cases.push(&row.case);
            }
        }
        cases
    }

    /// Values of a swept key, rising.
    pub fn values(&self, key: &str) -> Vec<f64> {
        let mut values: Vec<f64> = self.rows.iter().filter_map(|r| r.key(key)).collect();
        values.sort_by(f64::total_cmp);
        values.dedup_by(|a, b| same(*a, *b));
        values
    }
}

/// Values over a swept key, rising, with intervals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Curve(pub(crate) Vec<(f64, Interval)>);

impl Curve {
    /// The value at `x`.
    pub(crate) fn at(&self, x: f64) -> Interval {
        self.0
            .iter()
            .find(|(at, _)| same(*at, x))
            .map_or(Interval::NONE, |(_, y)| *y)
    }

    /// The part from one point to another, both included.
    pub(crate) fn between(&self, from: f64, to: f64) -> Self {
        let inside = |x: f64| (x > from || same(x, from)) && (x < to || same(x, to));
        Self(self.0.iter().copied().filter(|p| inside(p.0)).collect())
    }

    /// Its values.
    pub(crate) fn values(&self) -> impl Iterator<Item = Interval> + '_ {
        self.0.iter().map(|p| p.1)
    }

    /// Where its means are highest.
    pub(crate) fn peak(&self) -> (f64, Interval) {
        let top = Interval::highest(self.values());
        self.0
            .iter()
            .copied()
            .find(|(_, y)| y.mean == top.mean)
            .unwrap_or((f64::NAN, Interval::NONE))
    }

    /// Where it reaches `level` first, between its points, and between which ends chance moves that.
    pub(crate) fn reaches(&self, level: f64) -> Interval {
        let of = |pick: &dyn Fn(&Interval) -> f64| {
            let curve: Vec<(f64, f64)> = self.0.iter().map(|(x, y)| (*x, pick(y))).collect();
            reaches(&curve, level)
        };
        Interval {
            low: of(&|y| y.high),
            mean: of(&|y| y.mean),
            high: of(&|y| y.low),
        }
    }

    /// The largest x up to which nothing is above `most`, by mean, at the upper and at the lower end of the intervals. NaN
    /// where nothing is within it, and where everything is: then it was not looked for.
    pub(crate) fn stays_within(&self, most: f64) -> Interval {
        let of = |pick: &dyn Fn(&Interval) -> f64| {
            let up_to = self.0.iter().take_while(|(_, y)| pick(y) <= most).count();
            match up_to {
                0 => f64::NAN,
                n if n == self.0.len() => f64::NAN,
                n => self.0[n - 1].0,
            }
        };
        Interval {
            low: of(&|y| y.high),
            mean: of(&|y| y.mean),
            high: of(&|y| y.low),
        }
    }

    /// How far its means are from the straight line through its ends, relative to their difference; NaN of less than
    /// three points.
    pub(crate) fn bend(&self) -> f64 {
        let [first, .., last] = &self.0[..] else {
            return f64::NAN;
        };
        if self.0.len() < 3 {
            return f64::NAN;
        }
        let rise = last.1.mean - first.1.mean;
        let off = |(x, y): &(f64, Interval)| {
            let line = first.1.mean + rise * (x - first.0) / (last.0 - first.0);
            Interval::exact((y.mean - line).abs() / rise.abs())
        };
        Interval::highest(self.0.iter().map(off)).mean
    }
}

/// Where a curve reaches `level` first, between its points.
pub(crate) fn reaches(curve: &[(f64, f64)], level: f64) -> f64 {
    if let Some((x, y)) = curve.first()
        && *y >= level
    {
        return *x;
    }
    curve
        .windows(2)
        .find(|w| w[0].1 < level && w[1].1 >= level)
        .map_or(f64::NAN, |w| on_line(w[0], w[1], level))
}

/// The x at which the straight line through two points has this y.
pub(crate) fn on_line(a: (f64, f64), b: (f64, f64), y: f64) -> f64 {
    let share = (y - a.1) / (b.1 - a.1);
    a.0 + share * (b.0 - a.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_nothing_has_is_an_error_and_not_a_number() {
        let row = || Row {
            index: 0,
            case: "SQ".into(),
            keys: toml::from_str("\"traffic.pps\" = 1e6").unwrap(),
            metrics: vec![Estimate {
                name: "cpu".into(),
                mean: 0.5,
                ci95: None,
            }],
            loads: Vec::new(),
        };
        let asked = |ask: &dyn Fn(&Data)| {
            let mut data = Data::default();
            data.put("f.toml", Rows::new(vec![row()]));
            ask(&data);
            data.check_names().map_err(|e| e.to_string())
        };
        let at = |case: &str, key: &str, metric: &str| {
            asked(&|d| {
                d.of("f.toml").at(case, &[(key, 1e6)], metric);
            })
        };
        assert_eq!(at("SQ", "traffic.pps", "cpu"), Ok(()));
        for (case, key, metric) in [
            ("SC", "traffic.pps", "cpu"),
            ("SQ", "traffic.bps", "cpu"),
            ("SQ", "traffic.pps", "cpus"),
        ] {
            assert!(at(case, key, metric).is_err(), "{case} {key} {metric}");
        }
        assert!(asked(&|d| drop(d.of("g.toml").cases())).is_err());
        assert!(asked(&|d| drop(d.of("f.toml").curve("SQ", &[], "pps", "cpu"))).is_err());
    }
}
