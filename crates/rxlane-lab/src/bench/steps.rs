//! `rxlane-lab bench steps`: a load that changes.

use clap::Args;
use rxlane_bench::profile::Profile;

use super::options::Common;
use crate::{one_line, test_bed};

#[derive(Args)]
pub(crate) struct Steps {
    #[command(flatten)]
    common: Common,
    /// Stages, LOAD@TIME, in multiples of what the kernel forwards without loss: steps (0.3x@500ms,3x@1s), ramps
    /// (0.3x-3x@2s), bursts (10*(2x@10ms,0.1x@90ms))
    #[arg(long, default_value = "0.3x@300ms,3x@400ms,0.3x@300ms")]
    profile: Profile,
}

pub(super) fn run(args: &Steps) -> Result<(), String> {
    args.common.check_tidy(false)?;
    let options = args.common.options()?;
    let report = rxlane_bench::steps::steps(&options, &args.profile).map_err(one_line)?;
    args.common.output(&report, report.valid, || {
        report.html(&test_bed::here()).map(Some).map_err(one_line)
    })
}
