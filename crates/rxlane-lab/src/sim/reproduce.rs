//! `rxlane-lab sim reproduce`.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use clap::Args as ClapArgs;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_papers::{Compared, Finding, Measurement, PAPERS, Statement, Use, Verdict};

use crate::{one_line, output, test_bed};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// all, a paper (low-latency-router, multiple-nics, interrupt-throttling, single-input-queue,
    /// beyond-softnet), or rows such as LL-01
    #[arg(default_value = "all")]
    what: Vec<String>,
    /// Show how the rules judge models that are wrong on purpose, and so what each rule can reject
    #[arg(long, conflicts_with_all = ["json", "html"])]
    wrong: bool,
    /// What else the papers state, and where they contradict themselves: what holds, what the model contradicts, what no
    /// model can decide
    #[arg(long, conflicts_with = "wrong")]
    statements: bool,
    /// Lay a router of today beside both: what `rxlane-lab bench sweep --json` has written about strategies or throttling of the
    /// AF_XDP engine; several times for several sweeps
    #[arg(long, value_name = "SWEEP.JSON", conflicts_with = "wrong")]
    measured: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML report with the papers' figures
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
    /// Try each cost 20 % lower and higher for the report (some minutes)
    #[arg(long, requires = "html")]
    sensitivity: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let rows = rxlane_papers::select(&args.what).map_err(one_line)?;
    if let Some(path) = &args.html {
        output::will_take(path)?;
    }
    let measurements = args.measured.iter().map(|path| measurement(path));
    let measurements = measurements.collect::<Result<Vec<_>, _>>()?;
    rxlane_system::stop::listen();
    let stop = &rxlane_system::stop::flag().into();
    if args.wrong {
        let bar = ProgressBar::new_spinner();
        if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} points, {elapsed}") {
            bar.set_style(style);
        }
        let matrices = rxlane_papers::wrong_models(&rows, stop, || bar.inc(1)).map_err(one_line)?;
        bar.finish_and_clear();
        for matrix in matrices {
            println!("{matrix}");
        }
        return Ok(());
    }
    let bar = ProgressBar::new(rxlane_papers::points(&rows).map_err(one_line)? as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} points, {eta} to go") {
        bar.set_style(style);
    }
    let data = rxlane_papers::run(&rows, stop, || bar.inc(1)).map_err(one_line)?;
    bar.finish_and_clear();
    let verdicts = rxlane_papers::judge(&rows, &data).map_err(one_line)?;
    let statements = match args.statements {
        true => Some(rxlane_papers::statements(&rows, &data).map_err(one_line)?),
        false => None,
    };
    let compared = match measurements.is_empty() {
        true => Vec::new(),
        false => rxlane_papers::compare(&data, &measurements).map_err(one_line)?,
    };
    if args.json {
        let mut all = serde_json::json!({ "verdicts": verdicts });
        if let Some(statements) = &statements {
            let [holds, contradicted, untestable] = rxlane_papers::counts(statements);
            all["statements"] = serde_json::json!(statements);
            all["findings"] = serde_json::json!({
                "holds": holds, "contradicted": contradicted, "not-testable": untestable,
            });
        }
        if !measurements.is_empty() {
            all["measured"] = serde_json::json!(compared);
        }
        output::json(&all)?;
    } else {
        print!("{}", text(&verdicts));
        if !compared.is_empty() {
            print!("\n{}", beside(&compared));
        }
        if let Some(statements) = &statements {
            print!("\n{}", findings(statements));
        }
    }
    if let Some(path) = &args.html {
        let tried = if args.sensitivity {
            let bar = ProgressBar::new_spinner();
            let tried = rxlane_papers::sensitivity(&rows, stop, || bar.inc(1));
            bar.finish_and_clear();
            tried.map_err(one_line)?
        } else {
            Vec::new()
        };
        let page = rxlane_papers::html(&verdicts, &data, &compared, &tried, test_bed::here())
            .map_err(one_line)?;
        output::file(path, page.as_bytes())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn measurement(path: &Path) -> Result<Measurement, String> {
    let name = path.display().to_string();
    let text = std::fs::read(path).map_err(|e| format!("{name}: {e}"))?;
    Measurement::parse(&name, &text).map_err(one_line)
}

/// What is stated, modelled and measured.
fn beside(compared: &[Compared]) -> String {
    let mut table = wide([
        "row",
        "quantity without a unit",
        "stated",
        "modelled",
        "measured",
        "finding",
        "as stated when",
    ]);
    for c in compared {
        table.add_row([
            c.id,
            c.quantity,
            c.stated,
            &Compared::shown(c.modelled),
            &Compared::shown(c.measured),
            c.finding(),
            c.rule,
        ]);
    }
    let mut out = format!("{table}\n");
    for c in compared.iter().filter(|c| !c.agrees && !c.note.is_empty()) {
        out.push_str(&format!("  {}: {}\n", c.id, c.note));
    }
    out
}

/// A table as wide as the terminal, or a file's lines.
fn wide(header: [&str; 7]) -> Table {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header(header);
    if !std::io::stdout().is_terminal() {
        table.set_width(180);
    }
    table
}

fn text(verdicts: &[Verdict]) -> String {
    let mut table = wide([
        "row", "use", "quantity", "paper", "model", "verdict", "rule",
    ]);
    for v in verdicts {
        let paper = format!("{} {}", v.paper_value, v.unit);
        table.add_row([
            v.id.clone(),
            v.usage.to_string(),
            v.quantity.clone(),
            paper,
            v.shown(),
            v.verdict.into(),
            v.rule.clone(),
        ]);
    }
    let missed: Vec<&Verdict> = verdicts.iter().filter(|v| !v.holds()).collect();
    let mut out = format!("{table}\n\n{}\n", scores(verdicts));
    if !missed.is_empty() {
        out.push_str("\nmissed:\n");
        for v in missed {
            out.push_str(&format!("  {}: {}\n", v.id, v.note));
        }
    }
    out
}

/// Statements, and how many of each paper hold, are contradicted and are not testable.
fn findings(statements: &[Statement]) -> String {
    let mut table = wide([
        "id",
        "statement",
        "finding",
        "model",
        "holds when",
        "by",
        "note",
    ]);
    for s in statements {
        table.add_row([
            s.id.clone(),
            s.statement.clone(),
            s.finding.to_string(),
            s.model.clone(),
            s.rule.clone(),
            s.by.clone(),
            s.note.clone(),
        ]);
    }
    let mut counts = Table::new();
    counts.load_style(presets::NOTHING);
    let head = std::iter::once("statements".to_owned());
    counts.set_header(head.chain(Finding::ALL.iter().map(ToString::to_string)));
    let papers = PAPERS.iter().map(|p| p.name);
    for name in papers.chain(std::iter::once("all")) {
        let of: Vec<Statement> = statements
            .iter()
            .filter(|s| name == "all" || s.paper == name)
            .cloned()
            .collect();
        if !of.is_empty() {
            let numbers = rxlane_papers::counts(&of).map(|n| n.to_string());
            counts.add_row(std::iter::once(name.to_owned()).chain(numbers));
        }
    }
    format!("{table}\n\n{counts}\n")
}

/// Only the last column says something about the model.
fn scores(verdicts: &[Verdict]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let head = std::iter::once("reproduced".to_owned());
    table.set_header(head.chain(Use::ALL.iter().map(ToString::to_string)));
    for score in rxlane_papers::scorecard(verdicts) {
        let name = std::iter::once(score.paper.to_owned());
        table.add_row(
            name.chain(
                score
                    .rows
                    .iter()
                    .map(|(met, all)| format!("{met} of {all}")),
            ),
        );
    }
    table
}
