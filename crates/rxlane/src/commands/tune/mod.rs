//! `rxlane tune`: the kernel around the router.

mod apply;
mod confirm;
mod measure;
mod text;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use rxlane_dataplane::port_names;
use rxlane_policy::Nanos;
use rxlane_policy::rule::{AtPort, Rule};
use rxlane_system::SystemError;
use rxlane_system::links;
use rxlane_tune::inventory::{Inventory, Window, under_vlans};
use rxlane_tune::journal::{self, Journal};
use rxlane_tune::management::Management;
use rxlane_tune::plan::{Area, Options, Profile, TunePlan};
use rxlane_tune::{Live, Machine, Recorded, TuneError, revert};

use crate::one_line;
use crate::output::{self, counted};

#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Look at the machine for a few seconds and say what would be better; changes nothing
    #[command(after_help = "Examples:
  rxlane tune plan --ports eth0,eth1
  rxlane tune plan --profile throughput --json > plan.json
  rxlane tune plan --root recorded/        a copy of another machine's /proc and /sys")]
    Plan(PlanArgs),
    /// Make the changes of a plan, all or none
    #[command(after_help = apply::EXAMPLES)]
    Apply(apply::Args),
    /// Keep what `tune apply --confirm` has changed
    Confirm(JournalArgs),
    /// Undo what was applied with --confirm unless it is confirmed by then; `tune apply` starts it
    #[command(hide = true)]
    Guard(confirm::Guard),
    /// Undo what was applied, and what a killed `tune watch` left
    Revert(JournalArgs),
    /// Follow packet rates and loads: interrupt moderation and cores, until stopped; then all is undone
    #[command(after_help = watch::EXAMPLES)]
    Watch(watch::Args),
    /// Record loads, interrupts and losses; with --apply also under the plan, which is undone afterwards
    #[command(after_help = measure::EXAMPLES)]
    Measure(measure::Args),
    /// Show what is applied, and what someone else has changed since
    Status(StatusArgs),
}

#[derive(clap::Args)]
pub(crate) struct JournalArgs {
    /// Where old values are kept
    #[arg(long, value_name = "FILE")]
    journal: Option<PathBuf>,
}

#[derive(clap::Args)]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    journal: JournalArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
pub(crate) struct Wanted {
    /// Ports to tune for; without it those of --config, or all devices that are up
    #[arg(long, value_delimiter = ',', value_name = "IF")]
    ports: Vec<String>,
    /// What the machine is for
    #[arg(long, default_value = "latency", value_parser = profile)]
    profile: Profile,
    /// Kinds of change to leave out
    #[arg(long, value_delimiter = ',', value_name = "AREA", value_parser = area, help = area_help())]
    skip: Vec<Area>,
    /// Kinds of change to make, and no others
    #[arg(long, value_delimiter = ',', value_name = "AREA", value_parser = area, conflicts_with = "skip")]
    only: Vec<Area>,
    /// Interrupts that stay where they are, by number
    #[arg(long, value_delimiter = ',', value_name = "IRQ")]
    except: Vec<u32>,
    /// A router's configuration: its express classes by DSCP alone, or by protocol and ports at one end, get a hardware queue of their own
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Also keep packet steering (RPS, XPS) and unbound kernel work off the ports' cores
    #[arg(long)]
    isolate: bool,
    /// How long a core may be away while its ring takes everything, us [default: 1000 for latency, else 4000]
    #[arg(long, value_name = "US")]
    away: Option<u64>,
    /// One-way delay of the paths that sockets of this machine use, ms
    #[arg(long, default_value_t = 1.0, value_name = "MS")]
    delay: f64,
    /// Socket buffers are 2^k times bandwidth times delay; at least 1
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    k: u32,
    /// Also raise what sockets have that ask for no size: every socket of this machine may hold as much then
    #[arg(long)]
    default_sizes: bool,
    /// How long to watch loads and rates, s
    #[arg(long, default_value_t = 3.0, value_name = "S")]
    window: f64,
    #[command(flatten)]
    reached: Reached,
}

