//! The configuration file of a command: where it is, and what is wrong with it.

use std::path::{Path, PathBuf};

use rxlane_config::{ConfigError, Configuration};

use crate::{log, one_line};

/// Where packages put the configuration.
pub(crate) const DEFAULT: &str = "/etc/rxlane/rxlane.toml";

/// Which file; both forms mean the same.
#[derive(clap::Args)]
pub(crate) struct ConfigFile {
    /// Configuration file; - is standard input [default: /etc/rxlane/rxlane.toml]
    #[arg(short, long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The same without -c
    #[arg(value_name = "FILE", conflicts_with = "config")]
    file: Option<PathBuf>,
}

impl ConfigFile {
    pub(crate) fn path(&self) -> &Path {
        let named = self.config.as_deref().or(self.file.as_deref());
        named.unwrap_or(Path::new(DEFAULT))
    }

    /// Reads and checks the file.
    ///
    /// # Errors
    /// As [`load`].
    pub(crate) fn load(&self) -> Result<Configuration, String> {
        load(self.path())
    }
}

/// Reads and checks a file, and shows every mistake in it with its line.
///
/// # Errors
/// One line.
pub(crate) fn load(path: &Path) -> Result<Configuration, String> {
    rxlane_config::load(path).map_err(|e| show(&e))
}

/// Shows the mistakes of a file on standard error, and returns the line to end with: the first of them, and how many more.
pub(crate) fn show(error: &ConfigError) -> String {
    if let Some(excerpts) = error.excerpts(log::coloured()) {
        eprint!("{excerpts}");
    }
    one_line(error)
}
