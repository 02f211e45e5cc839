//! Packets of which only a head was kept, as captures do.

use crate::headers::{self, be16, l3_of};

/// How many bytes at the head of a frame, or of what there is of one, decide about its fields: all headers up to the ports.
/// Whoever has these, and fills up what is missing behind them, gets the same fields from [`parse`](crate::headers::parse), and of
/// a session of PPPoE from [`parse_session`](crate::headers::parse_session).
pub fn deciding_bytes(frame: &[u8]) -> usize {
    let (mut at, mut kind) = (l3_of(frame), be16(frame, l3_of(frame) - 2));
    if kind == Some(headers::SESSION) {
        kind = be16(frame, at + 6);
        at += headers::SESSION_LEN;
    }
    let header = match kind {
        Some(0x0800 | 0x0021) => frame
            .get(at)
            .map_or(20, |b| usize::from(b & 0xf).max(5) * 4),
        Some(0x86dd | 0x0057) => 40,
        _ => return at,
    };
    at + header + 4
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::headers::{ETH_LEN, Headers, Parsed, parse, parse_session};

    const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];

    /// A UDP packet, EF, 10.0.0.1:1000 to 10.1.0.1:2000.
    fn udp4() -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
        f.extend([0x45, 0xb8, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0]);
        f.extend([
            10, 0, 0, 1, 10, 1, 0, 1, 3, 232, 7, 208, 0, 12, 0, 0, 1, 2, 3, 4,
        ]);
        f
    }

    #[test]
    fn what_is_missing_behind_the_deciding_bytes_changes_no_field() {
        let tagged: Vec<u8> = [&udp4()[..12], &[0x81, 0, 0, 7], &udp4()[12..]].concat();
        let mut v6 = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd];
        v6.extend([0x6b, 0x80, 0, 0, 0, 12, 17, 64]);
        v6.extend([0x20; 32]);
        v6.extend([3, 232, 7, 208, 0, 12, 0, 0, 1, 2, 3, 4]);
        let mut session = udp4()[..12].to_vec();
        session.extend([0x88, 0x64, 0x11, 0, 0, 7, 0, 34, 0, 0x21]);
        session.extend(&udp4()[14..]);
        for frame in [udp4(), tagged, v6, session] {
            let parse = |frame: &[u8]| match parse(frame, 0, MAC) {
                Parsed::NotIp => parse_session(frame, 0, MAC),
                parsed => parsed,
            };
            let Parsed::Ip(whole) = parse(&frame) else {
                panic!("not parsed")
            };
            let mut cut = frame[..deciding_bytes(&frame)].to_vec();
            assert!(cut.len() < frame.len());
            assert_eq!(deciding_bytes(&cut), cut.len());
            cut.resize(frame.len(), 0);
            let Parsed::Ip(filled) = parse(&cut) else {
                panic!("not parsed")
            };
            let fields = |h: &Headers| (h.vlan, h.dscp, h.src, h.dst, h.src_port, h.dst_port);
            assert_eq!(fields(&whole), fields(&filled));
            assert!(whole.dst_port.is_some());
        }
        for n in 0..udp4().len() {
            assert!(deciding_bytes(&udp4()[..n]) >= ETH_LEN);
        }
    }
}
