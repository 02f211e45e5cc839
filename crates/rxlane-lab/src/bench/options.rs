//! What all measurements take, and how they answer.

use std::path::{Path, PathBuf};

use clap::Args;
use rxlane_bench::bench::{self, Dut, EngineVariant, Options, Pattern, RealPorts, Traffic};
use rxlane_bench::frame::Frame;
use rxlane_bench::hog::Hog;
use rxlane_bench::lab::{Asked, Drive, Firewall, LabConfig, Over, QueueCores};
use rxlane_policy::strategy::StrategyName;

use crate::{one_line, tidy};

#[derive(Args)]
pub(crate) struct Common {
    /// Devices under test, alternating; ratios are to the first
    #[arg(long, default_value = "kernel,express", default_value_if("ingress", clap::builder::ArgPredicate::IsPresent, "external"), value_delimiter = ',', help = dut_help())]
    dut: Vec<Dut>,
    /// Strategies of the AF_XDP engine: sq, rr, ll-rr, ll-wfq; each is a device under test in the place of `afxdp`
    #[arg(long, value_delimiter = ',')]
    strategy: Vec<StrategyName>,
    /// Ring budgets of the AF_XDP engine; LL-RR takes that of BE for both
    #[arg(long, value_parser = two_budgets, value_name = "RT,BE")]
    budgets: Option<[u32; 2]>,
    /// What `--budgets` was called, in the other order
    #[arg(long, hide = true, value_parser = prb_is_gone)]
    prb: Option<u32>,
    /// Throttling of the AF_XDP engine: off, three-state, linear, net-dim, linear:R_MAX:R_MIN:RHO_MAX (per second), or an
    /// interval in ns; each is a device under test
    #[arg(long, value_delimiter = ',')]
    itr: Vec<String>,
    /// Share of packets marked EF
    #[arg(long, default_value_t = 0.2)]
    rt_ratio: f64,
    /// cbr, poisson, or pcap:FILE (its gaps, scaled to the rate)
    #[arg(long, default_value = "poisson")]
    pattern: Pattern,
    /// Ethernet frame size with FCS, bytes; imix: 64, 594 and 1518 in shares of 7, 4 and 1
    #[arg(long, default_value = "128", value_name = "BYTES")]
    frame: Frame,
    /// Flows of each class
    #[arg(long, default_value_t = 16)]
    flows: u32,
    /// Length of a trial
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Repetitions; results are medians
    #[arg(long, default_value_t = 5)]
    repeat: u32,
    /// The router's firewall: none; linear:N, N rules that every packet walks to the end; stateful:N, whose first rule
    /// accepts what belongs to a connection; flowtable:N, the same with connections taken off the stack by a flowtable, where
    /// the kernel has them; N alone is linear:N
    #[arg(long, default_value = "none", value_name = "FIREWALL")]
    firewall: Firewall,
    /// What the router's addresses are on, on both sides: port; vlan, qinq (802.1Q, two tags); macvlan (ingress only); bridge;
    /// bond (of one link); vrf; ipip, gre (tunnels over IPv4); vxlan. Test packets have the tags or outer headers
    #[arg(
        long,
        default_value = "port",
        value_name = "KIND",
        conflicts_with = "ingress"
    )]
    over: Over,
    /// Something of higher priority on the router's core, the same for all devices: 300/500us takes 300 us of every 500.
    /// What it really got stands with each result
    #[arg(long, value_name = "TAKES/EVERY")]
    hog: Option<Hog>,
    /// Links on each side of the router
    #[arg(long, default_value_t = 1)]
    ports: u8,
    /// Cores of the router: its ports get so many queues, each served by a core and filled by another one, and flows are
    /// spread over them
    #[arg(long, default_value_t = 1, conflicts_with_all = ["ingress", "hog"])]
    cores: usize,
    /// Generators and sinks run on the router's cores, on what it leaves of them, where the machine has too few others: the
    /// result says what the router had of each
    #[arg(long, requires = "cores")]
    share_cores: bool,
    /// Routing table for the router
    #[arg(long, value_name = "FILE")]
    routes: Option<PathBuf>,
    /// Send into this interface instead of building a lab
    #[arg(long = "in", value_name = "IF", requires_all = ["egress", "src", "dst", "gateway"])]
    ingress: Option<String>,
    /// Measure at this interface
    #[arg(long = "out", value_name = "IF", requires = "ingress")]
    egress: Option<String>,
    /// Source address of test packets (with --in)
    #[arg(long, value_name = "IPV4")]
    src: Option<std::net::Ipv4Addr>,
    /// Destination address, which the router must route to --out
    #[arg(long, value_name = "IPV4")]
    dst: Option<std::net::Ipv4Addr>,
    /// MAC address of the router at --in
    #[arg(long, value_name = "MAC", value_parser = mac)]
    gateway: Option<[u8; 6]>,
    #[command(flatten)]
    lab: LabArgs,
    /// Let the router's core halt when it is idle, as it does in production, instead of soaking up its idle time: waking it
    /// is part of every latency, and on a virtual machine most of it. It always may with --tcp, and where a class waits in
    /// a ring, whose thread would starve
    #[arg(long)]
    halt: bool,
    /// The sink looks for packets every so many us (1 to 1000) instead of being woken for them: the router's core no longer
    /// pays for waking it, and latencies grow by up to that
    #[arg(long, value_name = "US", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=1000))]
    sink_coalesce: u32,
    /// Seed of the traffic
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON (docs/src/reference/bench-json.md)
    #[arg(long)]
    json: bool,
    /// Write results in the form that the simulator has, too, by the file's end: .json, .csv or .parquet (docs/src/reference/results.md)
    #[arg(long, value_name = "FILE")]
    tidy: Option<PathBuf>,
    /// Write a self-contained HTML report
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn mac(text: &str) -> Result<[u8; 6], String> {
    let bytes: Result<Vec<u8>, _> = text.split(':').map(|b| u8::from_str_radix(b, 16)).collect();
    bytes
        .ok()
        .and_then(|b| b.try_into().ok())
        .ok_or_else(|| format!("`{text}` is no MAC address: write 02:00:00:00:00:01"))
}

