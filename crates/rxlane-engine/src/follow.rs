//! Following the kernel: the mirrors that workers read, and the news that keep them true.
//!
//! Guarantee: where something may have changed that is not known yet (news were lost or could not be read, a list cannot
//! be had), workers leave all packets to the kernel until everything has been read anew.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwap;
use rustix::event::{PollFd, PollFlags};
use rxlane_system::{SystemError, links, neighbours, routes, rules};
use tracing::{debug, info, warn};

use crate::forward::Ports;
use crate::mirror::Mirror;
use crate::neighbours::Neighbours;
use crate::settings::{self, WantedPorts};

/// Settings that the kernel does not announce are looked at this often.
const LOOK: Duration = Duration::from_millis(500);
/// Routes that change while they are read are read again so often before packets' turn comes.
const ATTEMPTS: u32 = 4;

/// A device: whether it is up, and whether it has a carrier.
type State = (bool, bool);

/// What workers read, and what keeps it up to date.
pub(super) struct Following {
    pub(super) wanted: WantedPorts,
    pub(super) mirror: Mirror,
    pub(super) neighbours: Neighbours,
    /// As workers see them.
    pub(super) ports: Arc<ArcSwap<Ports>>,
    /// As the kernel's settings have them, whether or not routes are known.
    settings: Ports,
    route_news: routes::Monitor,
    neighbour_news: neighbours::Monitor,
    link_news: links::Monitor,
    rule_news: rules::RuleMonitor,
    looked: Instant,
    devices: BTreeMap<u32, State>,
    routes_known: bool,
    neighbours_known: bool,
}

impl Following {
    /// Subscribes, then reads everything.
    pub(super) fn start(wanted: WantedPorts) -> Result<Self, SystemError> {
        let (route_news, neighbour_news) = (routes::Monitor::new()?, neighbours::Monitor::new()?);
        let (link_news, rule_news) = (links::Monitor::new()?, rules::RuleMonitor::new()?);
        let settings = settings::look(&wanted)?;
        let mut this = Self {
            mirror: Mirror::default(),
            neighbours: Neighbours::default(),
            ports: Arc::new(ArcSwap::from_pointee(settings.clone())),
            settings,
            route_news,
            neighbour_news,
            link_news,
            rule_news,
            looked: Instant::now(),
            devices: devices(&links::all()?),
            routes_known: false,
            neighbours_known: false,
            wanted,
        };
        let begin = Instant::now();
        this.read_routes()?;
        this.read_neighbours()?;
        debug!("mirrored routes and neighbours in {:?}", begin.elapsed());
        Ok(this)
    }

    /// What to wait for.
    pub(super) fn sources(&self) -> [PollFd<'_>; 4] {
        [
            PollFd::new(&self.route_news, PollFlags::IN),
            PollFd::new(&self.neighbour_news, PollFlags::IN),
            PollFd::new(&self.link_news, PollFlags::IN),
            PollFd::new(&self.rule_news, PollFlags::IN),
        ]
    }

    /// How long to wait at most.
    pub(super) fn patience(&self) -> Duration {
        const SOON: Duration = Duration::from_millis(50);
        if self.routes_known && self.neighbours_known {
            LOOK
        } else {
            SOON
        }
    }

    /// Takes in what has happened. Returns the ports as they were before, if they are others now.
    pub(super) fn follow(&mut self) -> Result<Option<Arc<Ports>>, SystemError> {
        let before = self.ports.load_full();
        // What one of them fails with must not keep the others from being followed.
        let links = self.follow_links();
        let settings = self.follow_settings();
        let routes = self.follow_routes();
        let neighbours = self.follow_neighbours();
        links.and(settings).and(routes).and(neighbours)?;
        let now = self.ports.load();
        Ok((before.all != now.all).then_some(before))
    }

