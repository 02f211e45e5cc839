//! The report: a scorecard, then verdicts and figures, a chapter a paper.

use std::collections::BTreeMap;

use maud::{Markup, html};
use rxlane_report::page::{Download, Page, TestBed};
use rxlane_report::table;

use crate::judge::Verdict;
use crate::measured::{self, Compared};
use crate::paper::Paper;
use crate::profile::{machine, value};
use crate::reference::Use;
use crate::scorecard::{self, Score};
use crate::sensitivity::Sensitivity;
use crate::statement;
use crate::table::Data;
use crate::{PAPERS, PapersError};

/// What reports said before rules could fail.
const BEFORE: &str = "Earlier reports said 65 of 78, of which 46 of 58 predictions. Of these 46, six were arithmetic or true by construction, \
    and others could not have failed: tolerances of 15 % around effects of 8 to 13 %, orders decided by less than their intervals, rows judged \
    by another quantity or over a chosen range, and conditions that hold where there is no data.";

/// One self-contained HTML file, made on `made_on`. With `compared` it says what a router of today does, with `tried` which
/// predictions hang on which costs.
///
/// # Errors
/// [`PapersError::Plot`].
pub fn html(
    verdicts: &[Verdict],
    data: &BTreeMap<&'static str, Data>,
    compared: &[Compared],
    tried: &[Sensitivity],
    made_on: TestBed,
) -> Result<String, PapersError> {
    let mut chapters = Vec::new();
    for paper in &PAPERS {
        let Some(data) = data.get(paper.name) else {
            continue;
        };
        let of = verdicts.iter().filter(|v| v.paper == paper.name);
        let of: Vec<Verdict> = of.cloned().collect();
        let (costs, figures) = (costs(paper)?, (paper.figures)(data)?);
        let statements = statement::html(&statement::of_paper(paper, data)?);
        let tried = tried.iter().find(|t| t.paper == paper.name);
        chapters.push(html! {
            h2 { (paper.title) }
            (scorecard::html(&[Score::of(paper.name, of.iter())]))
            (figures)
            (rows(&of))
            (measured::chapter(compared, paper.name))
            (statements)
            h3 { "What it costs" }
            (costs)
            @if let Some(tried) = tried { pre { (tried.to_string()) } }
        });
        data.check_names()?;
    }
    let json = serde_json::json!({ "verdicts": verdicts, "measured": compared });
    let page = Page {
        title: "Five papers against the model".into(),
        lead: lead(verdicts),
        body: html! { @for chapter in &chapters { (chapter) } },
        test_bed: made_on,
        data: Some(Download {
            name: "rxlane-papers.json".into(),
            json: json.to_string(),
        }),
    };
    Ok(page.render())
}

fn lead(verdicts: &[Verdict]) -> Markup {
    let (met, all) = Score::of_all(verdicts).of_use(Use::Predict);
    html! {
        @if all > 0 { p.ratio { strong { (met) " of " (all) } " predictions are reproduced." } }
        (scorecard::html(&scorecard::scorecard(verdicts)))
        p {
            "The receive path of a Linux router in virtual time, against what five papers measured on real ones. Each row is judged by the \
             rule beside it. Only " b { "predictions" } " say something of the model; the rest counts for less, and apart: " b { "fit" }
            " rows may set costs, " b { "constants" } " are costs of the paper compared with themselves, " b { "arithmetic" }
            " is a formula of the paper, and " b { "construction" } " is true of every model built this way. A rule names the quantity, the \
             tolerance and the effect: all of a number's 95 % interval must be within the tolerance, a change must also be nearer to what is \
             stated than its baseline, orders must hold beyond the intervals, and what has no data misses. A row that misses says why. In \
             the figures, circles are what the papers state; all else is the model."
        }
        p { (BEFORE) }
    }
}

/// What the paper's machine costs, and where that is from.
fn costs(paper: &Paper) -> Result<Markup, PapersError> {
    let machine = machine(paper)?;
    let head = ["cost", "value", "cycles", "from"].map(str::to_owned);
    let mut rows = Vec::new();
    for cost in paper.profile {
        let at = value(cost.key, &machine)?;
        let cycles = match cost.key.ends_with("_ns") {
            true => format!("{:.0}", at * machine.cpu.clock_ghz),
            false => String::new(),
        };
        let (origin, from) = cost.origin.text();
        let from = format!("{origin}: {from}");
        rows.push(vec![cost.key.to_owned(), at.to_string(), cycles, from]);
    }
    Ok(table::columns(&head, rows))
}

fn rows(verdicts: &[Verdict]) -> Markup {
    html! {
        div.table {
            table {
                tr {
                    th { "row" } th { "what" } th { "paper" } th { "model" } th { "verdict" } th { "reproduced when" }
                }
                @for v in verdicts {
                    tr {
                        td { (v.id) br; span.note { (v.usage.to_string()) } }
                        td { (v.quantity) br; span.note { (v.scenario) } }
                        td { (v.paper_value) " " (v.unit) }
                        td { (v.shown()) }
                        td class=(v.verdict) { (v.verdict) }
                        td {
                            (v.rule)
                            @for (name, text) in [("judged", &v.judged), ("effect", &v.effect)] {
                                br; span.note { (name) ": " (text) }
                            }
                            @if !v.note.is_empty() { br; span.note { (v.note) } }
                        }
                    }
                }
            }
        }
    }
}
