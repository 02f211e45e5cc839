//! Whether a file has the shape that its schema says: known keys, values of their kind. All that is wrong is found at once,
//! which a deserializer that stops at the first mistake cannot do.

use rxlane_policy::rate;
use serde_json::Value;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::place::{Mistakes, Place};

/// Words further away than this share of their letters are not taken for a slip.
const NEAR: usize = 3;

/// Adds to `mistakes` what of `file` is not as `schema` wants it.
pub(crate) fn check(
    file: &Spanned<DeTable<'_>>,
    text: &str,
    schema: &Value,
    mistakes: &mut Mistakes,
) {
    let mut checking = Checking {
        text,
        root: schema,
        mistakes,
    };
    checking.table(file.as_ref(), schema, &Place::default());
}

struct Checking<'a> {
    text: &'a str,
    root: &'a Value,
    mistakes: &'a mut Mistakes,
}

impl<'a> Checking<'a> {
    fn table(&mut self, table: &DeTable<'_>, schema: &'a Value, place: &Place) {
        let Some(known) = schema["properties"].as_object() else {
            return;
        };
        for (key, value) in table {
            let key = key.as_ref();
            match known.get(key.as_ref()) {
                Some(part) => self.value(value, part, &place.key(key)),
                None => self
                    .mistakes
                    .add(&place.name(key), unknown(key, known.keys())),
            }
        }
        for key in schema["required"].as_array().into_iter().flatten() {
            let Some(key) = key.as_str().filter(|k| !table.contains_key(*k)) else {
                continue;
            };
            let kinds = kinds_of(&self.alternatives(&known[key]));
            self.mistakes
                .add(place, format!("`{key}` is missing: add {key} = {kinds}"));
        }
    }

    fn value(&mut self, value: &Spanned<DeValue<'_>>, schema: &'a Value, place: &Place) {
        let alternatives = self.alternatives(schema);
        let about = schema["description"].as_str().unwrap_or_default();
        let is = |kind: &str| -> Vec<&'a Value> {
            let of_kind = |s: &&Value| kinds(s).any(|k| k == kind);
            alternatives.iter().copied().filter(of_kind).collect()
        };
        match value.as_ref() {
            DeValue::String(text) => {
                if is("string").is_empty() {
                    return self.wrong_kind(&format!("\"{text}\""), &alternatives, about, place);
                }
                if let Some(message) = wrong_word(text, &is("string")) {
                    self.mistakes.add(place, message);
                }
            }
            DeValue::Integer(number) => {
                let numbers = [is("integer"), is("number")].concat();
                if numbers.is_empty() {
                    return self.wrong_kind(number.as_str(), &alternatives, about, place);
                }
                let parsed =
                    i128::from_str_radix(&number.as_str().replace('_', ""), number.radix());
                let fits = |s: &&Value| {
                    parsed.as_ref().is_ok_and(|n| match limits(s) {
                        Some((low, high)) => (low..=high).contains(n),
                        None => true,
                    })
                };
                if !numbers.iter().any(fits) {
                    let allowed = numbers.iter().find_map(|s| limits(s));
                    let (low, high) = allowed.unwrap_or((i128::from(i64::MIN), i64::MAX.into()));
                    self.mistakes.add(
                        place,
                        format!("{number} is too small or too large: use {low} to {high}"),
                    );
                }
            }
            DeValue::Float(number) => {
                let takes = |s: &&Value| is_rate(s) || kinds(s).any(|k| k == "number");
                if !alternatives.iter().any(takes) {
                    self.wrong_kind(number.as_str(), &alternatives, about, place);
                }
            }
            DeValue::Boolean(_) if !is("boolean").is_empty() => {}
            DeValue::Array(list) if !is("array").is_empty() => {
                let items = is("array")[0];
                for (i, value) in list.iter().enumerate() {
                    self.value(value, &items["items"], &place.index(i));
                }
            }
            DeValue::Table(table) if !is("object").is_empty() => {
                if let Some(schema) = self.which(table, &is("object"), place) {
                    self.table(table, schema, place);
                }
            }
            DeValue::Table(_) if !is("array").is_empty() => {
                let key = place.last_key().unwrap_or_default();
                let inline = self.text[value.span()].starts_with('{');
                let cure = if inline {
                    format!("{key} = [{{ ... }}]")
                } else {
                    format!("[[{key}]] with two brackets before each")
                };
                self.mistakes
                    .add(place, format!("`{key}` is a list: write {cure}"));
            }
            DeValue::Boolean(b) => self.wrong_kind(&b.to_string(), &alternatives, about, place),
            DeValue::Datetime(time) => {
                self.wrong_kind(&time.to_string(), &alternatives, about, place)
            }
            DeValue::Array(_) => self.wrong_kind("a list", &alternatives, about, place),
            DeValue::Table(_) => self.wrong_kind("a table", &alternatives, about, place),
        }
    }

    fn wrong_kind(&mut self, found: &str, alternatives: &[&Value], about: &str, place: &Place) {
        let key = place.last_key().unwrap_or_default();
        let wanted = kinds_of(alternatives);
        let about = match about.replace('\n', " ") {
            text if text.is_empty() => text,
            text => format!(". {text}"),
        };
        self.mistakes.add(
            place,
            format!("`{key}` cannot be {found}: write {wanted}{about}"),
        );
    }

    /// The forms that a value may have: references followed, choices opened, `null` left out because TOML has none.
    fn alternatives(&self, schema: &'a Value) -> Vec<&'a Value> {
        if let Some(name) = schema["$ref"].as_str().and_then(|p| p.rsplit('/').next()) {
            return self.alternatives(&self.root["$defs"][name]);
        }
        let choices = schema["anyOf"].as_array().or(schema["oneOf"].as_array());
        match choices {
            Some(choices) => choices.iter().flat_map(|s| self.alternatives(s)).collect(),
            None if schema["type"] == "null" => Vec::new(),
            None => vec![schema],
        }
    }

    /// Of several tables the one that a word in it names, as `algorithm` does.
    fn which(
        &mut self,
        table: &DeTable<'_>,
        schemas: &[&'a Value],
        place: &Place,
    ) -> Option<&'a Value> {
        if let [one] = schemas {
            return Some(one);
        }
        let named = |schema: &&'a Value| {
            let keys = schema["properties"].as_object()?;
            keys.iter()
                .find_map(|(key, part)| Some((key.as_str(), part["const"].as_str()?)))
        };
        let key = schemas.iter().find_map(named)?.0;
        let words: Vec<&str> = schemas.iter().filter_map(named).map(|(_, w)| w).collect();
        let Some(value) = table.get(key) else {
            self.mistakes.add(
                place,
                format!("`{key}` is missing: add {key} = {}", quoted(&words)),
            );
            return None;
        };
        let word = value.as_ref().as_str().unwrap_or_default();
        let found = schemas
            .iter()
            .copied()
            .find(|s| named(s).is_some_and(|(_, w)| w == word));
        if found.is_none() {
            let message = no_such_word(word, &words);
            self.mistakes.add(&place.key(key), message);
        }
        found
    }
}

