//! Traffic classes, as the operator writes them and the lanes serve them.

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

use crate::Nanos;
use crate::police::Police;
use crate::rule::Rule;

/// Most classes that a router can have.
pub const MAX_CLASSES: usize = 8;

/// Who may use an express class, which passes by the firewall.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// Established flows, and those that connection tracking does not see, as Linux was seen to forward them.
    Firewall,
    /// Flows whose conntrack entry exists and is confirmed: the firewall has let them through.
    Established,
    /// Packets whose source lies in one of these prefixes.
    Prefixes(Vec<IpNet>),
    /// Everybody.
    All,
}

impl Trust {
    /// Whether flows follow what Linux was seen to do with them.
    pub fn asks_linux(&self) -> bool {
        matches!(self, Self::Firewall | Self::Established)
    }

    /// The word of the configuration for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Firewall => "firewall",
            Self::Established => "established",
            Self::Prefixes(_) => "prefixes",
            Self::All => "all",
        }
    }
}

/// What happens to a stack class when the core cannot keep up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Overload {
    /// Queue where the class has other cores to run on. Where it shares the polling core, TCP is queued (Linux 6.15 or
    /// later), and other packets are shed.
    #[default]
    Auto,
    /// Queue to the class's ring, served by a kernel thread.
    Queue,
    /// Serve a ring budget per poll and drop the rest early.
    Shed,
}

/// What a stack class gives up first under overload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// As `Latency` while express traffic is present, no limit at all while there is none.
    #[default]
    Auto,
    /// Short polls: the RT bound comes first, whether or not RT traffic is there.
    Latency,
    /// Longer polls: more packets of this class, a longer RT bound.
    Throughput,
}

impl Aim {
    /// How long a poll may take under overload: `T*` of low-latency-router III.D.
    ///
    /// A packet waits at most for the poll before it and for its own. The values are what the lab
    /// measured best (docs/src/decisions/poll-of-34-us.md).
    pub const fn poll_target(self) -> Nanos {
        match self {
            Self::Auto | Self::Latency => Nanos(34_000),
            Self::Throughput => Nanos(100_000),
        }
    }
}

/// How the kernel thread of a class's ring is scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ThreadScheduling {
    /// SCHED_OTHER at this nice level, -20 (most) to 19: weighted fair queueing among classes.
    Nice(i8),
    /// SCHED_FIFO at this priority, 1 to 99.
    Fifo(u8),
}

/// A ring of the stack lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ring {
    /// Packets the ring of one core holds.
    pub packets: u32,
    /// Cores that serve the class; empty: the core that polled the packet.
    pub cores: Vec<u32>,
    /// Scheduling of the serving threads.
    pub thread: ThreadScheduling,
}

/// Where a class is served.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "lane", rename_all = "snake_case")]
pub enum Lane {
    /// Forwarded inside the driver's poll, past the stack.
    Express {
        /// Who may use it.
        trust: Trust,
        /// Whether packets leave through the queueing discipline of their egress port (`lane = "fast"`), and not directly.
        #[serde(default)]
        by_qdisc: bool,
    },
    /// The ordinary Linux stack.
    Stack {
        /// The ring used while queueing.
        ring: Ring,
        /// Whether the class is queued or shed when the core cannot keep up.
        overload: Overload,
        /// Whether the class favours latency or throughput under overload.
        aim: Aim,
    },
}

impl Lane {
    /// The express lane.
    pub fn express(trust: Trust) -> Self {
        Self::Express {
            trust,
            by_qdisc: false,
        }
    }

    /// As the configuration calls it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Express { by_qdisc: true, .. } => "fast",
            Self::Express { .. } => "express",
            Self::Stack { .. } => "stack",
        }
    }

    /// Whether packets pass by the stack, through queueing disciplines.
    pub fn is_fast(&self) -> bool {
        matches!(self, Self::Express { by_qdisc: true, .. })
    }

    /// Whether packets pass by the stack.
    pub fn is_express(&self) -> bool {
        matches!(self, Self::Express { .. })
    }
}

/// One class. Position is priority; the last class is the default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Name, unique among the classes.
    pub name: String,
    /// Rules; first match wins, over all classes in order.
    pub rules: Vec<Rule>,
    /// Rate limit; what exceeds it is treated as the next class.
    pub police: Option<Police>,
    /// Where it is served.
    pub lane: Lane,
}

impl Class {
    /// A class of which nothing else is said: no rules, no rate.
    pub fn new(name: impl Into<String>, lane: Lane) -> Self {
        Self {
            name: name.into(),
            rules: Vec::new(),
            police: None,
            lane,
        }
    }

    /// The same with rules.
    #[must_use]
    pub fn with_rules(self, rules: Vec<Rule>) -> Self {
        Self { rules, ..self }
    }

    /// Prefixes that its rules and its `trust` name.
    pub fn prefixes(&self) -> usize {
        let trusted = match &self.lane {
            Lane::Express {
                trust: Trust::Prefixes(nets),
                ..
            } => nets.len(),
            _ => 0,
        };
        let of_rules = self.rules.iter().map(|r| r.src.len() + r.dst.len());
        trusted + of_rules.sum::<usize>()
    }
}
