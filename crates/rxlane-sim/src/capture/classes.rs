//! The class of each packet of a capture, as the router's own classifier says it.

use std::io::Read;

use rxlane_policy::class::Class;
use rxlane_policy::compile::Classifier;
use rxlane_policy::headers::{HEAD, Headers, Parsed, parse};
use rxlane_policy::snaplen::deciding_bytes;

use super::link::{self, Frame};
use super::records::{Record, records};
use super::{gaps, in_order};

/// Frames that a link carries, with FCS, bytes.
const SHORTEST: usize = 64;
const FCS: usize = 4;
/// Longest packet that anything has: what offloads put together.
const LONGEST: usize = 1 << 18;
/// Bytes of a frame before the type of what it carries.
const ADDRESSES: usize = 12;

/// How packets are given classes.
#[derive(Debug)]
pub struct Classes {
    classifier: Classifier,
    ports: Vec<String>,
    /// Number of classes.
    count: usize,
    port: Option<u8>,
    mac: Option<[u8; 6]>,
}

/// A recorded packet.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Recorded {
    /// From the packet before it, in units of the mean gap.
    pub gap: f64,
    /// Hash of addresses, protocol and ports.
    pub flow: u32,
    /// Frame with FCS, bytes; at most 65535.
    pub bytes: u16,
    /// Class, 0 the highest.
    pub class: u8,
}

/// A capture with classes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Recording {
    /// Its packets; at the end it begins again, a mean gap later.
    pub packets: Vec<Recorded>,
    /// Packets a second.
    pub pps: f64,
    /// Share of each class, highest first.
    pub shares: Vec<f64>,
    /// Mean frame with FCS, bytes.
    pub frame: f64,
}

impl Classes {
    /// As a router's configuration says, which has these ports and classes. `port` names the one that packets came by, where the capture does not; with `mac`, its
    /// address, frames to others are not the router's.
    ///
    /// # Errors
    /// What the configuration has no port of, or rules that cannot be compiled.
    pub fn new(
        ports: &[String],
        classes: &[Class],
        port: Option<&str>,
        mac: Option<[u8; 6]>,
    ) -> Result<Self, String> {
        let number = |name: &str| {
            let at = ports.iter().position(|p| p == name);
            at.and_then(|i| u8::try_from(i).ok())
                .ok_or_else(|| format!("{name}: none of the ports: use {}", ports.join(", ")))
        };
        Ok(Self {
            classifier: Classifier::compile(classes).map_err(|e| e.to_string())?,
            count: classes.len(),
            port: port.map(number).transpose()?,
            ports: ports.to_vec(),
            mac,
        })
    }

    /// Where a packet came in.
    fn port(&self, record: &Record<'_>) -> Result<u8, String> {
        let named = record
            .interface
            .and_then(|name| self.ports.iter().position(|p| p == name));
        match (named, self.port) {
            (Some(port), _) => Ok(port as u8),
            (None, Some(port)) => Ok(port),
            (None, None) if self.classifier.ports.is_none() => Ok(0),
            (None, None) => Err(format!(
                "packet {}: its interface {} is no port of the router, whose rules ask for one: say port = \"{}\" beside the file",
                record.number,
                record.interface.unwrap_or("has no name and"),
                self.ports.first().map_or("", |p| p)
            )),
        }
    }

    /// Bytes of a frame that must be known.
    fn needed(&self, frame: &Frame) -> usize {
        let by_rules = self.classifier.flex.last().map_or(0, |(at, _)| at + 2);
        deciding_bytes(&frame.bytes)
            .max(usize::from(by_rules).min(HEAD))
            .min(frame.length)
    }

