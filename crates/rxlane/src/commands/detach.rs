//! `rxlane detach`: clean up after a daemon that was killed.

use rxlane_dataplane::orphans;

use crate::one_line;
use crate::output::counted;

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane detach            the router of this network namespace, whose daemon was killed
  sudo rxlane detach --all      what routers left whose network namespaces are gone")]
pub(crate) struct Args {
    /// Remove what routers of network namespaces that are gone have left, instead of this namespace's router
    #[arg(long)]
    all: bool,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if args.all {
        let n = orphans::remove_abandoned().map_err(one_line)?;
        println!(
            "removed {} of namespaces that are gone",
            counted(n, "router", "routers")
        );
        return Ok(());
    }
    orphans::detach_orphan().map_err(one_line)?;
    println!("detached; the kernel forwards alone");
    Ok(())
}
