//! The kernel's messages.

use rxlane_ruleset::Hook;
use rxlane_system::decode;
use rxlane_system::routes::{Event, Kind, Route};

fn hold(route: &Route) {
    assert!(
        route.hops.is_empty() || route.kind == Kind::Unicast,
        "{route:?}"
    );
    assert!(route.hops.iter().all(|hop| hop.weight > 0), "{route:?}");
}

/// Routes, policy rules, neighbours and devices, of which the engine makes its mirrors.
pub(crate) fn routing(datagram: &[u8]) {
    for event in decode::routes(datagram) {
        match event {
            Event::Added { route, .. } | Event::Removed(route) => hold(&route),
            Event::Nexthop(..) | Event::NexthopGone(_) => {}
        }
    }
    for rule in decode::rules(datagram) {
        let selects = rule.by_mark || rule.by_ingress || rule.by_ports;
        assert!(!(rule.stock.is_some() && selects), "{rule:?}");
    }
    decode::neighbours(datagram);
    decode::ends(datagram);
    decode::links(datagram);
}

/// Firewall, its legacy tables too, IPsec, traffic control, MTUs of routes and generic netlink, of which the gates are made.
pub(crate) fn surroundings(datagram: &[u8]) {
    let harmless = |hook: &Hook| !hook.effects.any();
    let legacy = decode::iptables(datagram).into_iter().flatten();
    for ruleset in legacy.chain([decode::firewall(datagram)]) {
        assert!(!ruleset.hooks.iter().any(harmless));
        for found in &ruleset.per_packet {
            assert!(found.meets.covers(&found.meets), "{found}");
        }
    }
    decode::policies(datagram);
    decode::filters(datagram);
    decode::actions(datagram);
    decode::elements(datagram);
    let mtus = decode::smallest_mtu(datagram);
    assert!(mtus.iter().flatten().all(|mtu| *mtu > 0));
    if let Err(error) = decode::generic(datagram) {
        assert!(!error.to_string().contains('\n'), "{error}");
    }
}
