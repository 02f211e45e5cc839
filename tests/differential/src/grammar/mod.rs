//! Scenarios at random: what Linux routers are configured with, and what may change under a running one.
//!
//! Nothing is drawn whose outcome is random or depends on time, such as `limit` of nftables: two equal routers must do
//! the same.

mod addresses;
mod behind;
mod devices;
mod dice;
mod esp;
mod events;
mod firewall;
mod frames;
mod kinds;
mod lanes;
mod routes;
mod sysctls;
mod tracked;
mod tunnels;
mod untracked;

pub(crate) use addresses::HOSTS;
pub use dice::Dice;
pub use kinds::{Kind, Kinds};
pub(crate) use lanes::DSCPS;

use crate::packets;
use crate::scenario::{Scenario, Statement, Step};

/// The network that port number `port` has an address in: 10.1.0.0/24 and fd01::/64 for the first.
pub(crate) fn subnet(port: usize) -> [String; 2] {
    let n = port + 1;
    [format!("10.{n}.0"), format!("fd0{n}:")]
}

/// A host of a port's network: `.10` to `.13`.
pub(crate) fn host(port: usize, v6: bool, n: u8) -> String {
    let [v4, six] = subnet(port);
    if v6 {
        format!("{six}:{}", 10 + n)
    } else {
        format!("{v4}.{}", 10 + n)
    }
}

/// Prefixes that routes may lead to, and packets go to, by family.
pub(crate) const REMOTE: [[&str; 8]; 2] = [
    [
        "198.51.100.0/24",
        "203.0.113.0/24",
        "192.0.2.0/24",
        "172.16.1.0/24",
        "172.16.2.0/24",
        "172.16.0.0/16",
        "100.64.0.0/10",
        "198.51.100.128/25",
    ],
    [
        "2001:db8:1::/48",
        "2001:db8:2::/48",
        "2001:db8:3::/48",
        "2001:db8:4::/48",
        "2001:db8:5::/48",
        "2001:db8::/32",
        "2001:db9::/32",
        "2001:db8:1:8000::/49",
    ],
];

/// A line for the family that it is about; groups of nexthops have none.
pub(crate) fn of_family(v6: bool, line: &str) -> Statement {
    let none = line.contains(" group ");
    let family = if v6 && !none { "-6 " } else { "" };
    Statement::Ip(format!("{family}{line}"))
}

/// Draws a scenario of about so many packets, on a kernel that has these kinds of devices.
pub fn draw(seed: u64, about_packets: usize, kinds: &Kinds) -> Scenario {
    let mut scenario = of_ports(seed, about_packets);
    devices::draw(seed, about_packets, kinds, &mut scenario);
    tracked::draw(seed, &mut scenario);
    untracked::draw(seed, &mut scenario);
    scenario
}

/// A scenario without other devices than ports.
fn of_ports(seed: u64, about_packets: usize) -> Scenario {
    let mut dice = Dice::new(seed);
    let dice = &mut dice;
    let mut scenario = Scenario {
        seed,
        setup: Vec::new(),
        lanes: lanes::draw(dice, seed),
        alive: addresses::alive(),
        steps: Vec::new(),
    };
    let setup = &mut scenario.setup;
    addresses::draw(dice, setup);
    routes::draw(dice, setup);
    sysctls::draw(dice, setup);
    firewall::draw(dice, setup, &scenario.lanes);
    let sends = packets::draw(dice, about_packets);
    let changes = if dice.chance(40) {
        1 + dice.below(2)
    } else {
        0
    };
    let mut places: Vec<usize> = (0..changes)
        .map(|_| 1 + dice.below(sends.len().max(2) - 1))
        .collect();
    for (n, send) in sends.into_iter().enumerate() {
        while let Some(at) = places.iter().position(|p| *p == n) {
            places.remove(at);
            let change = events::draw(dice, &scenario.setup);
            scenario.steps.push(Step::Change(change));
        }
        scenario.steps.push(Step::Send(send));
    }
    scenario
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(seed: u64, kinds: &str) -> String {
        let kinds: Kinds = kinds.parse().expect("kinds");
        crate::report::describe(&draw(seed, 100, &kinds))
    }

    #[test]
    fn kinds_that_are_named_are_in_each_configuration_and_packets_come_in_them() {
        for seed in 0..30 {
            for kind in ["gre", "ipip", "sit", "vxlan"] {
                let text = text(seed, kind);
                assert!(text.contains(&format!(" type {kind} ")), "{text}");
                assert!(text.contains(&format!(", in {kind}")), "{text}");
            }
        }
    }

    #[test]
    fn what_tunnels_are_drawn_for_is_drawn_now_and_then() {
        let all: String = (0..60)
            .map(|seed| text(seed, "gre,ipip,sit,vxlan"))
            .collect();
        for what in [
            " key 7",
            " nopmtudisc",
            " tos inherit",
            " ttl inherit",
            " seq",
            "hook input",
            "hook output",
            "type vlan id 10",
            "in two fragments",
            "outer TTL",
            "outer options",
            "outer length off",
            "link del ",
            "link add twin",
            " nolearning",
            "from station",
        ] {
            assert!(all.contains(what), "no `{what}` in 60 configurations");
        }
    }

    #[test]
    fn what_lasts_longer_than_a_packet_is_drawn_now_and_then() {
        let drawn = |seed| crate::report::describe(&draw(seed, 5, &Kinds::default()));
        let mut missing = vec![
            "nf_conntrack_udp_timeout",
            "ct timeout set fourudp",
            "conntrack -U -p udp -m 0x2a",
            "ip6 saddr set",
            "udp sport set",
            "ether saddr",
            "from another sender",
            "TOS 0xbb",
            "add element inet fw listed",
            "add @knocked",
            "numgen inc",
            "quota over",
            "limit rate",
            "dup to",
            "firewall",
            " notrack",
            "chain inet fw stateless",
        ];
        for drawn in (0..4000).map(drawn) {
            missing.retain(|what| !drawn.contains(what));
            if missing.is_empty() {
                return;
            }
        }
        panic!("no {missing:?} in 4000 configurations");
    }

    #[test]
    fn numbers_of_packets_are_unique() {
        for seed in 0..20 {
            let kinds: Kinds = "gre,ipip,sit".parse().expect("kinds");
            let mut seen = std::collections::BTreeSet::new();
            for step in draw(seed, 300, &kinds).steps {
                let Step::Send(packets) = step else { continue };
                for packet in packets {
                    assert!(seen.insert(packet.number), "{}", packet.number);
                }
            }
        }
    }
}
