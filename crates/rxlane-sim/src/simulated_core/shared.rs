//! What cores share: locks and other resources, for which they wait.
//!
//! Multiple-nics V.C leaves this out, because modern NICs have a ring for each core. Where they have not, or where a packet
//! needs more than its core, cores wait for each other. Who asks first is served first. The host runs cores so that they
//! ask in the order of time ([`SimulatedCore::acts_at`]), and hands what they share from one to the next.

use rxlane_policy::Ps;

use super::SimulatedCore;
use crate::ring::Packet;
use crate::scenario::{Scenario, Scheme, Spread};
use crate::tally::Work;

/// Units of a resource, each with the time from which it is free.
#[derive(Debug, Clone)]
struct Pool {
    free: Vec<Ps>,
}

impl Pool {
    fn new(units: usize) -> Self {
        Self {
            free: vec![Ps::ZERO; units],
        }
    }

    /// The unit that is free first, and when.
    fn first_free(&self) -> (usize, Ps) {
        let mut first = (0, self.free[0]);
        for (unit, at) in self.free.iter().enumerate() {
            if *at < first.1 {
                first = (unit, *at);
            }
        }
        first
    }
}

/// What a packet needs of a resource.
#[derive(Debug)]
struct Need {
    /// The first of its pools.
    pool: usize,
    each_nic: bool,
    /// For how long, by class; 0: not at all.
    hold: Vec<Ps>,
    kind: Work,
}

/// What all cores share.
#[derive(Debug)]
pub(crate) struct Shared {
    pools: Vec<Pool>,
    needs: Vec<Need>,
    /// The lock under which a packet's whole service takes place.
    giant: Option<Pool>,
    nics: usize,
}

impl Shared {
    /// `None`: the cores of this scenario share nothing, and none has to know what another one does.
    pub(crate) fn new(scenario: &Scenario) -> Option<Box<Self>> {
        let nics = scenario.nic.count;
        let several = scenario.cpu.cores > 1;
        let mut this = Self {
            pools: Vec::new(),
            needs: Vec::new(),
            giant: (scenario.cpu.giant_lock && several).then(|| Pool::new(1)),
            nics,
        };
        let classes = scenario.traffic.class_shares().len();
        let frame = f64::from(scenario.traffic.frame);
        for r in &scenario.resource {
            let hold = Ps::from_ns(r.packet_ns + r.byte_ns * frame);
            let of = |class: usize| match r.classes.is_empty() || r.classes.contains(&class) {
                true => hold,
                false => Ps::ZERO,
            };
            this.need(
                r.units,
                r.each_nic,
                (0..classes).map(of).collect(),
                Work::Stage,
            );
        }
        if scenario.nic.tx_lock_ns > 0.0 && several {
            let hold = Ps::from_ns(scenario.nic.tx_lock_ns);
            this.need(1, true, vec![hold; classes], Work::Tx);
        }
        let moves = scenario.reception.scheme == Scheme::Napi
            && scenario.cpu.spread == Spread::RoundRobin
            && several;
        let shares = moves || this.giant.is_some() || !this.needs.is_empty();
        shares.then(|| Box::new(this))
    }

    fn need(&mut self, units: usize, each_nic: bool, hold: Vec<Ps>, kind: Work) {
        let pool = self.pools.len();
        let pools = if each_nic { self.nics } else { 1 };
        self.pools.extend((0..pools).map(|_| Pool::new(units)));
        self.needs.push(Need {
            pool,
            each_nic,
            hold,
            kind,
        });
    }
}

/// A packet between its service and its departure.
#[derive(Debug, Clone, Copy)]
pub(super) struct SharedStep {
    packet: Packet,
    device: usize,
    waited: Ps,
    next: usize,
}

impl SimulatedCore {
    fn has_work(&self) -> bool {
        self.sharing.step.is_some()
            || self.poll_list.first().is_some()
            || !self.backlog_packets.is_empty()
    }

    /// When the core does something next, if no other core makes it.
    pub(crate) fn acts_at(&self) -> Ps {
        if self.has_work() {
            return self.now;
        }
        let idle_until = self
            .next_event
            .min(self.measurement.from)
            .min(self.measurement.until);
        self.now.max(idle_until)
    }

    /// Whether the run is over for this core.
    pub(crate) fn is_over(&self) -> bool {
        self.now >= self.measurement.until
    }

