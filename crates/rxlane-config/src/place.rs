//! Where a key stands in the text.

use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// A step from a table to a key of it, or from a list to an element.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
    /// The key itself, not what it is set to.
    Name(String),
}

/// A place in a file: the way to a value, whether or not it is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Place(Vec<Step>);

impl Place {
    /// A key of the file itself.
    pub(crate) fn top(key: &str) -> Self {
        Self::default().key(key)
    }

    pub(crate) fn key(&self, key: &str) -> Self {
        self.then(Step::Key(key.to_owned()))
    }

    /// The key itself, where that is what is wrong.
    pub(crate) fn name(&self, key: &str) -> Self {
        self.then(Step::Name(key.to_owned()))
    }

    pub(crate) fn index(&self, index: usize) -> Self {
        self.then(Step::Index(index))
    }

    fn then(&self, step: Step) -> Self {
        let mut steps = self.0.clone();
        steps.push(step);
        Self(steps)
    }

    /// The name of the last key on the way.
    pub(crate) fn last_key(&self) -> Option<&str> {
        self.0.iter().rev().find_map(|step| match step {
            Step::Key(key) | Step::Name(key) => Some(key.as_str()),
            Step::Index(_) => None,
        })
    }

    /// Bytes of the value, or of the nearest that is there and contains it.
    pub(crate) fn span(&self, file: &Spanned<DeTable<'_>>) -> Range<usize> {
        let mut span = file.span();
        let mut table = Some(file.as_ref());
        let mut list: Option<&toml::de::DeArray<'_>> = None;
        for step in &self.0 {
            let next = match step {
                Step::Key(key) => table.and_then(|t| t.get(key.as_str())),
                Step::Index(i) => list.and_then(|l| l.get(*i)),
                Step::Name(key) => {
                    let found = table.and_then(|t| t.get_key_value(key.as_str()));
                    return found.map_or(span, |(name, _)| name.span());
                }
            };
            let Some(next) = next else { break };
            span = next.span();
            table = next.as_ref().as_table();
            list = match next.as_ref() {
                DeValue::Array(list) => Some(list),
                _ => None,
            };
        }
        span
    }
}

/// What is wrong, and where.
#[derive(Debug)]
pub(crate) struct Mistake {
    pub(crate) place: Place,
    pub(crate) message: String,
}

/// All that is wrong, in the order in which it was found.
#[derive(Debug, Default)]
pub(crate) struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    pub(crate) fn add(&mut self, place: &Place, message: impl Into<String>) {
        self.0.push(Mistake {
            place: place.clone(),
            message: message.into(),
        });
    }

    /// The value, or nothing and one mistake more.
    pub(crate) fn keep<T>(&mut self, place: &Place, result: Result<T, String>) -> Option<T> {
        result.map_err(|message| self.add(place, message)).ok()
    }
}
