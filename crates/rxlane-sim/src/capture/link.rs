//! Packets of other links as Ethernet frames, which is what the classifier reads.
//!
//! Sources: LINKTYPE_ETHERNET, LINKTYPE_LINUX_SLL, LINKTYPE_LINUX_SLL2, LINKTYPE_RAW of tcpdump.org.

use pcap_file::DataLink;

use super::records::Record;

/// The router's own address where none is given.
pub(super) const MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];
const ETH_LEN: usize = 14;
/// Of a cooked packet: that the machine has sent it, so it did not arrive.
const OUTGOING: u8 = 4;

/// A packet as a frame.
pub(super) struct Frame {
    /// As many bytes as are known.
    pub(super) bytes: Vec<u8>,
    /// How long it was, without FCS.
    pub(super) length: usize,
    /// Whether its MAC addresses are made up.
    pub(super) made_up: bool,
}

/// The packet as an Ethernet frame to `mac`; nothing where it did not arrive, but was sent.
///
/// # Errors
/// What cannot be made one, with the cure.
pub(super) fn frame(record: &Record<'_>, mac: [u8; 6]) -> Result<Option<Frame>, String> {
    let (data, number) = (record.data, record.number);
    let short = || {
        format!(
            "packet {number}: only {} bytes of it were kept: record with a snaplen of at least 96",
            data.len()
        )
    };
    let (header, ethertype, to_us) = match record.link {
        DataLink::ETHERNET => {
            let bytes = data.to_vec();
            return Ok(Some(Frame {
                bytes,
                length: record.length,
                made_up: false,
            }));
        }
        DataLink::LINUX_SLL => {
            let fixed = data.get(..16).ok_or_else(short)?;
            if fixed[1] == OUTGOING {
                return Ok(None);
            }
            (16, [fixed[14], fixed[15]], fixed[1] == 0)
        }
        DataLink::LINUX_SLL2 => {
            let fixed = data.get(..20).ok_or_else(short)?;
            if fixed[10] == OUTGOING {
                return Ok(None);
            }
            (20, [fixed[0], fixed[1]], fixed[10] == 0)
        }
        // Systems number raw IP differently.
        DataLink::RAW | DataLink::IPV4 | DataLink::IPV6 | DataLink::Unknown(12 | 14) => {
            let version = data.first().ok_or_else(short)? >> 4;
            let ethertype = if version == 6 {
                [0x86, 0xdd]
            } else {
                [0x08, 0x00]
            };
            (0, ethertype, true)
        }
        other => {
            return Err(format!(
                "packet {number}: link type {} has no Ethernet, cooked or raw IP packets: record on an interface of the router",
                u32::from(other)
            ));
        }
    };
    let to = if to_us { mac } else { [0xff; 6] };
    let mut bytes = [&to[..], &MAC, &ethertype].concat();
    bytes.extend_from_slice(&data[header..]);
    Ok(Some(Frame {
        length: (record.length + ETH_LEN).saturating_sub(header),
        bytes,
        made_up: true,
    }))
}
