//! What the papers state beyond their rows, and checks of the papers against themselves: `statements.csv` in the folder
//! of each. A row judges a statement, or a rule of its own does, or a model cannot say anything of it.

use std::collections::BTreeMap;

use maud::{Markup, html};
use rxlane_sim::SimError;
use serde::{Deserialize, Serialize};

use crate::claims::{Claim, Claims};
use crate::paper::Paper;
use crate::reference::Reference;
use crate::table::Data;
use crate::{papers_of, references, verdicts_of};

/// What judges a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum By {
    /// A rule on results of simulations.
    Rule,
    /// A rule on formulas, costs and stated numbers.
    Arithmetic,
    /// A row of the paper, or another of its statements.
    Other(String),
    /// Nothing: the note says why.
    Nothing,
}

/// A line of `statements.csv`.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Line {
    pub(crate) id: String,
    #[serde(rename = "where")]
    pub(crate) section: String,
    pub(crate) statement: String,
    #[serde(deserialize_with = "by")]
    pub(crate) by: By,
    pub(crate) note: String,
}

fn by<'de, D: serde::Deserializer<'de>>(from: D) -> Result<By, D::Error> {
    Ok(match String::deserialize(from)?.as_str() {
        "rule" => By::Rule,
        "arithmetic" => By::Arithmetic,
        "not testable" => By::Nothing,
        other => By::Other(other.to_owned()),
    })
}

/// What became of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finding {
    /// The model, or the arithmetic, agrees.
    Holds,
    /// It does not, or there is no data.
    Contradicted,
    /// No model of this kind can decide it.
    NotTestable,
}

impl Finding {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Holds, Self::Contradicted, Self::NotTestable];
}

impl std::fmt::Display for Finding {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Holds => "holds",
            Self::Contradicted => "contradicted",
            Self::NotTestable => "not testable",
        })
    }
}

/// A statement with what became of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// Such as `R000-062`, or `B5` of a check.
    pub id: String,
    /// Name of the paper.
    pub paper: &'static str,
    /// Section of the paper.
    #[serde(rename = "where")]
    pub section: String,
    /// What it states, in this project's words.
    pub statement: String,
    /// What became of it.
    pub finding: Finding,
    /// `rule`, `arithmetic`, the row or statement that judges it too, or nothing.
    pub by: String,
    /// When it holds; empty of what is not testable.
    pub rule: String,
    /// The numbers that decide it.
    pub model: String,
    /// Why it is not testable, or what to know.
    pub note: String,
}

pub(crate) fn statements_of(paper: &Paper) -> Vec<Line> {
    csv::Reader::from_reader(paper.statements.as_bytes())
        .into_deserialize()
        .filter_map(Result::ok)
        .collect()
}

/// What the rules of a paper say: those of its rows, and those that statements have of their own.
pub(crate) fn claims_of(
    paper: &Paper,
    data: &Data,
) -> Result<BTreeMap<&'static str, Claim>, SimError> {
    let mut claims = Claims::new(1.0);
    (paper.claims)(data, &mut claims)?;
    data.check_names()?;
    Ok(claims.into_map())
}

/// Every statement of the papers of these rows.
///
/// # Errors
/// As [`crate::judge`].
pub fn statements(
    rows: &[Reference],
    data: &BTreeMap<&'static str, Data>,
) -> Result<Vec<Statement>, SimError> {
    let mut all = Vec::new();
    for paper in papers_of(rows) {
        if let Some(data) = data.get(paper.name) {
            all.extend(of_paper(paper, data)?);
        }
    }
    Ok(all)
}

pub(crate) fn of_paper(paper: &Paper, data: &Data) -> Result<Vec<Statement>, SimError> {
    let mut judged: BTreeMap<String, Claim> = claims_of(paper, data)?
        .into_iter()
        .map(|(id, claim)| (id.to_owned(), claim))
        .collect();
    let rows = verdicts_of(paper, data)?;
    for r in references().iter().filter(|r| r.paper == paper.name) {
        if let Some(row) = rows.get(r.id.as_str()) {
            let v = row.of(r);
            let claim = Claim {
                holds: v.holds(),
                model: v.shown(),
                rule: format!("{}: {}", v.judged, v.rule),
            };
            judged.insert(v.id, claim);
        }
    }
    Ok(statements_of(paper)
        .into_iter()
        .map(|line| {
            let (key, by) = match &line.by {
                By::Rule => (line.id.clone(), "rule".to_owned()),
                By::Arithmetic => (line.id.clone(), "arithmetic".to_owned()),
                By::Other(id) => (id.clone(), id.clone()),
                By::Nothing => (String::new(), String::new()),
            };
            let claim = judged.get(&key);
            let finding = match (&line.by, claim) {
                (By::Nothing, _) => Finding::NotTestable,
                (_, Some(claim)) if claim.holds => Finding::Holds,
                _ => Finding::Contradicted,
            };
            Statement {
                id: line.id,
                paper: paper.name,
                section: line.section,
                statement: line.statement,
                finding,
                by,
                rule: claim.map(|c| c.rule.clone()).unwrap_or_default(),
                model: claim.map(|c| c.model.clone()).unwrap_or_default(),
                note: line.note,
            }
        })
        .collect())
}

/// How many statements hold, are contradicted and are not testable.
pub fn counts(statements: &[Statement]) -> [usize; 3] {
    Finding::ALL.map(|f| statements.iter().filter(|s| s.finding == f).count())
}

/// The statements of a paper as HTML.
pub(crate) fn html(statements: &[Statement]) -> Markup {
    let [holds, contradicted, untestable] = counts(statements);
    let class = |finding: Finding| match finding {
        Finding::Holds => "reproduced",
        Finding::Contradicted => "missed",
        Finding::NotTestable => "note",
    };
    html! {
        h3 { "Statements" }
        p {
            "Of " (statements.len()) " statements and checks " (holds) " hold, " (contradicted) " are contradicted and "
            (untestable) " are not testable."
        }
        div.table {
            table {
                tr {
                    th { "id" } th { "where" } th { "statement" } th { "finding" } th { "model" } th { "holds when" } th { "note" }
                }
                @for s in statements {
                    tr {
                        td { (s.id) br; span.note { (s.by) } }
                        td { (s.section) }
                        td { (s.statement) }
                        td class=(class(s.finding)) { (s.finding.to_string()) }
                        td { (s.model) }
                        td { (s.rule) }
                        td { (s.note) }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::PAPERS;

    #[test]
    fn every_statement_is_read_and_named_once_and_what_judges_it_exists() {
        let mut ids = BTreeSet::new();
        let rows: BTreeSet<String> = references().into_iter().map(|r| r.id).collect();
        for paper in &PAPERS {
            let lines = statements_of(paper);
            assert_eq!(
                lines.len(),
                paper.statements.trim_end().lines().count() - 1,
                "{}",
                paper.name
            );
            let own: BTreeSet<&str> = lines.iter().map(|l| l.id.as_str()).collect();
            for line in &lines {
                assert!(ids.insert(line.id.clone()), "{} twice", line.id);
                match &line.by {
                    By::Other(id) => {
                        assert!(
                            rows.contains(id) || own.contains(id.as_str()),
                            "{}: {id}",
                            line.id
                        );
                        assert_ne!(*id, line.id);
                    }
                    By::Nothing => assert!(!line.note.is_empty(), "{}: no reason", line.id),
                    By::Rule | By::Arithmetic => {}
                }
            }
        }
        let checks = ids.iter().filter(|id| id.len() < 4).count();
        assert_eq!((ids.len() - checks, checks), (191, 47));
    }
}
