//! What a register of nftables holds, and what comparing it asks of a packet.

use std::collections::BTreeMap;

use crate::attribute::text;
use crate::test::{ALTERNATIVES, Header, Test};

/// What a register holds.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    State {
        mask: u32,
    },
    Protocol,
    NfProto,
    EtherType,
    DeviceIndex {
        ingress: bool,
    },
    DeviceName {
        ingress: bool,
    },
    Bytes {
        header: Header,
        offset: usize,
        mask: Vec<u8>,
    },
    /// Something of which every comparison has this answer.
    Of(Test),
}

impl Value {
    /// Whether a register holds this.
    pub(crate) fn equals(&self, wanted: &[u8], devices: &BTreeMap<u32, String>) -> Test {
        let word = || <[u8; 4]>::try_from(wanted).ok().map(u32::from_ne_bytes);
        match self {
            Self::State { mask } => {
                word().map_or(Test::Fixed, |is| Test::State { mask: *mask, is })
            }
            Self::Protocol => wanted.first().map_or(Test::Fixed, |p| Test::Protocol(*p)),
            Self::NfProto => match wanted.first() {
                Some(2) => Test::Version { v6: false },
                Some(10) => Test::Version { v6: true },
                _ => Test::Fails,
            },
            Self::EtherType => match wanted.get(..2) {
                Some([0x08, 0x00]) => Test::Version { v6: false },
                Some([0x86, 0xdd]) => Test::Version { v6: true },
                // Frames with a tag.
                Some([0x81, 0x00] | [0x88, 0xa8]) => Test::Fixed,
                _ => Test::Fails,
            },
            Self::DeviceIndex { ingress } => {
                let name = word().and_then(|index| devices.get(&index));
                name.map_or(Test::Fixed, |name| Test::Device {
                    ingress: *ingress,
                    name: name.clone(),
                })
            }
            // Without its zero it is the beginning of a name.
            Self::DeviceName { ingress } => match wanted.iter().position(|b| *b == 0) {
                Some(len) => Test::Device {
                    ingress: *ingress,
                    name: text(&wanted[..len]),
                },
                None => Test::Fixed,
            },
            Self::Bytes {
                header,
                offset,
                mask,
            } => {
                let len = wanted.len().min(mask.len());
                Test::Bytes {
                    header: *header,
                    offset: *offset,
                    mask: mask[..len].to_vec(),
                    are: Some(wanted[..len].to_vec()),
                }
            }
            Self::Of(test) => test.clone(),
        }
    }

    /// What a comparison asks of which nothing else is known.
    pub(crate) fn compared(&self) -> Test {
        match self {
            Self::Bytes {
                header,
                offset,
                mask,
            } => Test::Bytes {
                header: *header,
                offset: *offset,
                mask: mask.clone(),
                are: None,
            },
            Self::Of(test) => test.clone(),
            _ => Test::Fixed,
        }
    }

    pub(crate) fn masked(self, by: &[u8]) -> Self {
        match self {
            Self::State { mask } => match <[u8; 4]>::try_from(by) {
                Ok(by) => Self::State {
                    mask: mask & u32::from_ne_bytes(by),
                },
                Err(_) => Self::Of(Test::Fixed),
            },
            Self::Bytes {
                header,
                offset,
                mut mask,
            } => {
                for (at, byte) in mask.iter_mut().enumerate() {
                    *byte &= by.get(at).copied().unwrap_or(0);
                }
                Self::Bytes {
                    header,
                    offset,
                    mask,
                }
            }
            other => Self::Of(other.compared()),
        }
    }

    /// Whether bytes lie between two values, both included: a comparison for each prefix there. None of what is no such bytes, or takes
    /// more of them than are looked at.
    pub(crate) fn between(&self, first: &[u8], last: &[u8]) -> Option<Vec<Test>> {
        let half = |bytes| <[u8; 2]>::try_from(bytes).ok().map(u16::from_be_bytes);
        if let (Some(source), Some(first), Some(last)) = (self.port(), half(first), half(last)) {
            let range = (first, last);
            return Some(vec![Test::Ports { source, range }]);
        }
        let Self::Bytes { mask, .. } = self else {
            return None;
        };
        let len = mask.len();
        let number = |bytes: &[u8]| {
            let mut whole = [0; 16];
            whole[16usize.checked_sub(len)?..].copy_from_slice(bytes.get(..len)?);
            Some(u128::from_be_bytes(whole))
        };
        let bits = 8 * len as u32;
        let (mut at, last) = (number(first)?, number(last)?);
        let mut all = Vec::new();
        while at <= last {
            // As many of the lowest bits as are free here, and as stay within.
            let within = |size: u32| 1u128.checked_shl(size).is_some_and(|n| last - at >= n - 1);
            let size = (0..=at.trailing_zeros().min(bits))
                .rev()
                .find(|size| within(*size));
            let size = size.unwrap_or(0);
            let span = 1u128.checked_shl(size)?;
            let of = |n: u128| n.to_be_bytes()[16 - len..].to_vec();
            let test = self.clone().masked(&of(!(span - 1)));
            all.push(test.equals(&of(at), &BTreeMap::new()));
            match at.checked_add(span) {
                Some(next) if all.len() <= ALTERNATIVES => at = next,
                Some(_) => return None,
                None => break,
            }
        }
        Some(all)
    }

    /// Whether it is a source port or a destination port, if it is one.
    pub(crate) fn port(&self) -> Option<bool> {
        match self {
            Self::Bytes {
                header: Header::Transport,
                offset: offset @ (0 | 2),
                mask,
            } if **mask == [u8::MAX; 2] => Some(*offset == 0),
            _ => None,
        }
    }
}
