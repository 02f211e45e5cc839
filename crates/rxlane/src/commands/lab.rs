//! `rxlane lab`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// up
    Up,
}
pub(crate) fn run(_c: &Command) -> Result<(), String> {
    Ok(())
}
