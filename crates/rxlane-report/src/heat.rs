//! Heat maps as HTML tables: numbers to read, colours to look at.

use maud::{Markup, html};

/// One value of a map.
#[derive(Debug, Clone, PartialEq)]
pub struct Cell {
    /// What it says.
    pub text: String,
    /// From -1, good, over 0, neither, to 1, bad.
    pub heat: f64,
}

/// Colours of the ends, which differ for colour-blind readers too (Okabe and Ito).
const GOOD: [f64; 3] = [86.0, 180.0, 233.0];
const BAD: [f64; 3] = [230.0, 130.0, 40.0];

/// A map of named rows under named columns; what was not measured stays empty.
pub fn map(
    title: &str,
    corner: &str,
    columns: &[String],
    rows: &[(String, Vec<Option<Cell>>)],
) -> Markup {
    html! {
        h2 { (title) }
        div.table {
            table.heat {
                tr { th { (corner) } @for column in columns { th { (column) } } }
                @for (name, cells) in rows {
                    tr {
                        td { (name) }
                        @for cell in cells {
                            @match cell {
                                Some(cell) => { td style={ "background:" (colour(cell.heat)) } { (cell.text) } }
                                None => { td {} }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn colour(heat: f64) -> String {
    let end = if heat > 0.0 { BAD } else { GOOD };
    let share = heat.abs().min(1.0);
    let [r, g, b] = end.map(|c| (255.0 - share * (255.0 - c)).round());
    format!("rgb({r},{g},{b})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_coloured_by_their_heat_and_missing_ones_are_empty() {
        let cell = |heat| {
            Some(Cell {
                text: "1 < 2".into(),
                heat,
            })
        };
        let rows = [("row".to_owned(), vec![cell(0.0), cell(1.0), None])];
        let html = map("T", "load", &["1x".into(), "2x".into(), "4x".into()], &rows);
        let html = html.into_string();
        assert!(
            html.contains("background:rgb(255,255,255)\">1 &lt; 2"),
            "{html}"
        );
        assert!(html.contains("background:rgb(230,130,40)"));
        assert!(html.contains("<td></td>"));
    }
}
