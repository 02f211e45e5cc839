//! Differentiated Services code points by name (RFC 2474, 2597, 3246, 5865, 8622).

use crate::PolicyError;

const NAMES: [(&str, u8); 24] = [
    ("BE", 0),
    ("DF", 0),
    ("LE", 1),
    ("CS1", 8),
    ("AF11", 10),
    ("AF12", 12),
    ("AF13", 14),
    ("CS2", 16),
    ("AF21", 18),
    ("AF22", 20),
    ("AF23", 22),
    ("CS3", 24),
    ("AF31", 26),
    ("AF32", 28),
    ("AF33", 30),
    ("CS4", 32),
    ("AF41", 34),
    ("AF42", 36),
    ("AF43", 38),
    ("CS5", 40),
    ("VA", 44),
    ("EF", 46),
    ("CS6", 48),
    ("CS7", 56),
];

/// Reads a code point: a name (any case) or a number from 0 to 63.
///
/// # Errors
/// [`PolicyError::Dscp`] when it is neither.
pub fn parse(text: &str) -> Result<u8, PolicyError> {
    let name = text.trim();
    if let Some((_, value)) = NAMES.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)) {
        return Ok(*value);
    }
    if name.eq_ignore_ascii_case("CS0") {
        return Ok(0);
    }
    match name.parse::<u8>() {
        Ok(value) if value < 64 => Ok(value),
        _ => Err(PolicyError::Dscp(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_read_and_the_rest_is_refused() {
        assert_eq!(parse("EF"), Ok(46));
        assert_eq!(parse("af41"), Ok(34));
        assert_eq!(parse("cs0"), Ok(0));
        assert_eq!(parse("63"), Ok(63));
        for bad in ["64", "-1", "", "EFF", "4 6"] {
            assert!(parse(bad).is_err(), "{bad}");
        }
    }
}
