//! Interfaces over which a machine is reached: whoever tunes them can cut himself off, because many drivers take a link down
//! to change a ring, and a wrong interrupt core makes it slow to death.
//!
//! Guarantee: the interface that an SSH session comes in through and those of default routes are found with everything that
//! they are made of (ports of a bridge or bond, the device below a VLAN), and no setting of theirs is in a plan or applied
//! unless that was asked for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use rxlane_system::routes::{self, Lookups};
use rxlane_system::{links, ssh};

use crate::interrupts;
use crate::inventory::Inventory;
use crate::plan::{Change, Options, TunePlan};
use crate::{Knob, Machine, TuneError};

/// Why an interface is left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Somebody is logged in through it.
    Session {
        /// From there.
        client: IpAddr,
    },
    /// It has a default route.
    DefaultRoute {
        /// Of IPv6, else IPv4.
        v6: bool,
    },
    /// One that is left alone is made of it.
    Below {
        /// That one.
        device: String,
    },
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { client } => {
                write!(f, "the SSH session of {client} comes in through it")
            }
            Self::DefaultRoute { v6: false } => f.write_str("it has the IPv4 default route"),
            Self::DefaultRoute { v6: true } => f.write_str("it has the IPv6 default route"),
            Self::Below { device } => write!(
                f,
                "{device} is made of it, and is how this machine is reached"
            ),
        }
    }
}

/// Interfaces over which a machine is reached, and their interrupts.
#[derive(Debug, Clone, Default)]
pub struct Management {
    devices: BTreeMap<String, Reason>,
    interrupts: BTreeMap<u32, String>,
}

/// Most devices on top of each other.
const DEPTH: usize = 8;

impl Management {
    /// Those of this machine, in the network namespace of the caller.
    ///
    /// # Errors
    /// When the kernel does not tell its routes or addresses: then nothing may be touched.
    pub fn find(machine: &dyn Machine) -> Result<Self, TuneError> {
        let mut reached = Vec::new();
        let lookups = Lookups::new()?;
        let names: BTreeMap<u32, String> = links::all()?
            .into_iter()
            .map(|link| (link.ifindex, link.name))
            .collect();
        for session in ssh::connections() {
            // Where the address is, and where answers leave: the address may be on loopback.
            let answers = lookups.of(session.client)?;
            let hops = answers.iter().flat_map(|route| &route.hops);
            let leaves = hops.filter_map(|hop| names.get(&hop.ifindex).cloned());
            let client = session.client;
            reached.extend(
                links::with_address(session.local)?
                    .into_iter()
                    .chain(leaves)
                    .map(|name| (name, Reason::Session { client })),
            );
        }
        for (v6, ifindex) in routes::default_devices()? {
            let name = names.get(&ifindex).cloned();
            reached.extend(name.map(|name| (name, Reason::DefaultRoute { v6 })));
        }
        Ok(Self::of(machine, reached))
    }

    /// Those, and what they are made of; an interface that is known already keeps its reason.
    pub fn of(machine: &dyn Machine, reached: impl IntoIterator<Item = (String, Reason)>) -> Self {
        let mut this = Self::default();
        let mut open: Vec<(String, Reason, usize)> = Vec::new();
        for (name, reason) in reached {
            open.push((name, reason, 0));
        }
        open.reverse();
        let lines = interrupts::all(machine);
        while let Some((name, reason, depth)) = open.pop() {
            if name == "lo" || this.devices.contains_key(&name) || depth > DEPTH {
                continue;
            }
            for file in machine.list(&format!("/sys/class/net/{name}")) {
                if let Some(below) = file.strip_prefix("lower_") {
                    let device = name.clone();
                    open.push((below.into(), Reason::Below { device }, depth + 1));
                }
            }
            for (line, _) in interrupts::of_device(machine, &name, &lines) {
                this.interrupts.insert(line.number, name.clone());
            }
            this.devices.insert(name, reason);
        }
        this
    }

    /// Whether a port is one of them, and why.
    pub fn reason(&self, port: &str) -> Option<&Reason> {
        self.devices.get(port)
    }

    /// The interface of theirs that a knob belongs to, and why it is left alone.
    pub fn claims<'a>(&'a self, knob: &'a Knob) -> Option<(&'a str, &'a Reason)> {
        let device = self.interrupts_of(knob).or_else(|| knob.device())?;
        self.reason(device).map(|reason| (device, reason))
    }

    /// Plans for a machine without them, and says so in the plan.
    ///
    /// # Errors
    /// As [`TunePlan::new`].
    pub fn plan_around(
        &self,
        machine: &dyn Machine,
        inventory: &Inventory,
        options: &Options,
    ) -> Result<TunePlan, TuneError> {
        let mut others = inventory.clone();
        others.nics.retain(|nic| self.reason(&nic.name).is_none());
        let mut plan = TunePlan::new(machine, &others, options)?;
        let ports = inventory.nics.iter().map(|nic| nic.name.as_str());
        let mut left: BTreeSet<&str> = ports.filter(|port| self.reason(port).is_some()).collect();
        // Its interrupts would be moved off the cores of ports, as those of any other device.
        let mut kept = Vec::new();
        for change in std::mem::take(&mut plan.changes) {
            match self.interrupts_of(&change.knob) {
                Some(device) => _ = left.insert(device),
                None => kept.push(change),
            }
        }
        plan.changes = kept;
        for device in left {
            let why = self.reason(device).map(Reason::to_string);
            plan.notes.push(format!(
                "{device} is left alone, because {}; --include-management takes it in",
                why.unwrap_or_default()
            ));
        }
        Ok(plan)
    }

    fn interrupts_of(&self, knob: &Knob) -> Option<&str> {
        match knob {
            Knob::InterruptCores { irq } => self.interrupts.get(irq).map(String::as_str),
            _ => None,
        }
    }

    /// Refuses changes of theirs.
    ///
    /// # Errors
    /// [`TuneError::Management`], of the first.
    pub fn refuse(&self, changes: &[Change]) -> Result<(), TuneError> {
        match changes
            .iter()
            .find_map(|c| Some((c, self.claims(&c.knob)?)))
        {
            None => Ok(()),
            Some((change, (device, reason))) => Err(TuneError::Management {
                what: change.knob.to_string(),
                device: device.into(),
                reason: reason.to_string(),
            }),
        }
    }
}
