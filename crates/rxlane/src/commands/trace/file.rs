//! Packets as pcapng (<https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>): an interface for each port, and a comment on each packet that
//! says what happened to it.

use std::borrow::Cow;
use std::io::{ErrorKind, Write};
use std::time::{Duration, SystemTime};

use pcap_file::pcapng::blocks::enhanced_packet::{EnhancedPacketBlock, EnhancedPacketOption};
use pcap_file::pcapng::blocks::interface_description::{
    InterfaceDescriptionBlock, InterfaceDescriptionOption,
};
use pcap_file::pcapng::{PcapNgBlock, PcapNgWriter};
use pcap_file::{DataLink, PcapError};
use rxlane_dataplane::trace::{TracedPacket, wall_clock};

use super::account::Account;
use crate::one_line;

/// Times are ns, as the crate writes them: 10^-9 s.
const RESOLUTION: u8 = 9;

/// A file that is being written.
pub(super) struct Capture<W: Write> {
    to: PcapNgWriter<W>,
    name: String,
    /// Interfaces that it has, in their order.
    interfaces: Vec<u32>,
}

impl<W: Write> Capture<W> {
    pub(super) fn begin(to: W, name: &str) -> Result<Self, String> {
        let to = PcapNgWriter::new(to).map_err(|e| cannot(name, &e))?;
        Ok(Self {
            to,
            name: name.into(),
            interfaces: Vec::new(),
        })
    }

    /// Adds a packet, for readers that read while this is written. Returns whether there still is one.
    pub(super) fn add(&mut self, packet: &TracedPacket, account: &Account) -> Result<bool, String> {
        match self.write(packet, account) {
            Ok(()) => Ok(true),
            Err(PcapError::IoError(e)) if e.kind() == ErrorKind::BrokenPipe => Ok(false),
            Err(e) => Err(cannot(&self.name, &e)),
        }
    }

    fn write(&mut self, packet: &TracedPacket, account: &Account) -> Result<(), PcapError> {
        let known = self.interfaces.iter().position(|i| *i == packet.ingress);
        let interface = match known {
            Some(known) => known,
            None => {
                let block = InterfaceDescriptionBlock {
                    linktype: DataLink::ETHERNET,
                    snaplen: 0,
                    options: vec![
                        InterfaceDescriptionOption::IfName(Cow::Borrowed(account.port())),
                        InterfaceDescriptionOption::IfTsResol(RESOLUTION),
                    ],
                };
                self.to.write_block(&block.into_block())?;
                self.interfaces.push(packet.ingress);
                self.interfaces.len() - 1
            }
        };
        let since = wall_clock(packet.time).duration_since(SystemTime::UNIX_EPOCH);
        let block = EnhancedPacketBlock {
            interface_id: interface as u32,
            timestamp: since.unwrap_or(Duration::ZERO),
            original_len: packet.length,
            data: Cow::Borrowed(&packet.frame),
            options: vec![EnhancedPacketOption::Comment(Cow::Owned(account.verdict()))],
        };
        self.to.write_block(&block.into_block())?;
        self.to.get_mut().flush().map_err(PcapError::IoError)
    }
}

fn cannot(name: &str, error: &PcapError) -> String {
    format!(
        "cannot write {name}: {}: check the space that is left",
        one_line(error)
    )
}
