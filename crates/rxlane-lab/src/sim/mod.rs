//! `rxlane-lab sim`: the model.

mod fit;
mod partial;
mod reproduce;
mod run;
mod sensitivity;
mod text;

use clap::Subcommand;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// One scenario, or a sweep over any of its keys
    #[command(after_help = "Examples:
  rxlane-lab sim run examples/sim.toml
  rxlane-lab sim run examples/sim.toml --set traffic.pps=1.6M --set 'reception.budgets=[61,3]' --json
  rxlane-lab sim run examples/sweep.toml --csv sweep.csv")]
    Run(run::Args),
    /// What five papers state, against the model, with a verdict for each row
    #[command(after_help = "Examples:
  rxlane-lab sim reproduce
  rxlane-lab sim reproduce low-latency-router --html report.html
  rxlane-lab sim reproduce LL-01 NIC-05 --json
  rxlane-lab sim reproduce --wrong")]
    Reproduce(reproduce::Args),
    /// Costs of the papers' machines: where each is from, how well it is determined, and which predictions hang on it
    #[command(after_help = "Examples:
  rxlane-lab sim sensitivity interrupt-throttling
  rxlane-lab sim sensitivity NIC-07 LL-19")]
    Sensitivity(sensitivity::Args),
    /// Set a paper's costs from the rows that may, and print what remains
    #[command(after_help = "Examples:
  rxlane-lab sim fit multiple-nics
  rxlane-lab sim fit low-latency-router --out calibration.toml")]
    Fit(fit::Args),
}

pub(crate) fn run(command: Command) -> Result<(), String> {
    match command {
        Command::Run(args) => run::run(&args),
        Command::Reproduce(args) => reproduce::run(&args),
        Command::Sensitivity(args) => sensitivity::run(&args),
        Command::Fit(args) => fit::run(&args),
    }
}
