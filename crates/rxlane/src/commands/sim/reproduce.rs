//! `rxlane sim reproduce`.

use std::io::IsTerminal;
use std::path::PathBuf;

use clap::Args as ClapArgs;
use comfy_table::{ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_papers::{Use, Verdict};

use crate::{one_line, output};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// all, a paper (low-latency-router, multiple-nics, interrupt-throttling, single-input-queue,
    /// beyond-softnet), or rows such as LL-01
    #[arg(default_value = "all")]
    what: Vec<String>,
    /// Show how the rules judge models that are wrong on purpose, and so what each rule can reject
    #[arg(long, conflicts_with_all = ["json", "html"])]
    wrong: bool,
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
    rxlane_system::stop::listen();
    let stop = rxlane_system::stop::flag();
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
    if args.json {
        output::json(&serde_json::json!({ "verdicts": verdicts }))?;
    } else {
        print!("{}", text(&verdicts));
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
        let page = rxlane_papers::html(&verdicts, &data, &tried).map_err(one_line)?;
        output::file(path, page.as_bytes())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}

fn shown(v: &Verdict) -> String {
    let model = match &v.model {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    match v.ci95 {
        Some(ci) => format!("{model} +- {ci}"),
        None => model,
    }
}

fn text(verdicts: &[Verdict]) -> String {
    let mut table = Table::new();
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_header([
            "row", "use", "quantity", "paper", "model", "verdict", "rule",
        ]);
    if !std::io::stdout().is_terminal() {
        table.set_width(180);
    }
    for v in verdicts {
        let paper = format!("{} {}", v.paper_value, v.unit);
        table.add_row([
            v.id.clone(),
            v.usage.to_string(),
            v.quantity.clone(),
            paper,
            shown(v),
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
