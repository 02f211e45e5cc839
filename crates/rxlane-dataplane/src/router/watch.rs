//! Following what surrounds a router while it runs: firewall, rules, policies, routes' MTUs, drivers.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use rxlane_bpf::BpfError;
use rxlane_bpf::layout::Gates;
use rxlane_bpf::pinned;
use rxlane_policy::class::Trust;
use rxlane_system::SystemError;
use rxlane_system::links::{Link, Links};
use rxlane_system::neighbours;
use rxlane_system::ruleset::Unannounced;
use rxlane_system::snapshot::Snapshot;
use rxlane_system::sysctl::Held;
use tracing::{info, warn};

use super::Router;
use crate::DataplaneError;
use crate::clock::monotonic;
use crate::kept;
use crate::lanes::constants::trusts;
use crate::lanes::senders::Senders;
use crate::lanes::witness::Asking;
use crate::lanes::{gates, sessions};
use crate::surroundings::{self, FLOWS, Surroundings};

/// Drivers are asked this often whether they take frames, and the kernel told where frames went.
const EGRESS_EVERY: Duration = Duration::from_secs(1);
/// News that come while others are taken in are heard in another round, so many at a time.
const ROUNDS: u32 = 8;
/// Linux has learned from a frame this long after the program saw it, also where that has waited for the end of a poll or in a queue.
const LEARNT_AFTER_NS: u64 = 100_000_000;

impl Router {
    /// The XDP program is told this often that somebody watches, if nothing happens.
    pub const TELL_EVERY: Duration = Duration::from_secs(1);

    /// Something has changed that decides about forwarded packets: flows must be seen to be forwarded by Linux again before
    /// they are express, and classes that trust without asking stay with the kernel until [`Router::reevaluate`].
    ///
    /// # Errors
    /// When a map cannot be written.
    pub(crate) fn close_express(&self) -> Result<(), BpfError> {
        self.sentry.close_express()
    }

    /// Whether TCP of `established` classes stays with the kernel: its connections cannot be marked, and the tracker heeds windows.
    #[must_use]
    pub fn tcp_stays(&self) -> bool {
        self.sentry.tracks_windows()
    }

    /// Looks at firewall, rules, policies and ports, and opens the express lane to the classes that nothing speaks against.
    ///
    /// # Errors
    /// When the kernel cannot be asked; then the lane stays as it is.
    pub(crate) fn reevaluate(&mut self) -> Result<(), DataplaneError> {
        self.looked_untracked = surroundings::nothing_is_tracked();
        let since = self.sentry.closings();
        let snapshot = Snapshot::read()?;
        let devices = &snapshot.links;
        let changes = self.sessions.look(devices)?;
        self.publish(&snapshot)?;
        self.tunnels.settle_ends(&self.lane)?;
        self.hear_of_stations()?;
        let around = self.surroundings_and_sentry(devices)?;
        self.seen_at_egress = around.see_what_leaves();
        let config = &self.state.config;
        let accepted = self.state.options.accept_bypass;
        let objections = surroundings::against(config, &around, accepted);
        let kept = surroundings::kept_of_classes(config, &around, accepted);
        let flows = kept::flows(&surroundings::kept(&around, accepted), devices);
        let asking = Asking {
            by_sender: around.uses.source_mac,
            follows_untracked: around.follows_untracked,
        };
        self.sentry.keep(&flows, asking)?;
        self.follow_senders(asking.by_sender);
        let config = &self.state.config;
        let rules = surroundings::against_tunnels(&around, accepted);
        self.tunnels.only_established = rules;
        let is_port = |device: &&Link| config.ports.contains(&device.name);
        self.port_mtu = devices
            .iter()
            .filter(is_port)
            .map(|d| d.mtu)
            .min()
            .unwrap_or(0);
        self.looked = since;
        let found = self.open_gates(&objections)?;
        // Not before it is known what speaks against packets of sessions.
        sessions::have_seen(&self.shared.session_changes, changes)?;
        self.note(&found);
        let (sessions, tunnels) = (self.sessions.status(), self.tunnels.status());
        let state = &self.state;
        if objections == state.objections
            && kept == state.kept
            && sessions == state.sessions
            && tunnels == state.tunnels
        {
            return Ok(());
        }
        let does = "stays with the kernel";
        say(
            &objections,
            &state.objections,
            does,
            "takes the express lane again",
        );
        let ended = "keeps no flows with the kernel any more";
        say(&kept, &state.kept, "keeps flows with the kernel", ended);
        self.state.kept = kept;
        self.state.sessions = sessions;
        self.state.tunnels = tunnels;
        self.state.objections = objections;
        Ok(self.instance.save_state(&self.state)?)
    }

