//! `rxlane reload`: SIGHUP to the daemon of this network namespace, and wait for its answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rxlane_dataplane::DataplaneError;
use rxlane_dataplane::instance::Instance;
use rxlane_dataplane::undo::Ask;

use super::config;
use crate::one_line;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane reload                        the file as it is now
  sudo rxlane reload --timeout-undo 120     the same, and back after two minutes unless --confirm comes before
  sudo rxlane reload --confirm              it is well: keep it
  sudo rxlane reload --undo                 it is not: back at once")]
pub(crate) struct Args {
    /// Seconds to wait for the daemon to take the new configuration
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    timeout: u64,
    /// Undo the reload after so many seconds, unless it is confirmed before; 300 where no number is given
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "300", value_parser = clap::value_parser!(u32).range(1..=86_400))]
    timeout_undo: Option<u32>,
    /// Keep what the last reload with --timeout-undo has brought
    #[arg(long, conflicts_with = "timeout_undo")]
    confirm: bool,
    /// Go back to the configuration before it now
    #[arg(long, conflicts_with_all = ["timeout_undo", "confirm"])]
    undo: bool,
}

impl Args {
    fn ask(&self) -> Ask {
        if self.confirm {
            Ask::Confirm
        } else if self.undo {
            Ask::Undo
        } else {
            Ask::Reload {
                undo_after_s: self.timeout_undo,
            }
        }
    }
}

/// What has been done, if the daemon says so.
fn done(ask: Ask, file: &str) -> String {
    match ask {
        Ask::Reload { undo_after_s: None } => format!("reloaded {file}"),
        Ask::Reload {
            undo_after_s: Some(s),
        } => format!(
            "reloaded {file}; undone in {s} s unless somebody runs sudo rxlane reload --confirm"
        ),
        Ask::Confirm => format!("confirmed: {file} stays in force"),
        Ask::Undo => format!(
            "undone: the configuration before is in force, and {file} says something else: change it before the next reload or restart"
        ),
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let instance = Instance::current().map_err(one_line)?;
    let pid = instance.daemon().ok_or(
        "no daemon is running in this network namespace; start one with `rxlane run -c FILE`",
    )?;
    let state = instance
        .load_state()
        .ok_or("the daemon has not finished starting; try again")?;
    let file: PathBuf = state.config_file;
    let ask = args.ask();
    // Mistakes are best reported here, where somebody is looking.
    if matches!(ask, Ask::Reload { .. }) {
        config::load(&file)?;
    } else if state.unconfirmed.is_none() {
        return Err(one_line(DataplaneError::NothingUnconfirmed));
    }
    instance.ask(ask).map_err(one_line)?;
    let before = instance.reload_count();
    kill(Pid::from_raw(pid as i32), Signal::SIGHUP)
        .map_err(|e| format!("cannot signal the daemon (pid {pid}): {e}"))?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while Instant::now() < deadline {
        if instance.reload_count() > before {
            return match instance.reload_error() {
                None => {
                    println!("{}", done(ask, &file.display().to_string()));
                    Ok(())
                }
                Some(error) => Err(error),
            };
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(format!(
        "the daemon (pid {pid}) did not answer within {} s",
        args.timeout
    ))
}
