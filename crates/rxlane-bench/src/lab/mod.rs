//! A router between a generator and a sink, each a network namespace.
//!
//! ```text
//!   NAME-gen                NAME-router                 NAME-sink
//!   gen0 10.10.0.2  <--->  in0 10.10.0.1
//!                          out0 10.20.0.1  <--->  snk0 10.20.0.2
//!                                                 198.19.0.0/24 lies behind it
//! ```
//!
//! Addresses can be on devices over the ports ([`Over`]) instead. With `ports = N` there are N links on each side, 10.10.i.0/24 and 10.20.i.0/24, and the same in IPv6
//! (fd10:i::/64, fd20:i::/64). Guarantee: only namespaces that a lab made are changed or removed; a
//! record under /run says which.

mod firewall;
mod over;
mod queues;
mod record;
mod routes;
mod tuning;

use std::path::PathBuf;

use rxlane_system::stop;
use serde::{Deserialize, Serialize};

use crate::BenchError;
use crate::shell::{run, run_with_input};
use crate::{daemon, test_run};
pub use firewall::Firewall;
use over::End;
pub use over::Over;
pub use queues::{Asked, QueueCores};
pub use record::list;
pub use tuning::Settings;

/// What runs generator and sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drive {
    /// One endless poll of the sink: nobody pays for waking it, and drops are as cheap as with a driver (bpf/circle.bpf.c).
    Circle,
    /// A thread of `BPF_PROG_TEST_RUN` sends, and the sink is woken for what arrives.
    #[default]
    TestRun,
}

impl Drive {
    /// How its core is shared. The circle's poll never ends: others get a hundredth of its core, but whoever computes there for
    /// long holds packets up for some ms.
    ///
    /// A router's daemon does some of its work on the core that polls least. On a real router no generator is there, so in a lab
    /// it gets as much of the core as the generator does; so does what reads counters.
    pub fn nice(self) -> i32 {
        match self {
            Self::Circle => -20,
            Self::TestRun => test_run::NICE,
        }
    }
}

impl std::str::FromStr for Drive {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "circle" => Ok(Self::Circle),
            "test-run" => Ok(Self::TestRun),
            _ => Err(format!("`{text}`: use circle or test-run")),
        }
    }
}

/// What to build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabConfig {
    /// Prefix of the namespaces' names.
    pub name: String,
    /// Links on each side, 1 to 32.
    pub ports: u8,
    /// The router's firewall.
    pub firewall: Firewall,
    /// What its addresses are on.
    #[serde(default)]
    pub over: Over,
    /// A BGP table for the router to hold, all of it behind the sink.
    pub routes: Option<PathBuf>,
    /// Core that the router's NAPI threads run on.
    pub router_core: usize,
    /// Core that generator and sink run on.
    pub traffic_core: usize,
    /// Queues of each port beside that of these two cores, by theirs.
    #[serde(default)]
    pub more_queues: Vec<QueueCores>,
    /// Whether the router's core may halt while packets are measured, as in production; else its idle time is soaked up.
    #[serde(default)]
    pub router_core_halts: bool,
    /// What runs generator and sink.
    #[serde(default)]
    pub generator: Drive,
    /// The sink looks for packets this often instead of being woken for them; 0: woken.
    #[serde(default)]
    pub sink_coalesce_us: u32,
    /// Whether hosts of this machine send, by sockets: else what comes in stands for what a network card receives, and is served in XDP.
    #[serde(default)]
    pub hosts_send: bool,
    /// The process that the lab is for: once it is gone, so may the lab. None: it stays until `lab down`.
    #[serde(default)]
    pub owner: Option<u32>,
    /// The rxlane command that the lab's router runs, and that removes what a killed one left.
    #[serde(default = "beside_this_program")]
    pub rxlane: PathBuf,
}

/// Beside the running program, which is `rxlane-lab` wherever a lab is built by a command.
fn beside_this_program() -> PathBuf {
    let this = std::env::current_exe().unwrap_or_default();
    let beside = this.with_file_name("rxlane");
    // Else as the shell finds it.
    if beside.is_file() {
        beside
    } else {
        "rxlane".into()
    }
}

impl Default for LabConfig {
    fn default() -> Self {
        Self {
            name: "rxlane".into(),
            ports: 1,
            firewall: Firewall::None,
            over: Over::Port,
            routes: None,
            router_core: 0,
            traffic_core: 1,
            more_queues: Vec::new(),
            router_core_halts: false,
            generator: Drive::default(),
            sink_coalesce_us: 0,
            hosts_send: false,
            owner: None,
            rxlane: beside_this_program(),
        }
    }
}

/// A lab that is up.
#[derive(Debug, Clone)]
pub struct Lab {
    /// How it was built.
    pub config: LabConfig,
}

