//! In which lines classes and their rules stand.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Lines of a class, counted from 1.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClassLines {
    /// Where it begins.
    pub class: usize,
    /// Where each of its rules does.
    pub rules: Vec<usize>,
}

/// Where the classes of a file stand, in their order; nothing for what is no configuration.
#[must_use]
pub fn lines(text: &str) -> Vec<ClassLines> {
    let (file, _) = DeTable::parse_recoverable(text);
    let of_class = |class: &Spanned<DeValue<'_>>| ClassLines {
        class: line(text, class.span().start),
        rules: list(class.as_ref().as_table(), "match")
            .map(|rule| line(text, rule.span().start))
            .collect(),
    };
    list(Some(file.as_ref()), "class").map(of_class).collect()
}

/// The elements of a key's list; none where there is no list.
fn list<'a, 'b>(
    table: Option<&'a DeTable<'b>>,
    key: &str,
) -> impl Iterator<Item = &'a Spanned<DeValue<'b>>> {
    let value = table.and_then(|table| table.get(key));
    value
        .and_then(|value| value.as_ref().as_array())
        .into_iter()
        .flat_map(|list| list.iter())
}

/// The line of a byte of the text, counted from 1.
pub(crate) fn line(text: &str, byte: usize) -> usize {
    let before = &text.as_bytes()[..byte.min(text.len())];
    1 + before.iter().filter(|b| **b == b'\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_and_rules_are_found_in_their_lines() {
        let text = "ports = [\"a\", \"b\"]\n\n[[class]]\nname = \"x\"\nmatch = [\n  { dscp = \"EF\" },\n  { protocol = \"udp\" },\n]\n[[class]]\nname = \"y\"\n";
        let found = lines(text);
        assert_eq!(found.len(), 2);
        assert_eq!(found[0].rules, [6, 7]);
        assert_eq!((found[0].class, found[1].class), (3, 9));
        assert_eq!(lines("no [ toml"), []);
    }
}
