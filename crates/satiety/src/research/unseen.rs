//! How much of what these searches would still bring up is unseen: Good-Turing over clusters of claims. Reported and never
//! decided with: every paraphrase that was not recognised is a claim seen once for ever.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::stats::{Abundance, Interval, unseen_mass};

const CONFIDENCE: f64 = 0.95;
/// Below so many claims the estimate says nothing.
const FEWEST_CLAIMS: u64 = 10;

/// The estimate after a round.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// Claims accepted, repeats included.
    pub claims: u64,
    /// Different claims.
    pub distinct: u64,
    /// The chance that the next claim is a new one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Interval>,
    /// Why there is no estimate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub absent_because: Option<String>,
}

/// The estimate from how often each cluster of claims was met.
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
        unseen.absent_because = Some("not enough evidence: nothing was met twice".into());
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
    fn the_share_of_what_was_met_once() {
        let found = unseen(&[5, 3, 2, 1, 1]);
        assert!((found.share.unwrap() - 2.0 / 12.0).abs() < 1e-12);
        assert!(unseen(&[1, 1]).absent_because.unwrap().contains("fewer"));
        assert!(unseen(&[1; 20]).absent_because.unwrap().contains("twice"));
    }
}
