//! rxlane's own configuration.

use super::Dice;
use crate::scenario::{Class, Lanes, PORTS, Trust};

/// The DSCPs that classes ask for, and packets have most often.
pub(crate) const DSCPS: [u8; 4] = [46, 34, 48, 44];

/// Rules of express classes.
const RULES: [&str; 10] = [
    r#"{ dscp = ["EF", "VA"] }"#,
    r#"{ dscp = ["EF", "AF41", "CS6", "VA"] }"#,
    r#"{ dscp = ["AF41", "EF"], protocol = ["udp", "tcp"] }"#,
    r#"{ protocol = ["tcp", "udp"] }"#,
    r#"{ protocol = "udp" }"#,
    r#"{ dscp = "CS6" }"#,
    r#"{ port = "lan0" }"#,
    r#"{ protocol = "udp", dst_port = ["5000-5100", 53] }"#,
    r#"{ dst = ["198.51.100.0/24", "2001:db8:1::/48", "10.3.0.0/24"] }"#,
    r#"{ src = ["10.2.0.0/16", "fd02::/16"] }"#,
];

pub(super) fn draw(dice: &mut Dice) -> Lanes {
    let ports = if dice.chance(85) { 3 } else { 2 };
    // One kind most often, as firewalls suit one.
    let kind = dice.below(3);
    let mut classes = Vec::new();
    for n in 0..1 + dice.below(2) {
        let rules = (0..1 + dice.below(2)).map(|_| dice.pick(&RULES).to_owned());
        let rules = rules.collect();
        let trust = match if dice.chance(90) { kind } else { dice.below(3) } {
            0 => Trust::Established,
            1 => Trust::Prefixes(prefixes(dice)),
            _ => Trust::All,
        };
        classes.push(Class {
            name: format!("express{n}"),
            trust: Some(trust),
            policed: dice.chance(25),
            rules,
        });
        if dice.chance(15) {
            classes.push(Class {
                name: format!("bulk{n}"),
                trust: None,
                policed: false,
                rules: vec![r#"{ dscp = ["LE", "CS1", "AF11"] }"#.into()],
            });
        }
    }
    Lanes {
        ports: PORTS[..ports].iter().map(|p| (*p).to_owned()).collect(),
        classes,
    }
}

fn prefixes(dice: &mut Dice) -> Vec<String> {
    let lists: [&[&str]; 4] = [
        &["10.2.0.0/24", "fd02::/64"],
        &["10.2.0.0/24", "10.3.0.0/24", "fd02::/64", "fd03::/64"],
        &["10.0.0.0/8", "fd00::/8", "198.51.100.0/24", "2001:db8::/32"],
        &["10.2.0.10/32", "fd02::10/128", "10.1.0.0/24"],
    ];
    dice.pick(&lists).iter().map(|p| (*p).to_owned()).collect()
}
