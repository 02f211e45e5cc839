//! Numbers as their reader says them.

/// What the numbers of an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unit {
    /// Numbers, in the unit that the axis names: `1.5`, `20 k`.
    #[default]
    Number,
    /// Microseconds, said as a person would: `200 ns`, `10 us`, `1 ms`.
    Us,
    /// Nines, as [`nines`] counts them, said as the share: `90 %`, `99 %`, `99.9 %`.
    Nines,
}

impl Unit {
    /// The text of a value.
    pub fn text(self, value: f64) -> String {
        match self {
            Self::Number => number(value),
            Self::Us => us(value),
            Self::Nines => share(value),
        }
    }
}

/// How many nines a share from 0 to 1 has: 1 of 90 %, 2 of 99 %. Infinite for all.
pub fn nines(share: f64) -> f64 {
    -(1.0 - share).log10()
}

/// The powers of ten, at least two, between which these values lie: the ends of a logarithmic axis.
pub fn decades(least: f64, most: f64) -> (f64, f64) {
    let from = least.log10().floor();
    let to = most.log10().ceil().max(from + 1.0);
    (10f64.powf(from), 10f64.powf(to))
}

/// Three digits, and no zeros behind them.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        v if v >= 0.9995 => 2,
        _ => 4,
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 999_500.0 => format!("{} M", short(value / 1e6)),
        v if v >= 9_999.5 => format!("{} k", short(value / 1e3)),
        v if v >= 1e-4 => short(value),
        0.0 => "0".into(),
        _ => format!("{value:.0e}"),
    }
}

/// A time in microseconds, as a person would say it.
pub fn us(value: f64) -> String {
    match value.abs() {
        0.0 => "0".into(),
        v if v >= 999_500.0 => format!("{} s", short(value / 1e6)),
        v if v >= 999.5 => format!("{} ms", short(value / 1e3)),
        v if v >= 0.9995 => format!("{} us", short(value)),
        _ => format!("{} ns", short(value * 1e3)),
    }
}

fn share(nines: f64) -> String {
    if nines <= 0.0 {
        return "0 %".into();
    }
    // Between whole nines the share is nothing that anybody asks for.
    if (nines - nines.round()).abs() > 1e-6 {
        return String::new();
    }
    let behind = (nines.round() as usize).saturating_sub(2);
    format!("{:.behind$} %", 100.0 - 100.0 * 10f64.powf(-nines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_said_in_the_unit_that_a_reader_would_use() {
        let said = [0.0, 0.25, 1.0, 12.34, 999.9, 1_500.0, 2e6].map(us);
        assert_eq!(
            said,
            ["0", "250 ns", "1 us", "12.3 us", "1 ms", "1.5 ms", "2 s"]
        );
    }

    #[test]
    fn numbers_are_short_whatever_their_size() {
        let said = [0.0, 0.5, 20.0, 1_000.0, 20_000.0, 1.5e6, 1e-6].map(number);
        assert_eq!(said, ["0", "0.5", "20", "1000", "20 k", "1.5 M", "1e-6"]);
    }

    #[test]
    fn nines_are_said_as_shares() {
        let said = [0.0, 1.0, 2.0, 3.0, 4.0, 1.5].map(share);
        assert_eq!(said, ["0 %", "90 %", "99 %", "99.9 %", "99.99 %", ""]);
        assert!((nines(0.999) - 3.0).abs() < 1e-9);
    }
}
