//! `rxlane check`: a configuration, read and judged; with `--live` by the running kernel too.

use std::path::PathBuf;

use comfy_table::{Table, presets};
use rxlane_config::RouterConfig;
use rxlane_dataplane::rehearsal::{self, Rehearsal};
use rxlane_dataplane::verifier::{Accepted, LIMIT};

use super::run::require_capabilities;
use crate::one_line;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane check -c rxlane.toml                    the file alone, on any machine, without privileges
  sudo rxlane check --live -c rxlane.toml        what `run` would find here: ports, firewall, kernel, programs
  sudo rxlane check --live --json -c rxlane.toml for machines; to be added to a report of a refused program")]
pub(crate) struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Load everything into the running kernel as `run` would, attach nothing, and let go of it
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long, requires = "live")]
    json: bool,
    /// As for `run`: trust = "all" may pass by a firewall
    #[arg(long, requires = "live")]
    accept_bypass: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let config = rxlane_config::load(&args.config).map_err(one_line)?;
    let rehearsal = args
        .live
        .then(|| rehearse(&config, args.accept_bypass))
        .transpose()?;
    if let Some(rehearsal) = rehearsal.as_ref().filter(|_| args.json) {
        let json = serde_json::to_string_pretty(rehearsal).map_err(one_line)?;
        println!("{json}");
        return Ok(());
    }
    let rules: usize = config.classes.iter().map(|c| c.rules.len()).sum();
    println!(
        "{}: {} ports, {} classes, {rules} rules: fine",
        args.config.display(),
        config.ports.len(),
        config.classes.len()
    );
    if let Some(rehearsal) = rehearsal {
        println!(
            "Linux {} takes the programs:\n{}",
            rehearsal.features.kernel,
            programs(&rehearsal.programs)
        );
        for feature in rehearsal.features.missing() {
            println!("missing: {}: {}", feature.name, feature.without);
        }
    }
    Ok(())
}

fn rehearse(config: &RouterConfig, accept_bypass: bool) -> Result<Rehearsal, String> {
    require_capabilities("check --live")?;
    rehearsal::rehearse(config, accept_bypass).map_err(one_line)
}

/// What it took the kernel to accept each program.
pub(super) fn programs(accepted: &[Accepted]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "program",
        "verified instructions",
        "of the limit",
    ]);
    for p in accepted {
        table.add_row([
            p.name.clone(),
            p.verified_instructions.to_string(),
            format!(
                "{:.1} %",
                100.0 * f64::from(p.verified_instructions) / f64::from(LIMIT)
            ),
        ]);
    }
    table
}
