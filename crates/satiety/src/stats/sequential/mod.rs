//! Sequential tests that may be checked after every observation, and stopped at any time, without raising the
//! false alarm rate.
//!
//! - [`BettingTest`]: bounded paired differences of any shape; the default
//! - [`discordant_evidence`]: paired pass/fail results
//! - [`rate_below_evidence`]: whether an event is rare
//! - [`NormalSprt`]: two point hypotheses and roughly normal differences; fastest when the assumed effect is right
//! - [`nominal_levels`]: levels for a few looks with a known last one

mod betting;
mod discordant;
mod rate;
mod spending;
mod sprt;

pub use betting::{BettingSettings, BettingTest};
pub use discordant::discordant_evidence;
pub use rate::rate_below_evidence;
pub use spending::nominal_levels;
pub use sprt::{NormalSprt, SprtDecision, SprtSettings, SprtSigma};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Evidence against a null hypothesis as an e-value: the wealth of a gambler who starts with one and bets
/// against the null at fair odds. Large values are evidence; under the null it *ever* exceeds 1/alpha with
/// probability at most alpha (Ville's inequality). Stored as a logarithm, because it is unbounded.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SequentialEvidence")]
pub struct Evidence {
    /// Natural logarithm of the e-value.
    pub ln_e: f64,
}

impl Evidence {
    /// The e-value itself; infinite beyond the range of a float.
    pub fn e_value(self) -> f64 {
        self.ln_e.exp()
    }

    /// P-value that is valid at any stopping time: 1/e, at most 1. After checking repeatedly, use the largest
    /// e-value seen.
    pub fn p_value(self) -> f64 {
        (-self.ln_e).exp().min(1.0)
    }

    /// Whether the null is rejected at level `alpha`.
    pub fn rejects(self, alpha: f64) -> bool {
        self.ln_e >= -alpha.ln()
    }
}
