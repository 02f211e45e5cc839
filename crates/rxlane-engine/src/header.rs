//! The headers of a packet: what forwarding reads of them, and what it changes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::reason::Reason;

pub(super) const ETHERNET: usize = 14;
const IPV4: usize = 20;
const IPV6: usize = 40;

pub(super) enum Destination {
    V4(u32),
    V6,
}

#[inline]
pub(super) fn destination6(frame: &[u8]) -> u128 {
    u128::from_be_bytes(sixteen(&frame[ETHERNET + 24..ETHERNET + 40]))
}

/// The destination of a packet that can be forwarded. The XDP program has already checked it more closely.
#[inline]
pub(super) fn parse(frame: &[u8]) -> Result<Destination, Reason> {
    let Some(kind) = frame.get(12..14) else {
        return Err(Reason::Malformed);
    };
    match [kind[0], kind[1]] {
        [0x08, 0x00] => {
            let ip = frame
                .get(ETHERNET..ETHERNET + IPV4)
                .ok_or(Reason::Malformed)?;
            let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
            if ip[0] != 0x45 || total < IPV4 || ETHERNET + total > frame.len() {
                return Err(Reason::Malformed);
            }
            if ip[8] <= 1 {
                return Err(Reason::Ttl);
            }
            Ok(Destination::V4(u32::from_be_bytes([
                ip[16], ip[17], ip[18], ip[19],
            ])))
        }
        [0x86, 0xdd] => {
            let ip = frame
                .get(ETHERNET..ETHERNET + IPV6)
                .ok_or(Reason::Malformed)?;
            let payload = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
            if ip[0] >> 4 != 6 || ETHERNET + IPV6 + payload > frame.len() {
                return Err(Reason::Malformed);
            }
            if ip[7] <= 1 {
                return Err(Reason::Ttl);
            }
            Ok(Destination::V6)
        }
        _ => Err(Reason::Malformed),
    }
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    let mut address = [0; 16];
    address.copy_from_slice(bytes);
    address
}

pub(super) fn destination(frame: &[u8], v6: bool) -> IpAddr {
    let ip = &frame[ETHERNET..];
    if v6 {
        Ipv6Addr::from(sixteen(&ip[24..40])).into()
    } else {
        Ipv4Addr::new(ip[16], ip[17], ip[18], ip[19]).into()
    }
}

/// The length that a frame leaves with, as Linux cuts off what follows the packet (ip_rcv_core). What it needs to be as
/// long as Ethernet wants it becomes zeros.
#[inline]
pub(super) fn trimmed(frame: &mut [u8]) -> usize {
    const SHORTEST: usize = 60;
    let end = ETHERNET + ip_len(frame, frame[12] == 0x86) as usize;
    if end >= frame.len() {
        return frame.len();
    }
    let len = end.max(SHORTEST.min(frame.len()));
    frame[end..len].fill(0);
    len
}

#[inline]
pub(super) fn ip_len(frame: &[u8], v6: bool) -> u32 {
    let ip = &frame[ETHERNET..];
    if v6 {
        u32::from(u16::from_be_bytes([ip[4], ip[5]])) + IPV6 as u32
    } else {
        u32::from(u16::from_be_bytes([ip[2], ip[3]]))
    }
}

/// Lowers the TTL by one. The TTL is the high byte of its word, so the checksum grows by 0x0100 (RFC 1141). Of the two zeros
/// of one's complement it becomes the one that Linux writes (`ip_decrease_ttl` of include/net/ip.h).
#[inline]
pub(super) fn age(ip: &mut [u8]) {
    ip[8] -= 1;
    let check = u32::from(u16::from_be_bytes([ip[10], ip[11]])) + 0x0100;
    let check = (check + u32::from(check >= 0xffff)) as u16;
    ip[10..12].copy_from_slice(&check.to_be_bytes());
}
