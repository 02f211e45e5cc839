//! What a router is told to do: the file `rxlane.toml`, and the [`RouterConfig`] that it means.
//!
//! [`parse`] turns the text of a file into a checked value, or says of everything that is wrong in which line it is and what to
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
//! # Ok::<(), rxlane_config::Complaints>(())
//! ```

mod engine;
mod error;
mod excerpt;
mod file;
mod listen;
mod names;
mod place;
mod rate;
mod resolve;
mod rings;
mod router;
mod rules;
mod shape;
mod write;

use std::io::Read;
use std::ops::Range;
use std::path::Path;

use serde::Deserialize;
use toml::de::{DeTable, Deserializer};

pub use error::{Complaint, Complaints, ConfigError, EngineError};
pub use listen::Listen;
pub use names::MAX_PORTS;
use place::{Mistakes, Place};
pub use rings::{MAX_CORES, weight_of_nice};
pub use router::{
    Copy, Datapath, EngineConfig, Priority, RINGS, RouterConfig, ring_cores, strategy,
};
pub use write::to_toml;

/// Bytes of a configuration file. The longest that makes sense has 64 ports and 256 rules.
pub const MAX_BYTES: u64 = 1 << 20;

/// The name that stands for standard input, as usual.
pub const STANDARD_INPUT: &str = "-";

/// All that a file says.
#[derive(Debug, Clone, PartialEq)]
pub struct Configuration {
    /// What packets meet; all hosts of the policy take it.
    pub router: RouterConfig,
    /// Where the daemon shows its metrics, if anywhere.
    pub metrics: Option<Listen>,
}

/// Reads and checks a configuration file; `-` is standard input.
///
/// # Errors
/// [`ConfigError`], always with the lines where the cures go.
pub fn load(path: &Path) -> Result<Configuration, ConfigError> {
    let text = text_of(path)?;
    parse_all(&text).map_err(|complaints| ConfigError::Wrong {
        path: path.into(),
        complaints,
    })
}

fn text_of(path: &Path) -> Result<String, ConfigError> {
    let cannot = |source| ConfigError::Read {
        path: path.into(),
        source,
    };
    let mut text = String::new();
    let input: &mut dyn Read = if path == Path::new(STANDARD_INPUT) {
        &mut std::io::stdin().lock()
    } else {
        &mut std::fs::File::open(path).map_err(cannot)?
    };
    input
        .take(MAX_BYTES + 1)
        .read_to_string(&mut text)
        .map_err(cannot)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(ConfigError::TooLong { path: path.into() });
    }
    Ok(text)
}

/// Reads and checks the text of a configuration file, for its router.
///
/// # Errors
/// As [`parse_all`].
pub fn parse(text: &str) -> Result<RouterConfig, Complaints> {
    parse_all(text).map(|c| c.router)
}

/// Reads and checks the text of a configuration file.
///
/// # Errors
/// [`Complaints`]: all that is wrong with its form, or else all that makes no sense, with the lines where the cures go.
pub fn parse_all(text: &str) -> Result<Configuration, Complaints> {
    let (table, errors) = DeTable::parse_recoverable(text);
    if !errors.is_empty() {
        let complaint = |e: &toml::de::Error| {
            let span = e.span().unwrap_or_default();
            let message = syntax(text, &span, e.message());
            (span, message)
        };
        return Err(Complaints::new(
            text,
            errors.iter().map(complaint).collect(),
        ));
    }
    let mut mistakes = Mistakes::default();
    shape::check(&table, text, schema().as_value(), &mut mistakes);
    let spans = |mistakes: Mistakes| -> Vec<(Range<usize>, String)> {
        let found = mistakes.0.into_iter();
        found.map(|m| (m.place.span(&table), m.message)).collect()
    };
    if !mistakes.0.is_empty() {
        return Err(Complaints::new(text, spans(mistakes)));
    }
    let mut file = file::File::deserialize(Deserializer::from(table.clone())).map_err(|e| {
        let message = e.message().replace('\n', " ");
        Complaints::new(text, vec![(e.span().unwrap_or_default(), message)])
    })?;
    let metrics = file.metrics.take().and_then(|m| {
        let at = Place::top("metrics").key("listen");
        mistakes.keep(&at, m.listen.parse())
    });
    let router = resolve::resolve(file, &mut mistakes);
    match router.filter(|_| mistakes.0.is_empty()) {
        Some(router) => Ok(Configuration { router, metrics }),
        None => Err(Complaints::new(text, spans(mistakes))),
    }
}

