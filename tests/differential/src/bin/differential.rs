//! The command `differential`: hunts for differences, replays them, shows what is drawn.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use rxlane_differential::grammar::Kinds;
use rxlane_differential::hunt::{Hunt, Tally};
use rxlane_differential::report::{Finding, describe};
use rxlane_differential::scenario::Statement;
use rxlane_differential::trial::{self, InTunnels, Second, Settings};
use rxlane_differential::{OracleError, grammar, rules, world};
use rxlane_system::stop;

/// Looks for packets that a router with rxlane treats otherwise than plain Linux does.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Draw scenarios and compare (needs root)
    Run(RunArgs),
    /// Do once more what a file says (needs root)
    Replay(ReplayArgs),
    /// Draw rulesets, and compare what the evaluator says of flows with what the kernel does (needs root)
    Rules(RulesArgs),
    /// Print what a seed draws
    Show {
        /// The seed
        seed: u64,
        /// Packets of a scenario, about
        #[arg(long, default_value_t = 300)]
        packets_per_configuration: usize,
        /// Kinds of devices, as `run` prints them
        #[arg(long, value_name = "KINDS", default_value = "all")]
        kinds: Kinds,
    },
}

#[derive(clap::Args)]
struct RulesArgs {
    /// Rulesets
    #[arg(long, default_value_t = 100)]
    rulesets: u64,
    /// Flows that talk through each
    #[arg(long, default_value_t = 40)]
    flows: usize,
    /// Seed of the first ruleset; the next has the next. Default: the time
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after so many differences
    #[arg(long, default_value_t = 1)]
    differences: usize,
    /// Print what the seed draws, and send nothing
    #[arg(long)]
    show: bool,
}

#[derive(clap::Args)]
struct Router {
    /// The router under test
    #[arg(long, value_name = "PATH", default_value = "target/release/rxlane")]
    rxlane: PathBuf,
    /// What is compared with plain Linux: `rxlane`, `plain`, or plain Linux with a change that must be found
    /// (`sysctl:NAME=VALUE`, `ip:LINE`, `nft:LINE`)
    #[arg(long, value_name = "WHAT", default_value = "rxlane", value_parser = against)]
    against: Against,
    /// How long rxlane has to follow a change, ms
    #[arg(long, value_name = "MS", default_value_t = 1100)]
    settle: u64,
    /// How long rxlane may take to start, s
    #[arg(long, value_name = "S", default_value_t = 20)]
    start: u64,
    /// How long to wait for packets that one router has sent and the other has not, ms
    #[arg(long, value_name = "MS", default_value_t = 120)]
    late: u64,
}

#[derive(Clone)]
enum Against {
    Rxlane,
    Plain,
    Changed(Statement),
}

fn against(text: &str) -> Result<Against, String> {
    let changed = |s| Ok(Against::Changed(s));
    match text.split_once(':') {
        None if text == "rxlane" => Ok(Against::Rxlane),
        None if text == "plain" => Ok(Against::Plain),
        Some(("ip", line)) => changed(Statement::Ip(line.into())),
        Some(("nft", line)) => changed(Statement::Nft(line.into())),
        Some(("sysctl", setting)) => match setting.split_once('=') {
            Some((name, value)) => changed(Statement::sysctl(name, value)),
            None => Err("a sysctl is written NAME=VALUE".into()),
        },
        _ => Err("must be rxlane, plain, sysctl:NAME=VALUE, ip:LINE or nft:LINE".into()),
    }
}

impl Router {
    fn second(&self) -> Second {
        match &self.against {
            Against::Rxlane => Second::Rxlane(self.rxlane.clone()),
            Against::Plain => Second::Plain,
            Against::Changed(statement) => Second::Changed(vec![statement.clone()]),
        }
    }
}

