//! The keys of the file, as they are written. `examples/router.toml` explains each.

use serde::Deserialize;
use toml::Spanned;

/// Every key there is; a test holds the example to it.
#[cfg(test)]
pub(super) const KEYS: [&str; 44] = [
    "ports",
    "overlap",
    "[[class]]",
    "name",
    "lane",
    "trust",
    "prefixes",
    "police",
    "pps",
    "bps",
    "burst",
    "match",
    "ring",
    "cores",
    "weight",
    "priority",
    "overload",
    "aim",
    "port",
    "dscp",
    "protocol",
    "src",
    "dst",
    "src_port",
    "dst_port",
    "vlan",
    "pcp",
    "bytes",
    "offset",
    "value",
    "mask",
    "established",
    "datapath",
    "[afxdp]",
    "strategy",
    "prb",
    "device_budget",
    "order",
    "itr",
    "algorithm",
    "tx_ring",
    "copy",
    "busy_poll",
    "global",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) ports: Spanned<Vec<String>>,
    #[serde(default)]
    pub(super) overlap: Overlap,
    #[serde(default)]
    pub(super) datapath: Datapath,
    pub(super) afxdp: Option<Spanned<Afxdp>>,
    #[serde(default)]
    pub(super) class: Vec<Spanned<Class>>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Overlap {
    #[default]
    Error,
    FirstMatch,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Datapath {
    #[default]
    Express,
    Afxdp,
}

/// The engine: `datapath = "afxdp"`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Afxdp {
    pub(super) strategy: Option<Strategy>,
    pub(super) prb: Option<Vec<u32>>,
    pub(super) device_budget: Option<u32>,
    pub(super) order: Option<rxlane_policy::poll::Order>,
    pub(super) priority: rxlane_dataplane::config::Priority,
    pub(super) itr: Option<Itr>,
    pub(super) cores: Option<Vec<u32>>,
    pub(super) ring: Option<OneOrMore<u32>>,
    pub(super) tx_ring: Option<u32>,
    pub(super) copy: rxlane_dataplane::config::Copy,
    pub(super) busy_poll: Option<bool>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Strategy {
    Sq,
    Rr,
    LlRr,
    LlWfq,
}

/// A throttling algorithm by name, or with parameters.
#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected itr = \"off\", \"three-state\", \"linear\", \"net-dim\" or { algorithm = ..., ... }"
)]
pub(super) enum Itr {
    Word(ItrWord),
    Table(rxlane_policy::throttle::Throttling),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ItrWord {
    Off,
    ThreeState,
    Linear,
    NetDim,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Class {
    pub(super) name: String,
    pub(super) lane: Lane,
    pub(super) trust: Option<Trust>,
    pub(super) police: Option<Police>,
    #[serde(default, rename = "match")]
    pub(super) rules: Vec<Spanned<Rule>>,
    pub(super) ring: Option<u32>,
    pub(super) cores: Option<Vec<u32>>,
    pub(super) weight: Option<u32>,
    pub(super) priority: Option<u8>,
    pub(super) overload: Option<rxlane_policy::class::Overload>,
    pub(super) aim: Option<rxlane_policy::class::Aim>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Lane {
    Express,
    Stack,
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "expected trust = \"established\", \"all\" or { prefixes = [\"10.0.0.0/8\"] }"
)]
pub(super) enum Trust {
    Word(TrustWord),
    Prefixes(Prefixes),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum TrustWord {
    Established,
    All,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Prefixes {
    pub(super) prefixes: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Police {
    pub(super) pps: Option<u64>,
    pub(super) bps: Option<u64>,
    pub(super) burst: u64,
}

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rule {
    pub(super) port: Option<OneOrMore<String>>,
    pub(super) dscp: Option<OneOrMore<Word>>,
    pub(super) protocol: Option<OneOrMore<Word>>,
    pub(super) src: Option<OneOrMore<String>>,
    pub(super) dst: Option<OneOrMore<String>>,
    pub(super) src_port: Option<OneOrMore<Word>>,
    pub(super) dst_port: Option<OneOrMore<Word>>,
    pub(super) vlan: Option<OneOrMore<Word>>,
    pub(super) pcp: Option<OneOrMore<Word>>,
    pub(super) bytes: Option<Bytes>,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bytes {
    pub(super) offset: u32,
    pub(super) value: u32,
    #[serde(default = "whole_word")]
    pub(super) mask: u32,
}

fn whole_word() -> u32 {
    0xffff
}

/// A number or a name.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a number or a string")]
pub(super) enum Word {
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
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(untagged, expecting = "expected a value or a list of values")]
pub(super) enum OneOrMore<T> {
    One(T),
    More(Vec<T>),
}

impl<T> OneOrMore<T> {
    pub(super) fn as_slice(&self) -> &[T] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::More(values) => values,
        }
    }
}
