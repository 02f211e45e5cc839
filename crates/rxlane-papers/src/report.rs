//! The report: verdicts and figures, a chapter a paper.

use std::collections::BTreeMap;
use std::fmt::Write;

use rxlane_report::{escape, page};

use crate::judge::Verdict;
use crate::reference::Use;
use crate::table::Data;
use crate::{PAPERS, PapersError};

/// One self-contained HTML file.
///
/// # Errors
/// [`PapersError::Plot`].
pub fn html(
    verdicts: &[Verdict],
    data: &BTreeMap<&'static str, Data>,
) -> Result<String, PapersError> {
    let count = |usage: Use, only: Option<&str>| {
        verdicts
            .iter()
            .filter(|v| v.usage == usage && only.is_none_or(|o| v.verdict == o))
            .count()
    };
    let lead = format!(
        "<p>The receive path of a Linux router in virtual time, against what five papers measured on real ones. \
         Costs were set from <b>fit</b> rows only, of which {} of {} are met within 10 %. Of {} <b>predict</b> rows, which the \
         model had never seen, {} are reproduced by the rule beside each: numbers within 15 %, orderings and shapes as stated. \
         A row that misses says why. In the figures, circles are what the papers state; all else is the model.</p>",
        count(Use::Fit, Some("reproduced")),
        count(Use::Fit, None),
        count(Use::Predict, None),
        count(Use::Predict, Some("reproduced")),
    );
    let mut body = String::new();
    for paper in &PAPERS {
        let Some(data) = data.get(paper.name) else {
            continue;
        };
        let _ = write!(body, "<h2>{}</h2>", escape(paper.title));
        body += &rows(verdicts.iter().filter(|v| v.paper == paper.name));
        body += &(paper.figures)(data)?;
        data.check_names()?;
    }
    Ok(page("rxlane: five papers against the model", &lead, &body))
}

fn rows<'a>(verdicts: impl Iterator<Item = &'a Verdict>) -> String {
    let mut table = String::from(
        "<table><tr><th>row<th>what<th>paper<th>model<th>verdict<th>reproduced when</tr>",
    );
    for v in verdicts {
        let model = match (&v.model, v.ci95) {
            (serde_json::Value::String(text), _) => text.clone(),
            (number, Some(ci)) => format!("{number} &plusmn; {ci}"),
            (number, None) => number.to_string(),
        };
        let usage = match v.usage {
            Use::Fit => " (fit)",
            Use::Predict => "",
        };
        let _ = write!(
            table,
            "<tr><td>{}{usage}<td>{}<br><span class=note>{}</span><td>{} {}<td>{}<td class={}>{}<td>{}",
            v.id,
            escape(&v.quantity),
            escape(&v.scenario),
            escape(&v.paper_value),
            escape(&v.unit),
            model,
            v.verdict,
            v.verdict,
            escape(&v.rule),
        );
        if !v.note.is_empty() {
            let _ = write!(table, "<br><span class=note>{}</span>", escape(&v.note));
        }
        table += "</tr>";
    }
    table + "</table>"
}
