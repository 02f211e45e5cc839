//! The command `rxlane`.

#[macro_use(print, println, eprint, eprintln)]
extern crate rxlane_cli;

mod commands;
mod elsewhere;
mod observe;
mod snapshot;
mod top;

use std::process::ExitCode;
use std::sync::LazyLock;

use clap::{CommandFactory, Parser, Subcommand};
use rxlane_cli::{log, manual, one_line, output};

/// The version, and which BPF programs are inside.
static LONG_VERSION: LazyLock<String> =
    LazyLock::new(|| rxlane_cli::long_version(&[rxlane_bpf::PROGRAMS]));

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
  sudo rxlane flows --by rate               who fills the uplink
  rxlane tune plan                          what the kernel around it should be, and why

rxlane-lab measures routers, and models them."
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
    /// Show who talks to whom through the router, and how much, whichever lane packets took
    Flows(commands::flows::Args),
    /// Say whether the router is well: one line, and the exit code
    Health(commands::health::Args),
    /// Check a configuration file without starting anything
    Check(commands::check::Args),
    /// Say what would become of a packet, and which line of the configuration decides
    Explain(commands::explain::Args),
    /// Write a configuration for this machine, with what was found as comments
    Init(commands::init::Args),
    /// The kernel around the router: plan, apply, undo
    #[command(subcommand)]
    Tune(commands::tune::Command),
    /// Print the JSON Schema of the configuration file, with which editors complete and check it
    Schema,
    /// Print completions for a shell
    #[command(after_help = COMPLETIONS)]
    Completions(manual::Completions),
    /// Write man pages into a folder
    #[command(after_help = MAN)]
    Man(manual::Man),
    /// Write the reference pages of the documentation into a folder
    #[command(hide = true)]
    Reference(manual::Reference),
    /// Went to rxlane-lab
    #[command(hide = true, disable_help_flag = true, aliases = ["bench", "calibrate", "plan", "sim"])]
    Lab(elsewhere::Arguments),
}

const COMPLETIONS: &str = "Example:
  rxlane completions bash > /etc/bash_completion.d/rxlane";
const MAN: &str = "Example:
  rxlane man target/man && man -l target/man/rxlane-run.8";

fn main() -> ExitCode {
    log::begin();
    rxlane_bpf::verifier::log_libbpf();
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
    if let Command::Lab(_) = cli.command {
        return elsewhere::run();
    }
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
        Command::Flows(args) => commands::flows::run(&args),
        Command::Health(args) => commands::health::run(&args),
        Command::Check(args) => commands::check::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Init(args) => commands::init::run(&args),
        Command::Tune(command) => commands::tune::run(&command, cli.netns.as_deref()),
        Command::Schema => commands::toml_page::schema(),
        Command::Completions(args) => {
            args.print(Cli::command());
            Ok(())
        }
        Command::Reference(args) => commands::reference::run(&args, Cli::command()),
        Command::Man(args) => {
            args.write(Cli::command())?;
            args.write_page("rxlane.toml.5", commands::toml_page::page().as_bytes())
        }
        Command::Lab(_) => Ok(()),
    }
}
