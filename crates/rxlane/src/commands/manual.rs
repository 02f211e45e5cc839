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
  sudo rxlane man /usr/local/share/man/man1")]
pub(crate) struct Man {
    /// The folder
    dir: PathBuf,
}

pub(crate) fn completions(args: &Completions, command: &mut clap::Command) {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, command, "rxlane", &mut text);
    output::bytes(&text);
}

pub(crate) fn pages(args: &Man, command: clap::Command) -> Result<(), String> {
    clap_mangen::generate_to(command, &args.dir)
        .map_err(|e| format!("cannot write man pages into {}: {e}", args.dir.display()))
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