/// How this machine is reached.
#[derive(clap::Args)]
pub(crate) struct Reached {
    /// Also touch interfaces that SSH sessions come in through, and those of default routes
    #[arg(long)]
    include_management: bool,
}

impl Reached {
    /// Interfaces that are left alone.
    fn left_alone(&self, machine: &dyn Machine) -> Result<Management, String> {
        if self.include_management {
            return Ok(Management::default());
        }
        Management::find(machine).map_err(one_line)
    }
}

#[derive(clap::Args)]
pub(crate) struct PlanArgs {
    #[command(flatten)]
    wanted: Wanted,
    /// A recorded tree (proc, sys and ethtool below DIR) instead of this machine; loads are those since its boot
    #[arg(long, value_name = "DIR")]
    root: Option<PathBuf>,
    /// Print JSON: the inventory and the plan, which `tune apply FILE` takes
    #[arg(long)]
    json: bool,
}

fn profile(text: &str) -> Result<Profile, String> {
    match text {
        "latency" => Ok(Profile::Latency),
        "throughput" => Ok(Profile::Throughput),
        "power" => Ok(Profile::Power),
        _ => Err(format!(
            "`{text}` is no profile: use latency, throughput or power"
        )),
    }
}

fn area(text: &str) -> Result<Area, String> {
    Area::ALL
        .into_iter()
        .find(|a| a.name() == text)
        .ok_or_else(|| format!("`{text}` is no kind of change: use {}", areas()))
}

fn areas() -> String {
    Area::ALL.map(Area::name).join(", ")
}

fn area_help() -> String {
    format!("Kinds of change to leave out: {}", areas())
}

/// Between two samples of a window.
const SAMPLE: Duration = Duration::from_millis(250);

impl Wanted {
    fn options(&self) -> Result<Options, String> {
        if !(self.delay > 0.0 && self.delay <= 10_000.0) {
            return Err(format!(
                "--delay {}: use more than 0 and at most 10000 ms",
                self.delay
            ));
        }
        if !(0.25..=3600.0).contains(&self.window) {
            return Err(format!("--window {}: use 0.25 to 3600 s", self.window));
        }
        let rt = self.rt_packets()?;
        Ok(Options {
            profile: self.profile,
            skip: self.left_out(),
            except: self.except.clone(),
            away: self.away.map(|us| Nanos(us.saturating_mul(1000))),
            delay: Duration::from_secs_f64(self.delay / 1000.0),
            k: self.k,
            default_sizes: self.default_sizes,
            rt_dscps: rt.0,
            rt_ports: rt.1,
            isolate: self.isolate,
        })
    }

    /// Kinds of change that are not made.
    fn left_out(&self) -> Vec<Area> {
        if self.only.is_empty() {
            return self.skip.clone();
        }
        let wanted = |area: &Area| self.only.contains(area);
        Area::ALL.into_iter().filter(|area| !wanted(area)).collect()
    }

    /// The names of devices to tune for; none for all that are up. Of a configuration those that are there, as the router serves those.
    fn port_names(&self, machine: &dyn Machine) -> Result<Vec<String>, String> {
        let Some(path) = self.config.as_ref().filter(|_| self.ports.is_empty()) else {
            return Ok(self.ports.clone());
        };
        let named = super::config::load(path)?.router.ports;
        let there = machine.list("/sys/class/net");
        // By alternative names, too.
        let devices = links::all().unwrap_or_default();
        let named = named.into_iter().map(|port| {
            let device = (!there.contains(&port)).then(|| port_names::find(&port, &devices));
            device.flatten().map_or(port, |device| device.name.clone())
        });
        let (there, missing): (Vec<_>, Vec<_>) = named.partition(|port| there.contains(port));
        if there.is_empty() {
            return Err(format!(
                "{}: none of its ports is there: name devices with --ports",
                path.display()
            ));
        }
        for port in missing {
            eprintln!("port `{port}` is not there: nothing is changed for it");
        }
        Ok(there)
    }

