//! Kinds of network devices that a router may have beside its ports, and which of them this kernel has.

use std::collections::BTreeSet;
use std::str::FromStr;
use std::sync::OnceLock;

use crate::world;

/// A kind of device, or what takes the place of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A bridge over one or two ports.
    Bridge,
    /// A bond over a port, of which it uses one link at a time.
    Bond,
    /// A VLAN device on a port.
    Vlan,
    /// Another MAC address on a port.
    Macvlan,
    /// Another IP address on a port, with the MAC address of it.
    Ipvlan,
    /// A routing table of their own for some ports.
    Vrf,
    /// A device that takes everything and sends nothing.
    Dummy,
    /// IP in GRE.
    Gre,
    /// IPv4 in IPv4.
    Ipip,
    /// IPv6 in IPv4.
    Sit,
    /// Ethernet in UDP.
    Vxlan,
    /// Anything in IPv6.
    Ip6tnl,
    /// A session of PPPoE over a port, or over a VLAN device.
    Pppoe,
    /// IPsec, encrypted by a cipher that does nothing, so that equal routers send equal bytes.
    Esp,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 14] = [
        Self::Bridge,
        Self::Bond,
        Self::Vlan,
        Self::Macvlan,
        Self::Ipvlan,
        Self::Vrf,
        Self::Dummy,
        Self::Gre,
        Self::Ipip,
        Self::Sit,
        Self::Vxlan,
        Self::Ip6tnl,
        Self::Pppoe,
        Self::Esp,
    ];

    /// As `ip link` calls it, if that makes it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Bridge => "bridge",
            Self::Bond => "bond",
            Self::Vlan => "vlan",
            Self::Macvlan => "macvlan",
            Self::Ipvlan => "ipvlan",
            Self::Vrf => "vrf",
            Self::Dummy => "dummy",
            Self::Gre => "gre",
            Self::Ipip => "ipip",
            Self::Sit => "sit",
            Self::Vxlan => "vxlan",
            Self::Ip6tnl => "ip6tnl",
            Self::Pppoe => "pppoe",
            Self::Esp => "esp",
        }
    }

    /// Whether it puts packets into packets of IPv4, with ends that are known.
    pub(super) fn is_tunnel_over_ipv4(self) -> bool {
        matches!(self, Self::Gre | Self::Ipip | Self::Sit | Self::Vxlan)
    }

    /// Whether routes lead into it, and it is over no port.
    pub(super) fn is_behind_routes(self) -> bool {
        matches!(self, Self::Dummy | Self::Ip6tnl | Self::Esp)
    }

    /// What makes one, for a look at whether that can be done.
    fn example(self) -> &'static str {
        match self {
            Self::Bridge => "link add kind type bridge",
            Self::Bond => "link add kind type bond mode active-backup",
            Self::Vlan => "link add link port name kind type vlan id 10",
            Self::Macvlan => "link add link port name kind type macvlan mode bridge",
            Self::Ipvlan => "link add link port name kind type ipvlan mode l2",
            Self::Vrf => "link add kind type vrf table 10",
            Self::Dummy => "link add kind type dummy",
            Self::Gre => "link add kind type gre local 10.1.0.1 remote 10.1.0.10 ttl 64",
            Self::Ipip => "link add kind type ipip local 10.1.0.1 remote 10.1.0.10 ttl 64",
            Self::Sit => "link add kind type sit local 10.1.0.1 remote 10.1.0.10 ttl 64",
            Self::Vxlan => {
                "link add kind type vxlan id 7 local 10.1.0.1 remote 10.1.0.10 dstport 4789"
            }
            Self::Ip6tnl => "link add kind type ip6tnl mode any local fd01::1 remote fd01::10",
            // No line makes one.
            Self::Pppoe => "",
            Self::Esp => {
                r#"xfrm state add src 10.1.0.1 dst 10.1.0.10 proto esp spi 0x100 reqid 1 mode tunnel auth digest_null "" enc ecb(cipher_null) """#
            }
        }
    }
}

/// Some kinds, in an order that is always the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kinds {
    all: BTreeSet<Kind>,
    named: bool,
}

impl Kinds {
    /// What the running kernel has, tried once in a namespace that is thrown away. None without root.
    pub fn of_this_kernel() -> Self {
        static FOUND: OnceLock<Kinds> = OnceLock::new();
        FOUND
            .get_or_init(|| {
                let there = |kind: &Kind| match kind {
                    Kind::Pppoe => world::has_sessions(),
                    kind => world::accepts(kind.example()),
                };
                Self {
                    all: Kind::ALL.into_iter().filter(there).collect(),
                    named: false,
                }
            })
            .clone()
    }

    /// Those of a list that are here as well.
    pub fn among(&self, wanted: &Self) -> Self {
        Self {
            all: self.all.intersection(&wanted.all).copied().collect(),
            named: wanted.named,
        }
    }

    /// Whether somebody has asked for these, who wants them in each configuration.
    pub(super) fn are_named(&self) -> bool {
        self.named
    }

    /// As a list to be drawn from.
    pub(super) fn list(&self) -> Vec<Kind> {
        self.all.iter().copied().collect()
    }
}

impl std::fmt::Display for Kinds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.all.is_empty() {
            return f.write_str("none");
        }
        let names: Vec<&str> = self.all.iter().map(|k| k.name()).collect();
        f.write_str(&names.join(","))
    }
}

impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => {
                return Ok(Self {
                    all: Kind::ALL.into(),
                    named: false,
                });
            }
            "none" => return Ok(Self::default()),
            _ => {}
        }
        let known = |word: &str| {
            let mut all = Kind::ALL.into_iter();
            all.find(|k| k.name() == word)
                .ok_or_else(|| format!("there is no kind `{word}`"))
        };
        let all = text.split(',').map(known).collect::<Result<_, _>>()?;
        Ok(Self { all, named: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_written_as_they_are_read() {
        for text in ["none", "bridge", "bond,vlan,esp"] {
            assert_eq!(
                text.parse::<Kinds>().map(|k| k.to_string()),
                Ok(text.into())
            );
        }
        assert_eq!("all".parse::<Kinds>().map(|k| k.list().len()), Ok(14));
        assert!("bridge,tap".parse::<Kinds>().is_err());
    }
}
