//! The schema of the configuration file, and rxlane.toml(5), which is made of it.

use roff::{Roff, bold, roman};
use serde_json::Value;

use super::config;
use super::reference::kind;
use crate::one_line;

/// The page in the language of man(7).
pub(crate) fn page() -> String {
    let schema = rxlane_config::schema();
    let schema = schema.as_value();
    let mut page = Roff::new();
    page.control(
        "TH",
        [
            "rxlane.toml",
            "5",
            "",
            concat!("rxlane ", env!("CARGO_PKG_VERSION")),
            "rxlane",
        ],
    );
    page.control("SH", ["NAME"]);
    page.text([roman(
        "rxlane.toml - the configuration of a router with express lanes",
    )]);
    page.control("SH", ["DESCRIPTION"]);
    page.text([
        roman("The file of rxlane-run(8), "),
        bold(config::DEFAULT),
        roman(" unless another is named, is TOML. rxlane-init(8) writes one for the machine, and rxlane-check(8) says what is wrong with it."),
    ]);
    keys(&mut page, schema);
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        page.control("SH", [name.to_uppercase().as_str()]);
        if let Some(text) = part["description"].as_str() {
            page.text([roman(one_line(text))]);
        }
        if part["properties"].is_object() {
            keys(&mut page, part);
        } else {
            page.control("PP", []);
            page.text([roman(format!("One of: {}.", plain(&kind(part))))]);
        }
    }
    page.control("SH", ["EXAMPLE"]);
    page.control("nf", []);
    for line in EXAMPLE.lines() {
        page.text([roman(line)]);
    }
    page.control("fi", []);
    page.control("SH", ["SEE ALSO"]);
    page.text([roman(
        "rxlane(8), rxlane-init(8), rxlane-check(8), rxlane-run(8); /usr/share/doc/rxlane/examples has every key in use.",
    )]);
    page.to_roff()
}

/// A file that does something.
const EXAMPLE: &str = include_str!("../../../../examples/voice.toml");

fn keys(page: &mut Roff, schema: &Value) {
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        page.control("TP", []);
        page.text([bold(key), roman(format!(" ({})", plain(&kind(value))))]);
        let text = value["description"].as_str().unwrap_or_default();
        page.text([roman(one_line(text))]);
    }
}

/// Without the marks of Markdown: `[Class](#class)` is CLASS, where its section is.
fn plain(markdown: &str) -> String {
    let mut text = String::new();
    let mut rest = markdown;
    while let Some((before, name, after)) = link(rest) {
        text += before;
        text += &name.to_uppercase();
        rest = after;
    }
    (text + rest).replace('`', "")
}

fn link(text: &str) -> Option<(&str, &str, &str)> {
    let (before, rest) = text.split_once('[')?;
    let (name, rest) = rest.split_once("](#")?;
    let (_, after) = rest.split_once(')')?;
    Some((before, name, after))
}

/// The schema of the configuration file on standard output.
///
/// # Errors
/// None in practice: a schema is JSON.
pub(crate) fn schema() -> Result<(), String> {
    let text = serde_json::to_string_pretty(&rxlane_config::schema()).map_err(one_line)?;
    println!("{text}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_explains_every_key_and_has_no_markdown() {
        let page = page();
        for part in [".SH NAME", "police", "RULE", "POLICE", "ring"] {
            assert!(page.contains(part), "{part}");
        }
        assert!(!page.contains("](#"), "{page}");
        assert_eq!(plain("list of [Rule](#rule) or `x`"), "list of RULE or x");
    }
}
