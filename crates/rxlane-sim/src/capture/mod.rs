//! Packet captures as traffic: the gaps between their packets, and their classes where a router's configuration says them.

mod classes;
mod link;
mod records;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use crate::SimError;
use crate::traffic::gaps_of;
pub use classes::{Classes, Recorded, Recording, classified};
use records::records;

/// Packets of a capture may be so much out of order, ns: several queues are read in turn. More is a clock that was set.
const DISORDER_NS: u64 = 1_000_000_000;

/// Does something with the file of a capture, whose complaints are about that file.
pub(crate) fn with_file<T>(
    path: &Path,
    read: impl FnOnce(BufReader<File>) -> Result<T, String>,
) -> Result<T, SimError> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|source| SimError::File {
        path: name.clone(),
        source,
    })?;
    read(BufReader::new(file)).map_err(|message| SimError::Capture {
        path: name,
        message,
    })
}

/// Gaps of a capture's text, pcap or pcapng, in units of their mean.
///
/// # Errors
/// What is wrong with it, as [`SimError::Capture`] says it: it is cut short, its clock was set, or no two packets are apart in
/// time.
pub fn read(capture: impl Read) -> Result<Vec<f64>, String> {
    let mut times = Vec::new();
    records(capture, |record| {
        in_order(&times, record.number, record.at_ns, |at| *at)?;
        times.push(record.at_ns);
        Ok(())
    })?;
    times.sort_unstable();
    gaps(times.iter().copied())
}

/// Gaps of times, ns, in units of their mean.
fn gaps(times: impl Iterator<Item = u64>) -> Result<Vec<f64>, String> {
    let mut first = None;
    let since = times.map(|at| (at - *first.get_or_insert(at)) as f64);
    let gaps = gaps_of(&since.collect::<Vec<f64>>());
    match gaps.is_empty() {
        true => Err("no two packets at different times: record more".into()),
        false => Ok(gaps),
    }
}

/// Whether a packet that comes at `at` may come after those before it.
fn in_order<T>(
    before: &[T],
    number: usize,
    at: u64,
    time: impl Fn(&T) -> u64,
) -> Result<(), String> {
    let last = before.last().map_or(at, time);
    if last > at.saturating_add(DISORDER_NS) {
        let back = (last - at) as f64 / 1e9;
        return Err(format!(
            "packet {number}: it is {back:.3} s before the one in front of it, as when a clock is set: order the capture by time \
             (reordercap), or take the part behind it"
        ));
    }
    Ok(())
}
