//! The packets of a capture, whatever its format, with times in ns.
//!
//! Sources: draft-ietf-opsawg-pcap (pcap), draft-ietf-opsawg-pcapng (pcapng).

use std::io::{Cursor, Read};

use pcap_file::pcap::PcapReader;
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{Block, PcapNgReader};
use pcap_file::{DataLink, PcapError, TsResolution};

/// First bytes of a pcapng file, in either order of bytes.
const PCAPNG: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];
/// First bytes of what gzip and zstd have packed.
const PACKED: [[u8; 2]; 2] = [[0x1f, 0x8b], [0x28, 0xb5]];

/// A packet of a capture.
pub(super) struct Record<'a> {
    /// From 1, as other programs count them.
    pub(super) number: usize,
    /// Since 1970, ns.
    pub(super) at_ns: u64,
    /// What its bytes begin with.
    pub(super) link: DataLink,
    /// Name of the interface, where the file says it.
    pub(super) interface: Option<&'a str>,
    /// The bytes that were kept.
    pub(super) data: &'a [u8],
    /// How many it had on the link, at least those.
    pub(super) length: usize,
}

/// Gives each packet of a capture in turn.
///
/// # Errors
/// The packet and what is wrong with it, with the cure; what `each` complains about.
pub(super) fn records(
    mut capture: impl Read,
    each: impl FnMut(Record<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut magic = Vec::new();
    let begin = capture.by_ref().take(4).read_to_end(&mut magic);
    begin.map_err(|e| format!("{e}: give a readable capture"))?;
    if PACKED.iter().any(|packed| magic.starts_with(packed)) {
        return Err("it is packed: unpack it first (gunzip, unzstd)".into());
    }
    let pcapng = magic == PCAPNG;
    let whole = Cursor::new(magic).chain(capture);
    match pcapng {
        true => of_pcapng(whole, each),
        false => of_pcap(whole, each),
    }
}

fn broken(number: usize, e: &PcapError) -> String {
    format!("packet {number}: {e}: the file is cut short; record it again")
}

fn of_pcap(
    capture: impl Read,
    mut each: impl FnMut(Record<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = PcapReader::new(capture)
        .map_err(|e| format!("{e}: give a capture in pcap or pcapng format"))?;
    let header = reader.header();
    let unit = match header.ts_resolution {
        TsResolution::MicroSecond => 1000,
        TsResolution::NanoSecond => 1,
    };
    let mut number = 0;
    // Raw: the others refuse packets that were longer than what is kept of them.
    while let Some(packet) = reader.next_raw_packet() {
        number += 1;
        let packet = packet.map_err(|e| broken(number, &e))?;
        each(Record {
            number,
            at_ns: u64::from(packet.ts_sec) * 1_000_000_000 + u64::from(packet.ts_frac) * unit,
            link: header.datalink,
            interface: None,
            data: &packet.data,
            length: packet.data.len().max(packet.orig_len as usize),
        })?;
    }
    Ok(())
}

/// An interface of a pcapng file.
struct Interface {
    name: Option<String>,
    link: DataLink,
    resolution: u8,
    offset_s: u64,
}

impl Interface {
    fn new(block: &InterfaceDescriptionBlock<'_>) -> Self {
        let mut this = Self {
            name: None,
            link: block.linktype,
            resolution: 6,
            offset_s: 0,
        };
        for option in &block.options {
            match option {
                InterfaceDescriptionOption::IfName(name) => this.name = Some(name.to_string()),
                InterfaceDescriptionOption::IfTsResol(resolution) => this.resolution = *resolution,
                InterfaceDescriptionOption::IfTsOffset(seconds) => this.offset_s = *seconds,
                _ => {}
            }
        }
        this
    }

    /// Units of time in ns; none where they do not fit.
    fn ns(&self, units: u128) -> Option<u64> {
        let (binary, exponent) = (self.resolution & 0x80 != 0, self.resolution & 0x7f);
        let per_second = match binary {
            true => 1u128.checked_shl(exponent.into()),
            false => 10u128.checked_pow(exponent.into()),
        }?;
        let ns = units.checked_mul(1_000_000_000)? / per_second;
        let offset = u64::checked_mul(self.offset_s, 1_000_000_000)?;
        u64::try_from(ns).ok()?.checked_add(offset)
    }
}

fn of_pcapng(
    capture: impl Read,
    mut each: impl FnMut(Record<'_>) -> Result<(), String>,
) -> Result<(), String> {
    let mut reader = PcapNgReader::new(capture)
        .map_err(|e| format!("{e}: give a capture in pcap or pcapng format"))?;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut number = 0;
    while let Some(block) = reader.next_block() {
        let (interface, units, length, data) = match block.map_err(|e| broken(number + 1, &e))? {
            // Interfaces are numbered anew in each section.
            Block::SectionHeader(_) => {
                interfaces.clear();
                continue;
            }
            Block::InterfaceDescription(block) => {
                interfaces.push(Interface::new(&block));
                continue;
            }
            // The crate takes any unit for ns.
            Block::EnhancedPacket(p) => (
                p.interface_id,
                p.timestamp.as_nanos(),
                p.original_len,
                p.data,
            ),
            Block::Packet(p) => (
                p.interface_id.into(),
                p.timestamp.into(),
                p.original_len,
                p.data,
            ),
            Block::SimplePacket(_) => {
                let packet = number + 1;
                return Err(format!(
                    "packet {packet}: it is a simple packet block, which has no time: record it again with times"
                ));
            }
            _ => continue,
        };
        number += 1;
        let interface = interfaces.get(interface as usize).ok_or_else(|| {
            format!("packet {number}: the file does not describe its interface, number {interface}: record it again")
        })?;
        let at_ns = interface.ns(units).ok_or_else(|| {
            format!("packet {number}: its time is beyond the year 2500: record it again, or write the file anew (editcap)")
        })?;
        each(Record {
            number,
            at_ns,
            link: interface.link,
            interface: interface.name.as_deref(),
            length: data.len().max(length as usize),
            data: &data,
        })?;
    }
    Ok(())
}
