//! Packet captures as traffic: reads the gaps between their packets.

use std::io::Read;
use std::path::Path;

use pcap_file::pcap::PcapReader;

use crate::SimError;
use crate::traffic::gaps_of;

/// Gaps of a capture in units of their mean.
///
/// # Errors
/// [`SimError::File`], and [`SimError::Capture`] for a capture that is cut short, or in which no two packets
/// are apart in time.
pub(crate) fn gaps(path: &Path) -> Result<Vec<f64>, SimError> {
    let name = path.display().to_string();
    let broken = |message: String| SimError::Capture {
        path: name.clone(),
        message,
    };
    let file = std::fs::File::open(path).map_err(|source| SimError::File {
        path: name.clone(),
        source,
    })?;
    read(std::io::BufReader::new(file)).map_err(broken)
}

/// Gaps of a capture's text, in units of their mean.
///
/// # Errors
/// What is wrong with it, as [`SimError::Capture`] says it.
pub fn read(capture: impl Read) -> Result<Vec<f64>, String> {
    let mut reader =
        PcapReader::new(capture).map_err(|e| format!("{e}: give a capture in pcap format"))?;
    let mut times = Vec::new();
    while let Some(packet) = reader.next_packet() {
        let packet = packet.map_err(|e| {
            let number = times.len() + 1;
            format!("packet {number}: {e}: the file is cut short; record it again")
        })?;
        times.push(packet.timestamp.as_nanos() as f64);
    }
    let gaps = gaps_of(&times);
    if gaps.is_empty() {
        return Err("no two packets at different times: record more".into());
    }
    Ok(gaps)
}
