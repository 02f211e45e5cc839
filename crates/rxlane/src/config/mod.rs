//! The configuration file: TOML in, a checked [`RouterConfig`] out, or one line that says what is wrong
//! where and what to do.

mod engine;
mod file;
mod resolve;

use std::path::{Path, PathBuf};

use rxlane_dataplane::config::RouterConfig;
use thiserror::Error;

/// A configuration that cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}; give a readable file with -c FILE (examples/ has some)", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something in it is wrong.
    #[error("{}:{line}: {message}", path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// Line, from 1.
        line: usize,
        /// What is wrong and what to do.
        message: String,
    },
}

/// A complaint about a place in the text.
#[derive(Debug)]
struct Complaint {
    offset: usize,
    message: String,
}

impl Complaint {
    fn at(offset: usize, message: impl Into<String>) -> Self {
        Self {
            offset,
            message: message.into(),
        }
    }
}

/// Reads and checks a configuration file.
///
/// # Errors
/// [`ConfigError`], always with the line where the cure goes.
pub(crate) fn load(path: &Path) -> Result<RouterConfig, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    parse(&text).map_err(|c| ConfigError::At {
        path: path.into(),
        line: 1 + text[..c.offset.min(text.len())].matches('\n').count(),
        message: c.message,
    })
}

/// As [`load`], of a text that is in no file.
///
/// # Errors
/// What is wrong with it.
pub(crate) fn parse_text(text: &str) -> Result<RouterConfig, String> {
    parse(text).map_err(|c| c.message)
}

fn parse(text: &str) -> Result<RouterConfig, Complaint> {
    let file: file::File = toml::from_str(text).map_err(|e| {
        let message = e.message().replace('\n', " ");
        Complaint::at(e.span().map_or(0, |s| s.start), message)
    })?;
    resolve::resolve(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_and_message(text: &str) -> (usize, String) {
        let c = parse(text).expect_err("must be refused");
        (1 + text[..c.offset].matches('\n').count(), c.message)
    }

    const DEFAULT: &str = "\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

    #[test]
    fn the_commented_example_names_every_key_and_is_valid() {
        let text = include_str!("../../../../examples/router.toml");
        let config = parse(text).unwrap_or_else(|c| panic!("{}", c.message));
        assert!(config.classes.len() >= 3);
        for key in file::KEYS {
            assert!(
                text.contains(key),
                "examples/router.toml does not mention `{key}`"
            );
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_a_cure() {
        let cases: [(&str, usize, &str); 13] = [
            ("ports = [\"a\"]\nfoo = 1\n", 2, "unknown field `foo`"),
            ("ports = []\n", 1, "at least one"),
            ("ports = [\"a\", \"a\"]\n", 1, "twice"),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"express\"\n",
                2,
                "trust",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"express\"\ntrust = \"all\"\nring = 4\n",
                2,
                "`ring` belongs to lane = \"stack\"",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"express\"\ntrust = \"all\"\n\nmatch = [\n { dscp = 64 },\n]\n",
                8,
                "`64` is no DSCP",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [\n { dst_port = \"9-3\" },\n]\n",
                6,
                "9-3",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [\n { port = \"b\" },\n]\n",
                6,
                "not among `ports`",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [\n { bytes = { offset = 63, value = 1 } },\n]\n",
                6,
                "62",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\npolice = { pps = 1, bps = 2, burst = 1 }\n",
                2,
                "either pps or bps",
            ),
            ("ports = [\"a\"]\n", 1, "no class"),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nweight = 3\npriority = 3\n",
                2,
                "either `weight` or `priority`",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [\n {},\n]\n",
                6,
                "matches everything",
            ),
        ];
        for (text, line, part) in cases {
            let (at, message) = line_and_message(text);
            assert!(
                message.contains(part),
                "{message:?} should contain {part:?}"
            );
            assert_eq!(at, line, "{message}");
            assert!(!message.contains('\n'));
        }
    }

    #[test]
    fn unreachable_and_overlapping_rules_name_both_sides() {
        let head = "ports = [\"a\"]\n";
        let two = |overlap: &str, second: &str| {
            format!(
                "{overlap}{head}[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [{{ dscp = \"EF\" }}]\n[[class]]\nname = \"w\"\nlane = \"stack\"\nmatch = [{second}]\n{DEFAULT}"
            )
        };
        let (line, message) = line_and_message(&two("", "{ dscp = 46, protocol = \"udp\" }"));
        assert!(message.contains("can never match"), "{message}");
        assert_eq!(line, 9);
        let (_, message) = line_and_message(&two("", "{ src = \"10.0.0.0/8\" }"));
        assert!(message.contains("overlap"), "{message}");
        assert!(
            parse(&two(
                "overlap = \"first-match\"\n",
                "{ src = \"10.0.0.0/8\" }"
            ))
            .is_ok()
        );
    }

    #[test]
    fn weights_become_nice_levels_as_in_the_kernel() {
        assert_eq!(resolve::nice_of_weight(1024), 0);
        assert_eq!(resolve::nice_of_weight(88761), -20);
        assert_eq!(resolve::nice_of_weight(15), 19);
        assert_eq!(resolve::nice_of_weight(820), 1);
    }
}
