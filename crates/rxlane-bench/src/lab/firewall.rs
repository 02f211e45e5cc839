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
    /// The same, and connections are taken off the stack by a flowtable of the lab's ports
    /// (Documentation/networking/nf_flowtable.rst): Linux's own short cut.
    Flowtable(u32),
}

/// The flowtable of [`Firewall::Flowtable`].
const FLOWTABLE: &str = "rxlane_fast";
/// Before anything else is asked of a connection's packets.
const ADD_TO_FLOWTABLE: &str =
    "  ct state established meta l4proto { tcp, udp } flow add @rxlane_fast\n";

impl Firewall {
    /// A ruleset for `nft -f` in a router with these ports; `None` if there is nothing to load.
    pub(super) fn rules(self, ports: &[String]) -> Option<String> {
        const ESTABLISHED: &str = "  ct state established,related accept\n";
        let (n, first) = match self {
            Self::None => return None,
            Self::Linear(n) => (n, String::new()),
            Self::Stateful(n) => (n, ESTABLISHED.into()),
            Self::Flowtable(n) => (n, format!("{ADD_TO_FLOWTABLE}{ESTABLISHED}")),
        };
        let flowtable = self.flowtable(ports).unwrap_or_default();
        let mut text = format!(
            "table inet rxlane_lab {{\n{flowtable} chain forward {{\n  type filter hook forward priority filter; policy drop;\n{first}  ct state invalid counter drop\n"
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

impl Firewall {
    fn flowtable(self, ports: &[String]) -> Option<String> {
        matches!(self, Self::Flowtable(_)).then(|| {
            format!(
                " flowtable {FLOWTABLE} {{\n  hook ingress priority filter; devices = {{ {} }};\n }}\n",
                ports.join(", ")
            )
        })
    }

    /// A ruleset with the flowtable and nothing that uses it, where there is one: if it is refused, flowtables are.
    pub(super) fn flowtable_alone(self, ports: &[String]) -> Option<String> {
        let flowtable = self.flowtable(ports)?;
        Some(format!("table inet rxlane_lab {{\n{flowtable}}}\n"))
    }
}

impl std::fmt::Display for Firewall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Linear(n) => write!(f, "linear:{n}"),
            Self::Stateful(n) => write!(f, "stateful:{n}"),
            Self::Flowtable(n) => write!(f, "flowtable:{n}"),
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
            (_, "flowtable") => Ok(Self::Flowtable(rules()?)),
            _ => Err(format!(
                "`{text}` is no firewall: use none, linear:N, stateful:N or flowtable:N (N alone is linear:N)"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Firewall;

    #[test]
    fn the_chain_has_as_many_rules_as_asked_for() {
        for firewall in [
            Firewall::Linear(60),
            Firewall::Stateful(60),
            Firewall::Flowtable(60),
        ] {
            let counted = firewall.rules(&[]).unwrap().matches("counter").count();
            assert_eq!(counted, 60);
        }
        assert_eq!(Firewall::None.rules(&[]), None);
    }

    #[test]
    fn a_flowtable_has_all_ports_and_is_used_before_connections_are_accepted() {
        let ports = ["in0", "out0"].map(str::to_owned);
        let rules = Firewall::Flowtable(9).rules(&ports).unwrap();
        let at = |text: &str| {
            rules
                .find(text)
                .unwrap_or_else(|| panic!("{text}: {rules}"))
        };
        assert!(at("devices = { in0, out0 };") < at("chain forward"));
        assert!(at("flow add @rxlane_fast") < at("established,related accept"));
        let alone = Firewall::Flowtable(9).flowtable_alone(&ports).unwrap();
        assert!(alone.contains("flowtable rxlane_fast") && !alone.contains("flow add"));
        assert_eq!(Firewall::Stateful(9).flowtable_alone(&ports), None);
    }

    #[test]
    fn firewalls_are_named_as_they_are_printed() {
        for firewall in [
            Firewall::None,
            Firewall::Linear(60),
            Firewall::Stateful(1000),
            Firewall::Flowtable(60),
        ] {
            assert_eq!(firewall.to_string().parse(), Ok(firewall));
        }
        assert_eq!("60".parse(), Ok(Firewall::Linear(60)));
        for wrong in [
            "",
            "linear:",
            "stateful:-1",
            "flow:9",
            "flowtable:",
            "70000",
        ] {
            assert!(wrong.parse::<Firewall>().is_err(), "{wrong}");
        }
    }
}
