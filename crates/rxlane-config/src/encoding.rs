//! Bytes as text: a configuration file is UTF-8.

/// The text, without the mark that some editors begin it with.
///
/// # Errors
/// How the bytes are encoded instead, as far as they show it, and what makes UTF-8 of them.
pub(crate) fn text(bytes: Vec<u8>) -> Result<String, String> {
    if let Some(encoding) = wide(&bytes) {
        return Err(format!("it is {encoding}, not UTF-8: {}", cure(encoding)));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(text
            .strip_prefix('\u{feff}')
            .map(str::to_owned)
            .unwrap_or(text)),
        Err(error) => {
            let at = error.utf8_error().valid_up_to();
            let bytes = error.as_bytes();
            let line = 1 + bytes[..at].iter().filter(|b| **b == b'\n').count();
            Err(format!(
                "byte {:#04x} in line {line} is no UTF-8: {}, if it is Latin-1",
                bytes[at],
                cure("ISO-8859-1")
            ))
        }
    }
}

fn cure(encoding: &str) -> String {
    format!("save it as UTF-8 (iconv -f {encoding} -t UTF-8)")
}

/// Encodings with more than a byte for each character: by their mark, or because most of a configuration is ASCII.
fn wide(bytes: &[u8]) -> Option<&'static str> {
    let begins = |mark: &[u8]| bytes.starts_with(mark);
    // Little-endian UTF-32 begins like UTF-16.
    if begins(&[0xff, 0xfe, 0, 0]) || begins(&[0, 0, 0xfe, 0xff]) {
        return Some("UTF-32");
    }
    if begins(&[0xff, 0xfe]) || begins(&[0xfe, 0xff]) {
        return Some("UTF-16");
    }
    match bytes {
        [0, 0, 0, 1..=255, ..] => Some("UTF-32BE"),
        [1..=255, 0, 0, 0, ..] => Some("UTF-32LE"),
        [0, 1..=255, ..] => Some("UTF-16BE"),
        [1..=255, 0, ..] => Some("UTF-16LE"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(bytes: &[u8]) -> String {
        text(bytes.to_vec()).expect_err("no UTF-8")
    }

    fn wide_of(text: &str, mark: bool, order: impl Fn(u16) -> [u8; 2]) -> Vec<u8> {
        let mark = if mark { "\u{feff}" } else { "" };
        let all = format!("{mark}{text}");
        all.encode_utf16().flat_map(order).collect()
    }

    #[test]
    fn utf_16_and_utf_32_are_called_by_their_names() {
        let text = "ports = [\"a\"]\n";
        for mark in [true, false] {
            let little = wide_of(text, mark, u16::to_le_bytes);
            let big = wide_of(text, mark, u16::to_be_bytes);
            let (le, be) = if mark {
                ("UTF-16", "UTF-16")
            } else {
                ("UTF-16LE", "UTF-16BE")
            };
            assert!(
                refused(&little).contains(&format!("iconv -f {le} -t UTF-8")),
                "{little:?}"
            );
            assert!(
                refused(&big).contains(&format!("iconv -f {be} -t UTF-8")),
                "{big:?}"
            );
        }
        let four = |c: char| u32::from(c).to_le_bytes();
        let wide: Vec<u8> = "\u{feff}ports".chars().flat_map(four).collect();
        assert!(refused(&wide).contains("it is UTF-32,"));
        assert!(refused(&wide[4..]).contains("it is UTF-32LE,"));
    }

    #[test]
    fn other_bytes_are_shown_with_their_line() {
        let why = refused(b"# one\n# gr\xfcn\n");
        assert!(why.contains("byte 0xfc in line 2"), "{why}");
    }

    #[test]
    fn utf_8_may_begin_with_a_mark() {
        assert_eq!(text(b"\xef\xbb\xbfports".to_vec()).unwrap(), "ports");
        assert_eq!(text(Vec::new()).unwrap(), "");
        assert_eq!(text("# grün".into()).unwrap(), "# grün");
    }
}