    /// One step of a core that shares something: at most one packet's work, or one request.
    pub(crate) fn step_sharing(&mut self, shared: &mut Option<Box<Shared>>) {
        self.sharing.shared = shared.take();
        if self.sharing.step.is_some() {
            self.checkpoint();
            self.request();
        } else if !self.has_work() && self.now >= self.measurement.from {
            // It would sleep until its next event, and may be given a NIC that interrupts before that.
            self.checkpoint();
        } else {
            self.step();
        }
        *shared = self.sharing.shared.take();
    }

    /// A packet that has been served goes on to what it needs next. Returns whether it needs anything.
    pub(super) fn begin_shared_step(&mut self, packet: Packet, device: usize, waited: Ps) -> bool {
        let class = usize::from(packet.class);
        let needed = |shared: &Shared| shared.needs.iter().position(|n| n.hold[class] > Ps::ZERO);
        let Some(next) = self.sharing.shared.as_deref().and_then(needed) else {
            return false;
        };
        self.sharing.step = Some(SharedStep {
            packet,
            device,
            waited,
            next,
        });
        true
    }

    /// Waits for a unit of the resource that the packet under way needs, and works on it.
    fn request(&mut self) {
        let Some(step) = self.sharing.step.take() else {
            return;
        };
        let Some(mut shared) = self.sharing.shared.take() else {
            return;
        };
        let class = usize::from(step.packet.class);
        let need = &shared.needs[step.next];
        let egress = (self.devices[step.device].nic + 1) % shared.nics;
        let number = need.pool + if need.each_nic { egress } else { 0 };
        let pool = &mut shared.pools[number];
        let (unit, free) = pool.first_free();
        self.spin_until(free);
        self.work(need.hold[class], need.kind);
        // Who is interrupted while he holds it, holds it for longer.
        pool.free[unit] = self.now;
        let further = shared.needs[step.next + 1..]
            .iter()
            .position(|n| n.hold[class] > Ps::ZERO);
        self.sharing.shared = Some(shared);
        if self.truncated {
            return;
        }
        match further {
            Some(more) => {
                self.sharing.step = Some(SharedStep {
                    next: step.next + 1 + more,
                    ..step
                });
            }
            None => self.depart(step.packet, step.device, step.waited),
        }
    }

    /// Waits for the lock under which one packet at a time is served.
    pub(super) fn take_giant_lock(&mut self) {
        let free = match self.sharing.shared.as_ref().and_then(|s| s.giant.as_ref()) {
            Some(giant) => giant.first_free().1,
            None => return,
        };
        self.spin_until(free);
    }

    pub(super) fn give_giant_lock(&mut self) {
        let now = self.now;
        if let Some(giant) = self.sharing.shared.as_mut().and_then(|s| s.giant.as_mut()) {
            giant.free[0] = now;
        }
    }

    /// The core can do nothing before `t`, but take interrupts.
    fn spin_until(&mut self, t: Ps) {
        while self.now < t {
            if self.now >= self.measurement.until {
                self.truncated = true;
                return;
            }
            self.checkpoint();
            let to = t
                .min(self.next_event.max(self.now))
                .min(self.measurement.until);
            self.tally.busy[Work::Wait as usize] += to - self.now;
            self.now = to;
            if self.next_event <= self.now {
                self.take_event();
            }
        }
    }

    /// Gives the NIC whose ring this core has emptied to another one, which its next interrupt goes to. Each core has a
    /// place for each NIC, and all but one of them are without traffic.
    pub(crate) fn give_nic_to(&mut self, other: &mut Self, nic: usize) {
        let place = |core: &Self| core.devices.iter().position(|d| d.nic == nic);
        let (Some(from), Some(to)) = (place(self), place(other)) else {
            return;
        };
        // While a process ran it may have interrupted here again.
        if self.devices[from].masked {
            return;
        }
        std::mem::swap(&mut self.devices[from], &mut other.devices[to]);
        // The number of the port is that of the core.
        let (a, b) = (self.devices[from].port, other.devices[to].port);
        (self.devices[from].port, other.devices[to].port) = (b, a);
        self.ports[b].change_places(&mut other.ports[a]);
        std::mem::swap(&mut self.last_sequence[nic], &mut other.last_sequence[nic]);
        self.schedule(from);
        self.find_next_event();
        if other.is_measuring() && !other.devices[to].measured {
            other.devices[to].measured = true;
            let held = other.devices[to].census();
            other.measurement.before.add(&held);
        }
        // It is the other one's interrupt, also where that one is ahead in time.
        other.find_next_event();
    }

    /// The NIC that this core has emptied in its last step, where NICs go from core to core.
    pub(crate) fn take_emptied(&mut self) -> Option<usize> {
        self.sharing.emptied.take()
    }
}
