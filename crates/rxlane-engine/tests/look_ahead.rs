//! A worker that looks ahead against one that does not: the same packets leave, in the same order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::prelude::*;
use rxlane_engine::{InMemory, Mirror, Neighbours, Port, When};
use rxlane_policy::strategy::Strategy as Service;
use rxlane_system::neighbours::Neighbour;
use rxlane_system::routes::{Event, NextHop, Route};

/// Neighbours of each family; their number is the last byte of their hardware address.
const GATEWAYS: u8 = 4;

fn gateway(v6: bool, number: u8) -> IpAddr {
    if v6 {
        Ipv6Addr::from(0xfe80_u128 << 112 | u128::from(number)).into()
    } else {
        Ipv4Addr::new(10, 2, 0, number).into()
    }
}

fn neighbours() -> Neighbours {
    let mut neighbours = Neighbours::default();
    neighbours.apply([false, true].into_iter().flat_map(|v6| {
        (1..=GATEWAYS).map(move |number| Neighbour {
            ifindex: 2,
            address: gateway(v6, number),
            mac: Some([2, 0, 0, 0, 1, number]),
        })
    }));
    neighbours
}

/// Prefixes that contain one another, so that a change moves packets from one to another.
const PREFIXES: [&str; 7] = [
    "198.0.0.0/8",
    "198.51.0.0/16",
    "198.51.100.0/24",
    "198.51.100.64/28",
    "2001:db8::/32",
    "2001:db8:7::/48",
    "2001:db8:7:1::/64",
];
/// One in each of them, and two in none.
const DESTINATIONS: [&str; 9] = [
    "198.7.0.1",
    "198.51.7.1",
    "198.51.100.1",
    "198.51.100.65",
    "2001:db8:1::1",
    "2001:db8:7:9::1",
    "2001:db8:7:1::1",
    "203.0.113.1",
    "2001:db9::1",
];

/// The route of a prefix through one of the gateways.
fn route(prefix: usize, number: u8) -> Route {
    let hop = NextHop {
        ifindex: 2,
        gateway: Some(gateway(prefix >= 4, number)),
        weight: 1,
        dead: false,
    };
    Route::through(PREFIXES[prefix].parse().unwrap(), vec![hop])
}

fn replaced(prefix: usize, number: u8) -> Event {
    Event::Added {
        route: route(prefix, number),
        replaces: true,
        last: false,
    }
}

/// A packet with its number in the last bytes. With a hop limit of 1, or cut short, it is the kernel's.
fn packet(to: usize, hop_limit: u8, len: usize, number: u32) -> Vec<u8> {
    let mut p = vec![0; 64];
    match DESTINATIONS[to].parse().unwrap() {
        IpAddr::V4(to) => {
            p[12] = 8;
            (p[14], p[17], p[22]) = (0x45, 50, hop_limit);
            p[30..34].copy_from_slice(&to.octets());
        }
        IpAddr::V6(to) => {
            p[12..14].copy_from_slice(&[0x86, 0xdd]);
            (p[14], p[19], p[21]) = (0x60, 10, hop_limit);
            p[38..54].copy_from_slice(&to.octets());
        }
    }
    p[60..].copy_from_slice(&number.to_be_bytes());
    p.truncate(len);
    p
}

fn worker(mirror: &Mirror, service: &Service, looks_ahead: bool) -> InMemory {
    let port = |ifindex: u32| Port {
        ifindex,
        mac: [2, 0, 0, 0, 0, ifindex as u8],
        mtu: [1500; 2],
        sends: true,
    };
    let ports = [port(1), port(2)];
    InMemory::looking_ahead(
        mirror,
        &neighbours(),
        ports,
        service,
        if looks_ahead {
            When::Always
        } else {
            When::Never
        },
    )
    .unwrap()
}

fn sent(worker: &mut InMemory) -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    worker.sent(|p| packets.push(p.to_vec()));
    packets
}

