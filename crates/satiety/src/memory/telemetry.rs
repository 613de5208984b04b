//! Search telemetry: stage traces and a health score.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Stage of a search, with the names of the specification.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Stage {
    /// The channels find candidates.
    Candidate,
    /// Expired and invisible candidates are removed.
    Filter,
    /// The lists of the channels are fused.
    Fusion,
    /// Boosts and diversity are applied.
    Rerank,
    /// A channel was unavailable, and the others were used.
    Fallback,
    /// Placement, token budget and excerpts.
    FinalRank,
}

/// Trace of one stage.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StageTrace {
    /// Stage that the trace is about.
    pub stage: Stage,
    /// Number of candidates before the stage.
    pub input_count: usize,
    /// Number of candidates after the stage.
    pub output_count: usize,
    /// Duration of the stage in milliseconds.
    pub duration_ms: f64,
}

/// Number of results that suffices, and the durations that count as fast and as slow.
const SUFFICIENT_RESULTS: f64 = 5.0;
const FAST_MS: f64 = 50.0;
const SLOW_MS: f64 = 1000.0;

/// Quality proxy of the specification: .40 mean score + .25 best score + .20 sufficient results + .15 speed.
/// It measures the health of the pipeline, not relevance, which requires judgments.
pub(crate) fn quality_proxy(scores: &[f64], total_ms: f64) -> f64 {
    if scores.is_empty() {
        return 0.0;
    }
    let clamp = |value: f64| value.clamp(0.0, 1.0);
    let mean = scores.iter().map(|score| clamp(*score)).sum::<f64>() / scores.len() as f64;
    let top = scores.iter().copied().fold(0.0, f64::max);
    let enough = clamp(scores.len() as f64 / SUFFICIENT_RESULTS);
    let quick = clamp((SLOW_MS - total_ms) / (SLOW_MS - FAST_MS));
    0.40 * mean + 0.25 * clamp(top) + 0.20 * enough + 0.15 * quick
}

#[cfg(test)]
mod tests {
    use super::*;

    /// .4 · .6 + .25 · .8 + .2 · 2/5 + .15 · 1 = .67; halfway between fast and slow .595.
    #[test]
    fn the_proxy_has_the_weights_of_the_specification() {
        assert!((quality_proxy(&[0.8, 0.4], 10.0) - 0.67).abs() < 1e-12);
        assert!((quality_proxy(&[0.8, 0.4], 525.0) - 0.595).abs() < 1e-12);
        assert!(quality_proxy(&[], 1.0).abs() < 1e-12);
        assert!((quality_proxy(&[1.0; 9], 1.0) - 1.0).abs() < 1e-12);
    }
}
