//! `rxlane-lab sim fit`.

use std::path::PathBuf;

use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_papers::{file_of, fit};

use crate::{model, one_line, output};

#[derive(ClapArgs)]
pub(crate) struct Args {
    /// low-latency-router, multiple-nics, interrupt-throttling, single-input-queue or beyond-softnet
    paper: String,
    /// Write the calibration file here; the next build of rxlane has it built in
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    if let Some(path) = &args.out {
        output::will_take(path)?;
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {pos} evaluations, {elapsed}") {
        bar.set_style(style);
    }
    let found = fit(&args.paper, || bar.inc(1)).map_err(one_line)?;
    bar.finish_and_clear();
    let text = file_of(&found).map_err(one_line)?;
    model::write(args.out.as_deref(), &text)
}
