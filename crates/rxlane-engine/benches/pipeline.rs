//! What a packet costs a worker without the kernel's part: rings in memory, random destinations, every packet parsed,
//! looked up, rewritten and put on the Tx ring. Few routes and a full table, small and large ring budgets, without and with
//! looking ahead over the turns, in alternation.
//!
//!   RXLANE_ROUTES=rib.dat.gz cargo bench -p rxlane-engine --bench pipeline

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_engine::{InMemory, Mirror, Neighbours, Port, When};
use rxlane_policy::strategy::Strategy;
use rxlane_system::neighbours::Neighbour;
use rxlane_system::routes::{NextHop, Route};

#[path = "../../rxlane-fib/benches/table/mod.rs"]
mod table;

const PACKETS: usize = 1_000_000;
const ROUNDS: usize = 9;
const RT_EVERY: usize = 5;
/// Neighbours that the routes lead to.
const GATEWAYS: u32 = 200;
/// Routes that fit into any cache.
const FEW: usize = 10;

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

/// Routes through one port to many neighbours.
fn mirror(routes: &[(u32, u32)]) -> Mirror {
    let mut mirror = Mirror::default();
    let mut hops = Pcg64Mcg::seed_from_u64(2);
    mirror
        .load::<()>(|add| {
            for (address, len) in routes {
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
    mirror
}

fn neighbours() -> Neighbours {
    let mut neighbours = Neighbours::default();
    neighbours.apply((0..GATEWAYS).map(|i| Neighbour {
        ifindex: 2,
        address: gateway(i),
        mac: Some([2, 0, 0, 0, 1, i as u8]),
    }));
    neighbours
}

/// Serves packets for these destinations in bursts. Returns ns a packet, and how many were sent.
fn cost(worker: &mut InMemory, rings: usize, destinations: &[u32], burst: usize) -> (f64, usize) {
    let (mut spent, mut sent) = (Duration::ZERO, 0);
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
    (spent.as_nanos() as f64 / destinations.len() as f64, sent)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let all = match std::env::var_os("RXLANE_ROUTES") {
        Some(path) => table::read(path.as_ref()),
        None => table::drawn(&mut rng),
    };
    let port = |ifindex: u32| Port {
        ifindex,
        mac: [2, 0, 0, 0, 0, ifindex as u8],
        mtu: [1500; 2],
        sends: true,
    };
    let strategies = [
        ("SQ", Strategy::Sq),
        ("LL-RR 64,64", Strategy::LlRr { ring_budget: 64 }),
        ("LL-RR 4,4", Strategy::LlRr { ring_budget: 4 }),
        (
            "LL-WFQ 60,4",
            Strategy::LlWfq {
                budgets: vec![60, 4],
            },
        ),
    ];
    println!(
        "{GATEWAYS} gateways, packets of 60 bytes, one in {RT_EVERY} in the first ring; ns a packet, medians of {ROUNDS} rounds of {PACKETS}"
    );
    println!(
        "{:>7} {:12} {:>6} {:>8} {:>12} {:>6} {:>10}",
        "routes", "budgets", "burst", "without", "looks ahead", "ratio", "forwarded"
    );
    for routes in [&all[..FEW], &all[..]] {
        let (mirror, neighbours) = (mirror(routes), neighbours());
        let destinations: Vec<u32> = (0..PACKETS)
            .map(|_| {
                let (address, len) = routes[rng.random_range(0..routes.len())];
                address | (rng.random::<u32>() & u32::MAX.checked_shr(len).unwrap_or(0))
            })
            .collect();
        for (name, strategy) in &strategies {
            let mut workers = [When::Never, When::LargeTables].map(|looks_ahead| {
                let ports = [port(1), port(2)];
                InMemory::looking_ahead(&mirror, &neighbours, ports, strategy, looks_ahead)
                    .expect("a worker")
            });
            let rings = if *strategy == Strategy::Sq { 1 } else { 2 };
            // So many packets wait when the worker begins.
            for burst in [32, 512] {
                let mut costs = [Vec::new(), Vec::new()];
                let (mut ratios, mut sent) = (Vec::new(), 0);
                for _ in 0..ROUNDS {
                    let mut of_round = [0.0; 2];
                    for (at, worker) in workers.iter_mut().enumerate() {
                        let (ns, n) = cost(worker, rings, &destinations, burst);
                        of_round[at] = ns;
                        costs[at].push(ns);
                        sent += n;
                    }
                    ratios.push(of_round[1] / of_round[0]);
                }
                let [without, with] = costs.map(median);
                println!(
                    "{:>7} {name:12} {burst:>6} {without:>8.1} {with:>12.1} {:>6.2} {:>8.1} %",
                    routes.len(),
                    median(ratios),
                    100.0 * sent as f64 / (2 * ROUNDS * PACKETS) as f64
                );
            }
        }
    }
}
