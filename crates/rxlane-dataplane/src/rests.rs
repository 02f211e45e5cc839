//! Ports at tc ingress where the program rests, because what it forwards is not worth what it costs (rxlane_policy::hook). Nothing is attached
//! there then, and Linux serves all of their packets, as it would alone.

use std::collections::BTreeMap;
use std::time::Duration;

use rxlane_config::Ingress;
use rxlane_policy::Nanos;
use rxlane_policy::hook::{Hook, Seen};
use rxlane_system::links::Link as NetDevice;
use rxlane_system::tc;
use tracing::info;

use crate::instance::PortState;
use crate::lanes::overload::Shared;
use crate::layout::Core;
use crate::router::Router;
use crate::{DataplaneError, hooks, pinned, ports, refusing, watch};

/// Between two looks while the program is at work: bulk traffic does not pay for it for longer.
const EVERY: Duration = Duration::from_millis(250);

/// The decision, where there is one to make.
#[derive(Debug, Default)]
pub(crate) struct Rests(Option<Looks>);

/// What the last look found.
#[derive(Debug)]
struct Looks {
    hook: Hook,
    counted: Counted,
}

/// Packets received by ports at tc ingress, and of these forwarded by the lane.
#[derive(Debug, Clone, Copy)]
struct Counted {
    received: u64,
    forwarded: u64,
}

impl Looks {
    /// Whether the program rests from now on.
    fn look(&mut self, now: Nanos, counted: Counted, waits: bool) -> bool {
        // What is counted anew, for a port that came or went, is nothing yet.
        let seen = Seen {
            received: counted.received.saturating_sub(self.counted.received),
            forwarded: counted.forwarded.saturating_sub(self.counted.forwarded),
            waits,
        };
        if self.hook.look(now, seen) {
            self.counted = counted;
        }
        self.hook.rests()
    }
}

impl Router {
    /// Takes the program off ports at tc ingress where it is not worth its cost, or puts it back. Ports for which the configuration names
    /// the hook keep it.
    ///
    /// # Errors
    /// When counters or qdiscs cannot be read, or links cannot be made or removed.
    pub(crate) fn follow_rests(&mut self, devices: &[NetDevice]) -> Result<(), DataplaneError> {
        let now = watch::monotonic();
        let names = match self.state.options.observe {
            true => Vec::new(),
            false => self.may_rest(),
        };
        if names.is_empty() {
            self.rests.0 = None;
            return self.rest(&names, false, devices);
        }
        let counted = self.at_tc(&names, devices)?;
        let waits = waits(&self.shared, &self.state.ports, &names)?;
        let looks = self.rests.0.get_or_insert_with(|| Looks {
            hook: Hook::new(now),
            counted,
        });
        let rests = looks.look(now, counted, waits);
        self.rest(&names, rests, devices)
    }

    /// How long nobody need look whether the program is to rest.
    pub fn next_look(&self) -> Duration {
        match &self.rests.0 {
            Some(looks) if !looks.hook.rests() => EVERY,
            _ => Self::TELL_EVERY,
        }
    }

    /// Ports that are there, at tc ingress by themselves.
    fn may_rest(&self) -> Vec<String> {
        let named = |name: &String| self.state.config.ingress.get(name) == Some(&Ingress::Tc);
        let ports = self.state.ports.iter();
        let at_tc = ports.filter(|(name, port)| {
            port.ifindex.is_some() && hooks::is_at_tc_now(port) && !named(name)
        });
        at_tc.map(|(name, _)| name.clone()).collect()
    }

    /// What these ports have received, and of that forwarded.
    fn at_tc(&self, names: &[String], devices: &[NetDevice]) -> Result<Counted, DataplaneError> {
        let (mut received, mut forwarded) = (0, 0);
        for port in names.iter().filter_map(|name| self.state.ports.get(name)) {
            let device = devices.iter().find(|d| Some(d.ifindex) == port.ifindex);
            received += device.map_or(0, |d| d.received);
            for core in pinned::get_percpu::<Core>(&self.shared.cores, u32::from(port.slot))? {
                forwarded += core.classes.iter().map(|c| c.express).sum::<u64>();
            }
        }
        Ok(Counted {
            received,
            forwarded,
        })
    }

    /// Has the program rest on these ports, and on no others.
    fn rest(
        &mut self,
        names: &[String],
        rests: bool,
        devices: &[NetDevice],
    ) -> Result<(), DataplaneError> {
        let mut changed = false;
        for (name, port) in &mut self.state.ports {
            let wanted = rests && names.contains(name);
            let Some(device) = devices.iter().find(|d| Some(d.ifindex) == port.ifindex) else {
                continue;
            };
            if port.rests == wanted {
                continue;
            }
            if wanted {
                pinned::detach(&self.instance.port_link(name))?;
            } else {
                let at_tc = hooks::is_at_tc_now(port);
                let (mode, attached) = ports::attach(&self.instance, device, &self.lane, at_tc)?;
                port.mode = Some(mode.into());
                attached.settle();
            }
            port.rests = wanted;
            changed = true;
        }
        if !changed {
            return Ok(());
        }
        match rests {
            true => info!(
                "Linux serves {} alone for now: so few of many packets are express that the lane would cost more than it saves",
                names.join(", ")
            ),
            false => info!("the lane serves {} again", names.join(", ")),
        }
        self.instance.save_state(&self.state)
    }
}

/// Whether packets wait to leave by one of these ports.
fn waits(
    shared: &Shared,
    ports: &BTreeMap<String, PortState>,
    names: &[String],
) -> Result<bool, DataplaneError> {
    let waiting = tc::waiting()?;
    for port in names.iter().filter_map(|name| ports.get(name)) {
        let queue = port.ifindex.and_then(|ifindex| waiting.get(&ifindex));
        if queue.is_some_and(|queue| queue.packets > 0)
            || refusing::full(shared, port.slot)?.is_some()
        {
            return Ok(true);
        }
    }
    Ok(false)
}
