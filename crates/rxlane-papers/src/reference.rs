//! What the papers state: `rows.csv` in the folder of each.

use serde::{Deserialize, Serialize};

use crate::PAPERS;

/// What a row counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Use {
    /// It may set parameters.
    Fit,
    /// A cost that the paper gives and the model takes over: compared with itself.
    Constant,
    /// A formula of the paper, computed: no simulation decides it.
    Arithmetic,
    /// True of every model that is built this way, whatever its costs.
    Construction,
    /// The model is judged by it.
    Predict,
}

impl Use {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Fit,
        Self::Constant,
        Self::Arithmetic,
        Self::Construction,
        Self::Predict,
    ];
}

impl std::fmt::Display for Use {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Fit => "fit",
            Self::Constant => "constant",
            Self::Arithmetic => "arithmetic",
            Self::Construction => "construction",
            Self::Predict => "predict",
        })
    }
}

/// A stated result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reference {
    /// Such as `LL-01`.
    pub id: String,
    /// Name of the paper.
    pub paper: String,
    /// Section or figure of the paper that states it.
    #[serde(rename = "where")]
    pub section: String,
    /// Under which conditions the paper states it.
    pub scenario: String,
    /// What was measured.
    pub quantity: String,
    /// Its unit; empty without one.
    pub unit: String,
    /// As the paper says it.
    pub value: String,
    /// `approx`, `exact`, `bound`, `ordering`, `shape` or `range`.
    pub kind: String,
    /// What it counts as.
    #[serde(rename = "use")]
    pub usage: Use,
}

/// All rows, a paper after the other.
pub fn references() -> Vec<Reference> {
    PAPERS
        .iter()
        .flat_map(|paper| {
            csv::Reader::from_reader(paper.rows.as_bytes())
                .into_deserialize()
                .filter_map(Result::ok)
                .collect::<Vec<Reference>>()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_tables_is_a_row_of_its_paper_with_an_id_of_its_own() {
        let rows = references();
        for paper in &PAPERS {
            let lines = paper.rows.trim_end().lines().count();
            let of = rows.iter().filter(|r| r.paper == paper.name).count();
            assert_eq!(of, lines - 1, "{}", paper.name);
        }
        let ids: std::collections::BTreeSet<&str> = rows.iter().map(|r| r.id.as_str()).collect();
        assert_eq!(ids.len(), rows.len());
    }
}
