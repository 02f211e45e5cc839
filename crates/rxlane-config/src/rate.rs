//! A rate in the file: a whole number of packets or bits a second, as people write it.

use std::borrow::Cow;

use rxlane_policy::rate;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Above this not every whole number is a float.
const HIGHEST: f64 = 9e15;

/// A whole number of a second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate(pub(crate) u64);

impl Rate {
    fn of(rate: f64) -> Result<Self, String> {
        // 1.6 times a million is not exactly a whole number.
        let whole = rate.round();
        if (0.0..=HIGHEST).contains(&rate) && (whole - rate).abs() < 1e-6 {
            Ok(Self(whole as u64))
        } else {
            Err(format!(
                "{rate} is no whole number a second, up to {HIGHEST:e}: write {}",
                rate::EXAMPLES
            ))
        }
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_u64(self.0)
    }
}

impl<'de> Deserialize<'de> for Rate {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        rate::deserialize(from).and_then(|n| Self::of(n).map_err(D::Error::custom))
    }
}

impl JsonSchema for Rate {
    fn schema_name() -> Cow<'static, str> {
        "Rate".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = rate::schema(generator);
        schema.insert(
            "description".into(),
            format!("Of a second: {}.", rate::EXAMPLES).into(),
        );
        schema
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_a_whole_number() {
        assert_eq!(Rate::of(1.6 * 1e6), Ok(Rate(1_600_000)));
        assert!(Rate::of(0.5).unwrap_err().contains("whole number"));
        assert!(Rate::of(-1.0).is_err());
        assert!(Rate::of(1e18).is_err());
    }
}
