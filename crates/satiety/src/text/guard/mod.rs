//! Contradiction guard: checks whether statements that a sentence model considers similar really say the
//! same. Models place "3 nodes failed" next to "5 nodes failed", and a claim next to its negation; this
//! module detects differences in amounts, polarity, antonyms, roles, names and strength.
//!
//! The guard can only object. It cannot confirm that two texts mean the same, and it finds nothing in texts
//! that are reworded beyond recognition. Word lists are data files next to this module, English only.

mod candidates;
mod lexicon;
mod names;
mod numbers;
mod order;
mod parsed;
mod polarity;
mod quantities;
mod strength;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use candidates::{Candidates, GuardIndex};
pub(crate) use parsed::ParsedStatement;

/// A contradiction between two similar statements, with the words that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Difference {
    /// A different amount, unit, percentage or date.
    Number {
        /// Number in the first text.
        a: String,
        /// Number in the second text.
        b: String,
    },
    /// The same amount as an opposite bound: at least, at most.
    Bound {
        /// Bound in the first text.
        a: String,
        /// Bound in the second text.
        b: String,
    },
    /// One statement negates the other.
    Negation {
        /// Negating words, and `a` or `b` for the text that contains them.
        negated: String,
    },
    /// A word and its antonym.
    Antonym {
        /// Word in the first text.
        a: String,
        /// Antonym in the second text.
        b: String,
    },
    /// Two participants have exchanged their roles.
    Swap {
        /// First in the first text, second in the second.
        first: String,
        /// Second in the first text, first in the second.
        second: String,
    },
    /// A different name, identifier, version, path or date.
    Name {
        /// Name in the first text.
        a: String,
        /// Name in the second text.
        b: String,
    },
    /// A different quantifier, such as all and some.
    Quantifier {
        /// Quantifier in the first text; empty if it has none.
        a: String,
        /// Quantifier in the second text; empty if it has none.
        b: String,
    },
    /// A different modality, such as must and may.
    Modality {
        /// Modal word in the first text.
        a: String,
        /// Modal word in the second text.
        b: String,
    },
    /// A planned action and a completed one.
    Tense {
        /// Verb in the first text.
        a: String,
        /// Verb in the second text.
        b: String,
    },
}

/// Contradictions between two statements; empty when none was found. The order of the arguments only affects
/// which side the evidence is named after.
///
/// ```
/// use satiety::text::guard::differences;
/// assert!(differences("Three nodes failed.", "3 nodes have failed").is_empty());
/// let found = differences("3 nodes failed", "5 nodes failed");
/// assert_eq!(found[0].to_string(), "number: \"3\" against \"5\"");
/// ```
pub fn differences(a: &str, b: &str) -> Vec<Difference> {
    differences_between(&ParsedStatement::of(a), &ParsedStatement::of(b))
}

/// Like [`differences`], for parsed statements.
pub(crate) fn differences_between(a: &ParsedStatement, b: &ParsedStatement) -> Vec<Difference> {
    let swap = order::swap(a, b);
    let mut found = Vec::new();
    found.extend(quantities::differences(a, b));
    found.extend(polarity::differences(a, b, swap.as_ref()));
    found.extend(names::differences(a, b));
    found.extend(strength::differences(a, b));
    found
}

/// Whether [`differences_between`] finds any, without collecting them. The tests that decide most often come
/// first: a conversation may have thousands of claims that differ only in a number.
pub(crate) fn are_different(a: &ParsedStatement, b: &ParsedStatement) -> bool {
    quantities::are_different(a, b)
        || names::differences(a, b).is_some()
        || !differences_between(a, b).is_empty()
}

/// Whether no contradiction was found between two statements.
pub fn agree(a: &str, b: &str) -> bool {
    differences(a, b).is_empty()
}

/// Share of the smaller statement's content words that the other one also contains.
pub(crate) fn coverage(a: &ParsedStatement, b: &ParsedStatement) -> f64 {
    let (a, b) = (a.content(), b.content());
    let smaller = a.len().min(b.len());
    if smaller == 0 {
        0.0
    } else {
        a.intersection(&b).count() as f64 / smaller as f64
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, a, b) = match self {
            Self::Number { a, b } => ("number", a, b),
            Self::Bound { a, b } => ("bound", a, b),
            Self::Negation { negated } => return write!(formatter, "negation: \"{negated}\""),
            Self::Antonym { a, b } => ("opposite", a, b),
            Self::Swap { first, second } => {
                return write!(formatter, "swapped: \"{first}\" and \"{second}\"");
            }
            Self::Name { a, b } => ("name", a, b),
            Self::Quantifier { a, b } => ("quantifier", a, b),
            Self::Modality { a, b } => ("modality", a, b),
            Self::Tense { a, b } => ("tense", a, b),
        };
        write!(formatter, "{name}: \"{a}\" against \"{b}\"")
    }
}

#[cfg(test)]
mod tests;
