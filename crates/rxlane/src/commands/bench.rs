//! `rxlane bench`.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// quick
    Quick {
        duts: String,
        pps: f64,
        seconds: f64,
        firewall: u32,
        rt: f64,
        frame: usize,
        repeat: u32,
    },
}
pub(crate) fn run(c: Command) -> Result<(), String> {
    let Command::Quick {
        duts,
        pps,
        seconds,
        firewall,
        rt,
        frame,
        repeat,
    } = c;
    rxlane_bench::stop::listen();
    rxlane_bench::bench::quick(&duts, pps, seconds, firewall, rt, frame, repeat)
        .map_err(crate::one_line)
}
