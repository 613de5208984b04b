//! Exclusion rates by zone, age, kind, scope and score, and how well the scores predicted exclusions.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::super::error::EvictionError;
use super::super::features::{band_start, next_band};
use super::super::resolve::Label;
use crate::stats::calibration::{CalibrationBin, calibration_bins};
use crate::stats::{Interval, auc, brier_score, expected_calibration_error, log_loss, wilson};

/// Number of bins of the reliability diagram and of the score.
const BINS: usize = 10;
const CONFIDENCE: f64 = 0.95;

/// Summary of the feedback on proposals.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FeedbackReport {
    /// Number of proposals that were answered.
    pub proposals: usize,
    /// Number of candidates in those proposals.
    pub labels: usize,
    /// Exclusion rate over all candidates.
    pub overall: RateRow,
    /// Exclusion rates by zone, age, kind, scope and score.
    pub rates: Rates,
    /// How well `relevance_score` predicted exclusions; absent if all or none were excluded.
    pub prediction: Option<Prediction>,
}

/// Exclusion rates by group, each list sorted by group.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Rates {
    /// Exclusion rates by zone.
    pub zone: Vec<RateRow>,
    /// Exclusion rates by turns since the last use.
    pub age: Vec<RateRow>,
    /// Exclusion rates by item kind.
    pub kind: Vec<RateRow>,
    /// Exclusion rates by scope.
    pub scope: Vec<RateRow>,
    /// Exclusion rates by relevance score.
    pub score: Vec<RateRow>,
}

/// Exclusion rate of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RateRow {
    /// Name of the group.
    pub group: String,
    /// Number of candidates in the group.
    pub proposed: u64,
    /// Number of candidates that were excluded.
    pub kept_back: u64,
    /// Share of candidates that were excluded, from 0 to 1.
    pub rate: f64,
    /// Wilson interval of the rate at 95 % confidence.
    pub interval: Interval,
}

/// How well probabilities predict exclusions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prediction {
    /// Probability that an excluded item is ranked above an evicted one; 0.5 is chance.
    pub auc: f64,
    /// Brier score: mean squared error of the probabilities.
    pub brier: f64,
    /// Log loss: mean negative log-likelihood.
    pub log_loss: f64,
    /// Expected calibration error: mean distance between probability and frequency.
    pub ece: f64,
    /// Bins of the reliability diagram.
    pub reliability: Vec<CalibrationBin>,
}

/// Summarizes the feedback on proposals.
pub fn feedback_report(labels: &[Label]) -> Result<FeedbackReport, EvictionError> {
    let proposals: BTreeSet<&str> = labels.iter().map(|label| label.proposal_id.as_str()).collect();
    let predicted: Vec<f64> = labels.iter().map(|label| label.relevance_score).collect();
    let outcomes: Vec<bool> = labels.iter().map(|label| label.kept_back).collect();
    let band = |label: &Label| -> (u64, String) {
        let (start, next) = (band_start(label.age_turns), next_band(label.age_turns));
        let name = if next == start + 1 {
            start.to_string()
        } else {
            format!("{start} to {}", next - 1)
        };
        (start, name)
    };
    let score_band = |label: &Label| -> (u64, String) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a probability times ten, clamped"
        )]
        let tenth = (label.relevance_score * BINS as f64).clamp(0.0, BINS as f64 - 1.0) as u64;
        (
            tenth,
            format!("{:.1} to {:.1}", tenth as f64 / 10.0, (tenth + 1) as f64 / 10.0),
        )
    };
    Ok(FeedbackReport {
        proposals: proposals.len(),
        labels: labels.len(),
        overall: rate("all".into(), labels.iter().map(|label| label.kept_back))?,
        rates: Rates {
            zone: grouped(labels, |label| (0, label.zone.clone()))?,
            age: grouped(labels, band)?,
            kind: grouped(labels, |label| (0, label.kind.clone()))?,
            scope: grouped(labels, |label| (0, label.scope_id.clone()))?,
            score: grouped(labels, score_band)?,
        },
        prediction: prediction(&predicted, &outcomes)?,
    })
}

