//! Tests that may be looked at after every observation, and stopped when they say so, without raising the false
//! alarm rate.
//!
//! - [`BettingTest`]: bounded paired differences of any shape; the default
//! - [`discordant_evidence`]: paired pass/fail results
//! - [`rate_below_evidence`]: how rare an event is
//! - [`NormalSprt`]: two sharp hypotheses and roughly normal differences; the fastest when its effect is right

mod betting;
mod discordant;
mod rate;
mod sprt;

pub use betting::{BettingSettings, BettingTest};
pub use discordant::discordant_evidence;
pub use rate::rate_below_evidence;
pub use sprt::{NormalSprt, SprtDecision, SprtSettings, SprtSigma};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Evidence against a null hypothesis as an e-value: the wealth of a gambler who starts with one and bets against
/// the null at fair odds. Large is evidence; under the null it exceeds 1/alpha *ever* with probability at most
/// alpha (Ville's inequality). Kept as a logarithm, because it grows without limit.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
pub struct Evidence {
    /// Natural logarithm of the e-value.
    pub ln_e: f64,
}

impl Evidence {
    /// The e-value itself; infinite beyond the range of a float.
    pub fn e_value(self) -> f64 {
        self.ln_e.exp()
    }

    /// The p-value that is valid at any stopping time: 1/e, at most 1. To be valid after looking many times, take
    /// the largest e-value seen.
    pub fn p_value(self) -> f64 {
        (-self.ln_e).exp().min(1.0)
    }

    /// Whether the null is rejected at level `alpha`.
    pub fn rejects(self, alpha: f64) -> bool {
        self.ln_e >= -alpha.ln()
    }
}
