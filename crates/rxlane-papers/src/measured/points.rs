//! What a router did under load, of the model or measured.

use crate::table::on_line;

/// A load that is carried loses less than this: machines that others share lose some packets by themselves.
const LOSS: f64 = 0.02;

/// A case at one load and one share of RT.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Point {
    pub(super) case: String,
    /// Share of RT packets; 0 where the paper has no classes.
    pub(super) rt_ratio: f64,
    /// Offered, packets a second.
    pub(super) pps: f64,
    /// Share of these that is lost.
    pub(super) loss: f64,
    /// Mean latencies, us: RT, best effort, all.
    pub(super) rt_us: f64,
    pub(super) be_us: f64,
    pub(super) mean_us: f64,
    /// Utilisation of the core.
    pub(super) cpu: f64,
}

/// All of them, and the case whose capacity loads are shares of.
#[derive(Debug, Clone)]
pub(super) struct Points {
    points: Vec<Point>,
    /// Share of RT at which loads vary.
    rt_ratio: f64,
    /// What the baseline carries, packets a second; NaN where that was not reached.
    capacity_pps: f64,
}

impl Points {
    pub(super) fn new(points: Vec<Point>, baseline: &str) -> Self {
        let loads = |ratio: f64| points.iter().filter(|p| p.rt_ratio == ratio).count();
        let ratios = points.iter().map(|p| p.rt_ratio);
        let mut this = Self {
            rt_ratio: ratios.max_by_key(|ratio| loads(*ratio)).unwrap_or(f64::NAN),
            points,
            capacity_pps: f64::NAN,
        };
        this.capacity_pps = this.carried_pps(baseline);
        this
    }

    /// Of a case over the load, by a quantity.
    fn curve(&self, case: &str, of: impl Fn(&Point) -> f64) -> Vec<(f64, f64)> {
        let points = self.points.iter();
        let points = points.filter(|p| p.case == case && p.rt_ratio == self.rt_ratio);
        let mut curve: Vec<(f64, f64)> = points.map(|p| (p.pps, of(p))).collect();
        curve.sort_by(|a, b| a.0.total_cmp(&b.0));
        curve
    }

    fn carried_pps(&self, case: &str) -> f64 {
        stays_above(&self.curve(case, |p| p.loss), LOSS)
    }

    /// The load up to which a case loses next to nothing, as a share of the baseline's.
    pub(super) fn carried(&self, case: &str) -> f64 {
        self.carried_pps(case) / self.capacity_pps
    }

    /// A quantity of a case at a share of the baseline's capacity, between its points.
    pub(super) fn at(&self, case: &str, load: f64, of: impl Fn(&Point) -> f64) -> f64 {
        between(&self.curve(case, of), load * self.capacity_pps)
    }

    /// The share of the capacity at which a case's mean latency reaches so much.
    pub(super) fn latency_reaches(&self, case: &str, us: f64) -> f64 {
        stays_above(&self.curve(case, |p| p.mean_us), us) / self.capacity_pps
    }

    /// Shares of the capacity at which a case was seen, rising.
    pub(super) fn loads(&self, case: &str) -> Vec<f64> {
        let curve = self.curve(case, |p| p.pps);
        curve.iter().map(|p| p.0 / self.capacity_pps).collect()
    }

    /// What cases did at one load, the nearest to this share of the capacity, over shares of RT that all of them have.
    pub(super) fn over_ratio<const N: usize>(
        &self,
        cases: [&str; N],
        load: f64,
    ) -> Vec<(f64, [&Point; N])> {
        let wanted = load * self.capacity_pps;
        let distance = |p: &Point| (p.pps / wanted - 1.0).abs();
        let mut ratios: Vec<f64> = self.points.iter().map(|p| p.rt_ratio).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.dedup();
        let found = ratios.into_iter().filter_map(|ratio| {
            let nearest = cases.map(|case| {
                let of = self.points.iter();
                let of = of.filter(|p| p.case == case && p.rt_ratio == ratio);
                let near = of.filter(|p| distance(p) < 0.15);
                near.min_by(|a, b| distance(a).total_cmp(&distance(b)))
            });
            let all: Option<Vec<&Point>> = nearest.into_iter().collect();
            Some((ratio, all?.try_into().ok()?))
        });
        found.collect()
    }
}

/// The lowest of some numbers; NaN of none.
pub(super) fn lowest(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().min_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// The highest of some numbers; NaN of none.
pub(super) fn highest(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().max_by(f64::total_cmp).unwrap_or(f64::NAN)
}

/// Where a curve is above a level from then on; NaN where it never is, and where it is from the first point on.
///
/// Unlike [`crate::table::reaches`], which asks for the first time: measured curves have bumps.
pub(super) fn stays_above(curve: &[(f64, f64)], level: f64) -> f64 {
    let last_below = curve.iter().rposition(|(_, y)| *y <= level);
    let crossing = last_below.and_then(|i| Some((curve[i], *curve.get(i + 1)?)));
    crossing.map_or(f64::NAN, |(below, above)| on_line(below, above, level))
}

fn between(curve: &[(f64, f64)], x: f64) -> f64 {
    let pair = curve.windows(2).find(|w| w[0].0 <= x && x <= w[1].0);
    match pair {
        Some(&[(x0, y0), (x1, y1)]) if x1 > x0 => on_line((y0, x0), (y1, x1), x),
        _ => f64::NAN,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_level_is_reached_where_the_curve_stays_above_it() {
        let curve = [(1.0, 0.0), (2.0, 0.5), (3.0, 0.1), (4.0, 0.3)];
        assert!(
            (stays_above(&curve, 0.2) - 3.5).abs() < 1e-9,
            "not at the bump"
        );
        assert!(stays_above(&curve, 0.6).is_nan() && stays_above(&curve[1..2], 0.2).is_nan());
        assert!(stays_above(&[], 0.2).is_nan());
    }

    #[test]
    fn between_points_is_a_straight_line_and_beyond_them_nothing() {
        let curve = [(1.0, 10.0), (3.0, 20.0)];
        assert_eq!(between(&curve, 2.0), 15.0);
        assert!(between(&curve, 0.9).is_nan() && between(&curve, 3.1).is_nan());
    }
}
