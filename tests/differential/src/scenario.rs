//! What is done to both routers, as a value that can be drawn, shrunk, written to a file and done again.

use std::fmt::Write as _;
use std::net::IpAddr;

use serde::{Deserialize, Serialize};

/// Ports of a router, in the order of their numbers everywhere in the oracle.
pub const PORTS: [&str; 3] = ["wan0", "lan0", "dmz0"];

/// A configuration, the lanes over it, and what happens then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Scenario {
    /// What it was drawn from; shrinking keeps it.
    pub seed: u64,
    /// The configuration of Linux, in the order in which it is made.
    pub setup: Vec<Statement>,
    /// rxlane's configuration.
    pub lanes: Lanes,
    /// Imaginary hosts that answer ARP and neighbour solicitations.
    pub alive: Vec<IpAddr>,
    /// Packets and changes, in order.
    pub steps: Vec<Step>,
}

/// One change to a router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Statement {
    /// A line for `ip -batch`.
    Ip(String),
    /// A line for `nft -f`.
    Nft(String),
    /// A sysctl by its dotted name; interfaces have no dots here.
    Sysctl {
        /// Its name.
        name: String,
        /// What is written.
        value: String,
    },
    /// A session of PPPoE, as pppd would have it.
    Session {
        /// Name of its ppp device.
        name: String,
        /// The device that its frames come and go by.
        device: String,
        /// Its number.
        id: u16,
        /// MAC address of its other end.
        remote: [u8; 6],
    },
    /// All tracked connections are forgotten, as `conntrack -F` does.
    ForgetConnections,
    /// All of a protocol get another mark, as `conntrack -U` gives them.
    MarkConnections {
        /// Those of TCP, else of UDP.
        tcp: bool,
        /// The mark.
        mark: u32,
    },
}

impl Statement {
    /// A sysctl.
    pub fn sysctl(name: impl Into<String>, value: impl ToString) -> Self {
        Self::Sysctl {
            name: name.into(),
            value: value.to_string(),
        }
    }

    /// As a command that people type.
    pub fn command(&self) -> String {
        match self {
            Self::Ip(line) => format!("ip {line}"),
            Self::Nft(line) => format!("nft '{line}'"),
            Self::Sysctl { name, value } => format!("sysctl -w {name}={value}"),
            Self::Session {
                name,
                device,
                id,
                remote,
            } => {
                let remote = crate::packets::mac_text(*remote);
                format!(
                    "pppd plugin pppoe.so nic-{device} rp_pppoe_sess {id}:{remote} ifname {name} noauth"
                )
            }
            Self::ForgetConnections => "conntrack -F".into(),
            Self::MarkConnections { tcp, mark } => {
                let protocol = if *tcp { "tcp" } else { "udp" };
                format!("conntrack -U -p {protocol} -m {mark:#x}")
            }
        }
    }
}

/// A step after the start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Step {
    /// Packets that are sent one after the other; then what left is compared.
    Send(Vec<Packet>),
    /// Changes made to both routers; rxlane has a second to follow.
    Change(Vec<Statement>),
}

/// A packet, with a number of its own that is in its payload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Packet {
    /// The number.
    pub number: u32,
    /// What it is, for people.
    pub what: String,
    /// How its bytes come about.
    pub origin: Origin,
}

/// Where a packet's bytes come from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// These bytes, into a port.
    Frame {
        /// Number of the port.
        port: usize,
        /// The frame, in hexadecimal.
        hex: String,
    },
    /// Made of what plain Linux sent when it got an earlier packet, so that it fits whatever NAT did.
    Answer(Answer),
}

/// An answer to a packet that has left the plain router.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The number of the packet that it answers.
    pub to: u32,
    /// What is answered.
    pub reply: Reply,
    /// The DSCP of the answer.
    pub dscp: u8,
    /// Its TTL or hop limit.
    pub ttl: u8,
    /// Bytes after the transport header.
    pub payload_bytes: usize,
    /// Not through the tunnel that what is answered came out of, as somebody would who is not its other end.
    #[serde(default)]
    pub bare: bool,
}