    /// What surrounds the router, read after the sentry has begun to ask about that of which nobody tells: sets that rules use, tables
    /// of iptables, programs.
    fn surroundings_and_sentry(&mut self, devices: &Links) -> Result<Surroundings, SystemError> {
        let is_port = |d: &&Link| self.state.ports.contains_key(&d.name);
        let ports: Vec<u32> = devices.iter().filter(is_port).map(|d| d.ifindex).collect();
        // Rules that go on changing are news, after which somebody looks again.
        for _ in 0..ROUNDS {
            let around = self.surroundings(devices)?;
            let about = (around.uses.clone(), ports.clone(), around.ours.clone());
            if self.asked_about.as_ref() == Some(&about) {
                return Ok(around);
            }
            let unannounced = Unannounced::open(&about.0, &about.1, &about.2)?;
            self.sentry.ask_about(unannounced)?;
            self.asked_about = Some(about);
        }
        self.surroundings(devices)
    }

    /// Where senders cannot be noted no flow is seen to come from one, so that all stay with the kernel.
    fn follow_senders(&mut self, by_sender: bool) {
        if !by_sender {
            self.senders = None;
            return;
        }
        let Some(maps) = self
            .lane
            .witness
            .as_ref()
            .filter(|_| self.senders.is_none())
        else {
            return;
        };
        match Senders::note(&maps.senders) {
            Ok(senders) => self.senders = Some(senders),
            Err(error) => warn!(
                %error,
                "established flows stay with the kernel: rules ask for the MAC address of senders, which this kernel does not show"
            ),
        }
    }

    fn surroundings(&self, devices: &Links) -> Result<Surroundings, SystemError> {
        let config = &self.state.config;
        let around = Surroundings::read(
            &config.ports,
            devices,
            &self.sessions.served(),
            &self.tunnels.served(),
        )?;
        Ok(around.for_classes_of(config))
    }

    /// The largest packets that no route forbids, IPv4 and IPv6, where any route asks for an MTU. One that is locked may be
    /// greater than its device's: then Linux sends what the express lane cannot, so the ports' MTUs count, too.
    fn largest_packets(&self) -> [Option<u32>; 2] {
        let smallest = self.route_mtu.smallest();
        smallest.map(|mtu| mtu.map(|mtu| mtu.min(self.port_mtu)))
    }

    /// What each class passes by because that was accepted, or because the comment of a rule says so.
    ///
    /// # Errors
    /// When the kernel cannot be asked.
    pub fn passed_by(&self) -> Result<[surroundings::Said; 2], DataplaneError> {
        let around = self.surroundings(&rxlane_system::links::all()?)?;
        let accepted = self.state.options.accept_bypass;
        Ok(surroundings::passed_by(
            &self.state.config,
            &around,
            accepted,
        ))
    }

    /// Follows the MTUs of routes, and lets routes be looked up again for flows that are known. Returns whether there were news, of
    /// which [`Router::keep_watch`] tells the XDP program.
    ///
    /// # Errors
    /// When routes cannot be read, or the map cannot be written.
    pub(crate) fn on_route_change(&mut self) -> Result<bool, DataplaneError> {
        let news = self.route_mtu.drain()?;
        if news {
            self.sentry.look_up_again()?;
        }
        Ok(news)
    }

    /// Where news of what bridges and VXLANs learn come, while some are served, for [`Router::hear_of_stations`].
    pub(crate) fn station_news(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.bridges.news().into_iter().chain(self.tunnels.news())
    }

    /// Follows what bridges over ports and VXLANs learn.
    ///
    /// # Errors
    /// When news cannot be read, or the map cannot be written.
    pub(crate) fn hear_of_stations(&mut self) -> Result<(), DataplaneError> {
        if self.station_news().next().is_none() {
            return Ok(());
        }
        // What has been doubted is known only once Linux has had the packet, and nothing is left to be heard. Who goes on learning is heard
        // next time.
        for _ in 0..ROUNDS {
            let until = monotonic().0.saturating_sub(LEARNT_AFTER_NS);
            let were_news = self.bridges.follow(&self.lane)?;
            if !(self.tunnels.hear_of_ends(&self.lane)? || were_news) {
                return Ok(pinned::put(&self.lane.heard_ns, 0, &until.to_ne_bytes())?);
            }
        }
        Ok(())
    }

