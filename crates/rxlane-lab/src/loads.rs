//! `rxlane-lab loads`: the loads of cores that `rxlane tune measure` has recorded, drawn.

use std::io::Read;
use std::path::{Path, PathBuf};

use maud::html;
use rxlane_report::page::Page;
use rxlane_report::table;
use rxlane_sim::distribution;
use rxlane_tune::measure::{Named, cores};
use rxlane_tune::record_tables::tables;
use serde::Deserialize;

use crate::{one_line, output, test_bed};

#[derive(clap::Args)]
#[command(after_help = "Example:
  sudo rxlane tune measure --ports eth0 --seconds 60 --json | rxlane-lab loads - --html load.html")]
pub(crate) struct Args {
    /// What it has printed; - is standard input
    file: PathBuf,
    /// The self-contained HTML report to write
    #[arg(long, value_name = "FILE")]
    html: PathBuf,
}

#[derive(Deserialize)]
struct Report {
    records: Vec<Named>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    output::will_take(&args.html)?;
    let named = |e: &dyn std::fmt::Display| format!("{}: {}", args.file.display(), one_line(e));
    let json = read(&args.file).map_err(|e| named(&e))?;
    let report: Report = serde_json::from_str(&json).map_err(|e| {
        format!(
            "{}: this is not what `rxlane tune measure --json` prints",
            named(&e)
        )
    })?;
    output::file(&args.html, page(&report.records)?.as_bytes())?;
    eprintln!("wrote {}", args.html.display());
    Ok(())
}

fn read(path: &Path) -> std::io::Result<String> {
    if path != Path::new("-") {
        return std::fs::read_to_string(path);
    }
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    Ok(text)
}

fn page(records: &[Named]) -> Result<String, String> {
    let mut chapters = Vec::new();
    for core in cores(records) {
        let cases: Vec<_> = records
            .iter()
            .map(|named| (named.when.clone(), named.samples(core)))
            .collect();
        let figures = distribution::figures(&cases, [""; 3], &[]).map_err(one_line)?;
        chapters.push(html! { h2 { "Core " (core) } (figures) });
    }
    let page = Page {
        title: "Load of the cores".into(),
        lead: html! {
            @for rows in tables(records) { (table::columns(&strings(rows.head), rows.rows)) }
            p {
                "Distribution of each core's load over the samples, with the exponential distribution of the same mean: an upper tail that \
                 stays above it and is straight in the last plot is long."
            }
        },
        body: html! { @for chapter in &chapters { (chapter) } },
        test_bed: test_bed::here(),
        data: None,
    };
    Ok(page.render())
}

fn strings(head: &[&str]) -> Vec<String> {
    head.iter().map(|name| (*name).to_owned()).collect()
}