fn dut_help() -> String {
    let list: Vec<String> = bench::DUTS
        .iter()
        .map(|(name, what)| format!("{name} ({what})"))
        .collect();
    format!(
        "Devices under test, alternating; ratios are to the first. One or more of: {}",
        list.join("; ")
    )
}

/// `60,4`.
fn two_budgets(text: &str) -> Result<[u32; 2], String> {
    let both: Option<Vec<u32>> = text.split(',').map(|n| n.trim().parse().ok()).collect();
    both.and_then(|both| both.try_into().ok())
        .ok_or_else(|| "give two ring budgets, RT first: --budgets 60,4".into())
}

fn prb_is_gone(_: &str) -> Result<u32, String> {
    Err("use --budgets RT,BE: highest class first".into())
}

impl Common {
    pub(crate) fn options(&self) -> Result<Options, String> {
        let duts = self.duts()?;
        self.check_over(&duts)?;
        let queues = self.lab.queues(self.cores, self.share_cores)?;
        let lab = self.lab.config_of(&queues)?;
        if queues.len() > 1 && lab.generator != Drive::Circle {
            return Err("--cores: queues are filled by --generator circle only".into());
        }
        let engine = duts.iter().find(|dut| dut.name().starts_with("afxdp"));
        if let Some(dut) = engine.filter(|_| queues.len() > 1) {
            let why = "the benchmark's engine has one worker";
            return Err(format!("--cores with --dut {}: {why}", dut.name()));
        }
        if self.sink_coalesce > 0 && lab.generator == Drive::Circle {
            return Err(
                "--sink-coalesce is for a sink that is woken: add --generator test-run".into(),
            );
        }
        let ports = match (
            &self.ingress,
            &self.egress,
            self.src,
            self.dst,
            self.gateway,
        ) {
            (Some(ingress), Some(egress), Some(src), Some(dst), Some(gateway)) => Some(RealPorts {
                ingress: ingress.clone(),
                egress: egress.clone(),
                src,
                dst,
                gateway,
                traffic_core: queues[0].traffic,
            }),
            _ => None,
        };
        Ok(Options {
            ports,
            lab: LabConfig {
                ports: self.ports,
                firewall: self.firewall,
                over: self.over,
                routes: self.routes.clone(),
                router_core_halts: self.halt,
                sink_coalesce_us: self.sink_coalesce,
                ..lab
            },
            hog: self.hog,
            tcp: 0,
            traffic: Traffic {
                rt_ratio: self.rt_ratio,
                pattern: self.pattern.clone(),
                frame: self.frame,
                flows: self.flows,
                seed: self.seed,
            },
            duts,
            seconds: self.seconds,
            repeat: self.repeat,
        })
    }

    /// Whether frames have room for what is to be in them, and all devices under test know it.
    fn check_over(&self, duts: &[Dut]) -> Result<(), String> {
        self.frame.check_room(self.over)?;
        let misses = matches!(
            self.over,
            Over::Macvlan | Over::Vrf | Over::Ipip | Over::Gre | Over::Vxlan
        );
        if misses && matches!(self.firewall, Firewall::Flowtable(_)) {
            return Err(format!(
                "--firewall {} with --over {}: flows are of other devices than the ports, so that the flowtable finds none",
                self.firewall, self.over
            ));
        }
        let bare = duts.iter().find(|dut| dut.name().starts_with("xdp-"));
        match bare.filter(|_| self.over != Over::Port) {
            None => Ok(()),
            Some(dut) => Err(format!(
                "--over {} with --dut {}: it knows Ethernet and IP alone",
                self.over,
                dut.name()
            )),
        }
    }

    /// Whether results that have no shared form were asked for in it; that of those that have one is checked.
    pub(super) fn check_tidy(&self, has_one: bool) -> Result<(), String> {
        match &self.tidy {
            None => Ok(()),
            Some(path) if has_one => tidy::format(path).map(|_| ()),
            Some(_) => {
                Err("--tidy: disturbances and steps are no table of points: use --json".into())
            }
        }
    }

