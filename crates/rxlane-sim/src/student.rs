//! Student's t distribution, for confidence intervals.

/// Half of a 95 % confidence interval in standard errors: the t that 97.5 % of the distribution lie below, for the mean
/// of so many values, 2 or more.
///
/// It is found by halving an interval, in arithmetic that is the same on every machine.
pub(crate) fn t_of_95_percent(values: usize) -> f64 {
    let degrees = values.saturating_sub(1).max(1);
    if degrees > MOST_TERMS {
        return near_normal(degrees as f64);
    }
    // With one degree of freedom it is 12.7, and it falls from there.
    let (mut low, mut high) = (0.0, 16.0);
    loop {
        let middle = 0.5 * (low + high);
        if middle <= low || middle >= high {
            return high;
        }
        if within(middle, degrees) < 0.95 {
            low = middle;
        } else {
            high = middle;
        }
    }
}

/// From so many degrees of freedom on the expansion below is exact to ten digits.
const MOST_TERMS: usize = 500;

/// The share of the distribution between `-t` and `t` (Abramowitz and Stegun, 26.7.3 and 26.7.4).
fn within(t: f64, degrees: usize) -> f64 {
    let n = degrees as f64;
    let cos2 = n / (n + t * t);
    let sin = t / (n + t * t).sqrt();
    // 1 + c (a1 + c (a1 a2 + ...)), from its end.
    let odd = degrees % 2;
    let sum = (1..=(degrees.saturating_sub(2 + odd)) / 2)
        .rev()
        .fold(1.0, |sum, k| {
            let k = (2 * k - 1 + odd) as f64;
            1.0 + sum * cos2 * k / (k + 1.0)
        });
    match (odd, degrees) {
        (0, _) => sin * sum,
        (_, 1) => std::f64::consts::FRAC_2_PI * libm::atan(t / n.sqrt()),
        _ => {
            let angle = libm::atan(t / n.sqrt());
            std::f64::consts::FRAC_2_PI * (angle + sin * cos2.sqrt() * sum)
        }
    }
}

/// Abramowitz and Stegun, 26.7.5.
fn near_normal(n: f64) -> f64 {
    /// 97.5 % of the normal distribution lie below it.
    const Z: f64 = 1.959_963_984_540_054;
    let z2 = Z * Z;
    let first = (z2 + 1.0) * Z / 4.0;
    let second = ((5.0 * z2 + 16.0) * z2 + 3.0) * Z / 96.0;
    let third = (((3.0 * z2 + 19.0) * z2 + 17.0) * z2 - 15.0) * Z / 384.0;
    Z + (first + (second + third / n) / n) / n
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (values, t) in [
            (2, 12.706_204_736),
            (3, 4.302_652_730),
            (4, 3.182_446_305),
            (5, 2.776_445_105),
            (6, 2.570_581_836),
            (11, 2.228_138_852),
            (12, 2.200_985_160),
            (31, 2.042_272_456),
            (101, 1.983_971_519),
        ] {
            let found = t_of_95_percent(values);
            assert!((found - t).abs() < 1e-9, "{values}: {found}, not {t}");
        }
    }

    #[test]
    fn the_sum_and_the_expansion_meet() {
        let sum = t_of_95_percent(MOST_TERMS + 1);
        let expansion = near_normal(MOST_TERMS as f64);
        assert!((sum - expansion).abs() < 1e-9, "{sum} and {expansion}");
    }
}
