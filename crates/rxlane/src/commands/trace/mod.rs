//! `rxlane trace`: what happens to packets, one by one, and why.

mod account;
mod file;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rxlane_dataplane::instance::Instance;
use rxlane_dataplane::state::State;
use rxlane_dataplane::trace::{self, BUDGETS, TracedPacket, Tracer, Wanted};
use rxlane_system::stop;

use self::account::Accounts;
use self::file::Capture;
use super::run::require_capabilities;
use crate::one_line;
use crate::output::{self, counted};

#[derive(clap::Args)]
#[command(after_help = "Examples:
  sudo rxlane trace                                     packets of all classes, as the budget allows
  sudo rxlane trace --class voice --verdict kernel -c 10  why ten packets of a class did not go express
  sudo rxlane trace --verdict dropped --json            what is dropped, for machines
  sudo rxlane trace -w - | wireshark -k -i -            each packet with what happened to it as its comment

The router is traced while this runs, and two seconds longer if this is killed. While it runs each packet takes some time more,
and packets beyond the budget are not looked at. docs/src/how-to/monitor.md says what is seen.")]
pub(crate) struct Args {
    /// Only packets that the rules put into this class or that it serves; may be repeated
    #[arg(long, value_name = "NAME")]
    class: Vec<String>,
    /// Only packets of which this became; may be repeated
    #[arg(long, value_enum)]
    verdict: Vec<Verdict>,
    /// End after so many packets
    #[arg(short, long, value_name = "PACKETS", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Look at one packet in so many, drawn at random
    #[arg(long, value_name = "PACKETS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    one_in: u32,
    /// Packets that are shown in any second at most
    #[arg(long, value_name = "PACKETS", default_value_t = 1000, value_parser = budget())]
    budget: u32,
    /// Write them into a file as pcapng, as they came and with a comment; - is standard output
    #[arg(short, long, value_name = "FILE")]
    write: Option<PathBuf>,
    /// Print a line of JSON for each packet
    #[arg(long, conflicts_with = "write")]
    json: bool,
}

fn budget() -> clap::builder::RangedI64ValueParser<u32> {
    let (least, most) = (*BUDGETS.start(), *BUDGETS.end());
    clap::value_parser!(u32).range(i64::from(least)..=i64::from(most))
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Verdict {
    /// Forwarded by the express lane
    Express,
    /// Sent to its class's ring, or to the engine's
    Queued,
    /// Given to the Linux stack
    Kernel,
    /// Dropped by the program
    Dropped,
    /// Forwarded through the egress port's queueing discipline, past firewall and routing
    Fast,
}

impl From<Verdict> for trace::Verdict {
    fn from(verdict: Verdict) -> Self {
        match verdict {
            Verdict::Express => Self::Express,
            Verdict::Queued => Self::Queued,
            Verdict::Kernel => Self::Kernel,
            Verdict::Dropped => Self::Dropped,
            Verdict::Fast => Self::Fast,
        }
    }
}

/// How long a packet is waited for before it is looked whether to go on.
const WAIT: Duration = Duration::from_millis(200);
/// How often it is looked whether ports or classes are other ones.
const LOOK: Duration = Duration::from_millis(500);

pub(crate) fn run(args: &Args) -> Result<(), String> {
    require_capabilities("trace")?;
    let instance = Instance::current().map_err(one_line)?;
    let mut following = Following::begin(&instance, args)?;
    let mut capture = args.write.as_deref().map(open).transpose()?;
    let wanted = args.wanted(&following.state)?;
    let mut tracer = Tracer::begin(instance.clone(), &wanted).map_err(one_line)?;
    stop::listen();
    let mut seen = 0;
    while stop::check().is_ok() && args.count.is_none_or(|count| seen < count) {
        if following.has_changed(&instance, args)? {
            let wanted = args.wanted(&following.state)?;
            tracer.want(&wanted).map_err(one_line)?;
        }
        let Some(packet) = tracer.next(WAIT).map_err(one_line)? else {
            continue;
        };
        seen += 1;
        if !show(&packet, &following.accounts, args.json, capture.as_mut())? {
            break;
        }
    }
    let missed = tracer.not_seen().map_err(one_line)?;
    eprintln!(
        "{}; {} not looked at or not shown because of the budget, {} lost because they were not taken fast enough",
        counted(seen, "packet", "packets"),
        missed.withheld,
        missed.lost
    );
    Ok(())
}

/// Shows a packet. Returns whether somebody wants to see more.
fn show(
    packet: &TracedPacket,
    accounts: &Accounts,
    json: bool,
    capture: Option<&mut Capture<Box<dyn Write>>>,
) -> Result<bool, String> {
    let account = accounts.of(packet);
    match capture {
        Some(capture) => return capture.add(packet, &account),
        None if json => println!("{}", serde_json::to_string(&account).map_err(one_line)?),
        None => println!("{account}"),
    }
    Ok(!output::is_gone())
}

fn open(path: &Path) -> Result<Capture<Box<dyn Write>>, String> {
    if path == Path::new("-") {
        return Capture::begin(Box::new(std::io::stdout()), "standard output");
    }
    let name = path.display().to_string();
    let file = std::fs::File::create(path).map_err(|e| {
        format!(
            "cannot write {name}: {e}: check the path, its permissions and the space that is left"
        )
    })?;
    Capture::begin(Box::new(file), &name)
}

impl Args {
    /// What to ask of a router with this configuration.
    fn wanted(&self, state: &State) -> Result<Wanted, String> {
        let number = |name: &String| {
            let known = &state.config.classes;
            known.iter().position(|c| c.name == *name).ok_or_else(|| {
                let known: Vec<&str> = known.iter().map(|c| c.name.as_str()).collect();
                format!("`{name}` is none of the classes: {}", known.join(", "))
            })
        };
        Ok(Wanted {
            classes: self.class.iter().map(number).collect::<Result<_, _>>()?,
            verdicts: self.verdict.iter().map(|v| (*v).into()).collect(),
            one_in: self.one_in,
            per_second: self.budget,
        })
    }
}

/// What the router's numbers mean, also after a reload.
struct Following {
    state: State,
    accounts: Accounts,
    looked: Instant,
}

impl Following {
    fn begin(instance: &Instance, args: &Args) -> Result<Self, String> {
        let state = instance
            .load_state()
            .ok_or("no router in this network namespace; start one with `rxlane run -c FILE`")?;
        // A mistake in a name is said before anything is switched on.
        args.wanted(&state)?;
        Ok(Self {
            accounts: Accounts::of_router(&state),
            state,
            looked: Instant::now(),
        })
    }

    /// Whether ports or classes are other ones than at the last look.
    fn has_changed(&mut self, instance: &Instance, args: &Args) -> Result<bool, String> {
        if self.looked.elapsed() < LOOK {
            return Ok(false);
        }
        let now = Self::begin(instance, args)?;
        let same = now.state.config == self.state.config
            && now.state.options == self.state.options
            && now.state.ports == self.state.ports;
        *self = now;
        Ok(!same)
    }
}
