//! The report: verdicts and figures, a chapter a paper.

use std::collections::BTreeMap;
use std::fmt::Write;

use rxlane_report::{escape, page};

use crate::judge::Verdict;
use crate::paper::Paper;
use crate::profile::{machine, value};
use crate::reference::Use;
use crate::scorecard::{self, Score};
use crate::sensitivity::Sensitivity;
use crate::table::Data;
use crate::{PAPERS, PapersError};

/// What reports said before rules could fail.
const BEFORE: &str = "<p>Earlier reports said 65 of 78, of which 46 of 58 predictions. Of these 46, six were arithmetic or true by \
    construction, and others could not have failed: tolerances of 15 % around effects of 8 to 13 %, orders decided by less than their \
    intervals, rows judged by another quantity or over a chosen range, and conditions that hold where there is no data.</p>";

/// One self-contained HTML file. With `tried` it says which predictions hang on which costs.
///
/// # Errors
/// [`PapersError::Plot`].
pub fn html(
    verdicts: &[Verdict],
    data: &BTreeMap<&'static str, Data>,
    tried: &[Sensitivity],
) -> Result<String, PapersError> {
    let predictions = Score::of_all(verdicts).of_use(Use::Predict);
    let lead = format!(
        "<p>The receive path of a Linux router in virtual time, against what five papers measured on real ones. {} of {} \
         <b>predictions</b> are reproduced by the rule beside each; the rest of the table counts for less, and apart: \
         <b>fit</b> rows may set costs, <b>constants</b> are costs of the paper compared with themselves, <b>arithmetic</b> is a \
         formula of the paper, and <b>construction</b> is true of every model built this way. A rule names the quantity, the \
         tolerance and the effect: all of a number's 95 % interval must be within the tolerance, a change must also be nearer to what \
         is stated than its baseline, orders must hold beyond the intervals, and what has no data misses. A row that misses says \
         why. In the figures, circles are what the papers state; all else is the model.</p>{}{BEFORE}",
        predictions.0,
        predictions.1,
        scorecard::html(verdicts),
    );
    let mut body = String::new();
    for paper in &PAPERS {
        let Some(data) = data.get(paper.name) else {
            continue;
        };
        let _ = write!(body, "<h2>{}</h2>", escape(paper.title));
        body += &costs(paper)?;
        if let Some(tried) = tried.iter().find(|t| t.paper == paper.name) {
            let _ = write!(body, "<pre>{}</pre>", escape(&tried.to_string()));
        }
        body += &rows(verdicts.iter().filter(|v| v.paper == paper.name));
        body += &(paper.figures)(data)?;
        data.check_names()?;
    }
    Ok(page("rxlane: five papers against the model", &lead, &body))
}

/// What the paper's machine costs, and where that is from.
fn costs(paper: &Paper) -> Result<String, PapersError> {
    let machine = machine(paper)?;
    let mut table = String::from("<table><tr><th>cost<th>value<th>cycles<th>from</tr>");
    for cost in paper.profile {
        let at = value(cost.key, &machine)?;
        let cycles = if cost.key.ends_with("_ns") {
            format!("{:.0}", at * machine.cpu.clock_ghz)
        } else {
            String::new()
        };
        let (origin, from) = cost.origin.text();
        let _ = write!(
            table,
            "<tr><td>{}<td>{at}<td>{cycles}<td>{origin}: {}</tr>",
            escape(cost.key),
            escape(from)
        );
    }
    Ok(table + "</table>")
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
        let _ = write!(
            table,
            "<tr><td>{}<br><span class=note>{}</span><td>{}<br><span class=note>{}</span><td>{} {}<td>{}<td class={}>{}<td>{}",
            v.id,
            v.usage,
            escape(&v.quantity),
            escape(&v.scenario),
            escape(&v.paper_value),
            escape(&v.unit),
            model,
            v.verdict,
            v.verdict,
            escape(&v.rule),
        );
        for (name, text) in [("judged", &v.judged), ("effect", &v.effect)] {
            let _ = write!(
                table,
                "<br><span class=note>{name}: {}</span>",
                escape(text)
            );
        }
        if !v.note.is_empty() {
            let _ = write!(table, "<br><span class=note>{}</span>", escape(&v.note));
        }
        table += "</tr>";
    }
    table + "</table>"
}