    /// DSCPs and ports that belong to an express class whatever else a packet is.
    fn rt_packets(&self) -> Result<(Vec<u8>, Vec<AtPort>), String> {
        let Some(path) = &self.config else {
            return Ok((Vec::new(), Vec::new()));
        };
        let config = super::config::load(path)?.router;
        let express = config.classes.iter().filter(|c| c.lane.is_express());
        let rules: Vec<&Rule> = express.flat_map(|c| &c.rules).collect();
        let dscps: BTreeSet<u8> = rules.iter().flat_map(|r| r.dscps_alone()).collect();
        let ports: BTreeSet<AtPort> = rules.iter().flat_map(|r| r.ports_alone()).collect();
        if dscps.is_empty() && ports.is_empty() {
            return Err(format!(
                "{}: no express class is told by its DSCP alone, or by its protocol and up to 16 ports at one end, and hardware queues are: add a rule like {{ dscp = \"EF\" }} or {{ protocol = \"udp\", dst_port = 5060 }}, or leave --config out",
                path.display()
            ));
        }
        Ok((dscps.into_iter().collect(), ports.into_iter().collect()))
    }

    fn inventory(&self, machine: &dyn Machine) -> Result<Inventory, String> {
        let bar = progress("watching loads and rates");
        let window = Window {
            every: SAMPLE,
            samples: (self.window / SAMPLE.as_secs_f64()).round().max(1.0) as u32,
        };
        let ports = under_vlans(machine, &self.port_names(machine)?);
        let found = Inventory::take(machine, &ports, window, |share| {
            bar.set_position((share * 100.0) as u64);
        });
        bar.finish_and_clear();
        found.map_err(one_line)
    }

    /// A plan that leaves those interfaces alone.
    fn plan(
        &self,
        machine: &dyn Machine,
        left_alone: &Management,
    ) -> Result<(Inventory, TunePlan), String> {
        let options = self.options()?;
        let inventory = self.inventory(machine)?;
        let plan = left_alone.plan_around(machine, &inventory, &options);
        Ok((inventory, plan.map_err(one_line)?))
    }
}

/// A bar of 100 steps.
fn progress(message: &'static str) -> ProgressBar {
    let bar = ProgressBar::new(100);
    if let Ok(style) = ProgressStyle::with_template("{msg} [{bar:30}] {elapsed}") {
        bar.set_style(style);
    }
    bar.set_message(message);
    bar
}

impl JournalArgs {
    /// Namespaces have devices of their own, so each has its journal.
    fn path(&self, netns: Option<&str>) -> PathBuf {
        match (&self.journal, netns) {
            (Some(path), _) => path.clone(),
            (None, None) => journal::PATH.into(),
            (None, Some(name)) => {
                Path::new(journal::PATH).with_file_name(format!("tune-{name}.journal"))
            }
        }
    }
}

pub(crate) fn run(command: &Command, netns: Option<&str>) -> Result<(), String> {
    if netns.is_some() {
        rxlane_system::netns::mount_private_sysfs().map_err(one_line)?;
    }
    match command {
        Command::Plan(args) => plan(args),
        Command::Apply(args) => apply::run(args, &args.journal.path(netns)),
        Command::Confirm(args) => confirm::run(&args.path(netns)),
        Command::Guard(args) => confirm::guard(args),
        Command::Revert(args) => undo(&args.path(netns)),
        Command::Watch(args) => watch::run(args, &args.journal.path(netns)),
        Command::Measure(args) => measure::run(args, &args.journal.path(netns)),
        Command::Status(args) => status(args, &args.journal.path(netns)),
    }
}

fn plan(args: &PlanArgs) -> Result<(), String> {
    let machine: Box<dyn Machine>;
    let left_alone;
    match &args.root {
        None => {
            machine = Box::new(Live::default());
            left_alone = args.wanted.reached.left_alone(&*machine)?;
        }
        // Nobody is logged in to a copy; `apply` looks there.
        Some(root) => {
            machine = Box::new(Recorded::open(root).map_err(one_line)?);
            left_alone = Management::default();
        }
    }
    let (inventory, plan) = args.wanted.plan(&*machine, &left_alone)?;
    if args.json {
        let both = serde_json::json!({ "inventory": inventory, "plan": plan });
        output::json(&both)?;
    } else {
        text::inventory(&inventory);
        text::plan(&plan);
    }
    Ok(())
}