    fn follow_settings(&mut self) -> Result<(), SystemError> {
        if self.rule_news.changed()? || self.looked.elapsed() > LOOK {
            self.look()?;
        }
        Ok(())
    }

    fn look(&mut self) -> Result<(), SystemError> {
        self.looked = Instant::now();
        let now = settings::look(&self.wanted)?;
        if now.by_kernel != self.settings.by_kernel {
            let on_off = |kernel: bool| if kernel { "the kernel" } else { "the engine" };
            info!(
                "IPv4 is forwarded by {}, IPv6 by {} (policy rules, VRFs, forwarding)",
                on_off(now.by_kernel[0]),
                on_off(now.by_kernel[1])
            );
        }
        self.settings = now;
        self.publish();
        Ok(())
    }

    /// Tells workers what is known of ports, and whether routes and neighbours are.
    fn publish(&self) {
        let mut ports = self.settings.clone();
        if !(self.routes_known && self.neighbours_known) {
            ports.by_kernel = [true; 2];
        }
        if **self.ports.load() != ports {
            self.ports.store(Arc::new(ports));
        }
    }

    fn follow_routes(&mut self) -> Result<(), SystemError> {
        let mut events = Vec::new();
        match self.route_news.drain(|event| events.push(event)) {
            Ok(true) if self.routes_known => {
                if !events.is_empty() {
                    self.mirror.apply(&events);
                }
                Ok(())
            }
            Ok(_) => self.read_routes(),
            Err(error) => {
                self.routes_known = false;
                self.publish();
                Err(error)
            }
        }
    }

    fn read_routes(&mut self) -> Result<(), SystemError> {
        self.routes_known = false;
        self.publish();
        for attempt in 1.. {
            match self.mirror.load(|found| routes::all(found)) {
                Ok(_) => break,
                Err(SystemError::Unsteady { .. }) if attempt < ATTEMPTS => {}
                Err(error) => return Err(error),
            }
        }
        self.routes_known = true;
        self.publish();
        Ok(())
    }

    fn follow_neighbours(&mut self) -> Result<(), SystemError> {
        let mut changed = Vec::new();
        match self.neighbour_news.drain(|n| changed.push(n)) {
            Ok(true) if self.neighbours_known => {
                if !changed.is_empty() {
                    self.neighbours.apply(changed);
                }
                Ok(())
            }
            Ok(_) => self.read_neighbours(),
            Err(error) => {
                self.neighbours_known = false;
                self.publish();
                Err(error)
            }
        }
    }

    fn read_neighbours(&mut self) -> Result<(), SystemError> {
        self.neighbours_known = false;
        self.publish();
        let mut all = Vec::new();
        neighbours::all(|n| all.push(n))?;
        self.neighbours.load(all);
        self.neighbours_known = true;
        self.publish();
        Ok(())
    }

    /// Routes go and come with their devices, in part without news of their own.
    fn follow_links(&mut self) -> Result<(), SystemError> {
        if self.link_news.drain()?.is_some_and(|e| e.is_empty()) {
            return Ok(());
        }
        self.look()?;
        let now = devices(&links::all()?);
        let before = std::mem::replace(&mut self.devices, now);
        let of = |devices: &BTreeMap<u32, State>, i: &u32| {
            devices.get(i).copied().unwrap_or((false, false))
        };
        let all: Vec<u32> = before.keys().chain(self.devices.keys()).copied().collect();
        let mut anew = false;
        let mut fell = Vec::new();
        for i in all {
            let ((was_up, had_carrier), (up, carrier)) = (of(&before, &i), of(&self.devices, &i));
            // Hops that were dead come alive.
            anew |= !was_up && up;
            if was_up && !up {
                fell.push(i);
            }
            // Objects of a device go with its carrier already.
            anew |= self.mirror.has_nexthops() && (was_up, had_carrier) != (up, carrier);
        }
        if anew {
            // With the next look at news of routes.
            self.routes_known = false;
            self.publish();
            return Ok(());
        }
        for ifindex in fell {
            self.mirror.link_down(ifindex);
        }
        Ok(())
    }
}

