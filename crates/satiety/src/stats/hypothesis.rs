//! What all tests share: the alternative they are asked about.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which departures from "no difference" count as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alternative {
    /// A difference in either direction.
    #[default]
    TwoSided,
    /// Only a larger value.
    Greater,
    /// Only a smaller value.
    Less,
}

impl Alternative {
    /// The p-value from `P(X ≤ x)` and `P(X ≥ x)`, both with x included. Two-sided is twice the smaller, at most 1.
    pub(crate) fn p_value(self, at_most: f64, at_least: f64) -> f64 {
        let p = match self {
            Self::TwoSided => 2.0 * at_most.min(at_least),
            Self::Greater => at_least,
            Self::Less => at_most,
        };
        p.clamp(0.0, 1.0)
    }
}
