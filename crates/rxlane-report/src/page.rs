//! Pages: one file that needs nothing but itself.

use maud::{DOCTYPE, Markup, PreEscaped, html};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};

use crate::table;

/// What a result was made on, and how: names and texts, in the order in which they are shown.
pub type TestBed = Vec<(String, String)>;

/// Data that a page carries, for who wants to go on from it.
#[derive(Debug, Clone)]
pub struct Download {
    /// Name of the file.
    pub name: String,
    /// JSON.
    pub json: String,
}

/// A page.
#[derive(Debug, Clone)]
pub struct Page {
    /// Its title.
    pub title: String,
    /// What somebody should know who reads no further.
    pub lead: Markup,
    /// The rest.
    pub body: Markup,
    /// What it was made on.
    pub test_bed: TestBed,
    /// Its data.
    pub data: Option<Download>,
}

/// What would end a URL or an attribute.
const IN_URL: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'&')
    .add(b'\'');

impl Page {
    /// The file.
    pub fn render(&self) -> String {
        let page = html! {
            (DOCTYPE)
            html lang="en" {
                head {
                    meta charset="utf-8";
                    meta name="viewport" content="width=device-width, initial-scale=1";
                    title { (self.title) }
                    style { (PreEscaped(include_str!("page.css"))) }
                }
                body {
                    h1 { (self.title) }
                    (self.lead)
                    (self.body)
                    @if !self.test_bed.is_empty() {
                        h2 { "Test bed" }
                        (table::pairs(&self.test_bed))
                    }
                    @if let Some(data) = &self.data {
                        h2 { "Data" }
                        p {
                            a download=(data.name) href=(url(&data.json)) { (data.name) }
                            " (" (data.json.len().div_ceil(1024)) " kB, in this page)"
                        }
                    }
                }
            }
        };
        page.into_string()
    }
}

fn url(json: &str) -> String {
    let encoded = utf8_percent_encode(json, IN_URL);
    format!("data:application/json;charset=utf-8,{encoded}")
}

/// Why nothing on the page is a result.
pub fn invalid(why: &str) -> Markup {
    html! { p.invalid { strong { "Invalid: " } (why) " Nothing here is a result." } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_page_is_made_of_cannot_become_markup() {
        let hostile = "<script>alert('1')</script> & \"quotes\"".to_owned();
        let page = Page {
            title: hostile.clone(),
            lead: invalid(&hostile),
            body: html! {},
            test_bed: vec![(hostile.clone(), hostile.clone())],
            data: Some(Download {
                name: hostile.clone(),
                json: serde_json::to_string(&hostile).unwrap(),
            }),
        };
        let file = page.render();
        assert!(!file.contains("<script>"), "{file}");
        assert!(!file.contains("\"quotes\""), "{file}");
    }
}
