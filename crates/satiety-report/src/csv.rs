//! Renders the document's data as comma-separated values (RFC 4180).

use crate::document::{Document, Table};

/// Renders the data; `None` when the document has none.
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

/// Quotes a cell that contains a comma, a quotation mark or a line break. Other cells, including formulas,
/// stay unchanged because programs read them back.
fn cell(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}
