//! Statistics of core load as in single-input-queue IV.B: ECDF, CCDF, exponential fit, and whether the upper
//! tail is long.

/// Samples with how often each was seen, by rising value.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Samples {
    counts: Vec<(f64, u64)>,
    total: u64,
}

impl Samples {
    /// From values with counts, in any order.
    pub fn new(values: impl IntoIterator<Item = (f64, u64)>) -> Self {
        let mut counts: Vec<(f64, u64)> = values.into_iter().filter(|(_, n)| *n > 0).collect();
        counts.sort_by(|a, b| a.0.total_cmp(&b.0));
        let total = counts.iter().map(|(_, n)| n).sum();
        Self { counts, total }
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.total
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }

    /// The mean; also the maximum-likelihood estimate of an exponential distribution's.
    pub fn mean(&self) -> f64 {
        self.counts.iter().map(|(v, n)| v * *n as f64).sum::<f64>() / self.total.max(1) as f64
    }

    /// Share of samples below `x`.
    pub fn below(&self, x: f64) -> f64 {
        let n: u64 = self
            .counts
            .iter()
            .filter(|(v, _)| *v < x)
            .map(|(_, n)| n)
            .sum();
        n as f64 / self.total.max(1) as f64
    }

    /// `(x, P(X <= x))` at every value.
    pub fn ecdf(&self) -> Vec<(f64, f64)> {
        let mut seen = 0;
        let total = self.total.max(1) as f64;
        self.counts
            .iter()
            .map(|(v, n)| {
                seen += n;
                (*v, seen as f64 / total)
            })
            .collect()
    }

    /// `(x, P(X > x))` at every value but the largest (Eq. 2).
    pub fn ccdf(&self) -> Vec<(f64, f64)> {
        let mut points: Vec<(f64, f64)> =
            self.ecdf().into_iter().map(|(x, p)| (x, 1.0 - p)).collect();
        points.pop();
        points
    }

    /// Judges the upper tail: the fifth of the samples with the largest values.
    pub fn tail(&self) -> Tail {
        let ccdf = self.ccdf();
        let upper: Vec<(f64, f64)> = ccdf
            .into_iter()
            .filter(|(x, p)| *p <= UPPER && *x > 0.0)
            .collect();
        let logs: Vec<(f64, f64)> = upper
            .iter()
            .map(|(x, p)| (libm::log(*x), libm::log(*p)))
            .collect();
        let power = line(&logs);
        let semi: Vec<(f64, f64)> = upper.iter().map(|(x, p)| (*x, libm::log(*p))).collect();
        let exponential = line(&semi);
        let mean = self.mean();
        // The tail declines slower than the fitted exponential when more is left at its end than the fit
        // says.
        let slower = upper.last().is_some_and(|(x, p)| *p > libm::exp(-x / mean));
        let long =
            slower && power.r2 >= STRAIGHT && power.r2 >= exponential.r2 && upper.len() >= FEWEST;
        Tail {
            alpha: -power.slope,
            r2_power: power.r2,
            r2_exponential: exponential.r2,
            slower_than_exponential: slower,
            points: upper.len(),
            long,
        }
    }
}

const UPPER: f64 = 0.2;
const STRAIGHT: f64 = 0.9;
const FEWEST: usize = 5;

/// The upper tail (Eq. 3: `P(X > x) ~ c x^-alpha`).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// Exponent of the straight line in log-log scale.
    pub alpha: f64,
    /// How straight it is there, 1 being a line.
    pub r2_power: f64,
    /// How straight it is in semi-log scale, as an exponential tail would be.
    pub r2_exponential: f64,
    /// Whether the tail declines slower than the fitted exponential.
    pub slower_than_exponential: bool,
    /// Points it is judged by.
    pub points: usize,
    /// The verdict: slower than exponential, and straighter in log-log than in semi-log scale.
    pub long: bool,
}

struct Line {
    slope: f64,
    r2: f64,
}

fn line(points: &[(f64, f64)]) -> Line {
    let n = points.len() as f64;
    if points.len() < 2 {
        return Line {
            slope: 0.0,
            r2: 0.0,
        };
    }
    let (mx, my) = (
        points.iter().map(|p| p.0).sum::<f64>() / n,
        points.iter().map(|p| p.1).sum::<f64>() / n,
    );
    let sxx: f64 = points.iter().map(|p| (p.0 - mx).powi(2)).sum();
    let syy: f64 = points.iter().map(|p| (p.1 - my).powi(2)).sum();
    let sxy: f64 = points.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    if sxx == 0.0 || syy == 0.0 {
        return Line {
            slope: 0.0,
            r2: 0.0,
        };
    }
    Line {
        slope: sxy / sxx,
        r2: sxy * sxy / (sxx * syy),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quantiles(f: impl Fn(f64) -> f64) -> Samples {
        Samples::new((1..10_000).map(|i| (f(f64::from(i) / 10_000.0), 1)))
    }

    #[test]
    fn a_pareto_tail_is_long_and_an_exponential_or_uniform_one_is_not() {
        let pareto = quantiles(|u| (1.0 - u).powf(-1.0 / 1.5)).tail();
        assert!(pareto.long, "{pareto:?}");
        assert!((pareto.alpha - 1.5).abs() < 0.05, "{pareto:?}");
        let exponential = quantiles(|u| -(1.0 - u).ln());
        assert!((exponential.mean() - 1.0).abs() < 0.01);
        assert!(!exponential.tail().long, "{:?}", exponential.tail());
        assert!(!quantiles(|u| u).tail().long);
    }

    #[test]
    fn ecdf_and_ccdf_are_complements() {
        let s = Samples::new([(0.2, 1), (0.1, 3)]);
        assert_eq!(s.ecdf(), [(0.1, 0.75), (0.2, 1.0)]);
        assert_eq!(s.ccdf(), [(0.1, 0.25)]);
        assert_eq!((s.below(0.2), s.len()), (0.75, 4));
    }
}
