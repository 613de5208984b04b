//! Errors of parsing an input, with their location.

use thiserror::Error;

/// Errors of parsing an input. Line numbers start at one; the caller adds the file name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// The input contains only whitespace.
    #[error("the input is empty")]
    Empty,
    /// The input is not valid UTF-8.
    #[error("line {line}: not UTF-8 text")]
    NotUtf8 {
        /// Line with the first invalid byte.
        line: usize,
    },
    /// The input is not valid JSON.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// Line at which the parser stopped.
        line: usize,
        /// Column at which the parser stopped.
        column: usize,
        /// Message of the parser.
        problem: String,
    },
    /// A field has an unexpected type or value.
    #[error("line {line}: {path}: {problem}")]
    Field {
        /// Line of the field.
        line: usize,
        /// Path of the field, such as `rounds[3].outputs.claims[2]`.
        path: String,
        /// The expected and actual value.
        problem: String,
    },
    /// The input is JSON, but no supported format.
    #[error(
        "unknown input format: found {found} (expected one of: a transcript with `rounds`, a trace with lines of type \
         `round`, a chat log with `role` and `content`, an agent's session log)"
    )]
    UnknownShape {
        /// Description of the actual content.
        found: String,
    },
}
