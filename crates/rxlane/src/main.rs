//! The command `rxlane`.

#[macro_use]
mod output;

mod commands;
mod log;
mod model;
mod observe;
mod test_bed;
mod tidy;
mod top;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, Parser, Subcommand};

/// The version, and which BPF programs are inside: what was tested can be told from what was not.
static LONG_VERSION: LazyLock<String> = LazyLock::new(|| {
    let mut parts = rxlane_dataplane::BPF.split(';');
    let compiler = parts.next().unwrap_or_default();
    let mut text = format!("{}\nBPF programs: {compiler}", env!("CARGO_PKG_VERSION"));
    for object in parts.chain(rxlane_bench::BPF.split(';').skip(1)) {
        text += &format!("\n  {object}");
    }
    text
});

/// Express lanes through the receive path of a Linux router.
///
/// Latency-critical traffic is classified at ingress and forwarded inside the driver's poll; everything
/// else takes the ordinary Linux stack and cannot delay it.
#[derive(Parser)]
#[command(
    version,
    long_version = LONG_VERSION.as_str(),
    after_help = "Examples:
  sudo rxlane init                          a configuration for this machine
  rxlane check examples/voice.toml          read a configuration and say what is wrong with it
  sudo rxlane run                           start the router of /etc/rxlane/rxlane.toml
  sudo rxlane status                        what it is doing
  sudo rxlane top                           the same, each second
  sudo rxlane trace --class voice -c 10     what happened to ten packets, and why
  sudo rxlane lab up --firewall 60          a router to play with, in network namespaces
  sudo rxlane bench latency --offered 2x --firewall 200
                                            kernel against express, at twice the kernel's capacity
  rxlane sim run examples/sim.toml          what a router would do, in virtual time
  rxlane tune plan                          what the kernel around it should be, and why
  rxlane plan --service-time 2us --rt-rate 100k --target 300us"
)]
struct Cli {
    /// Work in this network namespace (as named by `ip netns`)
    #[arg(long, global = true, value_name = "NAME")]
    netns: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "parsed once")]
enum Command {
    /// Start the router and stay in the foreground
    Run(commands::run::Args),
    /// Make the running router read its configuration again
    Reload(commands::reload::Args),
    /// Remove a router whose daemon is gone; the kernel goes on forwarding
    Detach(commands::detach::Args),
    /// Show what the router is doing
    Status(commands::status::Args),
    /// Watch what the router is doing, on a terminal
    Top(top::Args),
    /// Show what happens to packets, one by one, and why
    Trace(commands::trace::Args),
    /// Check a configuration file without starting anything
    Check(commands::check::Args),
    /// Say what would become of a packet, and which line of the configuration decides
    Explain(commands::explain::Args),
    /// Write a configuration for this machine, with what was found as comments
    Init(commands::init::Args),
    /// Generator, router and sink in network namespaces
    #[command(subcommand)]
    Lab(commands::lab::Command),
    /// Measure: kernel forwarding against rxlane, in one run
    #[command(subcommand)]
    Bench(commands::bench::Command),
    /// Measure this machine's AF_XDP engine and write a model of it for the simulator
    Calibrate(commands::calibrate::Args),
    /// Simulate: the same policies in virtual time
    #[command(subcommand)]
    Sim(commands::sim::Command),
    /// The kernel around the router: plan, apply, undo
    #[command(subcommand)]
    Tune(commands::tune::Command),
    /// Ring budgets for a latency target, with the derivation
    Plan(commands::plan::Args),
    /// Print the JSON Schema of the configuration file, with which editors complete and check it
    Schema,
    /// Print completions for a shell
    Completions(commands::manual::Completions),
    /// Write man pages into a folder
    Man(commands::manual::Man),
    /// Write the reference pages of the documentation into a folder
    #[command(hide = true)]
    Reference(commands::reference::Reference),
}

fn main() -> ExitCode {
    log::begin();
    rxlane_dataplane::log_libbpf();
    let cli = Cli::parse();
    let done = run(cli);
    match output::finish().and(done) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rxlane: {message}");
            ExitCode::FAILURE
        }
    }
}

/// Every error ends here as one line.
fn run(cli: Cli) -> Result<(), String> {
    if let Some(name) = &cli.netns {
        rxlane_system::netns::enter(name).map_err(one_line)?;
    }
    match cli.command {
        Command::Run(args) => commands::run::run(&args),
        Command::Reload(args) => commands::reload::run(&args),
        Command::Detach(args) => commands::detach::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Trace(args) => commands::trace::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Lab(command) => commands::lab::run(&command),
        Command::Bench(command) => commands::bench::run(command),
        Command::Calibrate(args) => commands::calibrate::run(&args),
        Command::Sim(command) => commands::sim::run(command),
        Command::Tune(command) => commands::tune::run(&command, cli.netns.as_deref()),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Schema => commands::manual::schema(),
        Command::Completions(args) => {
            commands::manual::completions(&args, &mut Cli::command());
            Ok(())
        }
        Command::Reference(args) => commands::reference::run(&args, Cli::command()),
        Command::Man(args) => commands::manual::pages(&args, Cli::command()),
    }
}

/// The text of an error, on one line.
fn one_line(error: impl std::fmt::Display) -> String {
    error
        .to_string()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
