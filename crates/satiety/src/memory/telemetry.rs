//! What a search tells about itself: stage by stage, and one figure for its health.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A stage of a search, by the names of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The channels look.
    Candidate,
    /// What is expired or elsewhere goes.
    Filter,
    /// The channels' lists become one.
    Fusion,
    /// Boosts and diversity.
    Rerank,
    /// A channel could not be used, and the others had to do.
    Fallback,
    /// Places, budget, excerpts.
    FinalRank,
}

/// What a stage did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTrace {
    /// Which stage.
    pub stage: Stage,
    /// What came in.
    pub input_count: usize,
    /// What went out.
    pub output_count: usize,
    /// How long it took.
    pub duration_ms: f64,
}

/// Results from which on there are enough, and the times between which a search goes from quick to slow.
const ENOUGH: f64 = 5.0;
const QUICK_MS: f64 = 50.0;
const SLOW_MS: f64 = 1000.0;

/// The specification's proxy for quality: .40 mean score + .25 best score + .20 whether there are enough results + .15
/// whether it was quick. It tells the pipeline's health and not relevance, which needs judgments.
pub fn quality_proxy(scores: &[f64], total_ms: f64) -> f64 {
    if scores.is_empty() {
        return 0.0;
    }
    let clamp = |value: f64| value.clamp(0.0, 1.0);
    let mean = scores.iter().map(|score| clamp(*score)).sum::<f64>() / scores.len() as f64;
    let top = scores.iter().copied().fold(0.0, f64::max);
    let enough = clamp(scores.len() as f64 / ENOUGH);
    let quick = clamp((SLOW_MS - total_ms) / (SLOW_MS - QUICK_MS));
    0.40 * mean + 0.25 * clamp(top) + 0.20 * enough + 0.15 * quick
}

#[cfg(test)]
mod tests {
    use super::*;

    /// .4 · .6 + .25 · .8 + .2 · 2/5 + .15 · 1 = .67; half way between quick and slow .595.
    #[test]
    fn the_proxy_weighs_as_the_specification_says() {
        assert!((quality_proxy(&[0.8, 0.4], 10.0) - 0.67).abs() < 1e-12);
        assert!((quality_proxy(&[0.8, 0.4], 525.0) - 0.595).abs() < 1e-12);
        assert!(quality_proxy(&[], 1.0).abs() < 1e-12);
        assert!((quality_proxy(&[1.0; 9], 1.0) - 1.0).abs() < 1e-12);
    }
}
