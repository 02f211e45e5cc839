//! A firewall of a given kind and length for the router, with connection tracking.

use std::fmt::Write as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// What a packet goes through on its way by the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Firewall {
    /// No rules, and no connection tracking.
    #[default]
    None,
    /// Every packet walks so many rules to the last one: what it costs that the tenth page of a rule list lets through.
    Linear(u32),
    /// The first rule accepts what belongs to a connection, as everybody writes it; so many rules are there for new ones.
    Stateful(u32),
}

impl Firewall {
    /// A ruleset for `nft -f`; `None` if there is nothing to load.
    pub(super) fn rules(self) -> Option<String> {
        let (n, established) = match self {
            Self::None => return None,
            Self::Linear(n) => (n, ""),
            Self::Stateful(n) => (n, "  ct state established,related accept\n"),
        };
        let mut text = format!(
            "table inet rxlane_lab {{\n chain forward {{\n  type filter hook forward priority filter; policy drop;\n{established}  ct state invalid counter drop\n"
        );
        // Of the usual kind (prefix, protocol, port), and none but the last takes a test packet.
        for i in 0..n.saturating_sub(2) {
            let (a, b) = (i / 250, i % 250);
            let port = 1024 + i;
            let _ = writeln!(
                text,
                "  ip saddr 192.0.{a}.{b} tcp dport {port} counter drop"
            );
        }
        text += "  counter accept\n }\n}\n";
        Some(text)
    }
}

impl std::fmt::Display for Firewall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Linear(n) => write!(f, "linear:{n}"),
            Self::Stateful(n) => write!(f, "stateful:{n}"),
        }
    }
}

impl From<Firewall> for String {
    fn from(firewall: Firewall) -> Self {
        firewall.to_string()
    }
}

impl TryFrom<String> for Firewall {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Firewall {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, n) = text.split_once(':').unwrap_or(("linear", text));
        let rules = || match n.parse() {
            // More than this many would repeat addresses and ports of rules.
            Ok(n) if n <= 60_000 => Ok(n),
            _ => Err(format!("`{n}` is no number of rules: use 0 to 60000")),
        };
        match (text, kind) {
            ("none" | "0", _) => Ok(Self::None),
            (_, "linear") => Ok(Self::Linear(rules()?)),
            (_, "stateful") => Ok(Self::Stateful(rules()?)),
            _ => Err(format!(
                "`{text}` is no firewall: use none, linear:N or stateful:N (N alone is linear:N)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Firewall;

    #[test]
    fn the_chain_has_as_many_rules_as_asked_for() {
        for firewall in [Firewall::Linear(60), Firewall::Stateful(60)] {
            let counted = firewall.rules().unwrap().matches("counter").count();
            assert_eq!(counted, 60);
        }
        assert_eq!(Firewall::None.rules(), None);
    }

    #[test]
    fn firewalls_are_named_as_they_are_printed() {
        for firewall in [
            Firewall::None,
            Firewall::Linear(60),
            Firewall::Stateful(1000),
        ] {
            assert_eq!(firewall.to_string().parse(), Ok(firewall));
        }
        assert_eq!("60".parse(), Ok(Firewall::Linear(60)));
        for wrong in ["", "linear:", "stateful:-1", "flow:9", "70000"] {
            assert!(wrong.parse::<Firewall>().is_err(), "{wrong}");
        }
    }
}