/// Which of the three namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// The namespace that traffic comes from.
    Gen,
    /// The namespace that forwards.
    Router,
    /// The namespace that traffic goes to.
    Sink,
}

impl Place {
    const ALL: [Self; 3] = [Self::Gen, Self::Router, Self::Sink];

    fn suffix(self) -> &'static str {
        match self {
            Self::Gen => "gen",
            Self::Router => "router",
            Self::Sink => "sink",
        }
    }
}

impl Lab {
    /// Builds a lab. What was made is removed again when building fails or is interrupted.
    ///
    /// # Errors
    /// A name in use, a missing tool, an unreadable table, an interruption.
    pub fn up(config: LabConfig) -> Result<Self, BenchError> {
        if !(1..=32).contains(&config.ports) {
            return Err(BenchError::Parameter(format!(
                "--ports {}: use 1 to 32",
                config.ports
            )));
        }
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if config.name.is_empty() || config.name.len() > 32 || !config.name.chars().all(valid) {
            return Err(BenchError::Parameter(format!(
                "--name `{}`: use up to 32 letters, digits, - and _",
                config.name
            )));
        }
        for config in record::abandoned() {
            tracing::info!("removing lab {}, whose benchmark was killed", config.name);
            let _ = Self { config }.down();
        }
        record::claim(&config)?;
        let lab = Self { config };
        if let Err(error) = lab.build() {
            let _ = lab.down();
            return Err(error);
        }
        Ok(lab)
    }

    /// Finds a lab that is up.
    ///
    /// # Errors
    /// [`BenchError::NoLab`].
    pub fn find(name: &str) -> Result<Self, BenchError> {
        Ok(Self {
            config: record::read(name)?,
        })
    }

    /// Removes the lab and everything in it.
    ///
    /// # Errors
    /// When the record or a namespace cannot be removed.
    pub fn down(&self) -> Result<(), BenchError> {
        for place in Place::ALL {
            let name = self.netns(place);
            if rxlane_system::netns::path_of(&name).exists() {
                self.remove_router(place)?;
                run(&format!("ip netns delete {name}"))?;
            }
        }
        record::release(&self.config.name)
    }

    /// Pins and files of a router that ran here would stay in memory after its namespace.
    fn remove_router(&self, place: Place) -> Result<(), BenchError> {
        let netns = self.netns(place);
        for pid in run(&format!("ip netns pids {netns}"))?.split_whitespace() {
            let name = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
            if let (Ok(pid), "rxlane") = (pid.parse(), name.trim()) {
                daemon::end(nix::unistd::Pid::from_raw(pid));
            }
        }
        daemon::detach(&self.config.rxlane, &netns);
        Ok(())
    }

    /// Name of a namespace.
    pub fn netns(&self, place: Place) -> String {
        format!("{}-{}", self.config.name, place.suffix())
    }

    /// The cores of each queue of a port.
    pub fn queues(&self) -> Vec<QueueCores> {
        let first = QueueCores {
            router: self.config.router_core,
            traffic: self.config.traffic_core,
        };
        let more = self.config.more_queues.iter().copied();
        std::iter::once(first).chain(more).collect()
    }

    /// Whether the router's cores are those of generators and sinks, too.
    pub fn shares_cores(&self) -> bool {
        let queues = self.queues();
        queues
            .iter()
            .any(|q| queues.iter().any(|o| o.traffic == q.router))
    }

    /// The router's interfaces, ingress first.
    pub fn router_ports(&self) -> Vec<String> {
        let n = self.config.ports;
        (0..n)
            .map(|i| format!("in{i}"))
            .chain((0..n).map(|i| format!("out{i}")))
            .collect()
    }

    /// The router's ends of the wires: its interfaces, or what is under them.
    pub(crate) fn wires(&self) -> Vec<String> {
        let ports = self.router_ports().into_iter();
        ports.map(|p| self.config.over.wire(&p)).collect()
    }

    fn build(&self) -> Result<(), BenchError> {
        for place in Place::ALL {
            stop::check()?;
            let name = self.netns(place);
            run(&format!("ip netns add {name}"))?;
            run(&format!("ip -n {name} link set lo up"))?;
            tuning::no_duplicate_address_detection(&name)?;
        }
        for i in 0..self.config.ports {
            self.link(Place::Gen, &format!("gen{i}"), &format!("in{i}"), 10, i)?;
            self.link(Place::Sink, &format!("snk{i}"), &format!("out{i}"), 20, i)?;
        }
        tuning::forwarding(&self.netns(Place::Router))?;
        self.addresses()?;
        tuning::offloads(self)?;
        tuning::queues(self)?;
        self.load_firewall()?;
        if let Some(file) = &self.config.routes {
            routes::load(self, file)?;
        }
        self.tune()?;
        Ok(())
    }

