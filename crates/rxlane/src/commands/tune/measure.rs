//! `rxlane tune measure`: loads, interrupts and losses over a while, before and after.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use comfy_table::{Table, presets};
use rxlane_system::stop;
use rxlane_tune::inventory::under_vlans;
use rxlane_tune::measure::{Named, Record};
use rxlane_tune::plan::TunePlan;
use rxlane_tune::record_tables::{Rows, tables};
use rxlane_tune::{Live, apply};
use serde::Serialize;

use super::{JournalArgs, Wanted};
use crate::{elsewhere, one_line, output};

pub(super) const EXAMPLES: &str = "Examples:
  sudo rxlane tune measure --ports eth0 --seconds 60 --html load.html
  sudo rxlane tune measure --ports eth0 --seconds 60 --apply --html before-and-after.html";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    wanted: Wanted,
    /// How long to record, each time
    #[arg(long, default_value_t = 20.0)]
    seconds: f64,
    /// Time between samples of loads, ms
    #[arg(long, default_value_t = 200, value_name = "MS", value_parser = clap::value_parser!(u64).range(20..=60_000))]
    every: u64,
    /// Record, apply the plan, record again, and undo it
    #[arg(long)]
    apply: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained HTML report, which rxlane-lab draws
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) journal: JournalArgs,
}

pub(super) fn run(args: &Args, journal: &Path) -> Result<(), String> {
    if !(1.0..=86_400.0).contains(&args.seconds) {
        return Err(format!("--seconds {}: use 1 to 86400", args.seconds));
    }
    if let Some(path) = &args.html {
        output::will_take(path)?;
        elsewhere::lab().map_err(|e| format!("--html: {e}; --json has the same without it"))?;
    }
    stop::listen();
    let machine = Live::default();
    let mut records = vec![Named::of("before", record(args, &machine, "recording")?)];
    let mut plan = TunePlan::default();
    if args.apply {
        let mut journal = super::open(journal, &machine)?;
        let left_alone = args.wanted.reached.left_alone(&machine)?;
        plan = args.wanted.plan(&machine, &left_alone)?.1;
        super::apply::refuse_beside_irqbalance(&machine, &plan)?;
        apply(&machine, &mut journal, &plan.changes).map_err(super::with_cure)?;
        let after = record(args, &machine, "recording with the plan applied");
        super::restore(&machine, &mut journal)?;
        records.push(Named::of("after", after?));
    }
    let report = Report { records, plan };
    if args.json {
        output::json(&report)?;
    } else {
        for rows in tables(&report.records) {
            println!("{}\n", table(&rows));
        }
        if args.apply {
            super::text::plan(&report.plan);
        }
    }
    match &args.html {
        Some(path) => draw(&report, path),
        None => Ok(()),
    }
}

/// What was measured, once or before and after.
#[derive(Serialize)]
struct Report {
    records: Vec<Named>,
    plan: TunePlan,
}

fn table(rows: &Rows) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(rows.head);
    table.add_rows(&rows.rows);
    table
}

/// Has `rxlane-lab loads`, which has plots, make the page.
fn draw(report: &Report, path: &Path) -> Result<(), String> {
    let mut lab = Command::new(elsewhere::lab()?);
    lab.args(["loads", "-", "--html"]).arg(path);
    let mut lab = lab.stdin(Stdio::piped()).spawn().map_err(one_line)?;
    if let Some(mut input) = lab.stdin.take() {
        // Where it ends before it has read everything, it says why.
        let _ = input.write_all(output::json_text(report)?.as_bytes());
    }
    match lab.wait().map_err(one_line)?.success() {
        true => Ok(()),
        false => Err(format!("{} was not written", path.display())),
    }
}

fn record(args: &Args, machine: &Live, what: &'static str) -> Result<Record, String> {
    let bar = super::progress(what);
    let length = Duration::from_secs_f64(args.seconds);
    let every = Duration::from_millis(args.every);
    let ports = under_vlans(machine, &args.wanted.port_names(machine)?);
    let record = Record::take(machine, &ports, length, every, |share| {
        bar.set_position((share * 100.0) as u64);
        stop::check().is_ok()
    });
    bar.finish_and_clear();
    stop::check().map_err(one_line)?;
    Ok(record)
}
