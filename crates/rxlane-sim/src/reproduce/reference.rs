//! What the papers state: `reference/results.csv`.

use serde::{Deserialize, Serialize};

/// What a row may be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// It may set parameters.
    Fit,
    /// The model is judged by it.
    Predict,
}

/// A stated result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Such as `LL-01`.
    pub id: String,
    /// Name of the paper.
    pub paper: String,
    /// Section.
    #[serde(rename = "where")]
    pub section: String,
    /// Conditions.
    pub scenario: String,
    /// What was measured.
    pub quantity: String,
    /// Its unit; empty without one.
    pub unit: String,
    /// As the paper says it.
    pub value: String,
    /// `approx`, `exact`, `bound`, `ordering`, `shape` or `range`.
    pub kind: String,
    /// Fit or predict.
    #[serde(rename = "use")]
    pub usage: Use,
}

/// All rows, in the order of the file.
pub fn references() -> Vec<Reference> {
    let text = include_str!("../../reference/results.csv");
    csv::Reader::from_reader(text.as_bytes())
        .deserialize()
        .filter_map(Result::ok)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row_with_an_id_of_its_own() {
        let rows = references();
        let lines = include_str!("../../reference/results.csv")
            .trim_end()
            .lines()
            .count();
        assert_eq!(rows.len(), lines - 1);
        let ids: std::collections::BTreeSet<&str> = rows.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids.len(), rows.len());
    }
}