/// What the parser says, with a cure for what people get wrong most.
fn syntax(text: &str, span: &Range<usize>, message: &str) -> String {
    let there = text.get(span.clone()).unwrap_or_default();
    if message == "duplicate key" && there.contains("class") {
        return "a second `[class]`: write [[class]] with two brackets before each class".into();
    }
    if message == "duplicate key" {
        return format!("`{there}` stands here twice: remove one");
    }
    message.replace('\n', " ")
}

/// The JSON Schema of the file: editors complete and check keys with it.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(file::File)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line_and_message(text: &str) -> (usize, String) {
        let refused = parse(text).expect_err("must be refused");
        let first = refused.all[0].clone();
        (first.line, first.message)
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
        let config = parse(text).unwrap_or_else(|c| panic!("{c}"));
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
                5,
                "`budget` belongs to datapath = \"afxdp\"",
            ),
            (
                "ports = [\"a\"]\ndatapath = \"afxdp\"\n[afxdp]\nring = [8, 16]\n[[class]]\nname = \"v\"\nlane = \"stack\"\n",
                4,
                "a list for each class: `rings`",
            ),
            ("ports = [\"a\"]\nfoo = 1\n", 2, "unknown key `foo`"),
            ("ports = []\n", 1, "at least one"),
            ("ports = [\"a\", \"a\"]\n", 1, "twice"),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"express\"\n",
                2,
                "trust",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"express\"\ntrust = \"all\"\nring = 4\n",
                6,
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
                5,
                "either pps or bps",
            ),
            ("ports = [\"a\"]\n", 1, "no class"),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nweight = 3\npriority = 3\n",
                6,
                "either `weight` or `priority`",
            ),
            (
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\nmatch = [\n {},\n]\n",
                6,
                "matches everything",
            ),
        ];
        for (text, line, part) in cases {
            let refused = parse(text).expect_err("must be refused");
            let about = refused.all.iter().find(|c| c.message.contains(part));
            let found = about.unwrap_or_else(|| panic!("{refused:?} should contain {part:?}"));
            assert_eq!(found.line, line, "{found:?}");
            assert!(refused.all.iter().all(|c| !c.message.contains('\n')));
        }
    }

    #[test]
    fn all_mistakes_are_found_at_once_each_in_its_place() {
        let shape = parse(
            "ports = \"wan0\"\nportss = 3\n[[class]]\nname = 7\nlane = \"stakc\"\ntrsut = \"all\"\npolice = { pps = \"fast\", burst = -1 }\n[[class]]\nlane = \"stack\"\nring = 1.5\nmatch = { dscp = 46 }\n",
        )
        .expect_err("wrong");
        let found: Vec<(usize, usize, &str)> = shape
            .all
            .iter()
            .map(|c| (c.line, c.column, c.message.as_str()))
            .collect();
        let expected = [
            (1, 9, "`ports` cannot be \"wan0\": write a [list]"),
            (2, 1, "unknown key `portss`: did you mean `ports`?"),
            (4, 8, "`name` cannot be 7: write a \"text\" in quotes"),
            (5, 8, "did you mean \"stack\"?"),
            (6, 1, "unknown key `trsut`: did you mean `trust`?"),
            (7, 18, "`fast` is no rate: write 450000, 450k or 1.2M"),
            (7, 34, "-1 is too small or too large: use 0 to"),
            (8, 1, "`name` is missing: add name = a \"text\" in quotes"),
            (10, 8, "`ring` cannot be 1.5: write a whole number"),
            (11, 9, "`match` is a list: write match = [{ ... }]"),
        ];
        assert_eq!(found.len(), expected.len(), "{found:#?}");
        for ((line, column, message), (at, start, part)) in found.iter().zip(expected) {
            assert_eq!((*line, *column), (at, start), "{message}");
            assert!(
                message.contains(part),
                "{message:?} should contain {part:?}"
            );
        }

        let meaning = parse(
            "ports = [\"a/b\", \"name-of-sixteen-\", \"a b\", \"a\\nb\", \"..\", \"c\", \"c\"]\n[[class]]\nname = \"v\\nw\"\nlane = \"express\"\nring = 8\nmatch = [{ dscp = 99, port = \"d\" }, { protocol = \"icmp\", dst_port = 80 }]\n[[class]]\nname = \"r\"\nlane = \"stack\"\ncores = [1, 4000]\n",
        )
        .expect_err("senseless");
        let lines: Vec<usize> = meaning.all.iter().map(|c| c.line).collect();
        assert_eq!(
            lines,
            [1, 1, 1, 1, 1, 1, 2, 3, 5, 6, 6, 6, 10],
            "{meaning:?}"
        );
        assert!(meaning.all.iter().all(|c| !c.message.contains('\n')));
        assert!(
            meaning.to_string().ends_with("(and 12 other mistakes)"),
            "{meaning}"
        );
    }

    #[test]
    fn an_excerpt_shows_the_line_and_marks_the_place() {
        let wrong = parse("ports = [\"a\"]\n\n[[class]]\nname = \"v\"\nlane = \"stakc\"\n");
        let text = wrong.expect_err("wrong").excerpts("r.toml", false);
        assert_eq!(
            text,
            "error: \"stakc\" is unknown: write \"express\" or \"stack\"; did you mean \"stack\"?\n --> r.toml:5:8\n  |\n5 | lane = \"stakc\"\n  |        ^^^^^^^\n"
        );
    }

    #[test]
    fn classes_with_single_brackets_are_told_from_other_duplicates() {
        let one = "ports = [\"a\"]\n[class]\nname = \"v\"\nlane = \"stack\"\n";
        let (line, message) = line_and_message(one);
        assert_eq!(line, 2);
        assert!(message.contains("[[class]] with two brackets"), "{message}");
        let two = format!("{one}[class]\nname = \"w\"\nlane = \"stack\"\n");
        let (line, message) = line_and_message(&two);
        assert_eq!(line, 5);
        assert!(message.contains("[[class]] with two brackets"), "{message}");
        let (line, message) = line_and_message("ports = [\"a\"]\nports = [\"b\"]\n");
        assert_eq!(
            (line, message.as_str()),
            (2, "`ports` stands here twice: remove one")
        );
    }

    #[test]
    fn rates_are_numbers_or_numbers_with_a_multiple() {
        let police = |rate: &str| {
            let text = format!(
                "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"stack\"\npolice = {{ {rate}, burst = 2000 }}\nmatch = [{{ dscp = 46 }}]\n{DEFAULT}"
            );
            let config = parse(&text).unwrap_or_else(|c| panic!("{rate}: {c}"));
            config.classes[0].police.as_ref().map(|p| p.rate)
        };
        use rxlane_policy::police::Rate::{Bps, Pps};
        assert_eq!(police("pps = \"100k\""), Some(Pps(100_000)));
        assert_eq!(police("pps = 1.6e6"), Some(Pps(1_600_000)));
        assert_eq!(police("pps = 50_000"), Some(Pps(50_000)));
        assert_eq!(police("bps = \"1.5G\""), Some(Bps(1_500_000_000)));
    }

    #[test]
    fn what_is_too_long_to_be_a_configuration_is_not_read() {
        let name = format!("rxlane-long-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "#".repeat(MAX_BYTES as usize + 1)).unwrap();
        let refused = load(&path).expect_err("too long");
        std::fs::remove_file(&path).unwrap();
        assert!(
            refused.to_string().contains("longer than 1024 KiB"),
            "{refused}"
        );
        assert!(load(Path::new("/dev/zero")).is_err());
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
        assert_eq!(rings::nice_of_weight(1024), 0);
        assert_eq!(rings::nice_of_weight(88761), -20);
        assert_eq!(rings::nice_of_weight(15), 19);
        assert_eq!(rings::nice_of_weight(820), 1);
    }
}
