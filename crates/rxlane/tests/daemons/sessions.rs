//! Sessions of FRR with a neighbour on the link that is flooded: BGP with BFD and OSPF, in IPv4 and IPv6.

use rxlane_bench::lab::Place;
use rxlane_bench::trial::Trial;
use serde_json::Value;
use test_lab::{TestLab, wait_for};

use crate::frr::{ALWAYS, Frr};
use crate::{alone_and_with, bfd_ms, overload};

/// A router at each end of a link: its place, interface, and the last number of its own address and of the other's.
const ENDS: [(Place, &str, u8, u8); 2] = [(Place::Gen, "gen0", 2, 1), (Place::Router, "in0", 1, 2)];

/// How often neighbours were lost, at both ends.
#[derive(Debug, Default, PartialEq)]
struct Lost {
    bfd: u64,
    bgp: u64,
    ospf: u64,
    ospf6: u64,
}

fn routing(t: &TestLab) -> [Frr; 2] {
    let bfd_ms = bfd_ms();
    let routers = ENDS.map(|(place, interface, own, other)| {
        let bfd = format!(
            "bfd\n profile fast\n  detect-multiplier 3\n  receive-interval {bfd_ms}\n  transmit-interval {bfd_ms}\n"
        );
        let neighbours = [format!("10.10.0.{other}"), format!("fd10::{other}")].map(|address| {
            format!(
                " neighbor {address} remote-as 6500{other}\n neighbor {address} timers connect 1\n neighbor {address} bfd profile fast\n"
            )
        });
        let bgp = format!(
            "router bgp 6500{own}\n bgp router-id 10.10.0.{own}\n no bgp ebgp-requires-policy\n no bgp network import-check\n timers bgp 2 6\n{}\
             \x20address-family ipv4 unicast\n  network 203.0.113.0/24\n  no neighbor fd10::{other} activate\n exit-address-family\n\
             \x20address-family ipv6 unicast\n  neighbor fd10::{other} activate\n exit-address-family\n",
            neighbours.concat()
        );
        let ospf = format!(
            "interface {interface}\n ip ospf network point-to-point\n ip ospf hello-interval 1\n ip ospf dead-interval 4\n\
             router ospf\n ospf router-id 10.10.0.{own}\n log-adjacency-changes\n network 10.10.0.0/24 area 0\n"
        );
        let ospf6 = format!(
            "interface {interface}\n ipv6 ospf6 area 0\n ipv6 ospf6 network point-to-point\n ipv6 ospf6 hello-interval 1\n ipv6 ospf6 dead-interval 4\n\
             router ospf6\n ospf6 router-id 10.10.0.{own}\n log-adjacency-changes\n"
        );
        let daemons = [("bfdd", bfd), ("bgpd", bgp), ("ospfd", ospf), ("ospf6d", ospf6)];
        Frr::up(t, place, ALWAYS, &daemons)
    });
    wait_for("all sessions of FRR are up", || routers.iter().all(all_up));
    routers
}

fn all_up(router: &Frr) -> bool {
    let bfd = router.show("bfd peers");
    let bfd = bfd
        .as_array()
        .is_some_and(|peers| peers.len() == 2 && peers.iter().all(|peer| peer["status"] == "up"));
    let bgp = router.show("bgp summary");
    let bgp = peers(&bgp).len() == 2 && peers(&bgp).iter().all(|p| p["state"] == "Established");
    let ospf = router.show("ip ospf neighbor").to_string();
    let ospf6 = router.show("ipv6 ospf6 neighbor").to_string();
    bfd && bgp && ospf.contains("Full") && ospf6.contains("Full")
}

/// The neighbours of BGP in both families.
fn peers(summary: &Value) -> Vec<&Value> {
    let families = ["ipv4Unicast", "ipv6Unicast"].into_iter();
    let peers = families.filter_map(|family| summary[family]["peers"].as_object());
    peers.flat_map(|peers| peers.values()).collect()
}

/// Since the daemons were started. FRR forgets a neighbour of OSPF that it has lost, with all that it counted of it, but not what it
/// has logged.
fn lost(routers: &[Frr; 2]) -> Lost {
    let mut lost = Lost::default();
    for router in routers {
        let counters = router.show("bfd peers counters");
        let counters = counters.as_array().expect("peers of BFD").iter();
        lost.bfd += counters
            .map(|p| p["session-down"].as_u64().expect("a counter"))
            .sum::<u64>();
        let summary = router.show("bgp summary");
        lost.bgp += peers(&summary)
            .iter()
            .map(|p| p["connectionsDropped"].as_u64().expect("a counter"))
            .sum::<u64>();
        lost.ospf += router.logged("ospfd", ": Full -> ");
        lost.ospf6 += router.logged("ospf6d", ": Full -> ");
    }
    lost
}

fn lost_under_load(t: &TestLab) -> (Lost, Trial) {
    let routers = routing(t);
    let before = lost(&routers);
    let trial = crate::overload_while(t, overload(), || ());
    let after = lost(&routers);
    let during = Lost {
        bfd: after.bfd - before.bfd,
        bgp: after.bgp - before.bgp,
        ospf: after.ospf - before.ospf,
        ospf6: after.ospf6 - before.ospf6,
    };
    (during, trial)
}

#[test]
#[ignore = "needs root: make test"]
fn sessions_of_frr_survive_an_overload() {
    let mut t = TestLab::up("frr", |c| c.firewall = crate::RULES);
    let (alone, (with, trial)) = alone_and_with(&mut t, |t| lost_under_load(t));
    println!(
        "{:?} of overload, BFD 3 x {} ms, lost at both ends: Linux alone {:?}; rxlane {with:?}; {:.0} pps offered and {:.0} forwarded",
        overload(),
        bfd_ms(),
        alone.map(|(lost, trial)| (lost, trial.forwarded_pps)),
        trial.sent_pps,
        trial.forwarded_pps,
    );
    assert!(trial.loss > 0.3, "the core was overloaded: {}", trial.loss);
    assert_eq!(with, Lost::default());
}
