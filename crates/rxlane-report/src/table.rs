//! Tables.

use maud::{Markup, html};

/// Texts up to this length stay on one line.
const SHORT: usize = 28;

/// The table that the terminal shows.
pub fn of(table: &comfy_table::Table) -> Markup {
    let head: Vec<String> = table
        .header()
        .map(|row| row.cell_iter().map(comfy_table::Cell::content).collect())
        .unwrap_or_default();
    let rows = table
        .row_iter()
        .map(|row| row.cell_iter().map(comfy_table::Cell::content).collect());
    columns(&head, rows)
}

/// Rows under a head; numbers stand on the right.
pub fn columns(head: &[String], rows: impl IntoIterator<Item = Vec<String>>) -> Markup {
    let rows: Vec<Vec<String>> = rows.into_iter().collect();
    // A column without a name and without texts only keeps others apart on a terminal.
    let is_empty = |c: usize| {
        let mut texts = rows.iter().filter_map(|row| row.get(c)).chain(head.get(c));
        texts.all(|text| text.is_empty())
    };
    let shown: Vec<usize> = (0..head.len()).filter(|c| !is_empty(*c)).collect();
    let is_number = |c: usize| {
        let mut texts = rows.iter().filter_map(|row| row.get(c));
        texts.all(|text| text.is_empty() || text.parse::<f64>().is_ok())
    };
    let is_short = |c: usize| {
        let mut texts = rows.iter().filter_map(|row| row.get(c)).chain(head.get(c));
        texts.all(|text| text.chars().count() <= SHORT)
    };
    let class = |c: usize| match (is_number(c), is_short(c)) {
        (true, _) => "n",
        (false, true) => "s",
        (false, false) => "",
    };
    html! {
        div.table {
            table {
                tr { @for c in &shown { th class=(class(*c)) { (head[*c]) } } }
                @for row in &rows {
                    tr { @for c in &shown { td class=(class(*c)) { (row.get(*c).map_or("", String::as_str)) } } }
                }
            }
        }
    }
}

/// Names and what they say.
pub fn pairs(pairs: &[(String, String)]) -> Markup {
    html! {
        div.table {
            table.beds {
                @for (name, text) in pairs { tr { td { (name) } td { (text) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_s_table_is_escaped_its_numbers_are_on_the_right_and_empty_columns_are_gone() {
        let mut table = comfy_table::Table::new();
        table.set_header(["router", "", "p99 us"]);
        table.add_row(["a < b", "", "12.5"]);
        let html = of(&table).into_string();
        assert!(html.contains("a &lt; b"), "{html}");
        assert!(html.contains("<td class=\"n\">12.5</td>"), "{html}");
        assert_eq!(html.matches("<th").count(), 2, "{html}");
    }
}