#[derive(clap::Args)]
struct RunArgs {
    #[command(flatten)]
    router: Router,
    /// Stop after so many minutes
    #[arg(long, conflicts_with = "seconds")]
    minutes: Option<u64>,
    /// Stop after so many seconds
    #[arg(long)]
    seconds: Option<u64>,
    /// Stop after so many configurations
    #[arg(long)]
    configurations: Option<u64>,
    /// Seed of the first configuration; the next has the next. Default: the time
    #[arg(long)]
    seed: Option<u64>,
    /// Packets of a configuration, about
    #[arg(long, default_value_t = 300)]
    packets_per_configuration: usize,
    /// Trials at the same time; most of their time they wait
    #[arg(long, default_value_t = 6)]
    jobs: usize,
    /// Leave out statements and packets in whose text this is (may be given several times): looks past what is known
    #[arg(long, value_name = "TEXT")]
    without: Vec<String>,
    /// Pass over configurations in whose text this is not (may be given several times: one of these)
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// The AF_XDP engine forwards in every configuration, not in one of eight
    #[arg(long)]
    engine: bool,
    /// Kinds of devices beside the ports, of those that this kernel has: `all`, `none`, or names with commas between
    #[arg(long, value_name = "KINDS", default_value = "all")]
    kinds: Kinds,
    /// Trials that making one difference small may take
    #[arg(long, default_value_t = 250)]
    shrinking: usize,
    /// Go on after a difference, and report distinct ones
    #[arg(long)]
    keep_going: bool,
    /// Where differences are written
    #[arg(long, value_name = "DIR", default_value = "target/differential")]
    out: PathBuf,
}

#[derive(clap::Args)]
struct ReplayArgs {
    /// A file that `run` has written
    file: PathBuf,
    #[command(flatten)]
    router: Router,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    stop::listen();
    let outcome = match cli.command {
        Command::Run(args) => run(args),
        Command::Replay(args) => replay(&args),
        Command::Rules(args) => rules(&args),
        Command::Show {
            seed,
            packets_per_configuration,
            kinds,
        } => {
            let scenario = grammar::draw(seed, packets_per_configuration, &kinds);
            print!("{}", describe(&scenario));
            Ok(ExitCode::SUCCESS)
        }
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("differential: {error}");
        ExitCode::FAILURE
    })
}