/// What may happen, in any order.
#[derive(Debug, Clone)]
enum Happens {
    /// So many packets come in on a ring, to these destinations in turn.
    Arrive(usize, u8, Vec<(usize, u8, usize)>),
    /// So many polls.
    Polls(u8),
    /// A prefix gets a route through a gateway, or loses its route.
    Route(usize, u8),
}

fn happens() -> impl Strategy<Value = Happens> {
    let kind = (
        0..DESTINATIONS.len(),
        prop_oneof![9 => Just(64u8), 1 => Just(1u8)],
        prop_oneof![9 => Just(64usize), 1 => 1usize..64],
    );
    let kinds = prop::collection::vec(kind, 1..8);
    prop_oneof![
        4 => (0..2usize, 1..150u8, kinds).prop_map(|(ring, n, kinds)| Happens::Arrive(ring, n, kinds)),
        4 => (1..4u8).prop_map(Happens::Polls),
        2 => (0..PREFIXES.len(), 0..=GATEWAYS).prop_map(|(p, n)| Happens::Route(p, n)),
    ]
}

fn services() -> impl Strategy<Value = Service> {
    prop_oneof![
        Just(Service::Sq),
        Just(Service::Rr),
        (1..=64u32).prop_map(|ring_budget| Service::LlRr { ring_budget }),
        (1..=60u32, 1..=8u32).prop_map(|(rt, be)| Service::LlWfq {
            budgets: vec![rt, be]
        }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn with_and_without_the_same_packets_leave_in_the_same_order_while_routes_change(
        service in services(),
        events in prop::collection::vec(happens(), 1..40),
    ) {
        let mut mirror = Mirror::default();
        mirror.apply(&(0..PREFIXES.len()).map(|p| route(p, 1).into()).collect::<Vec<_>>());
        let mut workers = [false, true].map(|looks| worker(&mirror, &service, looks));
        let mut routed = [1; PREFIXES.len()];
        let mut number = 0;
        for event in events {
            match event {
                Happens::Arrive(ring, n, kinds) => {
                    let ring = if service == Service::Sq { 0 } else { ring };
                    for (to, hop_limit, len) in kinds.iter().cycle().take(usize::from(n)) {
                        number += 1;
                        let p = packet(*to, *hop_limit, *len, number);
                        let [without, with] = workers.each_mut().map(|w| w.receive(ring, &p));
                        prop_assert_eq!(without, with, "one ring is full and the other is not");
                    }
                }
                Happens::Polls(n) => for _ in 0..n {
                    let [without, with] = workers.each_mut().map(|w| (w.poll(), sent(w)));
                    prop_assert_eq!(without, with);
                },
                Happens::Route(prefix, 0) if routed[prefix] != 0 => {
                    mirror.apply(&[Event::Removed(route(prefix, routed[prefix]))]);
                    routed[prefix] = 0;
                }
                Happens::Route(_, 0) => {}
                Happens::Route(prefix, number) => {
                    mirror.apply(&[replaced(prefix, number)]);
                    routed[prefix] = number;
                }
            }
        }
        let [without, with] = workers.each_mut().map(|w| {
            w.serve();
            sent(w)
        });
        prop_assert_eq!(without, with);
    }
}

#[test]
fn packets_that_wait_when_their_route_changes_take_the_new_one() {
    for (to, prefix) in [(2, 2), (6, 6)] {
        let mut mirror = Mirror::default();
        mirror.apply(&[route(prefix, 1).into()]);
        let mut worker = worker(&mirror, &Service::LlRr { ring_budget: 4 }, true);
        for number in 0..100 {
            assert!(worker.receive(1, &packet(to, 64, 64, number)));
        }
        let gateways =
            |worker: &mut InMemory| -> Vec<u8> { sent(worker).iter().map(|p| p[5]).collect() };
        assert!(worker.poll());
        assert_eq!(gateways(&mut worker), [1; 64]);
        mirror.apply(&[replaced(prefix, 2)]);
        worker.serve();
        assert_eq!(gateways(&mut worker), [2; 36]);
    }
}
