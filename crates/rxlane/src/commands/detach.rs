//! `rxlane detach`: clean up after a daemon that was killed.

use crate::one_line;

pub(crate) fn run() -> Result<(), String> {
    rxlane_dataplane::router::detach_orphan().map_err(one_line)?;
    println!("detached; the kernel forwards alone");
    Ok(())
}
