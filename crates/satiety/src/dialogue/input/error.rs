//! What can be wrong with an input, with the place where it is wrong.

use thiserror::Error;

/// Why an input could not be read. Lines count from one; the caller knows the file's name.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InputError {
    /// Nothing but white space.
    #[error("the input is empty")]
    Empty,
    /// Bytes that are no text.
    #[error("line {line}: not UTF-8 text")]
    NotUtf8 {
        /// The line with the first wrong byte.
        line: usize,
    },
    /// No JSON.
    #[error("line {line}, column {column}: {problem}")]
    Syntax {
        /// Where the parser stopped.
        line: usize,
        /// Where in that line.
        column: usize,
        /// What it stumbled over.
        problem: String,
    },
    /// JSON of another shape than expected.
    #[error("line {line}: {path}: {problem}")]
    Field {
        /// The line in which the field stands.
        line: usize,
        /// The way to the field: `rounds[3].outputs.claims[2]`.
        path: String,
        /// What was expected and what was found.
        problem: String,
    },
    /// JSON, but none of the known shapes.
    #[error(
        "neither a transcript (an object with `rounds`), a trace (lines of type `round`), a chat log (messages with \
         `role` and `content`) nor an agent's session log: {found}"
    )]
    UnknownShape {
        /// What stands there instead.
        found: String,
    },
}
