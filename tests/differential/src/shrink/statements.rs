//! What of statements goes together, and which of their words can go alone.

use crate::scenario::{Scenario, Statement};

/// What `ip link add` takes for tunnels, with a value or without.
const WITH_VALUE: [&str; 7] = ["key", "ttl", "tos", "fwmark", "mode", "dev", "df"];
const ALONE: [&str; 5] = ["seq", "csum", "nopmtudisc", "nolearning", "noudpcsum"];

/// Names of devices that the setup makes.
pub(super) fn devices(scenario: &Scenario) -> Vec<String> {
    let name = |s: &Statement| match s {
        Statement::Ip(line) => {
            let mut words = line.strip_prefix("link add ")?.split(' ');
            let first = words.next()?;
            // `link add link PORT name NAME`, or the name at once.
            let name = if first == "link" {
                words.nth(2)?
            } else {
                first
            };
            Some(name.to_owned())
        }
        Statement::Session { name, .. } => Some(name.clone()),
        _ => None,
    };
    scenario.setup.iter().filter_map(name).collect()
}

/// The scenario with only these of its devices: without statements that name another one.
pub(super) fn with_devices(scenario: &Scenario, kept: &[String]) -> Scenario {
    let gone = devices(scenario);
    let gone: Vec<&String> = gone.iter().filter(|name| !kept.contains(name)).collect();
    let about = |s: &Statement| {
        let command = s.command();
        let mut words = command.split([' ', '.']);
        words.any(|word| gone.iter().any(|name| *name == word))
    };
    let mut left = scenario.clone();
    for statements in left.all_statements() {
        statements.retain(|s| !about(s));
    }
    left
}

/// The tunnels of the setup with one option less each.
pub(super) fn plainer(statement: &Statement) -> Vec<Statement> {
    let Statement::Ip(line) = statement else {
        return Vec::new();
    };
    let is_tunnel = [" type gre ", " type ipip ", " type sit ", " type vxlan "];
    if !is_tunnel.iter().any(|kind| line.contains(kind)) {
        return Vec::new();
    }
    let words: Vec<&str> = line.split(' ').collect();
    let mut all = Vec::new();
    for (n, word) in words.iter().enumerate() {
        let count = if WITH_VALUE.contains(word) {
            2
        } else if ALONE.contains(word) {
            1
        } else {
            continue;
        };
        let rest = words.get(n + count..).unwrap_or_default();
        all.push(Statement::Ip([&words[..n], rest].concat().join(" ")));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grammar;

    #[test]
    fn a_device_goes_with_all_that_names_it() {
        let mut scenario = grammar::draw(1, 10, &grammar::Kinds::default());
        let ip = |line: &str| Statement::Ip(line.to_owned());
        scenario.setup = vec![
            ip("link add gre1 type gre local 10.1.0.1 remote 10.1.0.10"),
            ip("link add link wan0 name vlxwan0 type vlan id 10"),
            ip("link set gre1 up"),
            Statement::sysctl("net.ipv4.conf.gre1.rp_filter", 1),
            ip("route add 192.0.2.0/24 via 10.1.0.10 dev vlxwan0"),
        ];
        scenario.steps.clear();
        assert_eq!(devices(&scenario), ["gre1", "vlxwan0"]);
        let left = with_devices(&scenario, &["vlxwan0".into()]);
        assert_eq!(
            left.setup,
            [&scenario.setup[1..2], &scenario.setup[4..]].concat()
        );
    }

    #[test]
    fn an_option_of_a_tunnel_goes_with_its_value() {
        let made = "link add gre1 type gre local 10.1.0.1 remote 10.1.0.10 ttl inherit nopmtudisc";
        let line = Statement::Ip(format!("{made} key 7"));
        let plainer: Vec<String> = plainer(&line).iter().map(Statement::command).collect();
        assert_eq!(plainer.len(), 3);
        assert_eq!(plainer[2], format!("ip {made}"));
        assert!(super::plainer(&Statement::Ip("link set gre1 up".into())).is_empty());
    }
}
