//! Numbers and courses, in as little room as they need.

/// Eighths of a line.
const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// A number with three digits and its unit.
pub(super) fn short(value: f64) -> String {
    let (value, unit) = match value {
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999.5e3 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = match value {
        _ if unit.is_empty() => 0,
        v if v < 9.995 => 2,
        v if v < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$}{unit}")
}

/// A part in percent; nothing of nothing.
pub(super) fn share(part: f64, all: f64) -> String {
    match all > 0.0 {
        true => format!("{:.0} %", 100.0 * part / all),
        false => String::new(),
    }
}

/// A bar for each value, the largest of them is a whole one.
pub(super) fn bars(values: &[f64]) -> String {
    let most = values.iter().copied().fold(0.0, f64::max);
    let bar = |v: &f64| match most > 0.0 {
        true => BARS[((v / most * 8.0).ceil() as usize).clamp(1, 8) - 1],
        false => BARS[0],
    };
    values.iter().map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        let shown = [0.0, 7.0, 999.0, 999.7, 12_340.0, 999_700.0, 2.5e9].map(short);
        assert_eq!(shown, ["0", "7", "999", "1.00k", "12.3k", "1.00M", "2.50G"]);
    }

    #[test]
    fn bars_are_of_the_largest() {
        assert_eq!(bars(&[0.0, 1.0, 4.0, 8.0]), "▁▁▄█");
        assert_eq!(bars(&[0.0, 0.0]), "▁▁");
        assert_eq!(bars(&[]), "");
    }
}
