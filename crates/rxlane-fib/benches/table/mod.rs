//! A routing table to measure with.

use std::io::Read;
use std::net::Ipv4Addr;
use std::path::Path;

use rand::Rng;
use rand_pcg::Pcg64Mcg;

/// Prefixes of a file of lines `a.b.c.d/len ...`.
pub(crate) fn read(path: &Path) -> Vec<(u32, u32)> {
    let bytes = std::fs::read(path).expect("RXLANE_ROUTES can be read");
    let mut text = String::new();
    if path.extension().is_some_and(|e| e == "gz") {
        flate2::read::GzDecoder::new(&bytes[..])
            .read_to_string(&mut text)
            .expect("RXLANE_ROUTES is gzip");
    } else {
        text = String::from_utf8_lossy(&bytes).into_owned();
    }
    text.lines()
        .filter_map(|line| {
            let (address, len) = line.split_whitespace().next()?.split_once('/')?;
            Some((
                u32::from(address.parse::<Ipv4Addr>().ok()?),
                len.parse().ok()?,
            ))
        })
        .collect()
}

/// Prefixes whose lengths are distributed as in a BGP table.
pub(crate) fn drawn(rng: &mut Pcg64Mcg) -> Vec<(u32, u32)> {
    (0..600_000)
        .map(|_| {
            let len = match rng.random_range(0..100) {
                0..55 => 24,
                55..80 => rng.random_range(20..24),
                80..98 => rng.random_range(15..20),
                _ => rng.random_range(8..15),
            };
            (rng.random_range(0x0100_0000..0xe000_0000), len)
        })
        .collect()
}
