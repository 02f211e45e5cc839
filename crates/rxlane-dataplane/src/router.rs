//! A router's life: start, reload, detach; below, what happens while it runs.

pub(crate) mod engine;
mod events;
mod flows;
mod publish;
mod refresh;
mod rests;
mod undo;
mod watch;
mod xdp_health;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd;
use std::path::Path;
use std::time::Instant;

use rxlane_bpf::BpfError;
use rxlane_bpf::features::Features;
use rxlane_config::RouterConfig;
use rxlane_engine::Engine;
use rxlane_ruleset::Uses;
use rxlane_system::links::{self, Links};
use rxlane_system::route_mtu::RouteMtu;
use rxlane_system::sysctl::Held;
use rxlane_topology::Topology;
use tracing::{info, warn};

use crate::DataplaneError;
use crate::bridge_fdb::Bridges;
use crate::changeover;
use crate::export::Exporter;
use crate::gro_batch::Batches;
use crate::instance::Instance;
use crate::lanes::fast::Fast;
use crate::lanes::next_hops::Noted;
use crate::lanes::overload::{self, Shared};
use crate::lanes::program::LaneProgram;
use crate::lanes::senders::Senders;
use crate::link_queues::LinkQueues;
use crate::options::Options;
use crate::orphans::{self, remove};
use crate::port_names;
use crate::ports;
use crate::pppoe::Sessions;
use crate::refusing::Refusing;
use crate::requirements::{check, refuse};
use crate::rests::Rests;
use crate::sentry::Sentry;
use crate::state::State;
use crate::subscriptions::Subscriptions;
use crate::tags::Insisting;
use crate::tunnels::Tunnels;
use crate::xdp_health::XdpHealth;

/// What a start has attached.
type Attached = (Shared, LaneProgram, State, Option<Engine>, Sessions);

/// The router of the current network namespace, held by one daemon.
pub struct Router {
    pub(crate) instance: Instance,
    pub(crate) subscribed: Subscriptions,
    pub(crate) shared: Shared,
    pub(crate) lane: LaneProgram,
    pub(crate) state: State,
    pub(crate) engine: Option<Engine>,
    pub(crate) route_mtu: RouteMtu,
    /// The smallest MTU of the ports.
    pub(crate) port_mtu: u32,
    pub(crate) egress_asked: Instant,
    /// How often drivers have been asked.
    pub(crate) asked: u64,
    /// Whether connection tracking knew of no flow, last.
    pub(crate) untracked: bool,
    /// The same when rules were looked at last.
    pub(crate) looked_untracked: bool,
    pub(crate) flows: Option<Held>,
    pub(crate) told: Instant,
    pub(crate) noted: Noted,
    pub(crate) batches: Batches,
    pub(crate) xdp_health: XdpHealth,
    pub(crate) sentry: Sentry,
    /// How often the sentry had closed the lane when somebody looked around last.
    pub(crate) looked: u64,
    /// Attached while rules ask for the MAC address of senders.
    pub(crate) senders: Option<Senders>,
    /// What the sentry asks about, of which nobody tells.
    pub(crate) asked_about: Option<(Uses, Vec<u32>, Vec<u32>)>,
    /// Whether hooks or filters see what leaves by a port.
    pub(crate) seen_at_egress: bool,
    /// Ports that XDP cannot send to, as it was found and said last.
    pub(crate) mute: BTreeSet<String>,
    pub(crate) insisting: Insisting,
    pub(crate) refusing: Refusing,
    pub(crate) fast: Fast,
    pub(crate) rests: Rests,
    pub(crate) link_queues: LinkQueues,
    pub(crate) bridges: Bridges,
    /// Whether what follows from devices is to be saved.
    pub(crate) unsaved: bool,
    /// What sees packets of ports of bridges, as it was found last.
    pub(crate) filtered: BTreeMap<u32, String>,
    pub(crate) sessions: Sessions,
    pub(crate) tunnels: Tunnels,
    pub(crate) exporter: Exporter,
    _lock: crate::lock::Lock,
}

