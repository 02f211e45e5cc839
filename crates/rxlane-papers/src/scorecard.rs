//! How many rows of each kind the model meets. Only predictions say anything about the model.

use maud::Markup;
use rxlane_report::table;

use crate::PAPERS;
use crate::judge::Verdict;
use crate::reference::Use;

/// Rows of a paper, or of all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Score {
    /// Name of the paper, or `all`.
    pub paper: &'static str,
    /// Met and all of them, in the order of [`Use::ALL`].
    pub rows: [(usize, usize); 5],
}

impl Score {
    pub(crate) fn of<'a>(paper: &'static str, verdicts: impl Iterator<Item = &'a Verdict>) -> Self {
        let mut rows = [(0, 0); 5];
        for v in verdicts {
            for (usage, (met, all)) in Use::ALL.iter().zip(&mut rows) {
                if v.usage == *usage {
                    *met += usize::from(v.holds());
                    *all += 1;
                }
            }
        }
        Self { paper, rows }
    }

    /// Of all rows.
    pub(crate) fn of_all(verdicts: &[Verdict]) -> Self {
        Self::of("all", verdicts.iter())
    }

    /// Met and all of a kind.
    pub fn of_use(&self, usage: Use) -> (usize, usize) {
        Use::ALL
            .iter()
            .zip(self.rows)
            .find_map(|(u, n)| (*u == usage).then_some(n))
            .unwrap_or_default()
    }
}

/// A line for each paper that the verdicts are about, and one for all.
pub fn scorecard(verdicts: &[Verdict]) -> Vec<Score> {
    let papers = PAPERS.iter().map(|p| p.name);
    let mut scores: Vec<Score> = papers
        .map(|paper| Score::of(paper, verdicts.iter().filter(|v| v.paper == paper)))
        .filter(|s| s.rows.iter().any(|(_, all)| *all > 0))
        .collect();
    scores.push(Score::of_all(verdicts));
    scores
}

/// Cards as HTML.
pub(crate) fn html(scores: &[Score]) -> Markup {
    let head = std::iter::once("paper".to_owned());
    let head: Vec<String> = head
        .chain(Use::ALL.map(|usage| usage.to_string()))
        .collect();
    let rows = scores.iter().map(|score| {
        let name = std::iter::once(score.paper.to_owned());
        let met = score.rows.map(|(met, all)| match all {
            0 => String::new(),
            _ => format!("{met} of {all}"),
        });
        name.chain(met).collect()
    });
    table::columns(&head, rows)
}
