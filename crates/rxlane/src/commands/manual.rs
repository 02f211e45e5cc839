//! `rxlane man` and `rxlane completions`: what packages install, made from the command itself.

use std::path::PathBuf;

use crate::output;

#[derive(clap::Args)]
#[command(after_help = "Example:
  rxlane completions bash > /etc/bash_completion.d/rxlane")]
pub(crate) struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

#[derive(clap::Args)]
#[command(after_help = "Example:
  rxlane man target/man && man -l target/man/rxlane-run.8")]
pub(crate) struct Man {
    /// The folder
    dir: PathBuf,
}

pub(crate) fn completions(args: &Completions, command: &mut clap::Command) {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "rxlane", &mut text);
    output::bytes(&text);
}

/// Section 8 for the commands, which are an administrator's, and rxlane.toml(5).
pub(crate) fn pages(args: &Man, command: clap::Command) -> Result<(), String> {
    let cannot =
        |e: std::io::Error| format!("cannot write man pages into {}: {e}", args.dir.display());
    // Width and colours of whoever makes them do not matter.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    write_page(&command, args).map_err(cannot)?;
    let page = args.dir.join("rxlane.toml.5");
    std::fs::write(page, super::toml_page::page()).map_err(cannot)
}

fn write_page(command: &clap::Command, args: &Man) -> std::io::Result<()> {
    for sub in command.get_subcommands().filter(|c| !c.is_hide_set()) {
        write_page(sub, args)?;
    }
    clap_mangen::Man::new(command.clone())
        .section("8")
        .date("")
        .source(concat!("rxlane ", env!("CARGO_PKG_VERSION")))
        .manual("rxlane")
        .generate_to(&args.dir)
        .map(|_| ())
}

/// The schema of the configuration file on standard output.
///
/// # Errors
/// None in practice: a schema is JSON.
pub(crate) fn schema() -> Result<(), String> {
    let text = serde_json::to_string_pretty(&rxlane_config::schema()).map_err(crate::one_line)?;
    println!("{text}");
    Ok(())
}
