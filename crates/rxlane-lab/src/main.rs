//! The command `rxlane-lab`: measures routers, and models them.

#[macro_use(print, println, eprintln)]
extern crate rxlane_cli;

mod bench;
mod calibrate;
mod lab;
mod loads;
mod model;
mod plan;
mod sim;
mod test_bed;
mod tidy;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, Parser, Subcommand};
use rxlane_cli::{log, manual, one_line, output};

/// The version, and which BPF programs are inside.
static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| rxlane_cli::long_version(&[rxlane_bpf::PROGRAMS, rxlane_bench::BPF]));

/// Measures routers, rxlane beside plain Linux, and models them.
#[derive(Parser)]
#[command(
    name = "rxlane-lab",
    version,
    long_version = LONG_VERSION.as_str(),
    after_help = "Examples:
  sudo rxlane-lab lab up --firewall 60      a router to play with, in network namespaces
  sudo rxlane-lab bench latency --offered 2x --firewall 200
                                            kernel against express, at twice the kernel's capacity
  rxlane-lab sim run examples/sim.toml      what a router would do, in virtual time
  rxlane-lab plan --service-time 2us --rt-rate 100k --target 300us"
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
    /// Generator, router and sink in network namespaces
    #[command(subcommand)]
    Lab(lab::Command),
    /// Measure: kernel forwarding against rxlane, in one run
    #[command(subcommand)]
    Bench(bench::Command),
    /// Measure this machine's AF_XDP engine and write a model of it for the simulator
    Calibrate(calibrate::Args),
    /// Simulate: the same policies in virtual time
    #[command(subcommand)]
    Sim(sim::Command),
    /// Ring budgets for a latency target, with the derivation
    Plan(plan::Args),
    /// Draw what `rxlane tune measure --json` has recorded
    Loads(loads::Args),
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS)]
    Completions(manual::Completions),
    /// Write man pages into a folder
    #[command(after_help = MAN)]
    Man(manual::Man),
    /// Write the reference page of the documentation into a folder
    #[command(hide = true)]
    Reference(manual::Reference),
}

const COMPLETIONS: &str = "Example:
  rxlane-lab completions bash > /etc/bash_completion.d/rxlane-lab";
const MAN: &str = "Example:
  rxlane-lab man target/man && man -l target/man/rxlane-lab-bench.8";

fn main() -> ExitCode {
    log::begin();
    rxlane_bpf::verifier::log_libbpf();
    let done = run(Cli::parse());
    match output::finish().and(done) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("rxlane-lab: {message}");
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
        Command::Lab(command) => lab::run(&command),
        Command::Bench(command) => bench::run(command),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Sim(command) => sim::run(command),
        Command::Plan(args) => plan::run(&args),
        Command::Loads(args) => loads::run(&args),
        Command::Completions(args) => {
            args.print(Cli::command());
            Ok(())
        }
        Command::Reference(args) => args.write(
            "lab-commands.md",
            manual::page(Cli::command(), "rxlane-lab"),
        ),
        Command::Man(args) => args.write(Cli::command()),
    }
}
