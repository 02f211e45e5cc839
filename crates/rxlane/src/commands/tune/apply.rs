//! `rxlane tune apply`: the changes of a plan, all or none, for good or until nobody confirms them.

use std::path::{Path, PathBuf};

use rxlane_tune::inventory::irqbalance_runs;
use rxlane_tune::plan::{Area, Change, IRQBALANCE, TunePlan};
use rxlane_tune::{Live, apply};

use super::{JournalArgs, Wanted, confirm, open, text, with_cure};
use crate::one_line;

pub(super) const EXAMPLES: &str = "Examples:
  sudo rxlane tune apply --ports eth0,eth1
  sudo rxlane tune apply --ports eth0,eth1 --confirm 60
  sudo rxlane tune apply plan.json
  sudo rxlane tune apply --profile power --skip idle,buffers
  sudo rxlane tune apply --config /etc/rxlane/rxlane.toml --only rt-queue";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A plan saved by `tune plan --json`; without it one is made now
    plan: Option<PathBuf>,
    /// Undo everything after so many seconds unless `rxlane tune confirm` is run before
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    confirm: Option<u32>,
    #[command(flatten)]
    wanted: Wanted,
    #[command(flatten)]
    pub(super) journal: JournalArgs,
}

pub(super) fn run(args: &Args, path: &Path) -> Result<(), String> {
    let machine = Live::default();
    let mut journal = open(path, &machine)?;
    let left_alone = args.wanted.reached.left_alone(&machine)?;
    let plan = match &args.plan {
        None => args.wanted.plan(&machine, &left_alone)?.1,
        Some(path) => saved(path)?,
    };
    left_alone.refuse(&plan.changes).map_err(one_line)?;
    refuse_beside_irqbalance(&machine, &plan)?;
    // Not before changes of another time, which `apply` refuses.
    let waits = args
        .confirm
        .filter(|_| journal.entries.is_empty() && !plan.changes.is_empty());
    if let Some(seconds) = waits {
        confirm::begin(&mut journal, path, seconds)?;
    }
    // When it fails, what could not be rolled back is still the guard's.
    apply(&machine, &mut journal, &plan.changes).map_err(with_cure)?;
    text::plan(&plan);
    let changes = super::in_force(plan.changes.len());
    let kept = args.journal.journal.as_ref();
    let kept = kept.map_or(String::new(), |path| {
        format!(" --journal {}", path.display())
    });
    match waits {
        None => println!("{changes} in force; sudo rxlane tune revert{kept} undoes them"),
        Some(seconds) => println!(
            "{changes} in force and will be undone in {seconds} s; sudo rxlane tune confirm keeps them"
        ),
    }
    Ok(())
}

fn saved(path: &Path) -> Result<TunePlan, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    TunePlan::of_saved(&text).map_err(|e| {
        format!(
            "{} is no plan ({e}): write one with rxlane tune plan --json",
            path.display()
        )
    })
}

/// What irqbalance would undo is not begun.
pub(super) fn refuse_beside_irqbalance(machine: &Live, plan: &TunePlan) -> Result<(), String> {
    let moves = |c: &Change| matches!(c.area, Area::Interrupts | Area::OtherInterrupts);
    if plan.changes.iter().any(moves) && irqbalance_runs(machine) {
        return Err(IRQBALANCE.into());
    }
    Ok(())
}
