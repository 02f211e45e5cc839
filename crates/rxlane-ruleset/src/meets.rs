//! Which flows can meet a rule, as far as its comparisons say: never too few.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;

/// What packets have that can meet a rule. `None`: anything.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Meets {
    /// IPv6 and not IPv4.
    pub v6: Option<bool>,
    /// TCP (6) or UDP (17).
    pub protocol: Option<u8>,
    /// Prefix of the source: address and length.
    pub source: Option<(IpAddr, u8)>,
    /// Prefix of the destination.
    pub destination: Option<(IpAddr, u8)>,
    /// First and last source port.
    pub source_ports: Option<(u16, u16)>,
    /// First and last destination port.
    pub destination_ports: Option<(u16, u16)>,
    /// Name of the interface that they come in by, as the rule says it: a port, or a device over it or that it belongs to.
    pub ingress: Option<String>,
    /// Name of the interface that they leave by.
    pub egress: Option<String>,
    /// Whether connection tracking sees them.
    pub tracked: Option<bool>,
}

/// What a comparison leaves of the packets that come to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// All.
    Holds,
    /// None.
    Fails,
    /// Some, or that is not known.
    May,
}

impl Outcome {
    /// The same, or its contrary.
    pub(crate) fn inverted(self, inverted: bool) -> Self {
        match self {
            Self::Holds if inverted => Self::Fails,
            Self::Fails if inverted => Self::Holds,
            other => other,
        }
    }
}

impl Meets {
    /// Whether every flow meets the rule, or every one that connection tracking sees, or every other.
    pub fn is_universal(&self) -> bool {
        *self
            == Self {
                tracked: self.tracked,
                ..Self::default()
            }
    }

    /// What answers it.
    #[must_use]
    pub fn answers(&self) -> Self {
        Self {
            source: self.destination,
            destination: self.source,
            source_ports: self.destination_ports,
            destination_ports: self.source_ports,
            ingress: self.egress.clone(),
            egress: self.ingress.clone(),
            ..*self
        }
    }

    /// Whether all that `other` has is here, too.
    pub fn covers(&self, other: &Self) -> bool {
        fn of<T: PartialEq>(wide: &Option<T>, narrow: &Option<T>) -> bool {
            wide.is_none() || wide == narrow
        }
        let prefix = |wide: Option<(IpAddr, u8)>, narrow: Option<(IpAddr, u8)>| match wide {
            None => true,
            Some(wide) => narrow.is_some_and(|narrow| contains(wide, narrow)),
        };
        let ports = |wide: Option<(u16, u16)>, narrow: Option<(u16, u16)>| match wide {
            None => true,
            Some((a, b)) => narrow.is_some_and(|(c, d)| a <= c && d <= b),
        };
        of(&self.v6, &other.v6)
            && of(&self.protocol, &other.protocol)
            && prefix(self.source, other.source)
            && prefix(self.destination, other.destination)
            && ports(self.source_ports, other.source_ports)
            && ports(self.destination_ports, other.destination_ports)
            && of(&self.ingress, &other.ingress)
            && of(&self.egress, &other.egress)
            && of(&self.tracked, &other.tracked)
    }

    /// The least that has all of both.
    pub(crate) fn join(self, other: Self) -> Self {
        fn same<T: PartialEq>(a: Option<T>, b: Option<T>) -> Option<T> {
            a.filter(|a| b.as_ref() == Some(a))
        }
        let hull = |a: Option<(u16, u16)>, b: Option<(u16, u16)>| {
            let ((a, b), (c, d)) = (a?, b?);
            Some((a.min(c), b.max(d)))
        };
        Self {
            v6: same(self.v6, other.v6),
            protocol: same(self.protocol, other.protocol),
            source: both(self.source, other.source),
            destination: both(self.destination, other.destination),
            source_ports: hull(self.source_ports, other.source_ports),
            destination_ports: hull(self.destination_ports, other.destination_ports),
            ingress: same(self.ingress, other.ingress),
            egress: same(self.egress, other.egress),
            tracked: same(self.tracked, other.tracked),
        }
    }

