//! Alternative hypothesis and p-value, shared by all tests.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Which deviations from "no difference" count as evidence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Alternative {
    /// A difference in either direction.
    #[default]
    TwoSided,
    /// Only a positive difference.
    Greater,
    /// Only a negative difference.
    Less,
}

impl Alternative {
    /// P-value from `P(X ≤ x)` and `P(X ≥ x)`, both including x. Two-sided is twice the smaller, at most 1.
    pub(crate) fn p_value(self, at_most: f64, at_least: f64) -> f64 {
        let p = match self {
            Self::TwoSided => 2.0 * at_most.min(at_least),
            Self::Greater => at_least,
            Self::Less => at_most,
        };
        p.clamp(0.0, 1.0)
    }
}

/// A p-value as reports show it: `p = 0.0312`, or `p < 0.0001` when four digits would show zero.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PValue(pub f64);

impl fmt::Display for PValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < 0.0001 {
            formatter.write_str("p < 0.0001")
        } else {
            write!(formatter, "p = {:.4}", self.0)
        }
    }
}
