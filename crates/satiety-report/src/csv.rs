//! For a spreadsheet or a program: comma-separated values (RFC 4180) of the document's data.

use crate::document::{Document, Table};

/// The document's data; `None` where it has none.
pub fn render(document: &Document) -> Option<String> {
    document.data.as_ref().map(table)
}

fn table(table: &Table) -> String {
    let line = |cells: Vec<String>| cells.iter().map(|text| cell(text)).collect::<Vec<_>>().join(",");
    let rows = table
        .rows
        .iter()
        .map(|row| line(row.iter().map(crate::document::Text::plain).collect()));
    let lines: Vec<String> = std::iter::once(line(table.header.clone())).chain(rows).collect();
    lines.join("\n")
}

/// A cell: quoted where it has a comma, a quotation mark or a line end in it. It stays as it is otherwise, formulas
/// too, because programs read it back.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
