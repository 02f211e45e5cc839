//! Frames of PPPoE (RFC 2516), whose packets are in a session.

use std::fmt;

use super::{hex, unhex};

/// The EtherType of sessions.
pub(super) const TYPE: [u8; 2] = [0x88, 0x64];

/// Protocols of PPP, by the EtherType of their packets.
const PROTOCOLS: [([u8; 2], [u8; 2]); 2] = [([8, 0], [0, 0x21]), ([0x86, 0xdd], [0, 0x57])];

/// How a packet is put into a session.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Session {
    /// Number of the session.
    pub(crate) id: u16,
    /// MAC address of who sends in it.
    pub(crate) from: [u8; 6],
    /// Bytes that its length says too many.
    pub(crate) longer: i16,
    /// 0 in sessions.
    pub(crate) code: u8,
}

impl fmt::Display for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "in session {:#x} of ..{:02x}", self.id, self.from[5])?;
        if self.longer != 0 {
            write!(f, ", length off by {}", self.longer)?;
        }
        if self.code != 0 {
            write!(f, ", code {:#x}", self.code)?;
        }
        Ok(())
    }
}

/// A frame without tags, in hexadecimal, put into a session; what is no IP stays as it is.
pub(crate) fn into_session(frame: &str, session: &Session) -> String {
    let bytes = unhex(frame);
    let protocol = |kind: &[u8]| PROTOCOLS.iter().find(|(k, _)| k == kind).map(|(_, p)| *p);
    let Some(protocol) = bytes.get(12..14).and_then(protocol) else {
        return frame.to_owned();
    };
    let length = (bytes.len() as u16 - 12).wrapping_add_signed(session.longer);
    let header = [
        &TYPE[..],
        &[0x11, session.code],
        &session.id.to_be_bytes(),
        &length.to_be_bytes(),
        &protocol,
    ];
    hex(&[&bytes[..6], &session.from, &header.concat(), &bytes[14..]].concat())
}

/// Bytes of an IP packet, by what it says.
fn length_of(kind: [u8; 2], packet: &[u8]) -> Option<u16> {
    let at = |n: usize| Some(u16::from_be_bytes([*packet.get(n)?, *packet.get(n + 1)?]));
    if kind == PROTOCOLS[0].0 {
        at(2)
    } else {
        at(4)?.checked_add(40)
    }
}

/// What is before the packet of a frame whose addresses and tags are taken off, if that is a session with a right header; and the type of
/// the packet, with the packet, as without a session.
pub(super) fn taken_out(rest: &[u8]) -> Option<([u8; 6], Vec<u8>)> {
    let (header, packet) = rest.split_at_checked(10)?;
    let (kind, _) = PROTOCOLS.iter().find(|(_, p)| *p == header[8..10])?;
    let right = [&TYPE[..], &[0x11, 0]].concat();
    let says = u16::from_be_bytes([header[6], header[7]]);
    let is = header[..4] == right[..] && length_of(*kind, packet)?.checked_add(2)? == says;
    let session = header[..6].try_into().ok()?;
    is.then(|| (session, [kind, packet].concat()))
}

/// The reverse, for a packet that may be another one.
pub(super) fn put_back(session: &[u8], rest: &[u8]) -> Option<Vec<u8>> {
    let (kind, packet) = rest.split_at_checked(2)?;
    let kind: [u8; 2] = kind.try_into().ok()?;
    let (_, protocol) = PROTOCOLS.iter().find(|(k, _)| *k == kind)?;
    let length = length_of(kind, packet)?.checked_add(2)?;
    Some([session, &length.to_be_bytes(), protocol, packet].concat())
}

#[cfg(test)]
mod tests {
    use super::super::{tagged, untagged};
    use super::*;

    #[test]
    fn what_is_put_into_a_session_can_be_taken_out_unless_its_header_is_wrong() {
        let mut frame = unhex("0200000000010200000000028100000a");
        frame.truncate(12);
        frame.extend([8, 0, 0x45, 0, 0, 24]);
        frame.extend([0x5a; 20]);
        let session = Session {
            id: 7,
            from: [2, 0, 0, 0, 0, 2],
            longer: 0,
            code: 0,
        };
        let inside = unhex(&into_session(&hex(&frame), &session));
        assert_eq!(inside[12..22], [0x88, 0x64, 0x11, 0, 0, 7, 0, 26, 0, 0x21]);
        let (before, bare) = untagged(&inside);
        assert_eq!(bare, frame);
        assert_eq!(tagged(&bare, &before), inside);
        for wrong in [
            Session {
                longer: 4,
                ..session
            },
            Session { code: 9, ..session },
        ] {
            let inside = unhex(&into_session(&hex(&frame), &wrong));
            let (before, bare) = untagged(&inside);
            assert_eq!(bare, inside);
            assert_eq!(tagged(&bare, &before), inside);
        }
    }
}