impl Router {
    /// Starts the router, taking over what a killed daemon of the same version left.
    ///
    /// # Errors
    /// Everything that [`DataplaneError`] names. Nothing is left behind by a failed fresh start, and a
    /// failed take-over leaves the orphaned router as it was.
    ///
    /// `before_threads` is called when programs are attached and no worker has been started: the time to give up privileges,
    /// which each thread has for itself.
    pub fn start(
        config: RouterConfig,
        config_file: &Path,
        options: impl Into<Options>,
        before_threads: impl FnOnce(),
    ) -> Result<Self, DataplaneError> {
        let options = options.into();
        let subscribed = Subscriptions::subscribe()?;
        if let Err(error) = orphans::remove_abandoned() {
            warn!(%error, "cannot remove what other routers have left");
        }
        let instance = Instance::current()?;
        let lock = instance.lock()?;
        // Opened while that is allowed.
        let batches = Batches::open();
        let features = Features::probe();
        let written = config.ports.clone();
        let devices = links::all()?;
        let config = port_names::of_devices(&config, &devices)?;
        check(&config, options, &features, &devices)?;
        refuse(&config, options.accept_bypass, &devices)?;
        let old = instance
            .load_state()
            .filter(|s| s.version == env!("CARGO_PKG_VERSION"));
        let orphan = old.is_some() && Shared::open(&instance.pins).is_ok();
        if orphan {
            info!("taking over the router that a stopped daemon left");
        } else {
            instance.remove_pins()?;
        }
        let started = Self::attach_all(
            &instance,
            (config, written, options),
            config_file,
            features,
            old.filter(|_| orphan),
            before_threads,
            &devices,
        );
        match started {
            Ok((shared, lane, state, engine, sessions)) => {
                let sentry = Sentry::new(&shared.gates)?;
                sentry.follow(lane.witness.as_ref());
                let mut router = Self {
                    sentry,
                    looked: 0,
                    senders: None,
                    asked_about: None,
                    instance,
                    subscribed,
                    shared,
                    lane,
                    state,
                    engine,
                    route_mtu: RouteMtu::follow()?,
                    seen_at_egress: false,
                    port_mtu: 0,
                    egress_asked: Instant::now(),
                    asked: 1,
                    untracked: false,
                    looked_untracked: false,
                    flows: None,
                    told: Instant::now(),
                    noted: Noted::default(),
                    batches,
                    xdp_health: XdpHealth::default(),
                    mute: BTreeSet::new(),
                    insisting: Insisting::default(),
                    refusing: Refusing::default(),
                    fast: Fast::default(),
                    rests: Rests::default(),
                    link_queues: LinkQueues::default(),
                    bridges: Bridges::default(),
                    unsaved: false,
                    filtered: BTreeMap::new(),
                    sessions,
                    tunnels: Tunnels::default(),
                    exporter: Exporter::default(),
                    _lock: lock,
                };
                let begun = router
                    .wake_silent_ports(&devices)
                    .and_then(|()| router.reevaluate());
                if let Err(error) = begun {
                    if !orphan {
                        remove(&router.instance, &router.batches)?;
                    }
                    return Err(error);
                }
                router.settle_flows();
                Ok(router)
            }
            Err(error) => {
                if !orphan {
                    remove(&instance, &batches)?;
                }
                Err(error)
            }
        }
    }

    fn attach_all(
        instance: &Instance,
        (config, written, options): (RouterConfig, Vec<String>, Options),
        config_file: &Path,
        features: Features,
        old: Option<State>,
        before_threads: impl FnOnce(),
        devices: &Links,
    ) -> Result<Attached, DataplaneError> {
        instance.create()?;
        let (shared, controller) = match &old {
            Some(old) => (
                Shared::open(&instance.pins)?,
                overload::of_these(&old.programs),
            ),
            None => Shared::load(instance, &features)?,
        };
        let mut state = State {
            version: env!("CARGO_PKG_VERSION").into(),
            pid: std::process::id(),
            config_file: config_file.into(),
            ports: ports::slots(&config, old.as_ref(), devices)?,
            config,
            written,
            options,
            metrics: old.as_ref().and_then(|o| o.metrics.clone()),
            features,
            programs: controller,
            objections: Vec::new(),
            kept: Vec::new(),
            topology: Topology::default(),
            sessions: Vec::new(),
            tunnels: Vec::new(),
            queues: BTreeMap::new(),
            warnings: Vec::new(),
            unconfirmed: old.as_ref().and_then(|o| o.unconfirmed.clone()),
        };
        let plan = engine::plan(&state.config, old.as_ref())?;
        let mut lane = changeover::change(
            instance,
            &shared,
            &mut state,
            old.as_ref(),
            None,
            plan.as_ref(),
        )?;
        let sessions = Sessions::open(instance, &shared)?;
        before_threads();
        let engine = engine::start(instance, &mut state, &mut lane, plan)?;
        instance.save_state(&state)?;
        Ok((shared, lane, state, engine, sessions))
    }