/// Opens a journal, and undoes first what waits in it to be confirmed although its time is over or its guard is dead.
fn open(path: &Path, machine: &Live) -> Result<Journal, String> {
    let mut journal = hold(path, machine)?;
    confirm::undo_unconfirmed(machine, &mut journal, path)?;
    Ok(journal)
}

/// Opens a journal as it is.
fn hold(path: &Path, machine: &Live) -> Result<Journal, String> {
    Journal::open(path, machine).map_err(|error| match &error {
        TuneError::System(SystemError::Refused { source, .. })
            if source.kind() == std::io::ErrorKind::PermissionDenied =>
        {
            "cannot change the kernel: run as root (sudo rxlane tune …)".into()
        }
        _ => one_line(error),
    })
}

/// The error, and the command that helps.
fn with_cure(error: TuneError) -> String {
    let cure = match &error {
        TuneError::Applied { .. } => " (rxlane tune revert)".into(),
        TuneError::RolledBack { area, .. } => {
            format!(
                ". To leave it out: --skip {}, or --ports without that device",
                area.name()
            )
        }
        TuneError::Stuck { .. } => {
            ": rxlane tune status shows what is left, rxlane tune revert tries again".into()
        }
        _ => String::new(),
    };
    one_line(error) + &cure
}

/// Journals of what may be in force at a time, of which each is undone by who has written it: the one of `apply`, that of `watch`, and that of the service
/// which gives a router's classes hardware queues (contrib/systemd/rxlane-queues.service).
fn journals(path: &Path) -> [PathBuf; 3] {
    [
        path.to_path_buf(),
        watch::journal_of(path),
        queues_journal_of(path),
    ]
}

fn queues_journal_of(path: &Path) -> PathBuf {
    path.with_extension("queues.journal")
}

/// `1 change is`, `2 changes are`.
fn in_force(changes: usize) -> String {
    counted(changes, "change is", "changes are")
}

fn undo(path: &Path) -> Result<(), String> {
    let machine = Live::default();
    let mut any = false;
    for path in [path.to_path_buf(), watch::journal_of(path)] {
        if Journal::peek(&path, &machine).map_err(one_line)?.is_none() {
            continue;
        }
        any = true;
        let mut journal = open(&path, &machine)?;
        restore(&machine, &mut journal)?;
    }
    let queues = queues_journal_of(path);
    if Journal::peek(&queues, &machine)
        .map_err(one_line)?
        .is_some_and(|found| !found.entries.is_empty())
    {
        println!(
            "hardware queues of rxlane-queues.service stay: stop it, or use --journal {}",
            queues.display()
        );
    } else if !any {
        println!("nothing is applied");
    }
    Ok(())
}

/// Undoes a journal and says what came of it.
fn restore(machine: &Live, journal: &mut Journal) -> Result<(), String> {
    text::reverted(&revert(machine, journal).map_err(one_line)?);
    Ok(())
}

fn status(args: &StatusArgs, path: &Path) -> Result<(), String> {
    let machine = Live::default();
    let (mut entries, mut pending) = (Vec::new(), None);
    for path in journals(path) {
        if let Some(found) = Journal::peek(&path, &machine).map_err(one_line)? {
            pending = pending.or(confirm::warning(&found, &path));
            entries.extend(found.entries);
        }
    }
    let mut rows = Vec::new();
    for entry in entries {
        let now = machine.get(&entry.knob).map_err(one_line)?;
        rows.push((entry, now));
    }
    if args.json {
        let rows: Vec<_> = rows
            .iter()
            .map(|(entry, now)| serde_json::json!({ "entry": entry, "now": now }))
            .collect();
        output::json(&serde_json::json!({ "changes": rows }))?;
    } else {
        text::status(&rows);
        if let Some(pending) = pending {
            println!("{pending}");
        }
    }
    Ok(())
}