    /// Class and flow of a frame. What the lanes leave to the kernel without a class is served with the last one.
    fn classify(&self, record: &Record<'_>, frame: &mut Frame) -> Result<(u8, u32), String> {
        let number = record.number;
        let needed = self.needed(frame);
        if frame.bytes.len() < needed {
            return Err(format!(
                "packet {number}: {} bytes of it were kept, and its class needs {needed}: record with a snaplen of at least 96",
                frame.bytes.len()
            ));
        }
        let addresses = self.classifier.flex.first();
        if frame.made_up && addresses.is_some_and(|(at, _)| usize::from(*at) < ADDRESSES) {
            return Err(format!(
                "packet {number}: it has no MAC addresses, which the router's rules on bytes look at: record on an Ethernet port"
            ));
        }
        // The parser wants the whole packet, though it looks only at its head.
        frame.bytes.resize(frame.length.max(frame.bytes.len()), 0);
        let to_one = frame.bytes.first().is_none_or(|b| b & 1 == 0);
        let mac = match self.mac {
            None if to_one => frame.bytes.first_chunk().copied().unwrap_or(link::MAC),
            mac => mac.unwrap_or(link::MAC),
        };
        Ok(match parse(&frame.bytes, self.port(record)?, mac) {
            Parsed::Ip(headers) => (self.classifier.classify(&headers), flow(&headers)),
            Parsed::NotToUs | Parsed::NotIp | Parsed::Malformed => {
                (self.classifier.default_class, 0)
            }
        })
    }
}

/// FNV-1a of what tells flows apart.
fn flow(of: &Headers) -> u32 {
    let (src, dst) = (octets(of.src), octets(of.dst));
    let ports = [of.src_port.unwrap_or(0), of.dst_port.unwrap_or(0)].map(u16::to_be_bytes);
    let bytes = src.iter().chain(&dst).chain(ports.as_flattened());
    let hash = |h: u32, b: &u8| (h ^ u32::from(*b)).wrapping_mul(0x0100_0193);
    // What FNV leaves in the low bits alone is mixed into all.
    let h = bytes.fold(hash(0x811c_9dc5, &of.protocol), hash);
    h ^ (h >> 15)
}

fn octets(address: std::net::IpAddr) -> [u8; 16] {
    match address {
        std::net::IpAddr::V4(a) => a.to_ipv6_mapped().octets(),
        std::net::IpAddr::V6(a) => a.octets(),
    }
}

/// A capture's text, pcap or pcapng, with classes.
///
/// # Errors
/// The packet with its number, what is wrong with it, and the cure.
pub fn classified(capture: impl Read, classes: &Classes) -> Result<Recording, String> {
    let mut timed: Vec<(u64, Recorded)> = Vec::new();
    let mut counts = vec![0u64; classes.count];
    let mut bytes = 0.0;
    records(capture, |record| {
        if record.length > LONGEST {
            let number = record.number;
            return Err(format!(
                "packet {number}: {} bytes are no packet: the file is broken; record it again",
                record.length
            ));
        }
        let Some(mut frame) = link::frame(&record, classes.mac.unwrap_or(link::MAC))? else {
            return Ok(());
        };
        let (class, flow) = classes.classify(&record, &mut frame)?;
        in_order(&timed, record.number, record.at_ns, |(at, _)| *at)?;
        let on_wire = (frame.length + FCS).clamp(SHORTEST, u16::MAX.into());
        counts[usize::from(class)] += 1;
        bytes += on_wire as f64;
        let recorded = Recorded {
            gap: 1.0,
            flow,
            bytes: on_wire as u16,
            class,
        };
        timed.push((record.at_ns, recorded));
        Ok(())
    })?;
    // Packets of the same time stay as they were recorded.
    timed.sort_by_key(|(at, _)| *at);
    let gaps = gaps(timed.iter().map(|(at, _)| *at))?;
    let took = (timed[timed.len() - 1].0 - timed[0].0) as f64 / 1e9;
    let n = timed.len() as f64;
    let mut packets: Vec<Recorded> = timed.into_iter().map(|(_, packet)| packet).collect();
    for (packet, gap) in packets.iter_mut().skip(1).zip(gaps) {
        packet.gap = gap;
    }
    Ok(Recording {
        pps: (n - 1.0) / took,
        shares: counts.iter().map(|c| *c as f64 / n).collect(),
        frame: bytes / n,
        packets,
    })
}
