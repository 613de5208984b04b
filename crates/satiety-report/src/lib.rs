//! Reports: a [`Document`] is built once per response and rendered for a [`terminal`], as [`markdown`], as an
//! [`html`] page and, if it has data, as [`csv`]. [`Finding`]s point at lines of files and are rendered as [`sarif`] and as
//! annotations for [`github`].
//!
//! ```
//! use satiety_report::document::{Block, Document, Table, Tone};
//! use satiety_report::{html, markdown, row, terminal};
//!
//! let rows = [row!["b", "0/1"], row!["a", "1/1"]];
//! let report = Document::new(
//!     "Benchmark results",
//!     vec![
//!         Block::verdict(Tone::Bad, "Regression", "one of two cases broke", &[]),
//!         Block::Table(Table::new(&["case", "passed"], &[1], rows)),
//!     ],
//! );
//! assert!(markdown::render(&report).contains("| b | 0/1 |"));
//! assert!(html::render(&report).contains("<strong>Regression:</strong>"));
//! // The verdict is last on a terminal, next to the prompt.
//! assert!(terminal::render(&report).ends_with("one of two cases broke"));
//! ```
//!
//! The crate depends on the library's types and does no I/O: rendering returns a string.

#![expect(
    missing_docs,
    reason = "not published; only names that need explaining are documented"
)]

pub mod charts;
pub mod csv;
pub mod document;
pub mod documents;
pub mod finding;
pub mod github;
pub mod html;
pub mod markdown;
pub mod sarif;
pub mod series;
pub mod terminal;
pub mod timeline;

#[cfg(test)]
mod tests;

pub use document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
pub use finding::Finding;
