//! What the daemon says of itself: to the service manager and in the log.

use std::time::{Duration, Instant};

use rxlane_config::RouterConfig;
use rxlane_dataplane::router::Router;
use rxlane_policy::class::{Lane, Trust};
use rxlane_system::links;
use sd_notify::NotifyState;
use tracing::{info, warn};

use crate::output::counted;

/// Tells the service manager that the loop goes round, if it wants to know: else it would start another daemon.
pub(super) struct Watchdog {
    every: Option<Duration>,
    fed: Option<Instant>,
}

impl Watchdog {
    pub(super) fn asked_for() -> Self {
        Self {
            // Half of the time that it waits, as sd_watchdog_enabled(3) recommends.
            every: sd_notify::watchdog_enabled().map(|limit| limit / 2),
            fed: None,
        }
    }

    pub(super) fn feed(&mut self) {
        let Some(every) = self.every else { return };
        // The loop goes round once a second.
        let soon = every.saturating_sub(Router::TELL_EVERY);
        if self.fed.is_none_or(|at| at.elapsed() >= soon) {
            self.fed = Some(Instant::now());
            tell(&[NotifyState::Watchdog]);
        }
    }
}

/// What the router does, in a line, or why not what it was asked to.
pub(super) fn doing(router: &Router, refused: Option<&str>) -> String {
    refused.map_or_else(
        || serving(router),
        |e| format!("refused a new configuration and keeps the old one: {e}"),
    )
}

/// Tells the service manager, if one has started us and listens (`sd_notify(3)`).
pub(super) fn tell(what: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(what) {
        warn!("cannot tell the service manager: {error}");
    }
}

pub(super) fn announce(router: &Router) {
    let state = router.state();
    let devices = links::all().unwrap_or_default();
    for warning in state
        .warnings
        .iter()
        .chain(&state.warnings_of_ports(&devices))
    {
        warn!("{warning}");
    }
    for (does, classes) in router.passed_by().into_iter().flatten() {
        for (class, why) in classes {
            warn!(class, "{does}: {}", why.join("; "));
        }
    }
    for feature in state.features.missing() {
        warn!(
            "kernel {} lacks {}: {}",
            state.features.kernel, feature.name, feature.without
        );
    }
    if trusts(&state.config, |_| true).is_some() && state.passes_the_stack_by() {
        info!(
            "express packets are not seen by tcpdump, counters of rules and qdiscs, and `ip -s link` of some drivers: `rxlane status` counts them"
        );
    }
    let at_tc: Vec<&str> = state.ports_at_tc().collect();
    if !at_tc.is_empty() {
        info!(
            "served at tc ingress, as veths are: {}; TCP that comes in there stays with Linux, whose queues hold its senders back (`ingress` says otherwise)",
            at_tc.join(", ")
        );
    }
    if router.tcp_stays() && trusts(&state.config, Trust::asks_linux).is_some() {
        info!(
            "TCP of `firewall` and `established` classes takes the stack: connections cannot be marked without the module nf_conntrack_netlink; load it, or set net.netfilter.nf_conntrack_tcp_be_liberal=1"
        );
    }
    info!("{}", serving(router));
}

/// What the router does, in a line.
pub(super) fn serving(router: &Router) -> String {
    let state = router.state();
    let ports: Vec<String> = state
        .ports
        .iter()
        .map(|(name, port)| {
            let mode = port.mode.as_deref().unwrap_or("absent");
            let vlans: Vec<&str> = port.vlans.iter().map(String::as_str).collect();
            match &vlans[..] {
                [] => format!("{name} ({mode})"),
                vlans => format!("{} of {name} ({mode})", vlans.join(" and ")),
            }
        })
        .collect();
    let does = if state.options.observe {
        "observing"
    } else {
        "serving"
    };
    format!(
        "{does} {} on {}",
        counted(state.config.classes.len(), "class", "classes"),
        ports.join(", ")
    )
}

fn trusts(config: &RouterConfig, which: impl Fn(&Trust) -> bool) -> Option<&str> {
    config
        .classes
        .iter()
        .find(|c| matches!(&c.lane, Lane::Express { trust, .. } if which(trust)))
        .map(|c| c.name.as_str())
}