/// Measures how well probabilities predicted outcomes; `None` if all outcomes are equal.
pub fn prediction(predicted: &[f64], outcomes: &[bool]) -> Result<Option<Prediction>, EvictionError> {
    if !(outcomes.contains(&true) && outcomes.contains(&false)) {
        return Ok(None);
    }
    Ok(Some(Prediction {
        auc: auc(predicted, outcomes)?,
        brier: brier_score(predicted, outcomes)?,
        log_loss: log_loss(predicted, outcomes)?,
        ece: expected_calibration_error(predicted, outcomes, BINS)?,
        reliability: calibration_bins(predicted, outcomes, BINS)?,
    }))
}

fn grouped(labels: &[Label], group: impl Fn(&Label) -> (u64, String)) -> Result<Vec<RateRow>, EvictionError> {
    let mut groups: BTreeMap<(u64, String), Vec<bool>> = BTreeMap::new();
    for label in labels {
        groups.entry(group(label)).or_default().push(label.kept_back);
    }
    groups
        .into_iter()
        .map(|((_, name), kept)| rate(name, kept.into_iter()))
        .collect()
}

fn rate(group: String, kept: impl Iterator<Item = bool>) -> Result<RateRow, EvictionError> {
    let (mut proposed, mut kept_back) = (0, 0);
    for kept in kept {
        proposed += 1;
        kept_back += u64::from(kept);
    }
    Ok(RateRow {
        group,
        proposed,
        kept_back,
        rate: kept_back as f64 / proposed.max(1) as f64,
        interval: wilson(kept_back, proposed, CONFIDENCE)?,
    })
}

#[cfg(test)]
pub(super) mod tests {
    use jiff::Timestamp;

    use super::super::super::features::Term;
    use super::*;

    pub(crate) fn label(
        proposal: usize,
        item: usize,
        zone: &str,
        age: u64,
        score: f64,
        kept_back: bool,
    ) -> Label {
        Label {
            proposal_id: format!("p{proposal}"),
            scope_id: format!("s{}", proposal % 2),
            ctx_id: format!("i{item}"),
            zone: zone.into(),
            kind: "message".into(),
            age_turns: age,
            token_count: 10,
            relevance_score: score,
            propensity: 1.0,
            features: [0.0; Term::ALL.len()],
            kept_back,
            exclude_reason: None,
            resolved_at: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn rates_are_grouped_with_intervals() {
        let labels = [
            label(0, 0, "memory", 5, 0.95, true),
            label(0, 1, "memory", 4, 0.25, false),
            label(1, 0, "chronicle", 13, 0.25, false),
            label(1, 1, "chronicle", 1, 0.999, true),
        ];
        let report = feedback_report(&labels).unwrap();
        assert_eq!(
            (report.proposals, report.labels, report.overall.kept_back),
            (2, 4, 2)
        );
        let groups = |rows: &[RateRow]| {
            rows.iter()
                .map(|row| (row.group.clone(), row.kept_back, row.proposed))
                .collect::<Vec<_>>()
        };
        assert_eq!(
            groups(&report.rates.zone),
            [("chronicle".into(), 1, 2), ("memory".into(), 1, 2)]
        );
        assert_eq!(
            groups(&report.rates.age),
            [
                ("1".into(), 1, 1),
                ("4 to 5".into(), 1, 2),
                ("12 to 15".into(), 0, 1)
            ]
        );
        assert_eq!(
            groups(&report.rates.score),
            [("0.2 to 0.3".into(), 0, 2), ("0.9 to 1.0".into(), 2, 2)]
        );
        assert_eq!(
            groups(&report.rates.scope),
            [("s0".into(), 1, 2), ("s1".into(), 1, 2)]
        );
        let prediction = report.prediction.unwrap();
        assert!((prediction.auc - 1.0).abs() < 1e-12);
        // (0.05² + 0.25² + 0.25² + 0.001²) / 4
        assert!((prediction.brier - 0.03187525).abs() < 1e-12);
        assert!(feedback_report(&[]).is_err());
        assert_eq!(feedback_report(&labels[..1]).unwrap().prediction, None);
    }
}
