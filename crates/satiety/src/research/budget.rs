//! What may be spent, and whether anything is left: plain numbers in, a reason out.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::settings::SettingsError;

/// Hard limits beside the number of rounds. What is absent is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Budget {
    /// Seconds from the start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Tokens of chat models, read and written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in whatever currency prices are given in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub money: Option<f64>,
}

/// What was spent so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Spent {
    /// Seconds.
    pub seconds: f64,
    /// Tokens; where a server does not tell, an estimate.
    pub tokens: u64,
    /// Money; 0 where no prices are known.
    pub money: f64,
}

/// Which limit was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetEnd {
    /// Time.
    Seconds,
    /// Tokens.
    Tokens,
    /// Money.
    Money,
}

impl BudgetEnd {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Seconds => "the time is used up",
            Self::Tokens => "the tokens are used up",
            Self::Money => "the money is used up",
        }
    }
}

impl Budget {
    /// The limit that is reached, if one is.
    pub fn end(&self, spent: &Spent) -> Option<BudgetEnd> {
        if self.seconds.is_some_and(|limit| spent.seconds >= limit) {
            return Some(BudgetEnd::Seconds);
        }
        if self.tokens.is_some_and(|limit| spent.tokens >= limit) {
            return Some(BudgetEnd::Tokens);
        }
        if self.money.is_some_and(|limit| spent.money >= limit) {
            return Some(BudgetEnd::Money);
        }
        None
    }

    /// Says what is wrong, if anything is.
    pub fn check(&self) -> Result<(), SettingsError> {
        for (name, value) in [("the time limit", self.seconds), ("the money limit", self.money)] {
            if let Some(value) = value
                && !(value.is_finite() && value >= 0.0)
            {
                return Err(SettingsError::OutOfRange {
                    name,
                    range: "a number that is not negative",
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
    fn a_limit_ends_it_when_it_is_reached() {
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
            Some(BudgetEnd::Seconds)
        );
        assert_eq!(
            end(Budget {
                tokens: Some(501),
                money: Some(0.1),
                ..Budget::default()
            }),
            Some(BudgetEnd::Money)
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
