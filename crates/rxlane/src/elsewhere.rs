//! What went to `rxlane-lab`, which measures and models, so that a router's daemon carries neither.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// All that follows is the other command's.
#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    _all: Vec<OsString>,
}

const NAME: &str = "rxlane-lab";

/// The command: beside this one, or where the shell would find it.
///
/// # Errors
/// When it is not installed.
pub(crate) fn lab() -> Result<PathBuf, String> {
    let here = std::env::current_exe().ok();
    let beside = here.as_deref().and_then(Path::parent).map(Path::to_owned);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = beside.into_iter().chain(std::env::split_paths(&path));
    let mut found = folders.map(|folder| folder.join(NAME));
    let missing =
        || format!("{NAME} is not installed: install the package of that name, or `make install`");
    found.find(|path| path.is_file()).ok_or_else(missing)
}

/// Says where a command went, and runs it there with all its arguments.
///
/// # Errors
/// When it is not installed, or does not start.
pub(crate) fn run() -> Result<(), String> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let words: Vec<_> = arguments
        .iter()
        .map(|word| word.to_string_lossy())
        .collect();
    let now = format!(
        "this is a command of {NAME} now: {NAME} {}",
        words.join(" ")
    );
    let lab = lab().map_err(|e| format!("{now}; {e}"))?;
    eprintln!("rxlane: {now}");
    let error = Command::new(&lab).args(&arguments).exec();
    Err(format!("cannot run {}: {error}", lab.display()))
}
