//! A flow that rules are asked about, and what they answer.

use std::fmt;
use std::net::IpAddr;

use crate::hook::Place;

/// What all packets of a flow have in common. `None`: that is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The device that it comes in by.
    pub ingress: Option<String>,
    /// The device that it leaves by.
    pub egress: Option<String>,
    /// As packets come in.
    pub source: IpAddr,
    /// As packets come in; of the same family.
    pub destination: IpAddr,
    /// Number of the protocol.
    pub protocol: u8,
    /// Source and destination port, of a protocol that has ports.
    pub ports: Option<(u16, u16)>,
    /// Type of service or traffic class.
    pub tos: Option<u8>,
    /// TTL or hop limit.
    pub ttl: Option<u8>,
    /// The sender's MAC address.
    pub source_mac: Option<[u8; 6]>,
}

/// Which packets of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The first: connection tracking has not seen the flow before. Of TCP it is the SYN.
    Opening,
    /// Those of a connection that is established, in the direction of the first; of TCP none that opens or closes it.
    Established,
    /// What answers a flow: packets of that connection in the other direction, with the same type of service.
    Answering,
}

/// What becomes of packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// All rules let them pass.
    Accept,
    /// They are dropped, or somebody else's.
    Drop,
    /// It depends on something that is not the same for all packets of the flow, or that is not known.
    Depends,
}

impl Outcome {
    /// A word.
    pub fn name(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Drop => "drop",
            Self::Depends => "depends",
        }
    }
}

/// A rule that decides, or the policy of a chain.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Deciding {
    /// Family and table.
    pub table: String,
    /// Name of the chain that has the rule.
    pub chain: String,
    /// Where packets come by it.
    pub place: Place,
    /// The handle of the rule, of iptables its number in the chain; none: the policy decides.
    pub handle: Option<u64>,
    /// What it does, such as `accepts`.
    pub what: String,
    /// Why it may do that to some packets and not to others, such as `asks for the length of packets`.
    pub why: Option<String>,
}

impl fmt::Display for Deciding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (table, chain, place) = (&self.table, &self.chain, self.place.name());
        match self.handle {
            Some(handle) => write!(f, "rule {handle} of {table} {chain}")?,
            None => write!(f, "the policy of {table} {chain}")?,
        }
        write!(f, " (at {place}) {}", self.what)?;
        match &self.why {
            Some(why) => write!(f, ", or not: it {why}"),
            None => Ok(()),
        }
    }
}

/// What rules say of packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// What becomes of them.
    pub outcome: Outcome,
    /// Whether connection tracking sees them, where anything asks it to: a rule may say `notrack`.
    pub tracked: Option<bool>,
    /// Why: of what passes, what each base chain says; else the rules that drop packets or may.
    pub because: Vec<Deciding>,
    /// What rules do with them beside: count, log, mark, translate.
    pub beside: Vec<Deciding>,
}