    /// The devices under test, with the engine in all the variants asked for.
    fn duts(&self) -> Result<Vec<Dut>, String> {
        /// Each, or once nothing.
        fn or_default<T: Clone>(list: &[T]) -> Vec<Option<T>> {
            match list {
                [] => vec![None],
                list => list.iter().cloned().map(Some).collect(),
            }
        }
        let mut duts = Vec::new();
        for dut in &self.dut {
            if !dut.name().starts_with("afxdp") {
                duts.push(dut.clone());
                continue;
            }
            for itr in or_default(&self.itr) {
                for strategy in or_default(&self.strategy) {
                    let engine = EngineVariant {
                        strategy,
                        budgets: self.budgets,
                        itr: itr.clone(),
                    };
                    duts.push(engine.dut(dut.name())?);
                }
            }
        }
        Ok(duts)
    }

    pub(super) fn output<R: serde::Serialize + std::fmt::Display>(
        &self,
        report: &R,
        valid: bool,
        html: impl FnOnce() -> Result<Option<String>, String>,
    ) -> Result<(), String> {
        output(report, self.json, self.html.as_deref(), html)?;
        if let Some(path) = self.tidy.as_deref().filter(|_| valid) {
            tidy::write(report, path)?;
        }
        if valid {
            Ok(())
        } else {
            Err(
                "invalid run: the generator fell behind; offer less, or free the traffic core"
                    .into(),
            )
        }
    }
}

/// Which cores a lab has.
#[derive(Args)]
pub(super) struct Cores {
    /// Core of the router; of several the first, which others follow, or all
    #[arg(long, default_value = "0", value_delimiter = ',', value_name = "CORES")]
    router_core: Vec<usize>,
    /// Core of generator and sink; of several the first, which others follow, or all
    #[arg(long, default_value = "1", value_delimiter = ',', value_name = "CORES")]
    traffic_core: Vec<usize>,
}

impl Cores {
    /// The cores of each queue.
    fn queues(&self, cores: usize, shared: bool) -> Result<Vec<QueueCores>, String> {
        let asked = Asked {
            cores,
            router: &self.router_core,
            traffic: &self.traffic_core,
            shared,
        };
        let online = nix::unistd::sysconf(nix::unistd::SysconfVar::_NPROCESSORS_ONLN);
        let of_machine = online.map_err(|e| format!("cannot count the machine's cores: {e}"))?;
        asked
            .place(of_machine.unwrap_or(1) as usize)
            .map_err(one_line)
    }

    /// A lab of its own for this process, whose router has one core.
    pub(super) fn config(&self) -> Result<LabConfig, String> {
        config_of(&self.queues(1, false)?)
    }
}

fn config_of(queues: &[QueueCores]) -> Result<LabConfig, String> {
    if let Some((capability, _)) = rxlane_system::capabilities::missing() {
        return Err(format!(
            "cannot build a lab without {capability}: run as root (sudo rxlane-lab bench …)"
        ));
    }
    Ok(LabConfig {
        name: format!("rxbench{}", std::process::id()),
        router_core: queues[0].router,
        traffic_core: queues[0].traffic,
        more_queues: queues[1..].to_vec(),
        owner: Some(std::process::id()),
        ..LabConfig::default()
    })
}

/// The lab that a command builds.
#[derive(Args)]
pub(super) struct LabArgs {
    #[command(flatten)]
    cores: Cores,
    /// What runs generator and sink. circle: one endless poll, so that nobody pays for waking the sink, and what is dropped
    /// goes back to the kernel as with a driver. test-run: a thread that gives away frames of a pool behind a lock, and a sink
    /// that the router's core wakes; on a virtual machine each costs more than a packet. It is always used between real ports
    #[arg(long, default_value = "circle", value_name = "HOW")]
    generator: Drive,
}

impl LabArgs {
    /// The cores of each queue.
    fn queues(&self, cores: usize, shared: bool) -> Result<Vec<QueueCores>, String> {
        self.cores.queues(cores, shared)
    }

    /// A lab of its own for this process, whose router has one core.
    pub(super) fn config(&self) -> Result<LabConfig, String> {
        self.config_of(&self.queues(1, false)?)
    }

    fn config_of(&self, queues: &[QueueCores]) -> Result<LabConfig, String> {
        Ok(LabConfig {
            generator: self.generator,
            ..config_of(queues)?
        })
    }
}

/// Prints a report, and writes its page.
pub(super) fn output<R: serde::Serialize + std::fmt::Display>(
    report: &R,
    json: bool,
    file: Option<&Path>,
    html: impl FnOnce() -> Result<Option<String>, String>,
) -> Result<(), String> {
    if json {
        crate::output::json(report)?;
    } else {
        println!("{report}");
    }
    let Some(path) = file else { return Ok(()) };
    if let Some(page) = html()? {
        crate::output::file(path, page.as_bytes())?;
        eprintln!("wrote {}", path.display());
    }
    Ok(())
}
