//! Sizes of test frames.

use serde::{Deserialize, Serialize};

use crate::lab::Over;
use crate::layout::shortest;

const FCS: usize = 4;
const SMALLEST: usize = 64;
const LARGEST: usize = 1518;
/// The mix of 64, 594 and 1518 bytes in shares of 7, 4 and 1 that is called simple IMIX (RFC 6985 writes such mixes down).
const IMIX: [(usize, u32); 3] = [(64, 7), (594, 4), (1518, 1)];

/// Ethernet frame sizes with FCS, bytes, as RFC 2544 counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Text", into = "Text")]
pub enum Frame {
    /// All frames are equally long.
    Fixed(usize),
    /// Seven of 64 bytes, four of 594, one of 1518, in random order.
    Imix,
}

impl Frame {
    /// Sizes without FCS, and how many of each there are in a round of the mix.
    pub(crate) fn sizes(self) -> Vec<(usize, u32)> {
        match self {
            Self::Fixed(bytes) => vec![(bytes - FCS, 1)],
            Self::Imix => IMIX.map(|(bytes, n)| (bytes - FCS, n)).to_vec(),
        }
    }

    /// The largest, without FCS.
    pub(crate) fn largest(self) -> usize {
        self.sizes().iter().map(|s| s.0).max().unwrap_or(0)
    }

    /// Whether headers and a stamp fit into the smallest.
    ///
    /// # Errors
    /// What is needed.
    pub fn check_room(self, over: Over) -> Result<(), String> {
        let needed = shortest(over.added_bytes()) + FCS;
        match self.sizes().iter().all(|s| s.0 + FCS >= needed) {
            true => Ok(()),
            false => Err(format!(
                "--frame {self}: with --over {over} frames have at least {needed} bytes"
            )),
        }
    }

    /// Mean, with FCS, bytes.
    pub fn mean_bytes(self) -> f64 {
        let sizes = self.sizes();
        let packets: u32 = sizes.iter().map(|s| s.1).sum();
        let bytes: usize = sizes.iter().map(|(b, n)| (b + FCS) * *n as usize).sum();
        bytes as f64 / f64::from(packets)
    }
}

impl std::fmt::Display for Frame {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Fixed(bytes) => write!(f, "{bytes}"),
            Self::Imix => f.write_str("imix"),
        }
    }
}

impl std::str::FromStr for Frame {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse() {
            Ok(bytes) if (SMALLEST..=LARGEST).contains(&bytes) => Ok(Self::Fixed(bytes)),
            _ if text == "imix" => Ok(Self::Imix),
            _ => Err(format!(
                "`{text}` is no frame size: use {SMALLEST} to {LARGEST} bytes, or imix"
            )),
        }
    }
}

/// In JSON a size is a number and a mix a word.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Text {
    Number(usize),
    Word(String),
}

impl From<Frame> for Text {
    fn from(frame: Frame) -> Self {
        match frame {
            Frame::Fixed(bytes) => Self::Number(bytes),
            mix @ Frame::Imix => Self::Word(mix.to_string()),
        }
    }
}

impl TryFrom<Text> for Frame {
    type Error = String;

    fn try_from(text: Text) -> Result<Self, String> {
        match text {
            Text::Number(bytes) => bytes.to_string().parse(),
            Text::Word(word) => word.parse(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Frame;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for frame in [Frame::Fixed(64), Frame::Fixed(1518), Frame::Imix] {
            assert_eq!(frame.to_string().parse(), Ok(frame));
            let json = serde_json::to_string(&frame).unwrap();
            assert_eq!(serde_json::from_str::<Frame>(&json).unwrap(), frame);
        }
        assert_eq!(serde_json::to_string(&Frame::Fixed(128)).unwrap(), "128");
        for wrong in ["63", "1519", "", "-64", "mix"] {
            assert!(wrong.parse::<Frame>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_mix_has_a_mean_of_361_8_bytes() {
        assert!((Frame::Imix.mean_bytes() - 361.83).abs() < 0.01);
        assert_eq!(Frame::Fixed(128).mean_bytes(), 128.0);
    }
}
