//! Heat maps as HTML tables: numbers to read, colours to look at.

use crate::escape;

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
) -> String {
    let head: String = columns
        .iter()
        .map(|c| format!("<th>{}</th>", escape(c)))
        .collect();
    let mut table = format!(
        "<h2>{}</h2><table><tr><th>{}</th>{head}</tr>",
        escape(title),
        escape(corner)
    );
    for (name, cells) in rows {
        table += &format!("<tr><td>{}</td>", escape(name));
        for cell in cells {
            table += &cell.as_ref().map_or("<td></td>".into(), |cell| {
                format!(
                    "<td style='background:{}'>{}</td>",
                    colour(cell.heat),
                    escape(&cell.text)
                )
            });
        }
        table += "</tr>";
    }
    table + "</table>"
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
        assert!(html.contains("background:rgb(255,255,255)'>1 &lt; 2"));
        assert!(html.contains("background:rgb(230,130,40)"));
        assert!(html.contains("<td></td>"));
    }
}
