//! `rxlane tune measure`: loads, interrupts and losses over a while, before and after.

use std::path::{Path, PathBuf};
use std::time::Duration;

use comfy_table::{Table, presets};
use maud::html;
use rxlane_report::page::Page;
use rxlane_report::table;
use rxlane_sim::distribution;
use rxlane_sim::stats::Samples;
use rxlane_system::stop;
use rxlane_tune::inventory::under_vlans;
use rxlane_tune::measure::Record;
use rxlane_tune::plan::TunePlan;
use rxlane_tune::{Live, apply};

use super::{JournalArgs, Wanted};
use crate::{one_line, output, test_bed};

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
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    pub(super) journal: JournalArgs,
}

/// A share of samples that the paper reports: core load below this.
const LITTLE_LOAD: f64 = 0.1;

pub(super) fn run(args: &Args, journal: &Path) -> Result<(), String> {
    if !(1.0..=86_400.0).contains(&args.seconds) {
        return Err(format!("--seconds {}: use 1 to 86400", args.seconds));
    }
    if let Some(path) = &args.html {
        output::will_take(path)?;
    }
    stop::listen();
    let machine = Live::default();
    let mut records = vec![("before".to_owned(), record(args, &machine, "recording")?)];
    let mut plan = TunePlan::default();
    if args.apply {
        let mut journal = super::open(journal, &machine)?;
        let left_alone = args.wanted.reached.left_alone(&machine)?;
        plan = args.wanted.plan(&machine, &left_alone)?.1;
        super::apply::refuse_beside_irqbalance(&machine, &plan)?;
        apply(&machine, &mut journal, &plan.changes).map_err(super::with_cure)?;
        let after = record(args, &machine, "recording with the plan applied");
        super::restore(&machine, &mut journal)?;
        records.push(("after".to_owned(), after?));
    }
    if args.json {
        let all: Vec<_> = records
            .iter()
            .map(|(when, record)| serde_json::json!({ "when": when, "record": record }))
            .collect();
        let both = serde_json::json!({ "records": all, "plan": plan });
        output::json(&both)?;
    } else {
        for table in tables(&records) {
            println!("{table}\n");
        }
        if args.apply {
            super::text::plan(&plan);
        }
    }
    if let Some(path) = &args.html {
        output::file(path, page(&records)?.as_bytes())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
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

fn samples(record: &Record, core: usize) -> Samples {
    let loads = record.loads.get(&core).map_or(&[][..], Vec::as_slice);
    Samples::new(loads.iter().map(|l| (l.busy(), 1)))
}

fn cores(records: &[(String, Record)]) -> Vec<usize> {
    let mut cores: Vec<usize> = records
        .iter()
        .flat_map(|(_, r)| r.loads.keys().copied())
        .collect();
    cores.sort_unstable();
    cores.dedup();
    cores
}

fn tables(records: &[(String, Record)]) -> [Table; 2] {
    let table = |header: &[&str]| {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_header(header);
        table
    };
    let mut loads = table(&[
        "",
        "core",
        "busy %",
        "variance",
        "soft IRQ %",
        "hard IRQ %",
        "NET_RX/s",
        "below 10 %",
        "upper tail",
    ]);
    let mut losses = table(&[
        "",
        "packets/s",
        "interrupts/s",
        "lost: NIC",
        "backlog",
        "UDP sockets",
        "budget used up",
    ]);
    for (when, r) in records {
        for core in cores(records) {
            let of = r.loads.get(&core).map_or(&[][..], Vec::as_slice);
            let mean = |f: fn(&rxlane_tune::load::Load) -> f64| {
                of.iter().map(f).sum::<f64>() / of.len().max(1) as f64
            };
            let busy = mean(rxlane_tune::load::Load::busy);
            let variance =
                of.iter().map(|l| (l.busy() - busy).powi(2)).sum::<f64>() / of.len().max(1) as f64;
            let s = samples(r, core);
            loads.add_row([
                when.clone(),
                core.to_string(),
                format!("{:.1}", busy * 100.0),
                format!("{variance:.4}"),
                format!("{:.1}", mean(|l| l.soft_irq) * 100.0),
                format!("{:.1}", mean(|l| l.hard_irq) * 100.0),
                format!("{:.0}", r.net_rx_per_s.get(core).copied().unwrap_or(0.0)),
                format!("{:.2}", s.below(LITTLE_LOAD)),
                verdict(&s),
            ]);
        }
        losses.add_row([
            when.clone(),
            format!("{:.0}", r.rx_pps),
            format!("{:.0}", r.interrupts_per_s),
            r.losses.nic.to_string(),
            r.losses.backlog.to_string(),
            r.losses.socket.to_string(),
            r.squeezed.to_string(),
        ]);
    }
    [loads, losses]
}

/// Whether the load has a long tail (single-input-queue IV.B).
fn verdict(samples: &Samples) -> String {
    let tail = samples.tail();
    if tail.long {
        format!("long, alpha {:.1}", tail.alpha)
    } else {
        "not long".into()
    }
}

fn page(records: &[(String, Record)]) -> Result<String, String> {
    let mut chapters = Vec::new();
    for core in cores(records) {
        let cases: Vec<(String, Samples)> = records
            .iter()
            .map(|(when, record)| (when.clone(), samples(record, core)))
            .collect();
        let figures = distribution::figures(&cases, [""; 3], &[]).map_err(one_line)?;
        chapters.push(html! { h2 { "Core " (core) } (figures) });
    }
    let page = Page {
        title: "Load of the cores".into(),
        lead: html! {
            @for one in tables(records) { (table::of(&one)) }
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
