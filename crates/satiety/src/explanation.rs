//! Why a verdict is what it is: the decision, the numbers, the thresholds they were compared with and the reasons in
//! words, as one tree that every surface renders. It holds no rule of any capability.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One decision and what it rests on.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explanation {
    /// What was decided about: "signal", "novelty".
    pub subject: String,
    /// What was decided: "SHIP", "LOW".
    pub decision: String,
    /// Why, in sentences, the most telling first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reasons: Vec<String>,
    /// The numbers that were looked at.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub numbers: Vec<Number>,
    /// The decisions that this one rests on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<Explanation>,
}

/// A number, and what it was compared with.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Number {
    /// What it measures.
    pub name: String,
    /// The value; absent when it could not be computed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// Why there is no value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
    /// What it was compared with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compared: Option<Comparison>,
}

/// A comparison with a threshold and how it came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The relation that was tested.
    pub is: Relation,
    /// The threshold.
    pub threshold: f64,
    /// Whether it held.
    pub holds: bool,
}

/// The relation of a value to its threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// value < threshold
    Below,
    /// value <= threshold
    AtMost,
    /// value >= threshold
    AtLeast,
    /// value > threshold
    Above,
}

impl Explanation {
    /// An explanation without numbers or parts yet.
    pub fn new(subject: impl Into<String>, decision: impl Into<String>) -> Self {
        Self {
            subject: subject.into(),
            decision: decision.into(),
            ..Self::default()
        }
    }

    /// Adds a reason.
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reasons.push(reason.into());
        self
    }

    /// Adds a number.
    pub fn with(mut self, number: Number) -> Self {
        self.numbers.push(number);
        self
    }

    /// Adds a decision that this one rests on.
    pub fn part(mut self, part: Explanation) -> Self {
        self.parts.push(part);
        self
    }
}

impl Number {
    /// A number that was only looked at.
    pub fn of(name: impl Into<String>, value: f64) -> Self {
        Self {
            name: name.into(),
            value: Some(value),
            absent_because: None,
            compared: None,
        }
    }

    /// A number that could not be computed.
    pub fn absent(name: impl Into<String>, because: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            value: None,
            absent_because: Some(because.into()),
            compared: None,
        }
    }

    /// Compares the number with a threshold; an absent one stays uncompared.
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
    /// Whether the value stands in this relation to the threshold.
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

/// At most three decimals, without trailing zeros.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{:.3}", self.0);
        formatter.write_str(text.trim_end_matches('0').trim_end_matches('.'))
    }
}

/// The tree as indented lines.
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
    fn a_tree_reads_as_indented_lines_and_survives_json() {
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
    fn every_relation_prints_what_is_true() {
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
