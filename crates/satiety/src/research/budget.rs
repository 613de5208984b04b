//! Research budget: compares spending with hard limits on time, tokens and money.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::SettingsError;

/// Hard limits in addition to the number of rounds. An absent limit means unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Time limit in seconds since the start of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Limit of input and output tokens of chat models.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Spending limit, in the currency of the configured prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// Resources spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Seconds since the start of the run.
    pub seconds: f64,
    /// Input and output tokens of chat models; estimated when a server does not report usage.
    pub tokens: u64,
    /// Cost in the currency of the configured prices; 0 without prices.
    pub money: f64,
}

/// Budget limit that was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetLimit {
    /// The time limit was reached.
    Seconds,
    /// The token limit was reached.
    Tokens,
    /// The spending limit was reached.
    Money,
}

impl BudgetLimit {
    /// Describes the limit as a clause.
    pub fn words(self) -> &'static str {
        match self {
            Self::Seconds => "the time budget is exhausted",
            Self::Tokens => "the token budget is exhausted",
            Self::Money => "the spending limit is reached",
        }
    }
}

impl Budget {
    /// Returns the first limit that is reached.
    pub fn end(&self, spent: &Spent) -> Option<BudgetLimit> {
        if self.seconds.is_some_and(|limit| spent.seconds >= limit) {
            return Some(BudgetLimit::Seconds);
        }
        if self.tokens.is_some_and(|limit| spent.tokens >= limit) {
            return Some(BudgetLimit::Tokens);
        }
        if self.money.is_some_and(|limit| spent.money >= limit) {
            return Some(BudgetLimit::Money);
        }
        None
    }

    /// Validates the limits.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (name, value) in [("time limit", self.seconds), ("spending limit", self.money)] {
            if let Some(value) = value
                && !(value.is_finite() && value >= 0.0)
            {
                return Err(SettingsError::OutOfRange {
                    name,
                    range: "a non-negative number",
                    value,
                });
            }
        }
        Ok(())
    }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Self) {
        self.seconds += more.seconds;
        self.tokens = self.tokens.saturating_add(more.tokens);
        self.money += more.money;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_reported_when_reached() {
        let spent = Spent {
            seconds: 10.0,
            tokens: 500,
            money: 0.2,
        };
        let end = |budget: Budget| budget.end(&spent);
        assert_eq!(end(Budget::default()), None);
        assert_eq!(
            end(Budget {
                seconds: Some(10.0),
                ..Budget::default()
            }),
            Some(BudgetLimit::Seconds)
        );
        assert_eq!(
            end(Budget {
                tokens: Some(501),
                money: Some(0.1),
                ..Budget::default()
            }),
            Some(BudgetLimit::Money)
        );
        assert!(
            Budget {
                money: Some(f64::NAN),
                ..Budget::default()
            }
            .check()
            .is_err()
        );
    }
}
