//! rxlane's own configuration.

use super::Dice;
use crate::scenario::{Class, Lanes, PORTS, Trust};

/// The DSCPs that classes ask for, and packets have most often.
pub(crate) const DSCPS: [u8; 4] = [46, 34, 48, 44];

/// Rules of express classes, narrow ones first: rxlane refuses a rule that an earlier one leaves nothing.
const RULES: [&str; 10] = [
    r#"{ dscp = "CS6" }"#,
    r#"{ protocol = "udp", dst_port = ["5000-5100", 53] }"#,
    r#"{ dscp = ["AF41", "EF"], protocol = ["udp", "tcp"] }"#,
    r#"{ dscp = ["EF", "VA"] }"#,
    r#"{ dst = ["198.51.100.0/24", "2001:db8:1::/48", "10.3.0.0/24"] }"#,
    r#"{ src = ["10.2.0.0/16", "fd02::/16"] }"#,
    r#"{ port = "lan0" }"#,
    r#"{ dscp = ["EF", "AF41", "CS6", "VA"] }"#,
    r#"{ protocol = "udp" }"#,
    r#"{ protocol = ["tcp", "udp"] }"#,
];

/// In one of so many configurations the AF_XDP engine forwards. By the seed, so that the dice fall as they did before.
const ENGINE_EVERY: u64 = 8;

/// In one of so many ports are served at tc ingress.
const AT_TC_EVERY: u64 = 3;

/// In one of so many packets leave through queueing disciplines, from ports in XDP and at tc ingress.
const FAST_EVERY: u64 = 5;

pub(super) fn draw(dice: &mut Dice, seed: u64) -> Lanes {
    let ports = if dice.chance(85) { 3 } else { 2 };
    // One kind most often, as firewalls suit one.
    let kind = dice.below(3);
    let mut classes = Vec::new();
    let mut narrowest = 0;
    for n in 0..1 + dice.below(2) {
        let mut rules = Vec::new();
        for _ in 0..1 + dice.below(2) {
            let at = narrowest + dice.below(RULES.len() - narrowest);
            rules.push(RULES[at].to_owned());
            narrowest = at + 1;
            if narrowest == RULES.len() {
                break;
            }
        }
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
        if narrowest == RULES.len() {
            break;
        }
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
        engine: seed.is_multiple_of(ENGINE_EVERY),
        at_tc: !seed.is_multiple_of(ENGINE_EVERY) && seed.is_multiple_of(AT_TC_EVERY),
        fast: !seed.is_multiple_of(ENGINE_EVERY) && seed.is_multiple_of(FAST_EVERY),
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
