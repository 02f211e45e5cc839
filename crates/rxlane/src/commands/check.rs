//! `rxlane check`: a configuration, read and judged; with `--live` by the running kernel too.

use comfy_table::{Table, presets};
use rxlane_bpf::verifier::{Accepted, LIMIT};
use rxlane_config::{Complaint, ConfigError, Datapath, RouterConfig};
use rxlane_dataplane::options::Options;
use rxlane_dataplane::rehearsal::{self, Rehearsal};
use rxlane_policy::class::Lane;
use serde::Serialize;

use super::config::{self, ConfigFile};
use super::run::{self, require_capabilities};
use crate::one_line;
use crate::output::{self, counted};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  rxlane check rxlane.toml                    the file alone, on any machine, without privileges
  rxlane check --json - < rxlane.toml         every mistake with line and column, for editors and CI
  sudo rxlane check --live rxlane.toml        what `run` would find here: ports, firewall, kernel, programs
  sudo rxlane check --live --json rxlane.toml for machines; to be added to a report of a refused program")]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Load everything into the running kernel as `run` would, attach nothing, and let go of it
    #[arg(long)]
    live: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// As for `run`: trust = "all" may pass by a firewall
    #[arg(long, requires = "live")]
    accept_bypass: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Verdict {
    file: String,
    /// Whether `run` would take it, as far as was looked.
    fine: bool,
    mistakes: Vec<Mistake>,
    /// What is hardly meant, though `run` would take it.
    doubts: Vec<Mistake>,
    /// Cores that the file names and this machine lacks.
    missing_cores: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(flatten)]
    rehearsal: Option<Rehearsal>,
}

#[derive(Serialize)]
struct Mistake {
    line: usize,
    column: usize,
    message: String,
}

impl From<&Complaint> for Mistake {
    fn from(c: &Complaint) -> Self {
        Self {
            line: c.line,
            column: c.column,
            message: c.message.clone(),
        }
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let mut verdict = Verdict {
        file: args.config.path().display().to_string(),
        fine: false,
        mistakes: Vec::new(),
        doubts: Vec::new(),
        missing_cores: Vec::new(),
        refused: None,
        rehearsal: None,
    };
    let all = match rxlane_config::load(args.config.path()) {
        Ok(config) => config,
        Err(ConfigError::Wrong { complaints, .. }) if args.json => {
            verdict.mistakes = complaints.all.iter().map(Mistake::from).collect();
            output::json(&verdict)?;
            let mistakes = counted(complaints.all.len(), "mistake", "mistakes");
            return Err(format!("{}: {mistakes}", verdict.file));
        }
        Err(e) => return Err(config::show(&e)),
    };
    let config = &all.router;
    verdict.doubts = all.warnings.iter().map(Mistake::from).collect();
    verdict.missing_cores = missing_cores(config);
    let rehearsed = if args.live {
        rehearse(config, run::options(&all, args.accept_bypass, false)).map(Some)
    } else {
        Ok(None)
    };
    if args.json {
        verdict.fine = rehearsed.is_ok();
        verdict.refused = rehearsed.as_ref().err().cloned();
        verdict.rehearsal = rehearsed.clone().ok().flatten();
        output::json(&verdict)?;
        return rehearsed.map(|_| ());
    }
    let rehearsal = rehearsed?;
    let rules: usize = config.classes.iter().map(|c| c.rules.len()).sum();
    println!(
        "{}: {}, {}, {}: fine",
        verdict.file,
        counted(config.ports.len(), "port", "ports"),
        counted(config.classes.len(), "class", "classes"),
        counted(rules, "rule", "rules"),
    );
    for doubt in &verdict.doubts {
        println!(
            "warning: {}:{}: {}",
            verdict.file, doubt.line, doubt.message
        );
    }
    for warning in &verdict.missing_cores {
        println!("warning: {warning}");
    }
    if let Some(rehearsal) = rehearsal {
        println!(
            "Linux {} takes the programs:\n{}",
            rehearsal.features.kernel,
            programs(&rehearsal.programs)
        );
        for warning in &rehearsal.warnings {
            println!("warning: {warning}");
        }
        for feature in rehearsal.features.missing() {
            println!("missing: {}: {}", feature.name, feature.without);
        }
    }
    Ok(())
}

/// Cores that the file names and this machine lacks. No error, because the file may be for another machine; `--live` and
/// `run` refuse it.
fn missing_cores(config: &RouterConfig) -> Vec<String> {
    let Ok(cores) = rxlane_bpf::possible_cores() else {
        return Vec::new();
    };
    let mut named: Vec<(String, u32)> = Vec::new();
    for class in &config.classes {
        if let Lane::Stack { ring, .. } = &class.lane {
            let of = format!("class `{}`", class.name);
            named.extend(ring.cores.iter().map(|core| (of.clone(), *core)));
        }
    }
    if let Datapath::Afxdp(engine) = &config.datapath {
        named.extend(engine.cores.iter().map(|core| ("[afxdp]".into(), *core)));
    }
    let missing = named.into_iter().filter(|(_, core)| !cores.contains(core));
    missing
        .map(|(of, core)| {
            format!(
                "{of}: core {core} does not exist on this machine, which has cores 0 to {}",
                cores.len() - 1
            )
        })
        .collect()
}

fn rehearse(config: &RouterConfig, options: Options) -> Result<Rehearsal, String> {
    require_capabilities("check --live")?;
    rehearsal::rehearse(config, options).map_err(one_line)
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
