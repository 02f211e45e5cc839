//! Answers to packets, made of what the plain router has sent.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::build::{Spec, Transport};
use super::{encapsulated, tagged, untagged};
use crate::scenario::{Answer, Reply};

/// The answer to a frame, as the host that got it would send it, in the same VLAN and through the same tunnel. None to
/// what is no whole IP packet.
pub fn answer(frame: &[u8], number: u32, asked: &Answer) -> Option<Vec<u8>> {
    let (tags, frame) = untagged(frame);
    let packet = frame.get(14..)?;
    let reply = match encapsulated::opened(packet) {
        None => plain(&frame, number, asked)?,
        Some((outer, inner)) => {
            let kind = |packet: &[u8]| match packet.first() {
                Some(b) if b >> 4 == 6 => [0x86, 0xdd],
                _ => [8, 0],
            };
            let taken_out = [&frame[..12], &kind(&inner), &inner].concat();
            let reply = plain(&taken_out, number, asked)?;
            if asked.bare {
                reply
            } else {
                let closed = outer.closed(&reply[14..], number);
                [&reply[..12], &kind(&closed), &closed].concat()
            }
        }
    };
    Some(tagged(&reply, &tags))
}

/// The answer to a frame without tags and tunnels.
fn plain(frame: &[u8], number: u32, asked: &Answer) -> Option<Vec<u8>> {
    let (src, dst, protocol, header) = addresses(frame)?;
    let segment = frame.get(14 + header..)?;
    let port = |at: usize| {
        Some(u16::from_be_bytes([
            *segment.get(at)?,
            *segment.get(at + 1)?,
        ]))
    };
    let transport = match (asked.reply, protocol) {
        (Reply::Unreachable, _) => {
            let quoted = frame.get(14..14 + header + 8)?;
            Transport::Unreachable(quoted.to_vec())
        }
        (Reply::Same { flags, seq, ack }, 6) => Transport::Tcp(port(2)?, port(0)?, flags, seq, ack),
        (Reply::Same { .. }, 17) => Transport::Udp(port(2)?, port(0)?),
        (Reply::Same { .. }, 1 | 58) => Transport::Echo(true, port(4)?, port(6)?),
        (Reply::Same { .. }, other) => Transport::Other(other),
    };
    let spec = Spec {
        to_mac: frame.get(6..12)?.try_into().ok()?,
        from_mac: frame.get(..6)?.try_into().ok()?,
        src: dst,
        dst: src,
        dscp: asked.dscp,
        ttl: asked.ttl,
        transport,
        number,
        payload_bytes: asked.payload_bytes,
        quirks: Vec::new(),
    };
    Some(spec.frame())
}

/// Source, destination, protocol and length of the IP header, without extensions.
fn addresses(frame: &[u8]) -> Option<(IpAddr, IpAddr, u8, usize)> {
    let packet = frame.get(14..)?;
    match frame.get(12..14)? {
        [8, 0] => {
            let at = |from: usize| <[u8; 4]>::try_from(packet.get(from..from + 4)?).ok();
            let header = usize::from(packet.first()? & 15) * 4;
            let (src, dst) = (Ipv4Addr::from(at(12)?), Ipv4Addr::from(at(16)?));
            Some((src.into(), dst.into(), *packet.get(9)?, header))
        }
        [0x86, 0xdd] => {
            let at = |from: usize| <[u8; 16]>::try_from(packet.get(from..from + 16)?).ok();
            let (src, dst) = (Ipv6Addr::from(at(8)?), Ipv6Addr::from(at(24)?));
            Some((src.into(), dst.into(), *packet.get(6)?, 40))
        }
        _ => None,
    }
}
