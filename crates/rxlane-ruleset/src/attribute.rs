//! Attributes of netlink messages (`struct nlattr` of include/uapi/linux/netlink.h).

/// Bytes before the value: length and kind.
const HEAD: usize = 4;

/// The length of an attribute is less than its head, or more than there is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Garbled;

/// The attributes in a value, by kind.
pub fn checked_attributes(value: &[u8]) -> impl Iterator<Item = Result<(u16, &[u8]), Garbled>> {
    const FLAGS: u16 = 0xc000;
    let mut rest = value;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let found = rest.get(..HEAD).and_then(|head| {
            let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
            let kind = u16::from_ne_bytes([head[2], head[3]]) & !FLAGS;
            Some((kind, rest.get(HEAD..len)?))
        });
        let len = found.map_or(rest.len(), |(_, body)| {
            (HEAD + body.len()).next_multiple_of(4)
        });
        rest = rest.get(len..).unwrap_or_default();
        Some(found.ok_or(Garbled))
    })
}

/// The same, as far as their lengths hold.
pub fn attributes(value: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    checked_attributes(value).map_while(Result::ok)
}

/// An attribute as bytes, filled up to the next one.
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = HEAD + value.len();
    let mut bytes = Vec::with_capacity(length.next_multiple_of(4));
    bytes.extend((length as u16).to_ne_bytes());
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(value);
    bytes.resize(length.next_multiple_of(4), 0);
    bytes
}

/// A number in network byte order, as netfilter has them.
pub fn be32(value: &[u8]) -> Option<u32> {
    value.try_into().ok().map(u32::from_be_bytes)
}

/// Text with or without its zero.
pub fn text(value: &[u8]) -> String {
    String::from_utf8_lossy(value.strip_suffix(&[0]).unwrap_or(value)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_whose_lengths_lie_end_the_list() {
        assert_eq!(attributes(&[8, 0, 1, 0x80, 1, 2, 3, 4]).count(), 1);
        for len in [0u8, 3, 9] {
            assert_eq!(attributes(&[len, 0, 1, 0, 1, 2, 3, 4]).count(), 0, "{len}");
        }
    }
}
