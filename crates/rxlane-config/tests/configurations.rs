//! What a configuration file may say, and what is said of those that may not.

use std::path::Path;

use rxlane_config::{MAX_BYTES, load, parse, schema};

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
            ("properties", serde_json::Value::Object(keys)) => found.extend(keys.keys().cloned()),
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
    let cases: [(&str, usize, &str); 20] = [
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
            "ports = [\"a\"]\ndatapath = \"afxdp\"\n[[class]]\nname = \"v\"\nlane = \"fast\"\ntrust = \"all\"\n",
            5,
            "the AF_XDP engine sends by rings of its own",
        ),
        (
            "ports = [\"a\"]\n[[class]]\nname = \"v\"\nlane = \"fast\"\n",
            2,
            "needs `trust`",
        ),
        (
            "ports = [\"a\"]\ndatapath = \"afxdp\"\n[afxdp]\nring = [8, 16]\n[[class]]\nname = \"v\"\nlane = \"stack\"\n",
            4,
            "a list for each class: `rings`",
        ),
        ("ports = [\"a\"]\nfoo = 1\n", 2, "unknown key `foo`"),
        ("ports = []\n", 1, "at least one"),
        ("ports = [\"a\", \"a\"]\n", 1, "twice"),
        ("ports = [\"wan0@if2\"]\n", 1, "write \"wan0\""),
        (
            "ports = [\"enp0s31f6.100@enp0s31f6\"]\n",
            1,
            "write \"enp0s31f6.100\"",
        ),
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
        "ports = [\"a/b\", \"wan0@if2\", \"a b\", \"a\\nb\", \"..\", \"c\", \"c\"]\n[[class]]\nname = \"v\\nw\"\nlane = \"express\"\nring = 8\nmatch = [{ dscp = 99, port = \"d\" }, { protocol = \"icmp\", dst_port = 80 }]\n[[class]]\nname = \"r\"\nlane = \"stack\"\ncores = [1, 4000]\n",
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
        "error: \"stakc\" is unknown: write \"express\", \"fast\" or \"stack\"; did you mean \"stack\"?\n --> r.toml:5:8\n  |\n5 | lane = \"stakc\"\n  |        ^^^^^^^\n"
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
    let itr = |rate: &str| {
        let text = format!(
            "ports = [\"a\"]\ndatapath = \"afxdp\"\n[afxdp]\nitr = {{ algorithm = \"linear\", rho_max_pps = {rate} }}\n{DEFAULT}"
        );
        parse(&text)
            .unwrap_or_else(|c| panic!("{rate}: {c}"))
            .datapath
    };
    assert_eq!(itr("\"2.1M\""), itr("2100000"));
}

#[test]
fn what_is_too_long_to_be_a_configuration_is_not_read() {
    let name = format!("rxlane-long-{}.toml", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, "#".repeat(MAX_BYTES as usize + 1)).unwrap();
    let refused = load(&path).expect_err("too long");
    std::fs::remove_file(&path).unwrap();
    assert!(
        refused.to_string().contains("longer than 8192 KiB"),
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