fn devices(all: &[links::Link]) -> BTreeMap<u32, State> {
    all.iter().map(|d| (d.ifindex, (d.up, d.carrier))).collect()
}

/// Says what is wrong once, and not again for as long as it stays.
#[derive(Debug, Default)]
pub(super) struct Complaint(String);

impl Complaint {
    pub(super) fn about(&mut self, outcome: &Result<(), String>) {
        let error = outcome.as_ref().err().map_or("", String::as_str);
        if !error.is_empty() && error != self.0 {
            warn!("the engine leaves packets to the kernel: {error}");
        } else if error.is_empty() && !self.0.is_empty() {
            info!("the engine knows routes and neighbours again");
        }
        error.clone_into(&mut self.0);
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rxlane_system::{netns, sysctl};

    use super::*;

    /// A network namespace of its own.
    struct Namespace(String);

    impl Namespace {
        fn new(name: &str) -> Self {
            let this = Self(format!("rxlane-{name}-{}", std::process::id()));
            this.run(&["netns", "add", &this.0]);
            this
        }

        fn ip(&self, line: &str) {
            let words: Vec<&str> = ["-n", &self.0].into_iter().chain(line.split(' ')).collect();
            self.run(&words);
        }

        fn run(&self, args: &[&str]) {
            let status = Command::new("ip").args(args).status().unwrap();
            assert!(status.success(), "ip {args:?}");
        }
    }

    impl Drop for Namespace {
        fn drop(&mut self) {
            self.run(&["netns", "del", &self.0]);
        }
    }

    #[test]
    #[ignore = "needs root: make test"]
    fn while_routes_are_unknown_all_packets_are_the_kernel_s() {
        let namespace = Namespace::new("follow");
        netns::within(&namespace.0, false, || {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            sysctl::write("net.ipv6.conf.all.forwarding", "1")?;
            let mut following = Following::start(WantedPorts::default())?;
            let by_kernel = |f: &Following| f.ports.load().by_kernel;
            assert_eq!(by_kernel(&following), [false; 2]);
            following.routes_known = false;
            following.publish();
            assert_eq!(by_kernel(&following), [true; 2]);
            following.follow()?;
            assert_eq!(by_kernel(&following), [false; 2], "read anew");
            following.neighbours_known = false;
            following.publish();
            assert_eq!(by_kernel(&following), [true; 2]);
            following.follow()?;
            assert_eq!(by_kernel(&following), [false; 2], "read anew");
            Ok(())
        })
        .unwrap();
    }

    #[test]
    #[ignore = "needs root: make test"]
    fn forwarding_that_is_off_is_heeded_whatever_the_port_is_called() {
        let namespace = Namespace::new("settings");
        namespace.ip("link add up0.5 type veth peer name b0");
        netns::within(&namespace.0, false, || {
            sysctl::write("net.ipv4.ip_forward", "1")?;
            sysctl::write("net.ipv6.conf.all.forwarding", "1")?;
            let wanted = WantedPorts {
                names: vec!["up0.5".to_owned()],
                ..WantedPorts::default()
            };
            let by_kernel = || settings::look(&wanted).map(|ports| ports.by_kernel);
            assert_eq!(by_kernel()?, [false; 2]);
            let of = |family: &str| format!("/proc/sys/net/{family}/conf/up0.5/forwarding");
            std::fs::write(of("ipv4"), "0").unwrap();
            assert_eq!(by_kernel()?, [true, false]);
            // Linux asks the setting of all interfaces, whatever the port's own says.
            sysctl::write("net.ipv6.conf.all.forwarding", "0")?;
            std::fs::write(of("ipv6"), "1").unwrap();
            assert_eq!(by_kernel()?, [true, true]);
            Ok(())
        })
        .unwrap();
    }
}
