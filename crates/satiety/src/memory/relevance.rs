//! Relevance: the probability that a result answers the query, and the floor below which a search has found nothing.
//!
//! The probability is a logistic function of two values that are comparable between queries and databases, unlike the
//! fused score: the share of the query that the words of the result cover, and the cosine of query and result. Its
//! coefficients were fitted on judged queries and on queries without an answer (docs/measurements.md).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Calibration of confidence by the evidence that a search has.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = super::pipeline::optional)]
pub struct RelevanceSettings {
    /// For searches by words and meaning.
    pub fused: Calibration,
    /// For turns of conversations by words and meaning: they are short, and their neighbors are evidence as well.
    pub turns: Calibration,
    /// For searches by meaning alone.
    pub vector: Calibration,
    /// For searches by words alone, and for models and languages whose cosines are not calibrated.
    pub lexical: Calibration,
}

/// Logistic model of relevance, and the floor of confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RelevanceCalibration", transform = super::pipeline::optional)]
pub struct Calibration {
    /// Log-odds of a result that has nothing in common with the query.
    pub intercept: f64,
    /// Increase of the log-odds if the words of the result cover the whole query.
    pub coverage: f64,
    /// Increase of the log-odds at a cosine of 1.
    pub cosine: f64,
    /// Confidence below which a result does not count as relevant; 0 disables the floor.
    pub floor: f64,
}

impl Calibration {
    /// Probability from 0 to 1 that a result is relevant.
    pub fn confidence(self, coverage: f64, cosine: f64) -> f64 {
        let log_odds = self.intercept + self.coverage * coverage + self.cosine * cosine;
        1.0 / (1.0 + (-log_odds).exp())
    }
}

/// Whether a search found anything relevant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SearchOutcome {
    /// At least one result reaches the relevance floor.
    #[default]
    Relevant,
    /// No result reaches the relevance floor: the memory does not know.
    NothingRelevant,
}

#[cfg(test)]
mod tests {
    use super::super::Pipeline;

    /// By hand: the odds at cosine .6 and coverage .4 are e^(-6.06 + 1.55 · .4 + 8.2 · .6).
    #[test]
    fn confidence_is_logistic_and_grows_with_evidence() {
        let fused = Pipeline::default().relevance.fused;
        let odds = (fused.intercept + fused.coverage * 0.4 + fused.cosine * 0.6).exp();
        assert!((fused.confidence(0.4, 0.6) - odds / (1.0 + odds)).abs() < 1e-12);
        assert!(fused.confidence(0.5, 0.6) > fused.confidence(0.4, 0.6));
        assert!(fused.confidence(0.0, 0.1) < fused.floor, "unrelated texts");
        assert!(fused.confidence(0.3, 0.55) > fused.floor, "usual answers");
    }
}
