//! Where netfilter has rules for packets, and what those can do.

/// Where on the way of a forwarded packet a hook is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Before anything else.
    Ingress,
    /// Before routing.
    Prerouting,
    /// Of what is for this machine: the outer packets of its tunnels.
    Input,
    /// Between routing and sending.
    Forward,
    /// Of what this machine sends.
    Output,
    /// Before sending.
    Postrouting,
    /// As the last, at the egress device.
    Egress,
}

impl Place {
    /// Its name in nftables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ingress => "ingress",
            Self::Prerouting => "prerouting",
            Self::Input => "input",
            Self::Forward => "forward",
            Self::Output => "output",
            Self::Postrouting => "postrouting",
            Self::Egress => "egress",
        }
    }

    /// Whether forwarded packets do not come by.
    pub fn is_local(self) -> bool {
        matches!(self, Self::Input | Self::Output)
    }

    /// By the name of a family and the number of a hook.
    pub fn of(family: &str, number: u32) -> Option<Self> {
        Some(match (family, number) {
            ("netdev", 0) | ("inet", 5) => Self::Ingress,
            ("netdev", 1) => Self::Egress,
            ("netdev", _) => return None,
            (_, 0) => Self::Prerouting,
            (_, 1) => Self::Input,
            (_, 2) => Self::Forward,
            (_, 3) => Self::Output,
            (_, 4) => Self::Postrouting,
            _ => return None,
        })
    }
}

/// What rules can do to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Effects {
    /// Drop it, send it elsewhere, or anything that is not known here.
    pub filters: bool,
    /// Give it a mark, or its flow a zone, or none at all.
    pub marks: bool,
    /// Change its bytes.
    pub rewrites: bool,
    /// Translate its addresses.
    pub translates: bool,
    /// Have connection tracking not see it.
    pub untracks: bool,
    /// Change by what flows are told apart: addresses, ports, type of service, TTL.
    pub disguises: bool,
}

impl Effects {
    /// Whether there are any.
    pub fn any(self) -> bool {
        self != Self::default()
    }

    pub(crate) fn add(&mut self, o: Self) {
        self.filters |= o.filters;
        self.marks |= o.marks;
        self.rewrites |= o.rewrites;
        self.translates |= o.translates;
        self.untracks |= o.untracks;
        self.disguises |= o.disguises;
    }
}

/// A base chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Family and table, such as `inet filter`.
    pub table: String,
    /// Name of the chain.
    pub chain: String,
    /// Where it is.
    pub place: Place,
    /// The device that it is for, where it names one.
    pub device: Option<String>,
    /// What its rules can do, and its policy.
    pub effects: Effects,
}

impl std::fmt::Display for Hook {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {} at {}", self.table, self.chain, self.place.name())?;
        self.device
            .as_ref()
            .map_or(Ok(()), |d| write!(f, " of {d}"))
    }
}
