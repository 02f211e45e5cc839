//! Numbers of the model with their confidence intervals. Rules compare these, so that chance decides no verdict.

use rxlane_sim::run::Estimate;

/// A mean and the ends of its 95 % confidence interval. All that is done with it is conservative: the ends of a sum are
/// the sums of the ends. A number that is not there, or has no interval, is NaN, and every comparison with it fails.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) mean: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// What is not there.
    pub(crate) const NONE: Self = Self::exact(f64::NAN);

    /// A number without chance: of a formula, or of the configuration.
    pub(crate) const fn exact(value: f64) -> Self {
        Self {
            low: value,
            mean: value,
            high: value,
        }
    }

    pub(crate) fn of(estimate: &Estimate) -> Self {
        // One replication says nothing about chance.
        let half = estimate.ci95.unwrap_or(f64::NAN);
        Self {
            low: estimate.mean - half,
            mean: estimate.mean,
            high: estimate.mean + half,
        }
    }

    /// A share of so many independent samples.
    pub(crate) fn share(share: f64, samples: u64) -> Self {
        let half = 1.96 * (share * (1.0 - share) / samples as f64).sqrt();
        Self {
            low: share - half,
            mean: share,
            high: share + half,
        }
    }

    /// Whether it is above another beyond chance.
    pub(crate) fn above(self, other: Self) -> bool {
        self.low > other.high
    }

    /// Whether it is at most so much, beyond chance.
    pub(crate) fn at_most(self, limit: f64) -> bool {
        self.high <= limit
    }

    /// Whether it is at least so much, beyond chance.
    pub(crate) fn at_least(self, limit: f64) -> bool {
        self.low >= limit
    }

    /// Whether all of it is so near to a value, as a share of that.
    pub(crate) fn within(self, share: f64, value: f64) -> bool {
        self.farthest(value) <= share * value.abs()
    }

    /// Distance of its farther end from a value.
    pub(crate) fn farthest(self, value: f64) -> f64 {
        let (low, high) = ((self.low - value).abs(), (self.high - value).abs());
        if low.is_nan() || high.is_nan() {
            return f64::NAN;
        }
        low.max(high)
    }

    pub(crate) fn half(self) -> f64 {
        (self.high - self.low) / 2.0
    }

    fn each(self, f: impl Fn(f64) -> f64) -> Self {
        Self {
            low: f(self.low),
            mean: f(self.mean),
            high: f(self.high),
        }
    }

    pub(crate) fn times(self, factor: f64) -> Self {
        self.each(|x| x * factor)
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        Self {
            low: self.low - other.high,
            mean: self.mean - other.mean,
            high: self.high - other.low,
        }
    }

    /// Ratio of positive numbers.
    pub(crate) fn over(self, other: Self) -> Self {
        Self {
            low: self.low / other.high,
            mean: self.mean / other.mean,
            high: self.high / other.low,
        }
    }

    /// NaN of none.
    pub(crate) fn mean_of(all: impl IntoIterator<Item = Self>) -> Self {
        let (mut sum, mut n) = (Self::exact(0.0), 0.0);
        for x in all {
            sum = Self {
                low: sum.low + x.low,
                mean: sum.mean + x.mean,
                high: sum.high + x.high,
            };
            n += 1.0;
        }
        sum.each(|x| x / n)
    }

    /// The highest of them by its mean; NaN of none, and where one is NaN.
    pub(crate) fn highest(all: impl IntoIterator<Item = Self>) -> Self {
        Self::chosen(all, |a, b| a.mean > b.mean)
    }

    /// The lowest of them by its mean; NaN of none, and where one is NaN.
    pub(crate) fn lowest(all: impl IntoIterator<Item = Self>) -> Self {
        Self::chosen(all, |a, b| a.mean < b.mean)
    }

    fn chosen(all: impl IntoIterator<Item = Self>, better: impl Fn(&Self, &Self) -> bool) -> Self {
        let mut best = None;
        for x in all {
            if x.mean.is_nan() {
                return Self::NONE;
            }
            if best.as_ref().is_none_or(|b| better(&x, b)) {
                best = Some(x);
            }
        }
        best.unwrap_or(Self::NONE)
    }
}

/// Whether something holds for all of them, of which there must be one.
pub(crate) fn every<T>(all: impl IntoIterator<Item = T>, holds: impl Fn(T) -> bool) -> bool {
    let mut some = false;
    for x in all {
        if !holds(x) {
            return false;
        }
        some = true;
    }
    some
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_and_what_has_no_interval_fails_every_comparison() {
        let one_run = Interval::of(&Estimate {
            name: String::new(),
            mean: 5.0,
            ci95: None,
        });
        for x in [
            Interval::NONE,
            one_run,
            Interval::mean_of([]),
            Interval::highest([Interval::exact(1.0), Interval::NONE]),
        ] {
            let five = Interval::exact(5.0);
            assert!(!x.above(five) && !five.above(x), "{x:?}");
            assert!(!x.at_most(9.0) && !x.at_least(0.0) && !x.within(1.0, 5.0));
        }
        assert!(!every(Vec::<u8>::new(), |_| true));
    }

    #[test]
    fn what_chance_can_turn_is_not_above() {
        let of = |mean, half| Interval {
            low: mean - half,
            mean,
            high: mean + half,
        };
        assert!(!of(11.69, 0.05).above(of(11.68, 0.05)));
        assert!(of(12.0, 0.1).above(of(11.7, 0.1)));
        assert!(!of(10.0, 1.0).within(0.05, 10.0) && of(10.0, 0.4).within(0.05, 10.0));
    }
}
