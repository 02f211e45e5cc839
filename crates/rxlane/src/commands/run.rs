//! `rxlane run`: the daemon. It starts the router, then sleeps until there is a signal or the router has something to do.

mod announce;

use std::os::fd::AsFd;
use std::path::Path;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rxlane_bpf::features::conntrack_is_a_module;
use rxlane_config::{Complaint, Configuration, Datapath, Listen, STANDARD_INPUT};
use rxlane_dataplane::instance::Instance;
use rxlane_dataplane::options::Options;
use rxlane_dataplane::orphans;
use rxlane_dataplane::router::Router;
use rxlane_dataplane::undo::Ask;
use rxlane_system::{capabilities, seccomp};
use sd_notify::NotifyState;
use tracing::{error, info, warn};

use self::announce::{Watchdog, announce, doing, serving, tell};
use super::config::ConfigFile;
use crate::observe::listener::Listener;
use crate::observe::server::{Ready, Server};
use crate::one_line;

#[derive(clap::Args)]
#[command(
    after_help = "Signals: SIGHUP reads the configuration again, SIGTERM and SIGINT detach and end, SIGUSR1 ends and leaves the
lanes to the next start, as a restart of the service does.
A killed daemon leaves a working router; the next start takes it over, `rxlane detach` removes it."
)]
pub(crate) struct Args {
    #[command(flatten)]
    config: ConfigFile,
    /// Allow trust = "all" although a firewall filters forwarded packets, which the express lane then bypasses
    #[arg(long)]
    accept_bypass: bool,
    /// Change no packet and drop none: count what would become of each, as mode = "observe" in the file does
    #[arg(long)]
    observe: bool,
}

/// What the file and the command line say of how to run.
pub(super) fn options(config: &Configuration, accept_bypass: bool, observe: bool) -> Options {
    Options {
        accept_bypass,
        latency: config.latency,
        observe: config.observe || observe,
        flows: config.flows,
        ..Options::default()
    }
}

pub(crate) fn run(args: &Args) -> Result<(), String> {
    let file = args.config.path();
    if file == Path::new(STANDARD_INPUT) {
        return Err("run needs a file instead of standard input, because a reload reads it again: rxlane run -c FILE".into());
    }
    let before = before();
    let (mut config, mut refused) = match (args.config.load(), &before) {
        (Ok(config), _) => (config, None),
        (Err(message), Some(before)) => (before.clone(), Some(message)),
        (Err(message), None) => return Err(message),
    };
    // A reload may be asked for from another folder.
    let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.into());
    require_capabilities("run")?;
    // Signals are read from a descriptor, so they must be blocked before any thread starts.
    let mut signals = SigSet::empty();
    for signal in [
        Signal::SIGHUP,
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGUSR1,
    ] {
        signals.add(signal);
    }
    signals.thread_block().map_err(one_line)?;
    let signals = SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
        .map_err(one_line)?;
    let mut ready = None;
    let mut started = start(&config, args, &file, &mut ready);
    if let (Err(message), None, Some(before)) = (&started, &refused, before)
        && (before.router != config.router || before.observe != config.observe)
    {
        refused = Some(message.clone());
        config = before;
        started = start(&config, args, &file, &mut ready);
    }
    let mut router = started.map_err(|e| match &refused {
        Some(first) => format!("{first}; and the configuration before cannot be had: {e}"),
        None => e,
    })?;
    remember_metrics(&mut router, config.metrics.as_ref());
    doubt(&config.warnings, &file);
    announce(&router);
    if let Some(message) = &refused {
        error!("keeping the configuration that was in force before this start: {message}");
    }
    if let Err(e) = router.report_start(refused.as_deref()) {
        warn!("{}", one_line(e));
    }
    let server = Server::start(ready.unwrap_or_default(), config.metrics)?;
    router.listen().map_err(one_line)?;
    let status = doing(&router, refused.as_deref());
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
    let mut watchdog = Watchdog::asked_for();
    loop {
        watchdog.feed();
        let sources = [signals.as_fd()].into_iter().chain(router.sources());
        let sources = sources.map(|fd| PollFd::new(fd, PollFlags::POLLIN));
        let mut waiting: Vec<PollFd<'_>> = sources.collect();
        let within = PollTimeout::try_from(router.within()).unwrap_or(PollTimeout::ZERO);
        match poll(&mut waiting, within) {
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(e) => return Err(format!("cannot wait for events: {e}")),
        }
        while let Ok(Some(signal)) = signals.read_signal() {
            if signal.ssi_signo == Signal::SIGHUP as u32 {
                reload(&mut router, args, &server);
            } else if signal.ssi_signo == Signal::SIGUSR1 as u32 {
                tell(&[NotifyState::Stopping]);
                info!("ended; the lanes go on, and the next start takes them over");
                return Ok(());
            } else {
                tell(&[NotifyState::Stopping]);
                forget_socket();
                router.detach().map_err(one_line)?;
                info!("detached; the kernel forwards alone");
                return Ok(());
            }
        }
        undo_what_nobody_confirms(&mut router, &server);
        router.handle_events();
    }
}

/// What a router was told whose daemon has ended and whose lanes are there still: a restart with a file that is wrong changes nothing, as a
/// reload.
fn before() -> Option<Configuration> {
    let state = orphans::left_behind().ok().flatten()?;
    Some(Configuration {
        router: state.config,
        latency: state.options.latency,
        flows: state.options.flows,
        observe: state.options.observe,
        metrics: state.metrics.and_then(|to| to.parse().ok()),
        warnings: Vec::new(),
    })
}