    /// Replaces the configuration: each packet is served by the old or the new one.
    ///
    /// # Errors
    /// As [`Router::start`]; the old configuration then stays in force.
    pub fn reload(&mut self, config: RouterConfig, options: Options) -> Result<(), DataplaneError> {
        // News of ports may not have been heard yet.
        self.follow_ports(Some(&[]))?;
        let written = config.ports.clone();
        let devices = &links::all()?;
        let config = port_names::of_devices(&config, devices)?;
        check(&config, options, &self.state.features, devices)?;
        refuse(&config, options.accept_bypass, devices)?;
        let mut state = State {
            ports: ports::slots(&config, Some(&self.state), devices)?,
            config,
            written,
            options,
            programs: overload::of_these(&self.state.programs),
            warnings: Vec::new(),
            ..self.state.clone()
        };
        let known = Some(&self.state);
        let (plan, was) = (
            engine::plan(&state.config, known)?,
            engine::plan(&self.state.config, known)?,
        );
        self.lane = changeover::change(
            &self.instance,
            &self.shared,
            &mut state,
            Some(&self.state),
            Some(&self.lane),
            plan.as_ref(),
        )?;
        self.sentry.follow(self.lane.witness.as_ref());
        self.bridges = Bridges::default();
        self.tunnels.forget_ends();
        // The new program sends nothing to the old sockets; what they hold is served first.
        self.engine = None;
        match engine::start(&self.instance, &mut state, &mut self.lane, plan) {
            Ok(engine) => {
                self.engine = engine;
                self.state = state;
                self.instance.save_state(&self.state)?;
                self.settle_flows();
                self.reevaluate()
            }
            Err(error) => {
                let mut old = State {
                    programs: overload::of_these(&self.state.programs),
                    ..self.state.clone()
                };
                self.lane = changeover::change(
                    &self.instance,
                    &self.shared,
                    &mut old,
                    Some(&state),
                    Some(&self.lane),
                    was.as_ref(),
                )?;
                self.sentry.follow(self.lane.witness.as_ref());
                self.engine = engine::start(&self.instance, &mut old, &mut self.lane, was)?;
                Err(error)
            }
        }
    }

    /// Answers whoever asked for a reload.
    ///
    /// # Errors
    /// When the answer cannot be written.
    pub fn report_reload(&self, error: Option<&str>) -> Result<(), BpfError> {
        self.instance.report_reload(error)
    }

    /// The same of a start: why its file was refused, where the router goes on as it was. Otherwise what was refused before is forgotten.
    ///
    /// # Errors
    /// When the answer cannot be written.
    pub fn report_start(&self, error: Option<&str>) -> Result<(), BpfError> {
        if error.is_none() && self.instance.reload_error().is_none() {
            return Ok(());
        }
        self.instance.report_reload(error)
    }

    /// Remembers where metrics are shown, for a start whose file is wrong.
    ///
    /// # Errors
    /// When the state cannot be written.
    pub fn shows_metrics_on(&mut self, metrics: Option<String>) -> Result<(), BpfError> {
        if self.state.metrics == metrics {
            return Ok(());
        }
        self.state.metrics = metrics;
        self.instance.save_state(&self.state)
    }

    /// What the router was started with and what it found.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The lane program, for [test runs](rxlane_bpf::test_run::test_run).
    pub fn program(&self) -> std::os::fd::BorrowedFd<'_> {
        self.lane.program.as_fd()
    }

    pub(crate) fn witness(&self) -> Option<&crate::lanes::witness::WitnessMaps> {
        self.lane.witness.as_deref()
    }

    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn cores(&self) -> &libbpf_rs::MapHandle {
        &self.shared.cores
    }

    /// Detaches from all ports and removes everything; the kernel goes on forwarding.
    ///
    /// # Errors
    /// When a pin or file cannot be removed.
    pub fn detach(mut self) -> Result<(), DataplaneError> {
        self.engine = None;
        self.end_flows()?;
        remove(&self.instance, &self.batches)
    }
}
