//! `rxlane check`: a configuration, read and judged.

use std::path::PathBuf;

use crate::config;
use crate::one_line;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let config = config::load(&args.config).map_err(one_line)?;
    let rules: usize = config.classes.iter().map(|c| c.rules.len()).sum();
    println!(
        "{}: {} ports, {} classes, {rules} rules: fine",
        args.config.display(),
        config.ports.len(),
        config.classes.len()
    );
    Ok(())
}
