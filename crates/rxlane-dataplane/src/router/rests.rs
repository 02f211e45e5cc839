//! Takes the program off ports at tc ingress while it is not worth its cost.

use std::collections::BTreeMap;
use std::time::Duration;

use rxlane_bpf::layout::Core;
use rxlane_bpf::pinned;
use rxlane_config::Ingress;
use rxlane_policy::hook::Hook;
use rxlane_system::{links, tc};
use tracing::info;

use super::Router;
use crate::clock::monotonic;
use crate::lanes::overload::Shared;
use crate::port::PortState;
use crate::rests::{Counted, EVERY, Looks};
use crate::{DataplaneError, ports, refusing, trace, xdp_health};

impl Router {
    /// Takes the program off ports at tc ingress where it is not worth its cost, or puts it back. Ports for which the configuration names
    /// the hook keep it.
    ///
    /// # Errors
    /// When counters, devices or qdiscs cannot be read, or links cannot be made or removed.
    pub(crate) fn follow_rests(&mut self) -> Result<(), DataplaneError> {
        let now = monotonic();
        let mut names = self.may_rest();
        // Who looks at packets wants to see them.
        if !names.is_empty() && (self.state.options.observe || trace::is_on(&self.instance)?) {
            names.clear();
        }
        if names.is_empty() {
            self.rests.0 = None;
            return self.rest(&names, false);
        }
        let rested = self.rests.0.as_ref().is_some_and(|l| l.hook.rests());
        let counted = self.at_tc(&names, rested)?;
        let looks = self.rests.0.get_or_insert_with(|| Looks {
            hook: Hook::new(now),
            counted,
        });
        let (shared, ports) = (&self.shared, &self.state.ports);
        let rests = looks.look(now, counted, || waits(shared, ports, &names))?;
        self.rest(&names, rests)?;
        if rests != rested {
            // By another counter.
            let counted = self.at_tc(&names, rests)?;
            if let Some(looks) = &mut self.rests.0 {
                looks.counted = counted;
            }
        }
        Ok(())
    }

    /// How long nobody need look whether the program is to rest.
    pub(crate) fn next_look(&self) -> Duration {
        match &self.rests.0 {
            Some(looks) if !looks.hook.rests() => EVERY,
            _ => Self::TELL_EVERY,
        }
    }

    /// Ports that are there, at tc ingress by themselves.
    fn may_rest(&self) -> Vec<String> {
        let named = |name: &String| self.state.config.ingress.get(name) == Some(&Ingress::Tc);
        let ports = self.state.ports.iter();
        let at_tc =
            ports.filter(|(name, port)| port.ifindex.is_some() && port.is_at_tc() && !named(name));
        at_tc.map(|(name, _)| name.clone()).collect()
    }

    /// What these ports have received, and of that forwarded: as the program counts it, or the devices while it rests.
    fn at_tc(&self, names: &[String], rests: bool) -> Result<Counted, DataplaneError> {
        let mut counted = Counted::default();
        let ports = names.iter().filter_map(|name| self.state.ports.get(name));
        if rests {
            let of_port: Vec<_> = ports.map(|port| port.ifindex).collect();
            let devices = links::all()?.into_iter();
            let here = devices.filter(|d| of_port.contains(&Some(d.ifindex)));
            counted.received = here.map(|d| d.received).sum();
            return Ok(counted);
        }
        for port in ports {
            for core in pinned::get_percpu::<Core>(&self.shared.cores, u32::from(port.slot))? {
                counted.received += xdp_health::packets_seen(&core);
                counted.forwarded += core.classes.iter().map(|c| c.express).sum::<u64>();
            }
        }
        Ok(counted)
    }

    /// Has the program rest on these ports, and on no others.
    fn rest(&mut self, names: &[String], rests: bool) -> Result<(), DataplaneError> {
        let wanted = |name: &String| rests && names.contains(name);
        let mut ports = self.state.ports.iter();
        if ports.all(|(name, port)| port.rests == wanted(name)) {
            return Ok(());
        }
        let devices = links::all()?;
        let mut changed = Vec::new();
        for (name, port) in &mut self.state.ports {
            let wanted = wanted(name);
            let Some(device) = port.ifindex.and_then(|ifindex| devices.at(ifindex)) else {
                continue;
            };
            if port.rests == wanted {
                continue;
            }
            if wanted {
                pinned::detach(&self.instance.port_link(name))?;
            } else {
                let at_tc = port.is_at_tc();
                let (mode, attached) = ports::attach(&self.instance, device, &self.lane, at_tc)?;
                port.mode = Some(mode.into());
                attached.settle();
            }
            port.rests = wanted;
            changed.push(name.as_str());
        }
        let changed = changed.join(", ");
        match rests {
            true => info!(
                "Linux serves {changed} alone for now: so few of many packets are express that the lane would cost more than it saves"
            ),
            false => info!("the lane serves {changed} again"),
        }
        Ok(self.instance.save_state(&self.state)?)
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
