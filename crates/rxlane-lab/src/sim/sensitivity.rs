//! `rxlane-lab sim sensitivity`.

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use crate::one_line;

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// all, a paper, or rows, as of `reproduce`
    #[arg(default_value = "all")]
    what: Vec<String>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let rows = rxlane_papers::select(&args.what).map_err(one_line)?;
    rxlane_system::stop::listen();
    let stop = &rxlane_system::stop::flag().into();
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} points, {elapsed}") {
        bar.set_style(style);
    }
    let found = rxlane_papers::sensitivity(&rows, stop, || bar.inc(1)).map_err(one_line)?;
    bar.finish_and_clear();
    for paper in found {
        println!("{paper}");
    }
    Ok(())
}
