//! What would be changed, and why. Only reads.

mod buffers;
mod idle;
mod moderation;
mod placement;
mod rt_queue;
mod threads;

pub use placement::IRQBALANCE;

use std::time::Duration;

use rxlane_policy::Nanos;
use rxlane_policy::rule::AtPort;
use serde::{Deserialize, Serialize};

use crate::TuneError;
use crate::inventory::Inventory;
use crate::{Knob, Machine, Value};

/// What the machine is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Profile {
    /// Packets wait as little as possible.
    #[default]
    Latency,
    /// As many packets as possible.
    Throughput,
    /// As few interrupts and wake-ups as possible.
    Power,
}

/// A kind of change, to be left out by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Area {
    /// The ports' interrupts, or NAPI threads, to cores of their own.
    Interrupts,
    /// Other interrupts off those cores.
    OtherInterrupts,
    /// Lengths of Rx rings.
    Rings,
    /// Interrupt moderation and NAPI deferral.
    Moderation,
    /// Socket buffers and the backlog.
    Buffers,
    /// Idle states of the ports' cores.
    Idle,
    /// Receive and transmit packet steering.
    Steering,
    /// Kernel work that is bound to no core.
    Workqueues,
    /// Threads that poll ports before the programs on their cores.
    Threads,
    /// RT classes into a queue of their own, by hardware filters.
    RtQueue,
}

impl Area {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Interrupts,
        Self::OtherInterrupts,
        Self::Rings,
        Self::Moderation,
        Self::Buffers,
        Self::Idle,
        Self::Steering,
        Self::Workqueues,
        Self::Threads,
        Self::RtQueue,
    ];

    /// As options name it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Interrupts => "interrupts",
            Self::OtherInterrupts => "other-interrupts",
            Self::Rings => "rings",
            Self::Moderation => "moderation",
            Self::Buffers => "buffers",
            Self::Idle => "idle",
            Self::Steering => "steering",
            Self::Workqueues => "workqueues",
            Self::Threads => "threads",
            Self::RtQueue => "rt-queue",
        }
    }
}

/// One knob that should be turned, with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "SavedChange")]
pub struct Change {
    /// Which part of the plan it belongs to.
    pub area: Area,
    /// The knob that is turned.
    pub knob: Knob,
    /// Its value now.
    pub now: Value,
    /// What it would be.
    pub wanted: Value,
    /// Why, with the figures that decided.
    pub why: String,
    /// The paper or kernel document behind it.
    pub source: String,
    /// What it can cost.
    pub cost: String,
}

/// A change in the file of a plan, whose values are texts until it is known what they are values of.
#[derive(Deserialize)]
struct SavedChange {
    area: Area,
    knob: Knob,
    now: String,
    wanted: String,
    why: String,
    source: String,
    cost: String,
}

impl TryFrom<SavedChange> for Change {
    type Error = String;

    fn try_from(saved: SavedChange) -> Result<Self, String> {
        let value = |text: &str| {
            let wrong = || format!("`{text}` is no value of {}", saved.knob);
            saved.knob.parse_shown(text).ok_or_else(wrong)
        };
        Ok(Self {
            area: saved.area,
            now: value(&saved.now)?,
            wanted: value(&saved.wanted)?,
            knob: saved.knob,
            why: saved.why,
            source: saved.source,
            cost: saved.cost,
        })
    }
}

/// What to plan for.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// What the machine is for.
    pub profile: Profile,
    /// Parts of the plan that are left out.
    pub skip: Vec<Area>,
    /// Interrupts that stay where they are.
    pub except: Vec<u32>,
    /// How long a core may be away from its rings; rings hold what arrives meanwhile. None: by profile.
    pub away: Option<Nanos>,
    /// One-way delay of the paths that sockets use.
    pub delay: Duration,
    /// The bandwidth-delay product is doubled so often, at least once.
    pub k: u32,
    /// Also raise what a socket has that asks for no size, and not only the most that it may ask for.
    pub default_sizes: bool,
    /// DSCPs of RT classes, which get a hardware queue of their own.
    pub rt_dscps: Vec<u8>,
    /// Ports of RT classes, which get it, too.
    pub rt_ports: Vec<AtPort>,
    /// Also keep packet steering and unbound kernel work off the ports' cores.
    pub isolate: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            skip: Vec::new(),
            except: Vec::new(),
            away: None,
            delay: Duration::from_millis(1),
            k: 1,
            default_sizes: false,
            rt_dscps: Vec::new(),
            rt_ports: Vec::new(),
            isolate: false,
        }
    }
}

/// The changes, and what cannot be changed but should be known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunePlan {
    /// In the order in which they are made.
    pub changes: Vec<Change>,
    /// For people.
    pub notes: Vec<String>,
}

/// Collects changes, and leaves out what is already so, what the machine has not, and what was not wanted.
struct Draft<'a> {
    machine: &'a dyn Machine,
    options: &'a Options,
    plan: TunePlan,
}

/// Why a change is made.
struct Reason {
    why: String,
    source: &'static str,
    cost: &'static str,
}

impl Draft<'_> {
    fn note(&mut self, text: impl Into<String>) {
        self.plan.notes.push(text.into());
    }

    /// A change of a knob from what it is.
    fn want(
        &mut self,
        area: Area,
        knob: Knob,
        wanted: Value,
        reason: Reason,
    ) -> Result<(), TuneError> {
        if self.options.skip.contains(&area) {
            return Ok(());
        }
        if let Some(now) = self.machine.get(&knob)? {
            self.change(area, knob, now, wanted, reason);
        }
        Ok(())
    }

    /// A change of a knob from what it will be by then.
    fn change(&mut self, area: Area, knob: Knob, now: Value, wanted: Value, reason: Reason) {
        if !self.options.skip.contains(&area) && now != wanted {
            self.plan.changes.push(Change {
                area,
                knob,
                now,
                wanted,
                why: reason.why,
                source: reason.source.into(),
                cost: reason.cost.into(),
            });
        }
    }
}

/// What `tune plan --json` writes: an inventory for people, and the plan.
#[derive(Deserialize)]
struct Saved {
    plan: TunePlan,
}

impl TunePlan {
    /// Reads a plan that `tune plan --json` has written.
    ///
    /// # Errors
    /// What is wrong with the text.
    pub fn of_saved(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text).map(|saved: Saved| saved.plan)
    }

    /// Plans for a machine.
    ///
    /// # Errors
    /// When the kernel refuses to tell a value, or an option makes no sense.
    pub fn new(
        machine: &dyn Machine,
        inventory: &Inventory,
        options: &Options,
    ) -> Result<Self, TuneError> {
        let mut draft = Draft {
            machine,
            options,
            plan: Self::default(),
        };
        if inventory.nics.is_empty() {
            draft.note("there is no network device to tune: name the ports with --ports");
        }
        let chosen = placement::plan(&mut draft, inventory)?;
        idle::plan(&mut draft, inventory, &chosen)?;
        for nic in &inventory.nics {
            buffers::ring(&mut draft, nic)?;
            moderation::plan(&mut draft, nic)?;
            rt_queue::plan(&mut draft, nic)?;
            threads::plan(&mut draft, nic)?;
        }
        buffers::sockets(&mut draft, inventory)?;
        Ok(draft.plan)
    }
}