fn run(args: RunArgs) -> Result<ExitCode, OracleError> {
    world::remove_left_over();
    let seconds = args.seconds.or(args.minutes.map(|m| m * 60));
    let hunt = Hunt {
        second: args.router.second(),
        seed: args.seed.unwrap_or_else(of_the_time),
        configurations: args.configurations,
        time: seconds.map(Duration::from_secs),
        packets: args.packets_per_configuration,
        jobs: args.jobs.max(1),
        settle: Duration::from_millis(args.router.settle),
        start: Duration::from_secs(args.router.start),
        late: Duration::from_millis(args.router.late),
        without: args.without,
        only: args.only,
        engine: args.engine,
        kinds: Kinds::of_this_kernel().among(&args.kinds),
        shrinking: args.shrinking,
        keep_going: args.keep_going,
        out: args.out,
    };
    println!("seed {}, kinds of devices: {}", hunt.seed, hunt.kinds);
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        bar.set_style(style);
    }
    let begun = Instant::now();
    let tally = hunt.run(
        &|tally| {
            bar.set_message(line(tally));
            bar.tick();
        },
        &|finding| bar.suspend(|| println!("\n{}", finding.text())),
    )?;
    bar.finish_and_clear();
    println!("{}", summary(&tally, begun.elapsed()));
    let clean = tally.differences.is_empty() && tally.failures.is_empty();
    Ok(if clean {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

fn line(tally: &Tally) -> String {
    format!(
        "{} configurations, {} packets, {} express ({:.1}%), {} refused, {} made again, {} unstable, {} differences, {} more alike",
        tally.configurations,
        tally.packets,
        tally.express_packets(),
        100.0 * tally.express_packets() as f64 / tally.packets.max(1) as f64,
        tally.refused,
        tally.again,
        tally.unstable.len(),
        tally.differences.len(),
        tally.repeated,
    )
}

fn summary(tally: &Tally, time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let mut lines = vec![line(tally)];
    lines.push(format!(
        "{:.0} s: {:.1} configurations/s, {:.0} packets/s; {} frames left the plain router",
        seconds,
        tally.configurations as f64 / seconds,
        tally.packets as f64 / seconds,
        tally.left,
    ));
    if tally.beside_sessions > 0 {
        let packets = tally.beside_sessions;
        lines.push(format!(
            "express, in routers that serve a session: {packets}"
        ));
    }
    for (kind, InTunnels { packets, express }) in &tally.in_tunnels {
        let share = 100.0 * *express as f64 / *packets as f64;
        lines.push(format!(
            "in tunnels, {kind}: {packets} packets, {express} express ({share:.1}%)"
        ));
    }
    for (trust, packets) in &tally.express {
        lines.push(format!("express, trust {trust}: {packets}"));
    }
    for (why, times) in &tally.refusals {
        lines.push(format!("refused {times} times: {why}"));
    }
    for (said, times) in &tally.invalid {
        lines.push(format!("Linux refused {times} times: {said}"));
    }
    if !tally.unstable.is_empty() {
        lines.push(format!("not confirmed, by seed: {:?}", tally.unstable));
    }
    for failure in tally.failures.iter().take(5) {
        lines.push(format!("failed: {failure}"));
    }
    for (seed, file) in &tally.differences {
        lines.push(format!("difference: seed {seed}, {}", file.display()));
    }
    lines.join("\n")
}

/// A seed that no run before had.
fn of_the_time() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(1, |n| n.as_secs() << 16)
}

fn rules(args: &RulesArgs) -> Result<ExitCode, OracleError> {
    let seed = args.seed.unwrap_or_else(of_the_time);
    if args.show {
        print!("{}", rules::drawn(seed));
        return Ok(ExitCode::SUCCESS);
    }
    world::remove_left_over();
    println!("seed {seed}");
    let bar = ProgressBar::new(args.rulesets);
    let tally = rules::hunt(seed, args.rulesets, args.flows, |tally| {
        bar.set_position(tally.rulesets);
        tally.differences.len() >= args.differences || stop::check().is_err()
    })?;
    bar.finish_and_clear();
    println!(
        "{} rulesets, {} packets, answers {:?}",
        tally.rulesets, tally.packets, tally.answers
    );
    let mut reasons: Vec<_> = tally.reasons.iter().collect();
    reasons.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    for (why, times) in reasons {
        println!("depends {times} times: it {why}");
    }
    for (said, times) in &tally.refused {
        println!("refused {times} times: {said}");
    }
    for difference in &tally.differences {
        println!("difference: {difference}");
    }
    println!("{} differences", tally.differences.len());
    Ok(match tally.differences.is_empty() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

fn replay(args: &ReplayArgs) -> Result<ExitCode, OracleError> {
    world::remove_left_over();
    let finding = Finding::read(&args.file)?;
    let settings = Settings {
        second: args.router.second(),
        settle: Duration::from_millis(args.router.settle),
        start: Duration::from_secs(args.router.start),
        late: Duration::from_millis(args.router.late),
        quiet: Duration::from_millis(10),
        tag: "replay".into(),
    };
    let outcome = trial::run(&finding.scenario, &settings)?;
    if let Some(why) = &outcome.refused {
        println!("rxlane refuses this configuration: {why}");
        return Ok(ExitCode::SUCCESS);
    }
    for error in &outcome.invalid {
        println!("Linux refused: {error}");
    }
    let now = Finding {
        scenario: finding.scenario,
        outcome,
    };
    println!("{}", now.text());
    if now.outcome.mismatches.is_empty() {
        println!("no difference any more");
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(status) = &now.outcome.status {
        println!("rxlane status --json:\n{status:#}");
    }
    Ok(ExitCode::FAILURE)
}
