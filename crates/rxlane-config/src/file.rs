//! The keys of the file, as they are written. `examples/router.toml` explains each.

use std::collections::BTreeMap;

use rxlane_policy::class::{Aim, Overload};
use rxlane_policy::poll::Order;
use rxlane_policy::strategy::StrategyName;
use rxlane_policy::throttle::{Throttling, ThrottlingName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::rate::Rate;
use crate::router::{Copy, Egress, Ingress, Priority};

/// The whole file: which interfaces, which classes, and who serves them.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Interfaces that receive, and that the express lane may send to. Everything else stays with the kernel. With a port all VLANs over it
    /// are served; with a VLAN device (`wan0.100`) those over it, and nothing else of the port under it. Alternative names
    /// (`ip link property add dev wan0 altname uplink`) are names, too. One that is not there yet is served when it comes.
    pub(crate) ports: Vec<String>,
    /// What is done about rules of different classes that overlap.
    #[serde(default)]
    pub(crate) overlap: Overlap,
    /// Who serves the classes.
    #[serde(default)]
    pub(crate) datapath: Datapath,
    /// Whether packets are served, or only looked at.
    #[serde(default)]
    pub(crate) mode: Mode,
    /// The engine in user space, for `datapath = "afxdp"`.
    pub(crate) afxdp: Option<Afxdp>,
    /// Whether it is sampled how long packets are inside of the router, for `status`, `top` and metrics. Default: true.
    pub(crate) latency: Option<bool>,
    /// How packets of express classes leave through a port, by its name: `wan0 = "qdisc"`. Of a VLAN device that is named this is about its own
    /// queueing discipline; that of the port under it counts where it holds the link to a rate. `"auto"` is by the queueing discipline, too, while a driver
    /// refuses frames; `"direct"` is not. Default: auto.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) egress: BTreeMap<String, Egress>,
    /// Where packets that come in by a port are served, by its name: `lan0 = "xdp"`. An XDP program on a veth takes from senders on this machine
    /// what holds them back, so that `"auto"` serves a veth at tc ingress, where TCP is the stack's. `"xdp"` protects a core that packets can
    /// overload. Default: auto.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) ingress: BTreeMap<String, Ingress>,
    /// What the router itself must hear to stay a router: up to which rates that comes first on an overloaded core.
    pub(crate) control: Option<Control>,
    /// Counts packets of express classes by flow, for `rxlane flows`. Default: not.
    pub(crate) flows: Option<Flows>,
    /// Where the daemon shows its metrics. Default: nowhere.
    pub(crate) metrics: Option<Metrics>,
    /// Classes, highest priority first; up to 8. The last one is the default and takes what no rule matches.
    #[serde(default)]
    pub(crate) class: Vec<Class>,
}

/// What is done about overlapping rules.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Overlap {
    #[default]
    Error,
    FirstMatch,
}

/// Whether packets are served by class, or all left to the Linux stack as they come while counters say what would become of them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Mode {
    #[default]
    Serve,
    Observe,
}

/// Who serves the classes: the XDP program inside the driver's poll, or the AF_XDP engine.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Datapath {
    #[default]
    Express,
    Afxdp,
}

/// The engine: `datapath = "afxdp"`.
#[derive(Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Afxdp {
    /// How the rings of a device are polled (low-latency-router III.C). Default: ll-wfq.
    pub(crate) strategy: Option<StrategyName>,
    /// Packets of a device in one poll. Default: 64.
    pub(crate) device_budget: Option<u32>,
    /// Which ring has the first turn in a poll.
    pub(crate) order: Option<Order>,
    /// Whose classes are compared.
    pub(crate) priority: Priority,
    /// What governs how often a worker is woken. Default: off.
    pub(crate) itr: Option<Itr>,
    /// Cores of the workers. Default: core 0.
    pub(crate) cores: Option<Vec<u32>>,
    /// Packets that each class's ring holds; a list for each class: `rings`. Default: 512.
    #[schemars(with = "Option<u32>")]
    pub(crate) ring: Option<OneOrMore<u32>>,
    /// Packets that each class's ring holds, one number a class, highest class first, instead of `ring`.
    pub(crate) rings: Option<Vec<u32>>,
    /// Packets that a Tx ring holds. Default: 1024.
    pub(crate) tx_ring: Option<u32>,
    /// Whether the kernel copies packets for the engine.
    pub(crate) copy: Copy,
    /// Whether workers drive NAPI themselves where no copies are made. Default: true.
    pub(crate) busy_poll: Option<bool>,
}

/// Rates of routing protocols, ARP, neighbour discovery, DHCP, VRRP, LACP and ssh to the router itself.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Control {
    /// Of each sender, packets a second. Default: 1000.
    pub(crate) source: Option<Rate>,
    /// Of all neighbours on the links together, and of all others together, packets a second. Default: 10000.
    pub(crate) all: Option<Rate>,
}

/// Counters of flows.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flows {
    /// Seconds without a packet after which a flow is forgotten: 1 to 86,400. Default: 300.
    pub(crate) idle_s: Option<u32>,
    /// Who is told of flows by IPFIX: "udp://192.0.2.1:4739" or "tcp://...". Default: nobody.
    pub(crate) ipfix: Option<String>,
    /// Seconds after which a flow that goes on is told of: 1 to 86,400. Default: 60.
    pub(crate) active_s: Option<u32>,
}

