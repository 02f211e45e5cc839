//! VLAN tags, which stand between the addresses of a frame and its type, and the header of a session behind them.

use super::{hex, session, unhex};

/// Where the tags begin.
const AT: usize = 12;

/// The types that tags begin with: IEEE 802.1Q and 802.1ad.
const TYPES: [[u8; 2]; 2] = [[0x81, 0], [0x88, 0xa8]];

/// The tags of a frame with the beginning of a session's header, and the frame without them.
pub(crate) fn untagged(frame: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut end = AT;
    while frame
        .get(end..end + 2)
        .is_some_and(|t| TYPES.iter().any(|known| t == known))
        && end + 4 <= frame.len()
    {
        end += 4;
    }
    let (head, rest) = frame.split_at(end.min(frame.len()));
    match (head.split_at_checked(AT), session::taken_out(rest)) {
        (Some((addresses, tags)), Some((session, rest))) => {
            ([tags, &session].concat(), [addresses, &rest].concat())
        }
        (Some((addresses, tags)), None) => (tags.to_vec(), [addresses, rest].concat()),
        (None, _) => (Vec::new(), frame.to_vec()),
    }
}

/// A frame with tags put before its type, and its packet into a session, as [`untagged`] has found them.
pub(crate) fn tagged(frame: &[u8], tags: &[u8]) -> Vec<u8> {
    let session = tags
        .chunks(4)
        .position(|tag| tag.starts_with(&session::TYPE));
    let (tags, session) = tags.split_at(session.map_or(tags.len(), |at| 4 * at));
    match frame.split_at_checked(AT) {
        Some((addresses, rest)) => {
            let put_back = (!session.is_empty()).then(|| session::put_back(session, rest));
            let rest = put_back.flatten().unwrap_or_else(|| rest.to_vec());
            [addresses, tags, &rest].concat()
        }
        None => frame.to_vec(),
    }
}

/// A frame in hexadecimal with tags of these priorities and VLAN ids, the outer one first, which is a service tag or not.
pub(crate) fn retagged(frame: &str, ids: &[u16], service: bool) -> String {
    let tag = |(i, id): (usize, &u16)| {
        let kind = TYPES[usize::from(service && i == 0)];
        [kind, id.to_be_bytes()].concat()
    };
    let tags: Vec<u8> = ids.iter().enumerate().flat_map(tag).collect();
    hex(&tagged(&unhex(frame), &tags))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_tagged_can_be_untagged() {
        let frame: Vec<u8> = (0..40).collect();
        let both = unhex(&retagged(&hex(&frame), &[0, 10], false));
        assert_eq!(both[12..20], [0x81, 0, 0, 0, 0x81, 0, 0, 10]);
        let service = unhex(&retagged(&hex(&frame), &[5, 10], true));
        assert_eq!(service[12..20], [0x88, 0xa8, 0, 5, 0x81, 0, 0, 10]);
        assert_eq!(untagged(&both), (both[12..20].to_vec(), frame.clone()));
        assert_eq!(untagged(&frame), (Vec::new(), frame.clone()));
        assert_eq!(untagged(&frame[..5]), (Vec::new(), frame[..5].to_vec()));
        assert_eq!(untagged(&both[..14]).1.len(), 14);
    }
}
