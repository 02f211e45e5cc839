//! In which lines classes and their rules stand.

use toml::Spanned;
use toml::de::DeTable;

use crate::place::Place;

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
    let (table, _) = DeTable::parse_recoverable(text);
    let classes = Place::top("class");
    let of_class = |i: usize| {
        let class = classes.index(i);
        let rules = class.key("match");
        ClassLines {
            class: line(text, &table, &class),
            rules: (0..length(&table, i))
                .map(|j| line(text, &table, &rules.index(j)))
                .collect(),
        }
    };
    let all = table
        .as_ref()
        .get("class")
        .and_then(|c| c.as_ref().as_array());
    (0..all.map_or(0, |all| all.len())).map(of_class).collect()
}

/// How many rules a class has.
fn length(table: &Spanned<DeTable<'_>>, class: usize) -> usize {
    let classes = table
        .as_ref()
        .get("class")
        .and_then(|c| c.as_ref().as_array());
    let class = classes.and_then(|all| all.get(class)?.as_ref().as_table());
    let rules = class.and_then(|class| class.get("match")?.as_ref().as_array());
    rules.map_or(0, |rules| rules.len())
}

fn line(text: &str, table: &Spanned<DeTable<'_>>, place: &Place) -> usize {
    let begin = place.span(table).start.min(text.len());
    1 + text.as_bytes()[..begin]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
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
