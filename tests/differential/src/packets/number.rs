//! The number of a packet fills its payload, so that a fragment, or an error that quotes it, can be told whose it is.

/// What stands before the number, and in no header.
const MARK: [u8; 4] = [0xd1, 0xff, 0x5e, 0xed];

/// A payload that is full of a number.
pub fn payload(number: u32, bytes: usize) -> Vec<u8> {
    let mut unit = MARK.to_vec();
    unit.extend(number.to_be_bytes());
    unit.into_iter().cycle().take(bytes).collect()
}

/// The first number in a frame.
pub fn number_in(frame: &[u8]) -> Option<u32> {
    let at = frame.windows(8).position(|w| w[..4] == MARK)?;
    let number = frame.get(at + 4..at + 8)?;
    Some(u32::from_be_bytes([
        number[0], number[1], number[2], number[3],
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_found_wherever_the_payload_was_cut() {
        let whole = payload(0x0102_0304, 64);
        for from in 0..40 {
            assert_eq!(number_in(&whole[from..]), Some(0x0102_0304));
        }
        assert_eq!(number_in(&whole[..7]), None);
    }
}
