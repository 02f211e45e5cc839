//! What a router is told to do: the file `rxlane.toml`, and the [`RouterConfig`] that it means.
//!
//! [`parse`] turns the text of a file into a checked value, or says in one line what is wrong in which line and what to
//! do. [`to_toml`] writes a value as a file again. [`schema`] describes the file for editors.
//!
//! ```
//! let config = rxlane_config::parse(r#"
//!     ports = ["wan0", "lan0"]
//!
//!     [[class]]
//!     name = "voice"
//!     lane = "express"
//!     trust = "established"
//!     match = [{ dscp = "EF" }]
//!
//!     [[class]]
//!     name = "rest"
//!     lane = "stack"
//! "#)?;
//! assert_eq!(config.classes[0].name, "voice");
//! assert_eq!(rxlane_config::parse(&rxlane_config::to_toml(&config))?, config);
//! # Ok::<(), rxlane_config::Complaint>(())
//! ```

mod engine;
mod error;
mod file;
mod resolve;
mod router;
mod write;

use std::path::Path;

pub use error::{Complaint, ConfigError, EngineError};
pub use resolve::weight_of_nice;
pub use router::{
    Copy, Datapath, EngineConfig, Priority, RINGS, RouterConfig, ring_cores, strategy,
};
pub use write::to_toml;

/// A complaint about a place in the text, by its offset.
#[derive(Debug)]
struct Mistake {
    offset: usize,
    message: String,
}

impl Mistake {
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
pub fn load(path: &Path) -> Result<RouterConfig, ConfigError> {
    let text = std::fs::read_to_string(path).map_err(|source| ConfigError::Read {
        path: path.into(),
        source,
    })?;
    parse(&text).map_err(|c| ConfigError::At {
        path: path.into(),
        line: c.line,
        message: c.message,
    })
}

/// Reads and checks the text of a configuration file.
///
/// # Errors
/// [`Complaint`], with the line where the cure goes.
pub fn parse(text: &str) -> Result<RouterConfig, Complaint> {
    read(text).map_err(|m| Complaint {
        line: 1 + text[..m.offset.min(text.len())].matches('\n').count(),
        message: m.message,
    })
}

/// The JSON Schema of the file: editors complete and check keys with it.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(file::File)
}

fn read(text: &str) -> Result<RouterConfig, Mistake> {
    let file: file::File = toml::from_str(text).map_err(|e| {
        let message = match e.message() {
            m if m.starts_with("unknown field `prb`") => {
                "`prb` is gone: give each class its ring budget with the key `budget`".into()
            }
            m => m.replace('\n', " "),
        };
        Mistake::at(e.span().map_or(0, |s| s.start), message)
    })?;
    resolve::resolve(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_and_message(text: &str) -> (usize, String) {
        let c = parse(text).expect_err("must be refused");
        (c.line, c.message)
    }

    const DEFAULT: &str = "\n[[class]]\nname = \"rest\"\nlane = \"stack\"\n";

    /// Names of keys, and the words that they take, anywhere in a schema.
    fn keys_and_words(schema: &serde_json::Value, found: &mut std::collections::BTreeSet<String>) {
        let Some(object) = schema.as_object() else {
            for part in schema.as_array().into_iter().flatten() {
                keys_and_words(part, found);
            }
            return;
        };
        for (name, part) in object {
            match (name.as_str(), part) {
                ("properties", serde_json::Value::Object(keys)) => {
                    found.extend(keys.keys().cloned())
                }
                ("const", serde_json::Value::String(word)) => {
                    found.insert(word.clone());
                }
                ("enum", serde_json::Value::Array(words)) => {
                    found.extend(words.iter().filter_map(|w| w.as_str()).map(str::to_owned));
                }
                _ => {}
            }
            keys_and_words(part, found);
        }
    }

    #[test]
    fn the_commented_example_names_every_key_and_is_valid() {
        let text = include_str!("../../../examples/router.toml");
        let config = parse(text).unwrap_or_else(|c| panic!("{}", c.message));
        assert!(config.classes.len() >= 3);
        let mut keys = std::collections::BTreeSet::new();
        keys_and_words(schema().as_value(), &mut keys);
        assert!(keys.len() > 50, "{keys:?}");
        for key in keys {
            assert!(
                text.contains(&key),
                "examples/router.toml does not mention `{key}`"
            );
        }
    }

    #[test]
    fn mistakes_are_reported_with_their_line_and_a_cure() {
        let cases: [(&str, usize, &str); 16] = [
            (
                "ports = [\"a\"]\ndatapath = \"afxdp\"\n[afxdp]\nprb = [4, 60]\n",
                4,
                "the key `budget`",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nbudget = 4\n",
                2,
                "`budget` belongs to datapath = \"afxdp\"",
            ),
            (
                "ports = [\"a\"]\ndatapath = \"afxdp\"\n[afxdp]\nring = [8, 16]\n[[class]]\nname = \"v\"\nlane = \"stack\"\n",
                3,
                "rings = [...], highest class first",
            ),
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