    /// Tells the XDP program that somebody watches, and what is found by looking alone; at least every few seconds.
    ///
    /// # Errors
    /// When the kernel cannot be asked, or the map cannot be written.
    pub fn keep_watch(&mut self) -> Result<(), DataplaneError> {
        // What a driver takes changes with its settings, of which nobody tells.
        let asks = self.egress_asked.elapsed() >= EGRESS_EVERY;
        if asks {
            self.egress_asked = Instant::now();
            let snapshot = Snapshot::read()?;
            let devices = &snapshot.links;
            self.wake_silent_ports(devices)?;
            self.insisting
                .follow(&self.instance, &self.state.ports, devices);
            self.refusing.follow(&self.shared, &self.state, devices)?;
            // Maps of priorities may change without news, and so may XDP programs over a port and ebtables.
            let again = self.asked.is_multiple_of(10);
            self.asked += 1;
            let served = self.tunnels.served();
            if again && let Err(error) = self.forget_idle_flows() {
                warn!(%error, "flows without a packet stay among those that are counted");
            }
            match again {
                true => self.publish(&snapshot)?,
                false => self.write_ports(&snapshot)?,
            }
            neighbours::are_used(self.noted.used_since(&self.lane.next_hops)?)?;
            // What speaks against others has not been asked of a tunnel that was not served.
            if self.tunnels.served() != served {
                self.close_express()?;
                return self.reevaluate();
            }
            // Whose packets come and go in sessions decides what is passed by.
            if sessions::have_changed(&self.shared.session_changes)? {
                return self.reevaluate();
            }
        }
        // No rule has changed, but what it had tracked has expired: flows may be untracked from now on.
        let wants_untracked = trusts(&self.state.config, |t| *t == Trust::Firewall);
        if wants_untracked && !self.looked_untracked && surroundings::nothing_is_tracked() {
            return self.reevaluate();
        }
        let found = self.open_gates(&self.state.objections)?;
        self.note(&found);
        if asks {
            self.tunnels.settle_ends(&self.lane)?;
        }
        // Behind the gates, which do not wait for a link that cannot be made.
        self.follow_rests()
    }

    /// Tells the XDP program what was found.
    fn open_gates(&self, objections: &[(String, Vec<String>)]) -> Result<Gates, DataplaneError> {
        let config = &self.state.config;
        let untracked = trusts(config, Trust::asks_linux) && surroundings::nothing_is_tracked();
        let found = Gates {
            watched_ns: monotonic().0,
            closed: gates::closed(&self.state.config.classes, objections),
            route_mtu: self.largest_packets().map(|mtu| mtu.unwrap_or(0)),
            untracked: u16::from(untracked),
            idle: u8::from(untracked && gates::only_established(&config.classes)),
            tunnels: self.tunnels.obstacles(&self.route_mtu),
            seen_at_egress: self.seen_at_egress.into(),
            ..Gates::default()
        };
        // Where it was closed again meanwhile there is news of it.
        Ok(self.sentry.open(found, self.looked)?.unwrap_or(found))
    }

    fn note(&mut self, found: &Gates) {
        self.told = Instant::now();
        self.untracked = found.untracked != 0;
        if self.untracked && self.flows.is_none() {
            self.flows = Held::open(FLOWS);
        }
        // Where nothing is express the stack takes packets as it did before.
        let nothing = found.idle != 0 || self.state.options.observe;
        let in_xdp = self.state.passes_the_stack_by();
        self.batches.follow(&self.instance, nothing || !in_xdp);
    }

    /// Whether the XDP program need not be told again: some time ago nothing was tracked, and that is so. Asked many times a second, so
    /// it must take little of whatever core that is: one system call.
    pub(crate) fn conntrack_still_idle(&self) -> bool {
        let flows = self.flows.as_ref().and_then(Held::read);
        self.untracked && flows == Some(0) && self.told.elapsed() < Self::TELL_EVERY
    }

    /// Whether classes ask connection tracking about flows, and it knew of none when that was looked at last: no rule of
    /// the firewall uses it. Then it need not be asked for each packet.
    pub(crate) fn nothing_is_tracked(&self) -> bool {
        self.untracked
    }
}

/// Says of classes what they do and why, where that is new, and of which that has `ended`.
fn say(now: &[(String, Vec<String>)], before: &[(String, Vec<String>)], does: &str, ended: &str) {
    // The numbers of rules change with each reload of a firewall, which is no news.
    let unnumbered = |all: &[(String, Vec<String>)]| -> Vec<(String, Vec<String>)> {
        let of = |why: &String| rxlane_ruleset::without_rules(why).to_owned();
        let all = all.iter();
        all.map(|(class, why)| (class.clone(), why.iter().map(of).collect()))
            .collect()
    };
    if unnumbered(now) == unnumbered(before) {
        return;
    }
    for (class, why) in now {
        warn!(class, "{does}: {}", why.join("; "));
    }
    for (class, _) in before {
        if now.iter().all(|(c, _)| c != class) {
            info!(class, "{ended}");
        }
    }
}