/// What a host answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reply {
    /// A packet of the same protocol, back; TCP with these.
    Same {
        /// Flags of the TCP header.
        flags: u8,
        /// Sequence number.
        seq: u32,
        /// Acknowledgement number.
        ack: u32,
    },
    /// "Port unreachable", which is *related* to the connection.
    Unreachable,
}

/// rxlane.toml.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lanes {
    /// Ports with lanes.
    pub ports: Vec<String>,
    /// Classes without the default one, highest priority first.
    pub classes: Vec<Class>,
    /// The AF_XDP engine forwards instead of the XDP program.
    #[serde(default)]
    pub engine: bool,
    /// Ports are served at tc ingress instead of in XDP.
    #[serde(default)]
    pub at_tc: bool,
    /// Express classes leave through queueing disciplines.
    #[serde(default)]
    pub fast: bool,
}

/// A class of rxlane.toml.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Class {
    /// Its name.
    pub name: String,
    /// How an express class trusts; none for a stack class.
    pub trust: Option<Trust>,
    /// Whether it is policed, at a rate that is never reached.
    pub policed: bool,
    /// Rules, as TOML.
    pub rules: Vec<String>,
}

/// Who may take an express lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// What Linux was seen to forward.
    Firewall,
    /// The same of what conntrack has confirmed.
    Established,
    /// Sources in these prefixes.
    Prefixes(Vec<String>),
    /// Everybody.
    All,
}

impl Trust {
    /// The word for it.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Firewall => "firewall",
            Self::Established => "established",
            Self::Prefixes(_) => "prefixes",
            Self::All => "all",
        }
    }
}

fn quoted(words: &[String]) -> String {
    let quoted: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
    format!("[{}]", quoted.join(", "))
}

impl Lanes {
    /// The file.
    pub fn toml(&self) -> String {
        let mut text = format!(
            "ports = {}\noverlap = \"first-match\"\n",
            quoted(&self.ports)
        );
        if self.engine {
            text += "datapath = \"afxdp\"\n";
        }
        let hook = if self.at_tc { "tc" } else { "xdp" };
        let hooks = self.ports.iter().map(|port| format!("{port} = \"{hook}\""));
        let hooks: Vec<String> = hooks.collect();
        let _ = writeln!(text, "ingress = {{ {} }}", hooks.join(", "));
        for class in &self.classes {
            let _ = write!(text, "\n[[class]]\nname = \"{}\"\n", class.name);
            match &class.trust {
                None => text += "lane = \"stack\"\n",
                Some(trust) => {
                    let value = match trust {
                        Trust::Prefixes(list) => format!("{{ prefixes = {} }}", quoted(list)),
                        word => format!("\"{}\"", word.name()),
                    };
                    let lane = if self.fast { "fast" } else { "express" };
                    let _ = write!(text, "lane = \"{lane}\"\ntrust = {value}\n");
                }
            }
            if class.policed {
                text += "police = { pps = 1000000, burst = 100000 }\n";
            }
            let _ = writeln!(text, "match = [{}]", class.rules.join(", "));
        }
        text + "\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n"
    }
}

impl Scenario {
    /// Statements of the setup and of each change.
    pub(crate) fn all_statements(&mut self) -> impl Iterator<Item = &mut Vec<Statement>> {
        let changes = self.steps.iter_mut().filter_map(|step| match step {
            Step::Change(statements) => Some(statements),
            Step::Send(_) => None,
        });
        std::iter::once(&mut self.setup).chain(changes)
    }

    /// How many packets it sends.
    pub fn packets(&self) -> usize {
        let sends = self.steps.iter().map(|step| match step {
            Step::Send(packets) => packets.len(),
            Step::Change(_) => 0,
        });
        sends.sum()
    }
}
