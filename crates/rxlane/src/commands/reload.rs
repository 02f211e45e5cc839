//! `rxlane reload`: SIGHUP to the daemon of this network namespace, and wait for its answer.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rxlane_dataplane::instance::Instance;

use super::config;
use crate::one_line;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Seconds to wait for the daemon to take the new configuration
    #[arg(long, default_value_t = 10, value_name = "SECONDS")]
    timeout: u64,
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
    // Mistakes are best reported here, where somebody is looking.
    config::load(&file)?;
    let before = instance.reload_count();
    kill(Pid::from_raw(pid as i32), Signal::SIGHUP)
        .map_err(|e| format!("cannot signal the daemon (pid {pid}): {e}"))?;
    let deadline = Instant::now() + Duration::from_secs(args.timeout);
    while Instant::now() < deadline {
        if instance.reload_count() > before {
            return match instance.reload_error() {
                None => {
                    println!("reloaded {}", file.display());
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
