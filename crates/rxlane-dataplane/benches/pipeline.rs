//! What a packet costs a worker without the kernel's part: rings in memory, 600,000 routes, random destinations,
//! every packet parsed, looked up, rewritten and put on the Tx ring.
//!
//!   RXLANE_ROUTES=rib.dat.gz cargo bench -p rxlane-dataplane --bench pipeline

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_dataplane::engine::{InMemory, Mirror, Neighbours, Port};
use rxlane_policy::strategy::Strategy;
use rxlane_system::neighbours::Neighbour;
use rxlane_system::routes::{NextHop, Route};

#[path = "../../rxlane-fib/benches/table/mod.rs"]
mod table;

const PACKETS: usize = 4_000_000;
const ROUNDS: usize = 9;
const RT_EVERY: usize = 5;
/// Neighbours that the routes lead to.
const GATEWAYS: u32 = 200;

fn gateway(i: u32) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(0x0a02_0000 + 2 + i))
}

fn packet(to: u32) -> [u8; 60] {
    let mut p = [0; 60];
    p[12] = 8;
    p[14] = 0x45;
    p[17] = 46;
    p[22] = 64;
    p[23] = 17;
    p[26..30].copy_from_slice(&[192, 0, 2, 1]);
    p[30..34].copy_from_slice(&to.to_be_bytes());
    p
}

fn main() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let routes = match std::env::var_os("RXLANE_ROUTES") {
        Some(path) => table::read(path.as_ref()),
        None => table::drawn(&mut rng),
    };
    let mut mirror = Mirror::default();
    let mut hops = Pcg64Mcg::seed_from_u64(2);
    mirror
        .load::<()>(|add| {
            for (address, len) in &routes {
                let net = ipnet::Ipv4Net::new(Ipv4Addr::from(*address), *len as u8);
                let Ok(net) = net else { continue };
                let hop = NextHop {
                    ifindex: 2,
                    gateway: Some(gateway(hops.random_range(0..GATEWAYS))),
                    weight: 1,
                    dead: false,
                };
                add(Route::through(net.trunc().into(), vec![hop]).into());
            }
            Ok(())
        })
        .expect("nothing fails");
    let mut neighbours = Neighbours::default();
    neighbours.apply((0..GATEWAYS).map(|i| Neighbour {
        ifindex: 2,
        address: gateway(i),
        mac: Some([2, 0, 0, 0, 1, i as u8]),
    }));
    let port = |ifindex: u32| Port {
        ifindex,
        mac: [2, 0, 0, 0, 0, ifindex as u8],
        mtu: [1500; 2],
        sends: true,
    };
    let destinations: Vec<u32> = (0..PACKETS)
        .map(|_| {
            let (address, len) = routes[rng.random_range(0..routes.len())];
            address | (rng.random::<u32>() & (u32::MAX >> len))
        })
        .collect();
    println!(
        "{} routes, {GATEWAYS} gateways, {PACKETS} packets of 60 bytes",
        routes.len()
    );
    for (name, strategy) in [
        ("SQ", Strategy::Sq),
        (
            "LL-WFQ 60,4",
            Strategy::LlWfq {
                budgets: vec![60, 4],
            },
        ),
    ] {
        let mut worker =
            InMemory::new(&mirror, &neighbours, [port(1), port(2)], &strategy).expect("a worker");
        let rings = if strategy == Strategy::Sq { 1 } else { 2 };
        // (held, ns per packet)
        for burst in [32, 512] {
            let mut costs = Vec::new();
            let mut sent = 0;
            for _ in 0..ROUNDS {
                let mut spent = Duration::ZERO;
                for some in destinations.chunks(burst) {
                    for (i, to) in some.iter().enumerate() {
                        let ring = usize::from(rings == 2 && i % RT_EVERY != 0);
                        assert!(worker.receive(ring, &packet(*to)));
                    }
                    let begin = Instant::now();
                    worker.serve();
                    spent += begin.elapsed();
                    sent += worker.sent(|_| ());
                }
                costs.push(spent.as_nanos() as f64 / PACKETS as f64);
            }
            costs.sort_unstable_by(f64::total_cmp);
            println!(
                "{name}, bursts of {burst}: {:.1} ns a packet ({:.1} to {:.1} in {ROUNDS} rounds), {:.1} % forwarded",
                costs[ROUNDS / 2],
                costs[0],
                costs[ROUNDS - 1],
                100.0 * sent as f64 / (ROUNDS * PACKETS) as f64
            );
        }
    }
}
