//! Reports as values: a [`Document`] is made once for a response and rendered for a [`terminal`], as [`markdown`], as a
//! page of [`html`] and, where it has data, as [`csv`].
//!
//! ```
//! use satiety_report::document::{Block, Document, Table, Tone};
//! use satiety_report::{html, markdown, row, terminal};
//!
//! let rows = [row!["b", "0/1"], row!["a", "1/1"]];
//! let report = Document::new(
//!     "How good is it?",
//!     vec![
//!         Block::verdict(Tone::Bad, "Regression", "one of two cases broke", &[]),
//!         Block::Table(Table::new(&["case", "passed"], &[1], rows)),
//!     ],
//! );
//! assert!(markdown::render(&report).contains("| b | 0/1 |"));
//! assert!(html::render(&report).contains("<strong>Regression:</strong>"));
//! // The answer is last on a terminal, where the eye is.
//! assert!(terminal::render(&report).ends_with("one of two cases broke"));
//! ```
//!
//! The crate knows what the library decided. It reads nothing, asks nobody and writes nothing: a rendering is a text.

#![expect(
    missing_docs,
    reason = "not published; where a name does not say enough, a comment does"
)]

pub mod charts;
pub mod csv;
pub mod document;
pub mod documents;
pub mod html;
pub mod markdown;
pub mod series;
pub mod terminal;

#[cfg(test)]
mod tests;

pub use document::{Block, Chart, Document, Medium, Style, Table, Text, Tone};