    /// Moves the NAPI threads to their cores. To be repeated after XDP programs come or go, because the
    /// threads may be new ones.
    ///
    /// # Errors
    /// When threads cannot be made or moved.
    pub fn tune(&self) -> Result<Settings, BenchError> {
        tuning::threads(self)
    }

    /// Loads the firewall in place of what is there, if the lab has one.
    ///
    /// # Errors
    /// When `nft` refuses; [`BenchError::NoFlowtable`] where the kernel lacks what the firewall needs.
    pub(crate) fn load_firewall(&self) -> Result<(), BenchError> {
        let (firewall, ports) = (self.config.firewall, self.router_ports());
        let load = |rules: &str| {
            run_with_input(
                &format!("ip netns exec {} nft -f -", self.netns(Place::Router)),
                &format!("flush ruleset\n{rules}"),
            )
        };
        let lacks = |options: &'static str| {
            move |refused: BenchError| BenchError::NoFlowtable {
                options,
                refused: Box::new(refused),
            }
        };
        let flowtable = firewall.flowtable_alone(&ports);
        if let Some(alone) = &flowtable {
            load(alone).map_err(lacks(
                "flowtables: CONFIG_NF_FLOW_TABLE and CONFIG_NF_FLOW_TABLE_INET",
            ))?;
        }
        let Some(rules) = firewall.rules(&ports) else {
            return Ok(());
        };
        let loaded = load(&rules).map(|_| ());
        match flowtable {
            Some(_) => loaded.map_err(lacks(
                "the statement `flow add` of nftables: CONFIG_NFT_FLOW_OFFLOAD",
            )),
            None => loaded,
        }
    }

    /// One veth: `outer` in gen or sink, `inner` in the router.
    fn link(
        &self,
        place: Place,
        outer: &str,
        inner: &str,
        net: u8,
        i: u8,
    ) -> Result<(), BenchError> {
        stop::check()?;
        let router = self.netns(Place::Router);
        let inner = self.config.over.wire(inner);
        let queues = match self.queues().len() {
            1 => String::new(),
            n => format!(" numrxqueues {n} numtxqueues {n}"),
        };
        run(&format!(
            "ip -n {router} link add {inner}{queues} type veth peer name {outer}{queues} netns {}",
            self.netns(place)
        ))?;
        let side = if net == 10 { 1 } else { 2 };
        run(&format!(
            "ip -n {router} link set {inner} address 02:00:00:{side:02x}:{i:02x}:01"
        ))?;
        run(&format!(
            "ip -n {} link set {outer} address 02:00:00:{side:02x}:{i:02x}:02",
            self.netns(place)
        ))
        .map(|_| ())
    }

    fn addresses(&self) -> Result<(), BenchError> {
        let over = self.config.over;
        let (mut router, mut gens, mut sink) = (String::new(), String::new(), String::new());
        let mut routes = String::new();
        for i in 0..self.config.ports {
            for (net, inner, outer, hosts) in
                [(10, "in", "gen", &mut gens), (20, "out", "snk", &mut sink)]
            {
                for (port, is_router, batch) in [(inner, true, &mut router), (outer, false, hosts)]
                {
                    let end = End {
                        port: &format!("{port}{i}"),
                        is_router,
                        net,
                        link: i,
                    };
                    let device = over.device(&end);
                    let host = if is_router { 1 } else { 2 };
                    *batch += &over.made(&end);
                    if is_router {
                        *batch += &format!("link set {} up\n", over.wire(end.port));
                    }
                    *batch += &format!("link set {} up\n", end.port);
                    *batch += &format!("addr add 10.{net}.{i}.{host}/24 dev {device}\n");
                    if over.has_ipv6() {
                        *batch +=
                            &format!("addr add fd{net}:{i:x}::{host}/64 dev {device} nodad\n");
                    }
                    *batch += &format!("link set {device} up\n");
                }
            }
            let of_vrf = over.of_vrf();
            routes += &format!("route add 198.19.{i}.0/24 via 10.20.{i}.2{of_vrf}\n");
            if over.has_ipv6() {
                routes += &format!("route add fd19:{i:x}::/64 via fd20:{i:x}::2{of_vrf}\n");
            }
        }
        router += &routes;
        for (net, batch) in [(10, &mut gens), (20, &mut sink)] {
            *batch += &format!("route add default via 10.{net}.0.1\n");
            if over.has_ipv6() {
                *batch += &format!("route add default via fd{net}:0::1\n");
            }
        }
        for (place, batch) in [
            (Place::Router, router),
            (Place::Gen, gens),
            (Place::Sink, sink),
        ] {
            let made = run_with_input(&format!("ip -n {} -batch -", self.netns(place)), &batch);
            made.map_err(|error| match over {
                Over::Port => error,
                _ => BenchError::Parameter(format!(
                    "--over {over}: {error}; does this kernel have such devices?"
                )),
            })?;
        }
        Ok(())
    }
}
