//! Rates as people write them: `100000`, `1.6e6`, `"100k"`, `"1.6M"`.

use serde::Deserializer;
use serde::de::{Error, Visitor};

/// What the schema of a file calls the format of a rate.
pub const FORMAT: &str = "rate";
/// How a rate may be written in a file.
pub const EXAMPLES: &str = "100000, 1.6e6, \"100k\" or \"1.6M\"";

/// Multiples that a number may end with.
const MULTIPLES: [(&str, f64); 3] = [("k", 1e3), ("M", 1e6), ("G", 1e9)];

/// A number with or without a multiple behind it: `450000`, `450k`, `1.2M`, `10G`.
///
/// # Errors
/// What is wrong, and how it is written.
pub fn parse(text: &str) -> Result<f64, String> {
    let trimmed = text.trim();
    let (number, multiple) = MULTIPLES
        .iter()
        .find_map(|(suffix, multiple)| Some((trimmed.strip_suffix(suffix)?, *multiple)))
        .unwrap_or((trimmed, 1.0));
    number
        .trim_end()
        .replace('_', "")
        .parse::<f64>()
        .ok()
        .map(|n| n * multiple)
        .filter(|n| n.is_finite() && *n >= 0.0)
        .ok_or_else(|| format!("`{text}` is no rate: write 450000, 450k or 1.2M"))
}

/// Reads a number or a text such as `"100k"`, for `#[serde(deserialize_with = ...)]`.
///
/// # Errors
/// Everything else.
pub fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    from.deserialize_any(Written)
}

struct Written;

impl Visitor<'_> for Written {
    type Value = f64;

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a rate: {EXAMPLES}")
    }

    fn visit_i64<E: Error>(self, n: i64) -> Result<f64, E> {
        Ok(n as f64)
    }

    fn visit_u64<E: Error>(self, n: u64) -> Result<f64, E> {
        Ok(n as f64)
    }

    fn visit_f64<E: Error>(self, n: f64) -> Result<f64, E> {
        Ok(n)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<f64, E> {
        parse(text).map_err(E::custom)
    }
}

/// What may be written, for `#[schemars(schema_with = ...)]`.
#[cfg(feature = "schema")]
pub fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({ "type": ["number", "string"], "format": FORMAT })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_with_and_without_a_multiple() {
        for (text, rate) in [
            ("450000", 450e3),
            ("450k", 450e3),
            ("1.6M", 1.6e6),
            (" 10 G ", 10e9),
            ("1_000", 1e3),
            ("1.6e6", 1.6e6),
        ] {
            assert_eq!(parse(text), Ok(rate), "{text}");
        }
        for text in ["", "k", "1K", "-1", "1e999", "NaN", "inf", "1.6 MM", "0x10"] {
            let message = parse(text).expect_err("must be refused");
            assert!(message.contains("450k"), "{message}");
        }
    }
}