    pub(crate) fn version(&mut self, v6: bool) -> Outcome {
        one(&mut self.v6, v6)
    }

    pub(crate) fn transport(&mut self, protocol: u8) -> Outcome {
        if !matches!(protocol, 6 | 17) {
            return Outcome::Fails;
        }
        one(&mut self.protocol, protocol)
    }

    pub(crate) fn device(&mut self, ingress: bool, name: &str) -> Outcome {
        let device = if ingress {
            &mut self.ingress
        } else {
            &mut self.egress
        };
        one(device, name.to_owned())
    }

    pub(crate) fn address(&mut self, is_source: bool, prefix: (IpAddr, u8)) -> Outcome {
        let version = self.version(prefix.0.is_ipv6());
        if version == Outcome::Fails {
            return Outcome::Fails;
        }
        let known = if is_source {
            &mut self.source
        } else {
            &mut self.destination
        };
        match *known {
            _ if prefix.1 == 0 => version,
            Some(known) if contains(prefix, known) => version,
            Some(known) if !contains(known, prefix) => Outcome::Fails,
            _ => {
                *known = Some(prefix);
                Outcome::May
            }
        }
    }

    pub(crate) fn ports(&mut self, source: bool, (from, to): (u16, u16)) -> Outcome {
        let known = if source {
            &mut self.source_ports
        } else {
            &mut self.destination_ports
        };
        let (first, last) = known.unwrap_or((0, u16::MAX));
        let both = (first.max(from), last.min(to));
        if both.0 > both.1 {
            return Outcome::Fails;
        }
        if both == (first, last) {
            return Outcome::Holds;
        }
        *known = Some(both);
        Outcome::May
    }
}

fn one<T: PartialEq>(known: &mut Option<T>, wanted: T) -> Outcome {
    match known {
        Some(known) if *known == wanted => Outcome::Holds,
        Some(_) => Outcome::Fails,
        None => {
            *known = Some(wanted);
            Outcome::May
        }
    }
}

/// The longest prefix that has both.
fn both(a: Option<(IpAddr, u8)>, b: Option<(IpAddr, u8)>) -> Option<(IpAddr, u8)> {
    let ((a, a_len), (b, b_len)) = (a?, b?);
    let wide = |address: IpAddr, len| Some((IpNet::new(address, len).ok()?.network(), len));
    let common = match (a, b) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
        _ => return None,
    };
    let len = (common as u8).min(a_len).min(b_len);
    wide(a, len).filter(|_| len > 0)
}

fn contains(wide: (IpAddr, u8), narrow: (IpAddr, u8)) -> bool {
    let net = |(address, len)| IpNet::new(address, len).ok();
    net(wide)
        .zip(net(narrow))
        .is_some_and(|(wide, narrow)| wide.contains(&narrow))
}

impl fmt::Display for Meets {
    /// Such as `of flows: UDP, to port 6000, in by lan0`; `of all flows`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all: Vec<String> = Vec::new();
        let protocol = match self.protocol {
            Some(6) => Some("TCP"),
            Some(17) => Some("UDP"),
            _ => None,
        };
        all.extend(protocol.map(Into::into));
        all.extend(self.v6.map(|v6| if v6 { "IPv6" } else { "IPv4" }.into()));
        let ends = [
            ("from", self.source, self.source_ports),
            ("to", self.destination, self.destination_ports),
        ];
        for (way, prefix, ports) in ends {
            all.extend(prefix.map(|(address, len)| format!("{way} {address}/{len}")));
            all.extend(ports.map(|(from, to)| match to == from {
                true => format!("{way} port {from}"),
                false => format!("{way} ports {from} to {to}"),
            }));
        }
        all.extend(self.ingress.as_ref().map(|name| format!("in by `{name}`")));
        all.extend(self.egress.as_ref().map(|name| format!("out by `{name}`")));
        let of = match self.tracked {
            None => "flows",
            Some(true) => "tracked flows",
            Some(false) => "untracked flows",
        };
        if all.is_empty() {
            return write!(f, "of all {of}");
        }
        write!(f, "of {of}: {}", all.join(", "))
    }
}
