//! `rxlane tune watch`: the controllers, in the foreground, for a service unit.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rxlane_policy::throttle::{Elapsed, LinearLaw, Throttling};
use rxlane_system::stop;
use rxlane_tune::Live;
use rxlane_tune::inventory::under_vlans;
use rxlane_tune::watch::{Control, Watch};

use super::{JournalArgs, Reached};
use crate::one_line;
use crate::output::counted;

pub(super) const EXAMPLES: &str = "Examples:
  sudo rxlane tune watch --ports eth0,eth1
  sudo rxlane tune watch --ports eth0 --law three-state --keep-cores
  sudo rxlane tune watch --ports eth0 --r-max 50000 --r-min 5000 --rho-max 1.2e6";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Ports to follow
    #[arg(long, required = true, value_delimiter = ',', value_name = "IF")]
    ports: Vec<String>,
    /// Law of interrupt moderation: linear in the packet rate, three-state, net-dim, or off
    #[arg(long, default_value = "linear", value_parser = ["linear", "three-state", "net-dim", "off"])]
    law: String,
    /// Interrupts a second of an idle queue (linear)
    #[arg(long, default_value_t = LinearLaw::default().r_max, value_name = "PER_S")]
    r_max: f64,
    /// Interrupts a second at the highest packet rate (linear)
    #[arg(long, default_value_t = LinearLaw::default().r_min, value_name = "PER_S")]
    r_min: f64,
    /// The highest packet rate of a queue (linear)
    #[arg(long, default_value_t = LinearLaw::default().rho_max_pps, value_name = "PPS")]
    rho_max: f64,
    /// Time between decisions, ms
    #[arg(long, default_value_t = 100, value_name = "MS", value_parser = clap::value_parser!(u64).range(10..=60_000))]
    every: u64,
    /// Leave interrupts on their cores
    #[arg(long)]
    keep_cores: bool,
    /// Stop after so many seconds
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    #[command(flatten)]
    reached: Reached,
    #[command(flatten)]
    pub(super) journal: JournalArgs,
}

/// Changes of `watch` end with it, so they are kept apart from those of `apply`.
pub(super) fn journal_of(journal: &Path) -> PathBuf {
    journal.with_extension("watch.journal")
}

fn law(args: &Args) -> Throttling {
    match args.law.as_str() {
        "linear" => Throttling::Linear(LinearLaw {
            r_max: args.r_max,
            r_min: args.r_min,
            rho_max_pps: args.rho_max,
        }),
        "three-state" => Throttling::ThreeState {
            elapsed: Elapsed::Measured,
            rates: Default::default(),
        },
        "net-dim" => Throttling::NetDim,
        _ => Throttling::Off,
    }
}

/// Ports over which this machine is not reached.
fn followed(args: &Args, machine: &Live) -> Result<Vec<String>, String> {
    let left_alone = args.reached.left_alone(machine)?;
    let (mut followed, mut left) = (Vec::new(), Vec::new());
    for port in &under_vlans(machine, &args.ports) {
        match left_alone.reason(port) {
            None => followed.push(port.clone()),
            Some(reason) => left.push(format!(
                "{port} is left alone, because {reason}; --include-management takes it in"
            )),
        }
    }
    if followed.is_empty() {
        return Err(format!("there is no port to follow: {}", left.join("; ")));
    }
    for port in left {
        tracing::warn!("{port}");
    }
    Ok(followed)
}

pub(super) fn run(args: &Args, journal: &Path) -> Result<(), String> {
    if args.law == "off" && args.keep_cores {
        return Err("--law off with --keep-cores leaves nothing to do: drop one of them".into());
    }
    stop::listen();
    let machine = Live::default();
    let mut journal = super::open(&journal_of(journal), &machine)?;
    if !journal.entries.is_empty() {
        tracing::info!("an earlier watch was killed; what it left is undone first");
        super::restore(&machine, &mut journal)?;
    }
    let followed = followed(args, &machine)?;
    let control = Control {
        ports: followed.clone(),
        law: law(args),
        cores: !args.keep_cores,
    };
    let mut watch = Watch::new(&machine, control).map_err(one_line)?;
    tracing::info!(
        "following {} by the law {}; stopping undoes every change",
        followed.join(", "),
        args.law
    );
    let begin = Instant::now();
    let mut changes = 0;
    let outcome = loop {
        match watch.tick(&machine, &mut journal, begin.elapsed().into()) {
            Ok(changed) => {
                for c in &changed {
                    tracing::info!("{} set to {}: {}", c.knob, c.to, c.why);
                }
                changes += changed.len();
            }
            Err(error) => break Err(one_line(error)),
        }
        let over = args
            .seconds
            .is_some_and(|s| begin.elapsed().as_secs_f64() >= s);
        if over || stop::sleep(Duration::from_millis(args.every)).is_err() {
            break Ok(());
        }
    };
    super::restore(&machine, &mut journal)?;
    let seconds = begin.elapsed().as_secs_f64();
    println!(
        "{} and {} in {seconds:.1} s, at {:.2} % of a core",
        counted(watch.decisions, "decision", "decisions"),
        counted(changes, "change", "changes"),
        own_cpu_s() / seconds * 100.0
    );
    outcome
}

/// CPU time of this process, s.
fn own_cpu_s() -> f64 {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    getrusage(UsageWho::RUSAGE_SELF).map_or(0.0, |u| {
        (u.user_time().num_microseconds() + u.system_time().num_microseconds()) as f64 / 1e6
    })
}
