//! Complaints with the lines that they are about.

use std::ops::Range;

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

use crate::error::{Complaint, Complaints};

/// Nobody reads more at once, and each takes the time to find its line.
const SHOWN: usize = 20;

impl Complaints {
    /// The first complaints, each under the line that it is about, marked; `name` is that of the file.
    pub fn excerpts(&self, name: &str, colour: bool) -> String {
        let groups: Vec<Group<'_>> = self
            .all
            .iter()
            .take(SHOWN)
            .map(|c| excerpt(c, &self.text, name))
            .collect();
        let renderer = if colour {
            Renderer::styled()
        } else {
            Renderer::plain()
        };
        let mut text: String = groups
            .iter()
            .map(|group| renderer.render(std::slice::from_ref(group)) + "\n")
            .collect();
        if self.all.len() > SHOWN {
            text += &format!("and {} more\n", self.all.len() - SHOWN);
        }
        text
    }
}

fn excerpt<'a>(complaint: &'a Complaint, text: &'a str, name: &'a str) -> Group<'a> {
    let snippet = Snippet::source(text)
        .path(name)
        .annotation(AnnotationKind::Primary.span(first_line(text, complaint.span.clone())));
    Level::ERROR
        .primary_title(complaint.message.as_str())
        .element(snippet)
}

/// A mark over many lines says less than one at their beginning.
fn first_line(text: &str, span: Range<usize>) -> Range<usize> {
    let start = span.start.min(text.len());
    let end = span.end.clamp(start, text.len());
    let marked = &text[start..end];
    let length = marked.find('\n').unwrap_or(marked.len());
    start..start + length
}
