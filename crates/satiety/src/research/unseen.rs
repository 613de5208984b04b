//! Estimates how much of what these searches could return is still unseen, by Good-Turing over clusters of
//! claims. The estimate is reported but never decides, because every unrecognised paraphrase counts as a
//! claim seen once.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Abundance, Interval, unseen_mass};

const CONFIDENCE: f64 = 0.95;
/// Minimum number of claims for an estimate.
const FEWEST_CLAIMS: u64 = 10;

/// Good-Turing estimate after a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "UnseenEstimate")]
pub struct Unseen {
    /// Number of accepted claims, including repeats.
    pub claims: u64,
    /// Number of distinct claims.
    pub distinct: u64,
    /// Estimated probability that the next claim is new.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Confidence interval of the share (95 %).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Reason why the estimate is absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
}

/// Estimates the unseen share from how often each cluster of claims was stated.
pub fn unseen(abundances: &[u64]) -> Unseen {
    let abundance = Abundance::from_counts(abundances.iter().copied());
    let mut unseen = Unseen {
        claims: abundance.observations,
        distinct: abundance.kinds,
        ..Unseen::default()
    };
    if abundance.observations < FEWEST_CLAIMS {
        unseen.absent_because = Some(format!("not enough evidence: fewer than {FEWEST_CLAIMS} claims"));
    } else if abundance.singletons == abundance.observations {
        unseen.absent_because = Some("not enough evidence: no claim was made twice".into());
    } else if let Ok(mass) = unseen_mass(&abundance, CONFIDENCE) {
        unseen.share = Some(mass.estimate);
        unseen.interval = mass.interval;
    }
    unseen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_counts_singletons() {
        let found = unseen(&[5, 3, 2, 1, 1]);
        assert!((found.share.unwrap() - 2.0 / 12.0).abs() < 1e-12);
        assert!(unseen(&[1, 1]).absent_because.unwrap().contains("fewer"));
        assert!(unseen(&[1; 20]).absent_because.unwrap().contains("twice"));
    }
}
