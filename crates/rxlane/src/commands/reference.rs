//! The reference pages of the documentation, made of the command, the configuration's schema and the status' schema, so that
//! they cannot differ from the program. `make docs` writes them.

use std::fmt::Write;

use rxlane_bpf::layout::REASONS;
use rxlane_cli::manual::{self, Reference};
use rxlane_dataplane::status::Status;
use serde_json::Value;

/// The pages of this command.
pub(crate) fn run(args: &Reference, command: clap::Command) -> Result<(), String> {
    args.write("commands.md", manual::page(command, "rxlane"))?;
    args.write("configuration.md", configuration())?;
    args.write("status.md", status())
}

fn configuration() -> String {
    let mut page = String::from(
        "# rxlane.toml\n\nMade of the program's own schema by `make docs`; `rxlane schema` prints it for editors. \
         [examples/router.toml](https://github.com/rxlane/rxlane/blob/main/examples/router.toml) shows every key in use.\n",
    );
    add_object(&mut page, rxlane_config::schema().as_value(), "The file");
    page
}

fn status() -> String {
    let mut page = String::from(
        "# Status and counters\n\nMade of the program by `make docs`: what `rxlane status --json` prints. Counts are since the start, or since \
         the ports or classes changed.\n",
    );
    add_object(
        &mut page,
        schemars::schema_for!(Status).as_value(),
        "The router",
    );
    page += "\n## Reasons\n\nWhy packets are left to the kernel (`to_kernel` of a port).\n\n| reason | meaning |\n|---|---|\n";
    for (name, meaning) in REASONS {
        let _ = writeln!(page, "| `{name}` | {meaning} |");
    }
    page
}

/// A table of an object's keys, and then of the objects that it is made of.
fn add_object(page: &mut String, schema: &Value, title: &str) {
    add_table(page, schema, title);
    for (name, part) in schema["$defs"].as_object().into_iter().flatten() {
        if part["properties"].is_object() {
            add_table(page, part, name);
        } else {
            add_words(page, part, name);
        }
    }
}

fn add_heading(page: &mut String, schema: &Value, title: &str) {
    let _ = write!(page, "\n## {title}\n\n");
    if let Some(text) = schema["description"].as_str() {
        let _ = write!(page, "{}\n\n", cell(text));
    }
}

fn add_table(page: &mut String, schema: &Value, title: &str) {
    add_heading(page, schema, title);
    page.push_str("| key | type | meaning |\n|---|---|---|\n");
    for (key, value) in schema["properties"].as_object().into_iter().flatten() {
        let text = value["description"].as_str().unwrap_or_default();
        let _ = writeln!(page, "| `{key}` | {} | {} |", kind(value), cell(text));
    }
}

/// A value that is one of several words or forms.
fn add_words(page: &mut String, schema: &Value, title: &str) {
    add_heading(page, schema, title);
    let _ = writeln!(page, "One of: {}.", kind(schema));
}

/// What a value is, with links to the tables of objects.
pub(super) fn kind(schema: &Value) -> String {
    if let Some(path) = schema["$ref"].as_str() {
        let name = path.rsplit('/').next().unwrap_or(path);
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(word) = schema.get("const") {
        return format!("`{word}`");
    }
    for several in ["anyOf", "oneOf"] {
        if let Some(all) = schema[several].as_array() {
            let all: Vec<String> = all
                .iter()
                .filter(|s| s["type"] != "null")
                .map(kind)
                .collect();
            return all.join(" or ");
        }
    }
    if let Some(words) = schema["enum"].as_array() {
        let words: Vec<String> = words.iter().map(|w| format!("`{w}`")).collect();
        return words.join(", ");
    }
    let list = || format!("list of {}", kind(&schema["items"]));
    match &schema["type"] {
        Value::String(name) if name == "array" => list(),
        Value::String(name) if name == "object" => fields(schema),
        Value::String(name) => name.clone(),
        // A type, or nothing.
        Value::Array(names) => match names
            .iter()
            .filter_map(Value::as_str)
            .find(|n| *n != "null")
        {
            Some("array") => list(),
            Some(name) => name.into(),
            None => String::new(),
        },
        _ => String::new(),
    }
}

/// An object without a name of its own: its keys, or what it maps names to.
fn fields(schema: &Value) -> String {
    match (
        schema["properties"].as_object(),
        &schema["additionalProperties"],
    ) {
        (Some(keys), _) => {
            let keys: Vec<String> = keys
                .iter()
                .map(|(key, value)| format!("`{key}`: {}", kind(value)))
                .collect();
            format!("{{ {} }}", keys.join(", "))
        }
        (None, Value::Object(_)) => format!("by name: {}", kind(&schema["additionalProperties"])),
        _ => "object".into(),
    }
}

/// Text for a cell of a table.
fn cell(text: &str) -> String {
    rxlane_cli::one_line(text).replace('|', "\\|")
}