/// Starts the router. Privileges are given up, and listeners made, the first time that it gets so far: `ready` is empty until then.
fn start(
    config: &Configuration,
    args: &Args,
    file: &Path,
    ready: &mut Option<Ready>,
) -> Result<Router, String> {
    // A reload may turn an engine on, but only one that has been there from the start can come back.
    let engine = matches!(config.router.datapath, Datapath::Afxdp(_));
    let before_threads = || {
        if ready.is_some() {
            return;
        }
        // Afterwards they could not be given to the group. What fails here is tried again, and told then.
        *ready = Some(Ready {
            status: status_socket(),
            metrics: match &config.metrics {
                Some(to @ Listen::Unix(_)) => Listener::bind(to).ok(),
                _ => None,
            },
        });
        confine(engine);
    };
    let options = options(config, args.accept_bypass, args.observe);
    Router::start(config.router.clone(), file, options, before_threads).map_err(one_line)
}

/// Says what is hardly meant in a file that was taken.
fn doubt(warnings: &[Complaint], file: &Path) {
    for warning in warnings {
        warn!("{}:{}: {}", file.display(), warning.line, warning.message);
    }
}

fn remember_metrics(router: &mut Router, metrics: Option<&Listen>) {
    if let Err(e) = router.shows_metrics_on(metrics.map(Listen::as_written)) {
        warn!("{}", one_line(e));
    }
}

/// The socket that answers whoever may not read the maps. The router works without.
fn status_socket() -> Option<Listener> {
    let instance = Instance::current().ok()?;
    match Listener::at(&instance.socket()) {
        Ok(listener) => {
            if rxlane_system::netns::is_the_machines_own() {
                forget_socket();
                let link = Instance::well_known_socket();
                if let Err(e) = std::os::unix::fs::symlink(instance.socket(), &link) {
                    warn!("cannot make {}: {e}", link.display());
                }
            }
            Some(listener)
        }
        Err(message) => {
            warn!("only root can ask for the status: {message}");
            None
        }
    }
}

/// Removes the name that leads to this router's socket.
fn forget_socket() {
    let link = Instance::well_known_socket();
    let ours = Instance::current().is_ok_and(|instance| {
        std::fs::read_link(&link).is_ok_and(|to| to == instance.socket() || !to.exists())
    });
    if ours {
        let _ = std::fs::remove_file(link);
    }
}

/// Gives up what starting needed and serving does not.
fn confine(engine: bool) {
    let mut more = Vec::new();
    if engine {
        more.extend(capabilities::ENGINE);
    }
    if conntrack_is_a_module() {
        more.extend(capabilities::MODULE_TYPES);
    }
    if let Err(message) = capabilities::drop_the_rest(&more) {
        warn!("cannot drop capabilities: {message}");
    }
    if let Err(message) = seccomp::refuse_what_is_never_needed() {
        warn!("cannot restrict system calls: {message}");
    }
}

/// What loading and attaching needs, or who should start the command.
pub(super) fn require_capabilities(command: &str) -> Result<(), String> {
    match capabilities::missing() {
        Some((capability, purpose)) => Err(format!(
            "cannot {purpose} without {capability}: run as root (sudo rxlane {command} …)"
        )),
        None => Ok(()),
    }
}

/// Takes what the file says now.
fn read_again(
    router: &mut Router,
    args: &Args,
    server: &Server,
    undo_after_s: Option<u32>,
) -> Result<(), String> {
    // Where the excerpts would go is a log of lines.
    let config = rxlane_config::load(args.config.path()).map_err(one_line)?;
    let options = options(&config, args.accept_bypass, args.observe);
    let reloaded = match undo_after_s {
        None => router.reload(config.router, options),
        Some(s) => {
            let shown = server.listens_on().map(|to| to.as_written());
            let wait = Duration::from_secs(s.into());
            router.reload_unless_undone(config.router, options, shown, wait)
        }
    };
    reloaded.map_err(one_line)?;
    doubt(&config.warnings, args.config.path());
    remember_metrics(router, config.metrics.as_ref());
    server.listen(config.metrics);
    Ok(())
}

/// Goes back to the configuration before one that is not confirmed.
fn undo(router: &mut Router, server: &Server) -> Result<(), String> {
    let metrics: Option<Listen> = router
        .undo()
        .map_err(one_line)?
        .and_then(|to| to.parse().ok());
    remember_metrics(router, metrics.as_ref());
    server.listen(metrics);
    Ok(())
}

/// The same when nobody has confirmed in time.
fn undo_what_nobody_confirms(router: &mut Router, server: &Server) {
    if !router.is_to_be_undone() {
        return;
    }
    match undo(router, server) {
        Ok(()) => {
            warn!("nobody has confirmed the last reload: back to the configuration before it");
            announce(router);
            tell(&[NotifyState::Status(&serving(router))]);
        }
        Err(message) => error!("cannot undo the last reload, and try again: {message}"),
    }
}

fn reload(router: &mut Router, args: &Args, server: &Server) {
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
    let outcome = match router.asked() {
        Ask::Reload { undo_after_s } => read_again(router, args, server, undo_after_s),
        Ask::Confirm => router.confirm().map_err(one_line),
        Ask::Undo => undo(router, server),
    };
    match &outcome {
        Ok(()) => announce(router),
        Err(message) => error!("keeping the old configuration: {message}"),
    }
    let error = outcome.err();
    if let Err(e) = router.report_reload(error.as_deref()) {
        warn!("{}", one_line(e));
    }
    let status = doing(router, error.as_deref());
    tell(&[NotifyState::Ready, NotifyState::Status(&status)]);
}
