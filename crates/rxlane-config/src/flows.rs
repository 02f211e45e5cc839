//! How flows are counted, and who is told.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::file;
use crate::place::{Mistakes, Place};

/// What `[flows]` says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flows {
    /// Seconds without a packet after which a flow is forgotten.
    pub idle_s: u32,
    /// Seconds after which a flow that goes on is told of.
    pub active_s: u32,
    /// Who is told of flows, by IPFIX.
    pub collector: Option<Collector>,
}

impl Flows {
    /// What a table says that is empty.
    pub const DEFAULT: Self = Self {
        idle_s: 300,
        active_s: 60,
        collector: None,
    };
    /// The longest time that can be said.
    pub const MOST_S: u32 = 86_400;
}

/// The table of a file.
pub(crate) fn read(table: file::Flows, mistakes: &mut Mistakes) -> Option<Flows> {
    let mut seconds = |key: &'static str, said: Option<u32>, otherwise: u32| {
        let s = said.unwrap_or(otherwise);
        let checked = match (1..=Flows::MOST_S).contains(&s) {
            true => Ok(s),
            false => Err(format!("{key} = {s}: write 1 to {} seconds", Flows::MOST_S)),
        };
        mistakes.keep(&Place::top("flows").key(key), checked)
    };
    let idle_s = seconds("idle_s", table.idle_s, Flows::DEFAULT.idle_s);
    let active_s = seconds("active_s", table.active_s, Flows::DEFAULT.active_s);
    let collector = match table.ipfix {
        None => Some(None),
        Some(text) => {
            let at = Place::top("flows").key("ipfix");
            mistakes.keep(&at, text.parse().map(Some))
        }
    };
    Some(Flows {
        idle_s: idle_s?,
        active_s: active_s?,
        collector: collector?,
    })
}

/// How a collector is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Transport {
    /// Datagrams, of which some may be lost.
    Udp,
    /// A connection.
    Tcp,
}

/// A collector of IPFIX.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Collector {
    /// How it is reached.
    pub transport: Transport,
    /// Where.
    pub address: SocketAddr,
}

impl std::str::FromStr for Collector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (transport, address) = match text.split_once("://") {
            Some(("udp", address)) => (Transport::Udp, address),
            Some(("tcp", address)) => (Transport::Tcp, address),
            Some(_) | None => return Err(wrong(text)),
        };
        match address.parse::<SocketAddr>() {
            Ok(address) if address.port() != 0 => Ok(Self { transport, address }),
            _ => Err(wrong(text)),
        }
    }
}

fn wrong(text: &str) -> String {
    format!(
        "no collector can be at `{text}`: write \"udp://192.0.2.1:4739\" or \"tcp://[2001:db8::1]:4739\""
    )
}

impl std::fmt::Display for Collector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let transport = match self.transport {
            Transport::Udp => "udp",
            Transport::Tcp => "tcp",
        };
        write!(f, "{transport}://{}", self.address)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn collectors_are_read_as_they_are_written() {
        for text in ["udp://192.0.2.1:4739", "tcp://[2001:db8::1]:4739"] {
            let collector: Collector = text.parse().expect("a collector");
            assert_eq!(collector.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_collector_is_told_with_examples() {
        for text in [
            "192.0.2.1:4739",
            "udp://collector:4739",
            "udp://192.0.2.1",
            "sctp://[::1]:1",
            "udp://[::1]:0",
        ] {
            let told = text.parse::<Collector>().expect_err(text);
            assert!(
                told.contains(text) && told.contains("udp://192.0.2.1:4739"),
                "{told}"
            );
        }
    }
}
