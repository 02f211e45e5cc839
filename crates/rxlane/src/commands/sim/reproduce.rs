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
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML report with the papers' figures
    #[arg(long, value_name = "OUT")]
    html: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let rows = rxlane_papers::select(&args.what).map_err(one_line)?;
    if let Some(path) = &args.html {
        output::will_take(path)?;
    }
    rxlane_system::stop::listen();
    let bar = ProgressBar::new(rxlane_papers::points(&rows).map_err(one_line)? as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {pos}/{len} points, {eta} to go") {
        bar.set_style(style);
    }
    let stop = rxlane_system::stop::flag();
    let data = rxlane_papers::run(&rows, stop, || bar.inc(1)).map_err(one_line)?;
    bar.finish_and_clear();
    let verdicts = rxlane_papers::judge(&rows, &data).map_err(one_line)?;
    if args.json {
        output::json(&serde_json::json!({ "verdicts": verdicts }))?;
    } else {
        print!("{}", text(&verdicts));
    }
    if let Some(path) = &args.html {
        let page = rxlane_papers::html(&verdicts, &data).map_err(one_line)?;
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

fn usage(v: &Verdict) -> &'static str {
    match v.usage {
        Use::Fit => "fit",
        Use::Predict => "predict",
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
            usage(v).into(),
            v.quantity.clone(),
            paper,
            shown(v),
            v.verdict.into(),
            v.rule.clone(),
        ]);
    }
    let missed: Vec<&Verdict> = verdicts.iter().filter(|v| v.verdict == "missed").collect();
    let count = |usage: Use| {
        let all = verdicts.iter().filter(|v| v.usage == usage);
        let held = all.clone().filter(|v| v.verdict == "reproduced").count();
        format!("{held} of {}", all.count())
    };
    let mut out = format!(
        "{table}\n\nreproduced: {} fit rows, {} predict rows\n",
        count(Use::Fit),
        count(Use::Predict)
    );
    if !missed.is_empty() {
        out.push_str("\nmissed:\n");
        for v in missed {
            out.push_str(&format!("  {}: {}\n", v.id, v.note));
        }
    }
    out
}
