//! Lookups per second and core, on a full BGP table, beside DPDK's rte_fib DIR-24-8 where its library is
//! installed (Debian: libdpdk-dev), in turn.
//!
//!   RXLANE_ROUTES=rib.dat.gz cargo bench -p rxlane-fib --bench lookup
//!
//! The table has a prefix at the begin of each line; without one, 600,000 routes are drawn whose lengths are
//! distributed as in a BGP table.

mod table;

use std::num::NonZeroU16;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use ipnet::Ipv4Net;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rxlane_fib::{Change, Net, Publisher};

const ADDRESSES: usize = 1 << 22;
const BATCH: usize = 64;
const ROUNDS: usize = 9;
/// As many as a router has ways out.
const HOPS: u32 = 200;

/// Uniform over all addresses, and over those that routes are for.
fn addresses(routes: &[(u32, u32)], rng: &mut Pcg64Mcg) -> [(&'static str, Vec<u32>); 2] {
    let routed = (0..ADDRESSES)
        .map(|_| {
            let (address, len) = routes[rng.random_range(0..routes.len())];
            let host: u32 = rng.random();
            address | host.checked_shr(len).unwrap_or(0)
        })
        .collect();
    [
        (
            "all addresses",
            (0..ADDRESSES).map(|_| rng.random()).collect(),
        ),
        ("routed addresses", routed),
    ]
}

fn build_dpdk() -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/dpdk/fib.c");
    let out = std::env::temp_dir().join("rxlane-dpdk-fib");
    Command::new("gcc")
        .args(["-O3", "-march=native", "-include", "rte_config.h", "-o"])
        .arg(&out)
        .arg(&source)
        .args([
            "-I/usr/include/dpdk",
            "-I/usr/include/x86_64-linux-gnu/dpdk",
        ])
        .args(["-lrte_fib", "-lrte_rib", "-lrte_eal"])
        .output()
        .ok()
        .filter(|o| o.status.success())
        .map(|_| out)
}

fn words(path: &Path, words: impl Iterator<Item = u32>) {
    let bytes: Vec<u8> = words.flat_map(u32::to_ne_bytes).collect();
    std::fs::write(path, bytes).expect("the temporary folder can be written");
}

/// Seconds of the best of a few rounds, and the sum of hops.
fn dpdk(program: &Path, routes: &Path, addresses: &Path) -> Option<(f64, u64)> {
    let huge = free_huge_pages() >= 512;
    let out = Command::new(program)
        .args([routes, addresses])
        .args(["3", if huge { "huge" } else { "small" }])
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let line = text.lines().find(|l| l.starts_with('{'))?;
    let seconds = line.split(['[', ']']).nth(1)?;
    let best = seconds
        .split(',')
        .filter_map(|s| s.trim().parse().ok())
        .fold(f64::MAX, f64::min);
    let sum = line
        .rsplit(": ")
        .next()?
        .trim_end_matches('}')
        .parse()
        .ok()?;
    Some((best, sum))
}

/// Of 2 MiB.
fn free_huge_pages() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    text.lines()
        .find_map(|l| l.strip_prefix("HugePages_Free:")?.trim().parse().ok())
        .unwrap_or(0)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let mut rng = Pcg64Mcg::seed_from_u64(1);
    let mut routes = match std::env::var_os("RXLANE_ROUTES") {
        Some(path) => table::read(Path::new(&path)),
        None => table::drawn(&mut rng),
    };
    routes.iter_mut().for_each(|(address, len)| {
        *address &= !u32::MAX.checked_shr(*len).unwrap_or(0);
    });
    routes.sort_unstable();
    routes.dedup();
    let hop = |i: usize| 1 + (i as u32).wrapping_mul(2_654_435_761) % HOPS;
    let changes: Vec<Change<Ipv4Net, NonZeroU16>> = routes
        .iter()
        .enumerate()
        .map(|(i, (address, len))| Change {
            prefix: Net::new(*address, *len),
            hop: NonZeroU16::new(hop(i) as u16),
        })
        .collect();
    let mut publisher = Publisher::default();
    let begin = Instant::now();
    publisher.publish(&changes);
    let built = begin.elapsed();
    let mut reader = publisher.reader();
    println!(
        "{} routes: built in {:.0} ms, {:.1} MiB",
        routes.len(),
        built.as_secs_f64() * 1e3,
        reader.table().bytes() as f64 / f64::from(1 << 20)
    );
    let begin = Instant::now();
    let flaps = 20_000;
    for i in 0..flaps {
        let mut change = changes[rng.random_range(0..changes.len())];
        change.hop = NonZeroU16::new(1 + (i % HOPS) as u16);
        publisher.publish(&[change]);
    }
    println!(
        "a change, published by itself: {:.1} us",
        begin.elapsed().as_secs_f64() * 1e6 / f64::from(flaps)
    );
    publisher.publish(&changes);

    let program = build_dpdk();
    let folder = std::env::temp_dir();
    let (routes_file, addresses_file) = (
        folder.join("rxlane-fib-routes"),
        folder.join("rxlane-fib-addresses"),
    );
    words(
        &routes_file,
        routes
            .iter()
            .enumerate()
            .flat_map(|(i, (a, l))| [*a, *l, hop(i)]),
    );
    for (what, asked) in addresses(&routes, &mut rng) {
        words(&addresses_file, asked.iter().copied());
        let (mut rates, mut ratios) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            let table = reader.table();
            let mut best = f64::MAX;
            let mut sum = 0u64;
            for _ in 0..3 {
                sum = 0;
                let begin = Instant::now();
                for batch in asked.chunks_exact(BATCH) {
                    let mut hops = [None; BATCH];
                    table.lookup_batch(batch, &mut hops);
                    sum += hops
                        .iter()
                        .map(|h| u64::from(h.map_or(0, NonZeroU16::get)))
                        .sum::<u64>();
                }
                best = best.min(begin.elapsed().as_secs_f64());
            }
            rates.push(ADDRESSES as f64 / best / 1e6);
            if let Some((theirs, their_sum)) = program
                .as_deref()
                .and_then(|p| dpdk(p, &routes_file, &addresses_file))
            {
                assert_eq!(sum, their_sum, "both tables agree");
                ratios.push(theirs / best);
            }
        }
        print!(
            "{what}: {:.0} million lookups a second, median of {ROUNDS}",
            median(rates)
        );
        match ratios.len() {
            0 => println!("; rte_fib not measured (gcc and libdpdk-dev are needed)"),
            n => println!(
                "; {:.2} x rte_fib DIR-24-8 ({}), median of {n}",
                median(ratios),
                if free_huge_pages() >= 512 {
                    "huge pages"
                } else {
                    "no huge pages"
                }
            ),
        }
    }
    for file in [routes_file, addresses_file] {
        let _ = std::fs::remove_file(file);
    }
}