/// Why a text is none of the words that are allowed, if only words are.
fn wrong_word(text: &str, schemas: &[&Value]) -> Option<String> {
    let mut words = Vec::new();
    for schema in schemas {
        if is_rate(schema) {
            return rate::parse(text).err();
        }
        match (schema["const"].as_str(), schema["enum"].as_array()) {
            (Some(word), _) => words.push(word),
            (None, Some(several)) => words.extend(several.iter().filter_map(Value::as_str)),
            (None, None) => return None,
        }
    }
    (!words.contains(&text)).then(|| no_such_word(text, &words))
}

fn no_such_word(text: &str, words: &[&str]) -> String {
    let meant = nearest(text, words.iter().copied());
    let meant = meant.map_or_else(String::new, |word| format!("; did you mean \"{word}\"?"));
    format!("\"{text}\" is unknown: write {}{meant}", quoted(words))
}

/// What to say of a key that is not known here.
fn unknown<'k>(key: &str, known: impl Iterator<Item = &'k String> + Clone) -> String {
    if key == "prb" {
        return "`prb` is gone: give each class its ring budget with the key `budget`".into();
    }
    match nearest(key, known.clone().map(String::as_str)) {
        Some(near) => format!("unknown key `{key}`: did you mean `{near}`?"),
        None => {
            let known: Vec<&str> = known.map(String::as_str).collect();
            format!("unknown key `{key}`: known here are {}", known.join(", "))
        }
    }
}

/// The known word that was probably meant.
pub(crate) fn nearest<'w>(text: &str, words: impl Iterator<Item = &'w str>) -> Option<&'w str> {
    words
        .map(|word| (strsim::damerau_levenshtein(text, word), word))
        .filter(|(distance, word)| *distance <= 1.max(word.chars().count() / NEAR))
        .min()
        .map(|(_, word)| word)
}

fn kinds(schema: &Value) -> impl Iterator<Item = &str> {
    let one = schema["type"].as_str();
    let several = schema["type"].as_array();
    one.into_iter()
        .chain(several.into_iter().flatten().filter_map(Value::as_str))
}

fn is_rate(schema: &Value) -> bool {
    schema["format"] == rate::FORMAT
}

/// What an integer may be, from the format of its type.
fn limits(schema: &Value) -> Option<(i128, i128)> {
    match schema["format"].as_str()? {
        "uint8" => Some((0, u8::MAX.into())),
        "uint32" => Some((0, u32::MAX.into())),
        // TOML's integers have 64 bits with a sign.
        "uint64" => Some((0, i64::MAX.into())),
        "int64" => Some((i64::MIN.into(), i64::MAX.into())),
        format if format == rate::FORMAT => Some((0, i64::MAX.into())),
        _ => None,
    }
}

/// What may be written, for people.
fn kinds_of(alternatives: &[&Value]) -> String {
    let mut found: Vec<String> = Vec::new();
    for schema in alternatives {
        let words = match (schema["const"].as_str(), schema["enum"].as_array()) {
            (Some(word), _) => vec![format!("\"{word}\"")],
            (None, Some(several)) => several.iter().map(Value::to_string).collect(),
            (None, None) if is_rate(schema) => vec![rate::EXAMPLES.to_owned()],
            (None, None) => kinds(schema)
                .filter_map(|kind| match kind {
                    "integer" => Some("a whole number".to_owned()),
                    "number" => Some("a number".to_owned()),
                    "string" => Some("a \"text\" in quotes".to_owned()),
                    "boolean" => Some("true or false".to_owned()),
                    "array" => Some("a [list]".to_owned()),
                    "object" => Some(object_of(schema)),
                    _ => None,
                })
                .collect(),
        };
        for word in words {
            if !found.contains(&word) {
                found.push(word);
            }
        }
    }
    listed(&found)
}

/// A table, by the keys that it must have.
fn object_of(schema: &Value) -> String {
    let required: Vec<String> = schema["required"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|key| Some(format!("{} = ...", key.as_str()?)))
        .collect();
    if required.is_empty() {
        "a table { ... }".into()
    } else {
        format!("{{ {} }}", required.join(", "))
    }
}

fn quoted(words: &[&str]) -> String {
    let words: Vec<String> = words.iter().map(|w| format!("\"{w}\"")).collect();
    listed(&words)
}

/// `a, b or c`.
fn listed(words: &[String]) -> String {
    match words {
        [] => "nothing".into(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}
