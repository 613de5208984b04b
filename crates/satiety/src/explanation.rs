//! Explanation of a verdict: the decision, the numbers, the thresholds they were compared with and the
//! reasons in words, as one tree that every surface renders. The decision rules live with the capabilities.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One decision and the evidence for it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// Subject of the decision, such as "signal" or "novelty".
    pub subject: String,
    /// Outcome of the decision, such as "SHIP" or "LOW".
    pub decision: String,
    /// Reasons as sentences, most important first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// Numbers that the decision is based on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<Number>,
    /// Decisions that this decision depends on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Explanation>,
}

/// A number and the threshold it was compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// Name of the measured quantity.
    pub name: String,
    /// Measured value; absent when it could not be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Reason why the value is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
    /// Comparison with a threshold; absent when the number was only reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Comparison>,
}

/// A comparison with a threshold and its result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Relation that was tested between value and threshold.
    pub is: Relation,
    /// Threshold that the value was compared with.
    pub threshold: f64,
    /// Whether the relation holds.
    pub holds: bool,
}

/// Relation between a value and its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// The value is below the threshold (`<`).
    Below,
    /// The value is at most the threshold (`<=`).
    AtMost,
    /// The value is at least the threshold (`>=`).
    AtLeast,
    /// The value is above the threshold (`>`).
    Above,
}

impl Explanation {
    /// Creates an explanation without reasons, numbers or parts.
    pub fn new(subject: impl Into<String>, decision: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            decision: decision.into(),
            ..Self::default()
        }
    }

    /// Appends a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }

    /// Appends a number.
    pub fn with(mut self, number: Number) -> Self {
        self.numbers.push(number);
        self
    }

    /// Appends a decision that this one depends on.
    pub fn part(mut self, part: Explanation) -> Self {
        self.parts.push(part);
        self
    }
}

impl Number {
    /// A number that is reported without a comparison.
    pub fn of(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value: Some(value),
            absent_because: None,
            compared: None,
        }
    }

    /// A number that could not be computed, with the reason.
    pub fn absent(name: impl Into<String>, because: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: None,
            absent_because: Some(because.into()),
            compared: None,
        }
    }

    /// Compares the number with a threshold; an absent number stays uncompared.
    pub fn compared(mut self, is: Relation, threshold: f64) -> Self {
        self.compared = self.value.map(|value| Comparison {
            is,
            threshold,
            holds: is.holds(value, threshold),
        });
        self
    }
}

impl Relation {
    /// Whether `value` satisfies this relation to `threshold`.
    pub fn holds(self, value: f64, threshold: f64) -> bool {
        match self {
            Self::Below => value < threshold,
            Self::AtMost => value <= threshold,
            Self::AtLeast => value >= threshold,
            Self::Above => value > threshold,
        }
    }

    fn sign(self, holds: bool) -> &'static str {
        match (self, holds) {
            (Self::Below, true) | (Self::AtLeast, false) => "<",
            (Self::AtMost, true) | (Self::Above, false) => "<=",
            (Self::AtLeast, true) | (Self::Below, false) => ">=",
            (Self::Above, true) | (Self::AtMost, false) => ">",
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.value, &self.compared) {
            (None, _) => {
                let because = self.absent_because.as_deref().unwrap_or("not computed");
                write!(formatter, "{}: none ({because})", self.name)
            }
            (Some(value), None) => write!(formatter, "{} = {}", self.name, Short(value)),
            (Some(value), Some(Comparison { is, threshold, holds })) => {
                write!(
                    formatter,
                    "{} = {} {} {}",
                    self.name,
                    Short(value),
                    is.sign(*holds),
                    Short(*threshold)
                )
            }
        }
    }
}

/// Formats with at most three decimals, without trailing zeros.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.3}", self.0);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// Formats the tree as indented lines.
impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn lines(tree: &Explanation, depth: usize, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            let indent = "  ".repeat(depth);
            writeln!(formatter, "{indent}{}: {}", tree.subject, tree.decision)?;
            for reason in &tree.reasons {
                writeln!(formatter, "{indent}  {reason}")?;
            }
            for number in &tree.numbers {
                writeln!(formatter, "{indent}  {number}")?;
            }
            tree.parts
                .iter()
                .try_for_each(|part| lines(part, depth + 1, formatter))
        }
        lines(self, 0, formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_displays_as_indented_lines_and_round_trips() {
        let tree = Explanation::new("signal", "SHIP")
            .because("Nothing new was said.")
            .part(
                Explanation::new("novelty", "LOW")
                    .with(Number::of("rate", 0.1).compared(Relation::Below, 0.15))
                    .with(Number::of("repeats", 3.0).compared(Relation::AtLeast, 4.0))
                    .with(Number::absent("L2", "no embedder")),
            );
        assert_eq!(
            tree.to_string(),
            "signal: SHIP\n  Nothing new was said.\n  novelty: LOW\n    rate = 0.1 < 0.15\n    repeats = 3 < 4\n    L2: none (no embedder)\n"
        );
        let json = serde_json::to_string(&tree).unwrap();
        assert_eq!(serde_json::from_str::<Explanation>(&json).unwrap(), tree);
    }

    #[test]
    fn displayed_relations_hold() {
        for (relation, value, shown) in [
            (Relation::Below, 1.0, ">="),
            (Relation::AtMost, 1.0, "<="),
            (Relation::AtLeast, 1.0, ">="),
            (Relation::Above, 1.0, "<="),
            (Relation::Below, 0.0, "<"),
            (Relation::Above, 2.0, ">"),
        ] {
            let number = Number::of("x", value).compared(relation, 1.0).to_string();
            assert!(number.contains(&format!(" {shown} ")), "{relation:?}: {number}");
        }
    }
}
