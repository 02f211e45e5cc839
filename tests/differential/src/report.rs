//! A difference, as a file that can be replayed and as text that can be read.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::OracleError;
use crate::compare::{Mismatch, Sent};
use crate::packets::hex;
use crate::scenario::{Origin, PORTS, Packet, Scenario, Step};
use crate::trial::Outcome;

/// A difference that was found, with all that is needed to see it again.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// What to do.
    pub scenario: Scenario,
    /// What differed then.
    pub outcome: Outcome,
}

/// In which way two routers differ about a packet.
pub fn kind(mismatch: &Mismatch) -> &'static str {
    let ports = |sent: &[Sent]| sent.iter().map(|s| s.port).collect::<Vec<_>>();
    let (plain, lane) = (&mismatch.plain, &mismatch.lane);
    if mismatch.life.is_some() {
        "another life of a connection"
    } else if mismatch.reordered {
        "another order"
    } else if plain.is_empty() {
        "forwarded what Linux drops"
    } else if lane.is_empty() {
        "dropped what Linux sends"
    } else if ports(plain) != ports(lane) {
        "another interface or number"
    } else {
        "other bytes"
    }
}

impl Finding {
    /// Reads one.
    ///
    /// # Errors
    /// When the file cannot be read or is of another version.
    pub fn read(path: &Path) -> Result<Self, OracleError> {
        let text = std::fs::read_to_string(path).map_err(|source| OracleError::File {
            path: path.into(),
            source,
        })?;
        serde_json::from_str(&text).map_err(|source| OracleError::Replay {
            path: path.into(),
            source,
        })
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), OracleError> {
        let file = |source| OracleError::File {
            path: path.into(),
            source,
        };
        let text = serde_json::to_string_pretty(self).map_err(|e| file(e.into()))?;
        std::fs::write(path, text).map_err(file)
    }

    /// What tells it from other findings: the way it differs, the trust, and the kinds of statements, changes and packets
    /// that it needs, without numbers and names. What every packet needs (addresses, neighbours, routes) is left out.
    pub fn signature(&self) -> String {
        let mut parts = vec![self.outcome.mismatches.first().map_or("", kind).to_owned()];
        let trusts = self.scenario.lanes.classes.iter();
        parts.extend(trusts.filter_map(|c| Some(c.trust.as_ref()?.name().to_owned())));
        let ordinary = [
            "ip addr add dev",
            "ip neigh replace",
            "ip route add via dev",
        ];
        let ordinary = |words: &String| {
            let words = words
                .replace(" nodad", "")
                .replace("-# ", "")
                .replace(" default", "");
            ordinary.iter().any(|o| words == *o) || words.starts_with("ip neigh replace")
        };
        let mut named = BTreeSet::new();
        let setup = self.scenario.setup.iter().map(|s| bare(&s.command()));
        named.extend(setup.filter(|words| !ordinary(words) && !words.contains("add table")));
        for step in &self.scenario.steps {
            match step {
                Step::Send(packets) => named.extend(packets.iter().map(|p| bare(&p.what))),
                Step::Change(changes) => {
                    let changes = changes
                        .iter()
                        .map(|c| format!("then {}", bare(&c.command())));
                    named.extend(changes);
                }
            }
        }
        parts.extend(named);
        parts.join("; ")
    }

    /// The same from the first differing packet alone: known before anything has been shrunk.
    pub fn coarse_signature(&self) -> String {
        let Some(first) = self.outcome.mismatches.first() else {
            return String::new();
        };
        let mut packets = self.scenario.steps.iter().flat_map(|step| match step {
            Step::Send(packets) => packets.as_slice(),
            Step::Change(_) => &[],
        });
        let what = packets.find(|p| Some(p.number) == first.number);
        format!(
            "{}; {}",
            kind(first),
            what.map_or(String::new(), |p| bare(&p.what))
        )
    }

    /// Everything about it, to be read: what differs first, as logs are cut.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for mismatch in self.outcome.mismatches.iter().take(5) {
            let number = mismatch.number.map(|n| format!("packet {n}"));
            let _ = writeln!(
                text,
                "DIFFERENCE: {}, {}",
                number.unwrap_or("a frame without a number".into()),
                kind(mismatch)
            );
            if let Some(life) = &mismatch.life {
                let _ = writeln!(text, "  {life}");
                continue;
            }
            for (who, sent) in [("plain Linux", &mismatch.plain), ("rxlane", &mismatch.lane)] {
                if sent.is_empty() {
                    let _ = writeln!(text, "  {who} sent nothing");
                }
                for one in sent {
                    let _ = writeln!(
                        text,
                        "  {who} sent out of {}: {}",
                        PORTS[one.port],
                        hex(&one.frame)
                    );
                }
            }
        }
        if self.outcome.mismatches.len() > 5 {
            let _ = writeln!(text, "and {} more", self.outcome.mismatches.len() - 5);
        }
        text + "\n" + &describe(&self.scenario)
    }
}

/// A scenario as commands and packets.
pub fn describe(scenario: &Scenario) -> String {
    let mut text = format!("# seed {}\n", scenario.seed);
    for statement in &scenario.setup {
        text += &(statement.command() + "\n");
    }
    let _ = write!(text, "\n# rxlane.toml\n{}", scenario.lanes.toml());
    for (n, step) in scenario.steps.iter().enumerate() {
        let _ = writeln!(text, "\n# step {n}");
        match step {
            Step::Change(changes) => {
                for change in changes {
                    text += &(change.command() + "\n");
                }
            }
            Step::Send(packets) => {
                for packet in packets {
                    text += &(line(packet) + "\n");
                }
            }
        }
    }
    text
}

fn line(packet: &Packet) -> String {
    let Packet {
        number,
        what,
        origin,
    } = packet;
    match origin {
        Origin::Frame { port, hex } => {
            format!("packet {number} into {}: {what}\n  {hex}", PORTS[*port])
        }
        Origin::Answer(a) => format!(
            "packet {number}: {what}, DSCP {}, {} bytes, to what plain Linux sent",
            a.dscp, a.payload_bytes
        ),
    }
}

/// The words without those that hold numbers or addresses.
fn bare(text: &str) -> String {
    let words = text.split([' ', '(', ')', ',', '=', '\'']);
    let plain = words.filter(|w| {
        !w.is_empty() && !w.contains(|c: char| c.is_ascii_digit()) && !w.starts_with(':')
    });
    plain.collect::<Vec<_>>().join(" ")
}

/// Numbers as `#`.
pub(crate) fn without_digits(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        let digit = c.is_ascii_digit();
        if !(digit && out.ends_with('#')) {
            out.push(if digit { '#' } else { c });
        }
    }
    out
}