/// Metrics for Prometheus.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// An address and port of the router's network namespace ("127.0.0.1:9817"), or a path for a socket.
    pub(crate) listen: String,
}

/// A throttling algorithm by name, or with parameters.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected itr = \"off\", \"three-state\", \"linear\", \"net-dim\" or { algorithm = ..., ... }"
)]
pub(crate) enum Itr {
    Word(ThrottlingName),
    Table(Throttling),
}

/// A traffic class.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Class {
    /// A name of its own.
    pub(crate) name: String,
    /// Whether the class passes by the stack.
    pub(crate) lane: Lane,
    /// Who may pass by the firewall; required for lane = "express" and "fast".
    pub(crate) trust: Option<Trust>,
    /// The rate above which a packet is treated as the next class.
    pub(crate) police: Option<Police>,
    /// Packets of a turn of the class's ring in the engine, for the strategies ll-wfq and ll-rr (where all have the same).
    pub(crate) budget: Option<u32>,
    /// Rules; the first that matches decides, over all classes in order. Up to 256 in all.
    #[serde(default, rename = "match")]
    pub(crate) rules: Vec<Rule>,
    /// Packets that the ring of a core holds while the core is overloaded. Default: 1024.
    pub(crate) ring: Option<u32>,
    /// Cores that serve the ring. Default: the core that polls.
    pub(crate) cores: Option<Vec<u32>>,
    /// Weight of the ring's thread, as a cgroup's; 1024 is an ordinary thread.
    pub(crate) weight: Option<u32>,
    /// SCHED_FIFO priority of the ring's thread, 1 to 99, instead of a weight.
    pub(crate) priority: Option<u8>,
    /// What is done with the class while the core is overloaded.
    pub(crate) overload: Option<Overload>,
    /// What the limits of the class are for.
    pub(crate) aim: Option<Aim>,
}

/// Forwarded inside the driver's poll (`"express"`); past firewall and routing too, but through the queueing discipline of the port that
/// packets leave by (`"fast"`, since Linux 6.6), where they are merged and wait as Linux's do; or by the Linux stack (`"stack"`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Lane {
    Express,
    Fast,
    Stack,
}

/// Who may pass by the firewall.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "expected trust = \"established\", \"all\" or { prefixes = [\"10.0.0.0/8\"] }"
)]
pub(crate) enum Trust {
    Word(TrustWord),
    Prefixes(Prefixes),
}

/// Flows that Linux was seen to forward, those of them that conntrack has confirmed, or everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TrustWord {
    Firewall,
    Established,
    All,
}

/// Trust by source address.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prefixes {
    /// Sources in these prefixes.
    pub(crate) prefixes: Vec<String>,
}

/// A rate and a burst.
#[derive(Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Police {
    /// Packets a second, with a burst in packets.
    pub(crate) pps: Option<Rate>,
    /// Bits a second, with a burst in bytes.
    pub(crate) bps: Option<Rate>,
    /// How much may come at once.
    pub(crate) burst: u64,
}

/// A rule: all keys must match; a key takes one value or a list.
#[derive(Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Rule {
    /// The ingress interface, as `ports` names it.
    pub(crate) port: Option<OneOrMore<String>>,
    /// 0 to 63, or a name: EF, VA, LE, CS0 to CS7, AF11 to AF43.
    pub(crate) dscp: Option<OneOrMore<Word>>,
    /// 0 to 255, or a name.
    pub(crate) protocol: Option<OneOrMore<Word>>,
    /// Source addresses or prefixes; with all others of rules and `trust` up to 100,000.
    pub(crate) src: Option<OneOrMore<String>>,
    /// Destination addresses or prefixes.
    pub(crate) dst: Option<OneOrMore<String>>,
    /// Source ports or ranges ("16384-32767").
    pub(crate) src_port: Option<OneOrMore<Word>>,
    /// Destination ports or ranges.
    pub(crate) dst_port: Option<OneOrMore<Word>>,
    /// VLAN ids of the outer tag.
    pub(crate) vlan: Option<OneOrMore<Word>>,
    /// Priority code points of the outer tag, 0 to 7.
    pub(crate) pcp: Option<OneOrMore<Word>>,
    /// Two bytes at an offset of the frame.
    pub(crate) bytes: Option<Bytes>,
}

/// Two bytes of the frame, with a mask.
#[derive(Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bytes {
    /// From the start of the frame, 0 to 62.
    pub(crate) offset: u32,
    /// What they must be.
    pub(crate) value: u32,
    /// The bits that count. Default: all.
    #[serde(default = "whole_word")]
    pub(crate) mask: u32,
}

fn whole_word() -> u32 {
    0xffff
}

/// A number or a name.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a number or a string")]
pub(crate) enum Word {
    Number(i64),
    Text(String),
}

impl std::fmt::Display for Word {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(n) => n.fmt(f),
            Self::Text(t) => t.fmt(f),
        }
    }
}

/// A value or a list of them.
#[derive(Debug, Clone, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(untagged, expecting = "expected a value or a list of values")]
pub(crate) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub(crate) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::More(values) => values,
        }
    }
}
