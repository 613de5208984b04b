//! Do two statements that a sentence model calls alike really say the same? Models put "3 nodes failed" next to
//! "5 nodes failed", and a claim next to its denial; this module looks for what turns a statement into another one:
//! amounts, polarity, opposites, exchanged roles, other names, other strength.
//!
//! It can only object. That two texts mean the same is for the model to say; a text that is reworded beyond
//! recognition gives no objection. Word lists are data beside this module, English only.

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

pub(crate) use parsed::ParsedStatement;

/// Something in which two alike statements contradict each other, with the words that show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Difference {
    /// Another amount, unit, percentage or date.
    Number {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
    /// The same amount as a bound from the other side: at least, at most.
    Bound {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
    /// One denies what the other states.
    Negation {
        /// The denying words, and `a` or `b` for the text they stand in.
        negated: String,
    },
    /// A word and its opposite.
    Antonym {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
    /// Two participants have exchanged their places.
    Swap {
        /// First in the first text, second in the second.
        first: String,
        /// Second in the first text, first in the second.
        second: String,
    },
    /// Another name, identifier, version, path or date.
    Name {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
    /// All against some, or only some.
    Quantifier {
        /// In the first text; empty if it has none.
        a: String,
        /// In the second text; empty if it has none.
        b: String,
    },
    /// Must against may, will against might.
    Modality {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
    /// Planned against done.
    Tense {
        /// In the first text.
        a: String,
        /// In the second text.
        b: String,
    },
}

/// What the two statements contradict each other in; empty when nothing was found. The order of the arguments does
/// not matter, except for which side the evidence is named after.
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

/// As [`differences`], of statements that were read before.
pub(crate) fn differences_between(a: &ParsedStatement, b: &ParsedStatement) -> Vec<Difference> {
    let swap = order::swap(a, b);
    let mut found = Vec::new();
    found.extend(quantities::differences(a, b));
    found.extend(polarity::differences(a, b, swap.as_ref()));
    found.extend(names::differences(a, b));
    found.extend(strength::differences(a, b));
    found
}

/// Whether nothing speaks against the two statements being the same.
pub fn agree(a: &str, b: &str) -> bool {
    differences(a, b).is_empty()
}

/// The share of the smaller statement's content words that the other one has too.
fn coverage(a: &ParsedStatement, b: &ParsedStatement) -> f64 {
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
