//! `rxlane-lab bench call`: calls beside TCP.

use clap::Args;
use rxlane_bench::bench::Dut;
use rxlane_bench::call::{Beside, Direction, Matrix, Options, call};
use rxlane_bench::lab::{Drive, Firewall, LabConfig};

use super::options::{Cores, output};
use crate::one_line;

#[derive(Args)]
pub(crate) struct Call {
    /// Devices under test, alternating; what is worse is worse than the first
    #[arg(
        long,
        default_value = "kernel,express-established,express-all-established",
        value_delimiter = ','
    )]
    dut: Vec<Dut>,
    /// Long TCP connections, of each direction
    #[arg(long, default_value = "1,8", value_delimiter = ',')]
    flows: Vec<u32>,
    /// Which way their data go: down (to the clients), up, both
    #[arg(long, default_value = "down", value_delimiter = ',')]
    direction: Vec<Direction>,
    /// Congestion control, by its name in Linux: cubic, bbr, reno
    #[arg(
        long,
        default_value = "cubic",
        value_delimiter = ',',
        value_name = "NAME"
    )]
    congestion: Vec<String>,
    /// Whether both ends negotiate ECN: off, on
    #[arg(long, default_value = "off", value_delimiter = ',', value_parser = on_or_off, value_name = "off|on")]
    ecn: Vec<bool>,
    /// Gbit/s that the link to each host takes, through a ring of 256 packets that pushes back; none: as much as the hosts' core does
    #[arg(long, default_value = "none", value_delimiter = ',', value_name = "GBPS|none", value_parser = link)]
    link_out: Vec<Link>,
    /// Gbit/s that each host sends to the router at most; none: as much as it can
    #[arg(long, default_value = "none", value_delimiter = ',', value_name = "GBPS|none", value_parser = link)]
    link_in: Vec<Link>,
    /// Firewalls: none, linear:N, stateful:N, flowtable:N
    #[arg(
        long,
        default_value = "none,stateful:60,linear:200",
        value_delimiter = ','
    )]
    firewalls: Vec<Firewall>,
    /// Calls at a time, each 50 packets a second both ways, marked EF
    #[arg(long, default_value_t = 4)]
    calls: u32,
    #[command(flatten)]
    others: Others,
    /// Time that counts in a trial, after a second in which connections find their rate
    #[arg(long, default_value_t = 5.0)]
    seconds: f64,
    /// Repetitions; results are medians
    #[arg(long, default_value_t = 3)]
    repeat: u32,
    #[command(flatten)]
    hosts: Hosts,
    /// Print JSON (docs/src/reference/bench-json.md)
    #[arg(long)]
    json: bool,
}

/// What else goes through the router.
#[derive(Args)]
struct Others {
    /// Players, each 64 packets a second both ways, marked CS4
    #[arg(long, default_value_t = 0)]
    games: u32,
    /// Questions to a name server a second, each a connection of its own, not marked
    #[arg(long, default_value_t = 0)]
    names: u32,
    /// Readers of pages of 100 kB, each page a TCP connection of its own, 0.1 s after the one before
    #[arg(long, default_value_t = 0)]
    pages: u32,
}

/// The lab of connections and calls.
#[derive(Args)]
pub(super) struct Hosts {
    /// Serve the router's ports in XDP, as those of network cards, and not at tc ingress, as veths
    #[arg(long)]
    xdp: bool,
    /// Have GRO merge nothing on the router's ports, so that its queues hold frames, as the ring of a network card does
    #[arg(long)]
    no_merge: bool,
    /// Packets that wait in front of a host's interface while the router's ring is full, as since Linux 6.16; 0: they are lost
    #[arg(long, default_value_t = HOST_QUEUE, value_name = "PACKETS")]
    host_queue: u32,
    /// Queueing discipline of the router's ports, such as pfifo_fast, fq_codel or cake, where the kernel has it; the system's
    /// default otherwise
    #[arg(long, value_name = "KIND")]
    qdisc: Option<String>,
    /// Pace connections, none faster than so many Gbit/s
    #[arg(long, value_name = "GBPS", value_parser = gigabits)]
    pace: Option<u64>,
    #[command(flatten)]
    cores: Cores,
}

/// Packets that wait in front of a host's interface, as of a `txqueuelen`.
const HOST_QUEUE: u32 = 1000;

impl Hosts {
    pub(super) fn options(&self, duts: &[Dut]) -> Result<Options, String> {
        Ok(Options {
            in_xdp: self.xdp,
            merges: !self.no_merge,
            host_queue: self.host_queue,
            qdisc: self.qdisc.clone(),
            paced_bps: self.pace,
            ..Self::default_of(self.cores.config()?, duts)
        })
    }

    /// Without any option.
    pub(super) fn default_of(lab: LabConfig, duts: &[Dut]) -> Options {
        Options {
            lab: LabConfig {
                generator: Drive::TestRun,
                router_core_halts: true,
                ..lab
            },
            duts: duts.to_vec(),
            calls: 1,
            beside: Beside::default(),
            in_xdp: false,
            merges: true,
            host_queue: HOST_QUEUE,
            qdisc: None,
            paced_bps: None,
            seconds: 1.0,
            repeat: 1,
        }
    }
}

/// Bits a second of a link, if it has a rate.
#[derive(Debug, Clone, Copy)]
pub(super) struct Link(pub(super) Option<u64>);

pub(super) fn link(text: &str) -> Result<Link, String> {
    match text {
        "none" => Ok(Link(None)),
        _ => Ok(Link(Some(gigabits(text)?))),
    }
}

pub(super) fn on_or_off(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}`: use off or on")),
    }
}

/// Bits a second.
fn gigabits(text: &str) -> Result<u64, String> {
    match text.parse::<f64>() {
        Ok(gigabits) if (0.001..=1000.0).contains(&gigabits) => Ok((gigabits * 1e9) as u64),
        _ => Err(format!("`{text}` is no rate: use 0.001 to 1000 Gbit/s")),
    }
}

pub(super) fn run(args: &Call) -> Result<(), String> {
    let matrix = Matrix {
        firewalls: args.firewalls.clone(),
        flows: args.flows.clone(),
        directions: args.direction.clone(),
        congestions: args.congestion.clone(),
        ecn: args.ecn.clone(),
        links_bps: args.link_out.iter().map(|link| link.0).collect(),
        links_in_bps: args.link_in.iter().map(|link| link.0).collect(),
    };
    let options = Options {
        calls: args.calls,
        beside: Beside {
            games: args.others.games,
            names: args.others.names,
            pages: args.others.pages,
        },
        seconds: args.seconds,
        repeat: args.repeat,
        ..args.hosts.options(&args.dut)?
    };
    let report = call(&options, &matrix).map_err(one_line)?;
    output(&report, args.json, None, || Ok(None))
}
