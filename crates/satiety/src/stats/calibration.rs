//! Calibration of predicted probabilities (Brier score, log loss, calibration error) and ranking quality
//! (AUC).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::descriptive::{mean_of, sum};
use super::error::{Result, StatsError, check_probability, check_same_length};
use super::rank_correlation::doubled_ranks;

/// Mean squared distance between prediction and outcome (Brier 1950). Lower is better; 0.25 for a constant ½.
pub(crate) fn brier_score(predicted: &[f64], outcomes: &[bool]) -> Result<f64> {
    check(predicted, outcomes)?;
    let squares: Vec<f64> = predicted
        .iter()
        .zip(outcomes)
        .map(|(p, &o)| (p - f64::from(u8::from(o))).powi(2))
        .collect();
    Ok(mean_of(&squares))
}

/// Mean negative log-likelihood. Predictions are clamped one rounding error away from 0 and 1, as in
/// scikit-learn, so that one certain error costs 36 and not infinity.
pub fn log_loss(predicted: &[f64], outcomes: &[bool]) -> Result<f64> {
    check(predicted, outcomes)?;
    let losses: Vec<f64> = predicted
        .iter()
        .zip(outcomes)
        .map(|(&p, &outcome)| {
            let p = p.clamp(f64::EPSILON, 1.0 - f64::EPSILON);
            if outcome { -p.ln() } else { -(-p).ln_1p() }
        })
        .collect();
    Ok(mean_of(&losses))
}

/// Probability that a random positive ranks above a random negative; ties count half. Accepts any finite
/// scores.
pub fn auc(scores: &[f64], outcomes: &[bool]) -> Result<f64> {
    check_same_length(scores, outcomes)?;
    super::error::check_sample(scores, 1)?;
    let positives = outcomes.iter().filter(|&&outcome| outcome).count();
    let negatives = outcomes.len() - positives;
    if positives == 0 || negatives == 0 {
        return Err(StatsError::NoVariation { what: "outcomes" });
    }
    let ranks = doubled_ranks(scores);
    let total: u64 = ranks
        .iter()
        .zip(outcomes)
        .filter(|(_, outcome)| **outcome)
        .map(|(rank, _)| rank)
        .sum();
    let m = positives as f64;
    Ok((total as f64 / 2.0 - m * (m + 1.0) / 2.0) / (m * negatives as f64))
}

/// One bin of a reliability diagram.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CalibrationBin {
    /// Lower edge; the bin is `(low, high]`, the first one `[0, high]`.
    pub low: f64,
    /// Upper edge, included in the bin.
    pub high: f64,
    /// Number of predictions in the bin.
    pub count: usize,
    /// Mean prediction; absent when the bin is empty.
    pub mean_predicted: Option<f64>,
    /// Share of positive outcomes; absent when the bin is empty.
    pub observed: Option<f64>,
}

/// Reliability diagram with `bins` bins of equal width.
pub(crate) fn calibration_bins(
    predicted: &[f64],
    outcomes: &[bool],
    bins: usize,
) -> Result<Vec<CalibrationBin>> {
    check(predicted, outcomes)?;
    if !(1..=1_000_000).contains(&bins) {
        return Err(StatsError::OutOfRange {
            what: "bins",
            value: bins as f64,
            range: "1 to 10^6",
        });
    }
    let edge = |i: usize| i as f64 / bins as f64;
    let mut members: Vec<(Vec<f64>, usize)> = vec![(Vec::new(), 0); bins];
    for (&p, &outcome) in predicted.iter().zip(outcomes) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 0 and bins"
        )]
        let mut bin = ((p * bins as f64).ceil() as usize)
            .saturating_sub(1)
            .min(bins - 1);
        // The product may round across an edge: compare with the edges themselves.
        while bin > 0 && p <= edge(bin) {
            bin -= 1;
        }
        while bin + 1 < bins && p > edge(bin + 1) {
            bin += 1;
        }
        members[bin].0.push(p);
        members[bin].1 += usize::from(outcome);
    }
    Ok(members
        .into_iter()
        .enumerate()
        .map(|(i, (values, positives))| CalibrationBin {
            low: edge(i),
            high: edge(i + 1),
            count: values.len(),
            mean_predicted: (!values.is_empty()).then(|| mean_of(&values)),
            observed: (!values.is_empty()).then(|| positives as f64 / values.len() as f64),
        })
        .collect())
}

/// Expected calibration error (Naeini et al. 2015; Guo et al. 2017): the mean distance between prediction and
/// observed frequency over bins of equal width, weighted by count.
pub(crate) fn expected_calibration_error(predicted: &[f64], outcomes: &[bool], bins: usize) -> Result<f64> {
    let n = predicted.len() as f64;
    let gaps: Vec<f64> = calibration_bins(predicted, outcomes, bins)?
        .iter()
        .filter_map(|bin| Some(bin.count as f64 / n * (bin.mean_predicted? - bin.observed?).abs()))
        .collect();
    Ok(sum(&gaps))
}

fn check(predicted: &[f64], outcomes: &[bool]) -> Result<()> {
    check_same_length(predicted, outcomes)?;
    if predicted.is_empty() {
        return Err(StatsError::TooFew { needed: 1, got: 0 });
    }
    predicted
        .iter()
        .try_for_each(|&p| check_probability("prediction", p))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::{A, assert_close};
    use super::*;

    const OUTCOMES: [bool; 12] = [
        true, false, true, true, true, false, false, false, true, false, true, true,
    ];
    const TIED: [f64; 12] = [0.8, 0.3, 0.5, 1.0, 0.6, 0.1, 0.8, 0.5, 0.9, 0.3, 0.6, 0.5];

    // Oracle: `python perf/peers/stats_oracle.py calibration` (scikit-learn; numpy for the bins).
    #[test]
    fn agrees_with_scikit_learn() {
        assert_close(brier_score(&A, &OUTCOMES).unwrap(), 0.15345, 1e-14);
        assert_close(log_loss(&A, &OUTCOMES).unwrap(), 0.4664622724676091, 1e-13);
        assert_close(auc(&A, &OUTCOMES).unwrap(), 0.8571428571428571, 1e-14);
        assert_close(auc(&TIED, &OUTCOMES).unwrap(), 0.8428571428571429, 1e-14);
        assert_close(expected_calibration_error(&A, &OUTCOMES, 5).unwrap(), 0.13, 1e-14);
        assert_close(
            expected_calibration_error(&TIED, &OUTCOMES, 10).unwrap(),
            0.22499999999999995,
            1e-14,
        );
    }

    #[test]
    fn certain_errors_are_finite() {
        assert_close(log_loss(&[0.0], &[true]).unwrap(), 36.04365338911715, 1e-12);
        assert_close(log_loss(&[1.0], &[true]).unwrap(), 0.0, 1e-15);
    }

    #[test]
    fn one_class_has_no_auc() {
        assert_eq!(
            auc(&[0.1, 0.9], &[true, true]),
            Err(StatsError::NoVariation { what: "outcomes" })
        );
        assert!(brier_score(&[1.2], &[true]).is_err());
        assert!(brier_score(&[], &[]).is_err());
        assert!(expected_calibration_error(&[0.5], &[true], 0).is_err());
        assert!(log_loss(&[f64::NAN], &[true]).is_err());
    }

    proptest! {
        #[test]
        fn auc_mirrors_and_ignores_scale(rows in prop::collection::vec((0u8..9, any::<bool>()), 2..40)) {
            let outcomes: Vec<bool> = rows.iter().map(|row| row.1).collect();
            prop_assume!(outcomes.contains(&true) && outcomes.contains(&false));
            let scores: Vec<f64> = rows.iter().map(|row| f64::from(row.0)).collect();
            let negated: Vec<f64> = scores.iter().map(|score| -score).collect();
            let cubed: Vec<f64> = scores.iter().map(|score| score.powi(3) - 7.0).collect();
            let found = auc(&scores, &outcomes).unwrap();
            assert_close(found, 1.0 - auc(&negated, &outcomes).unwrap(), 1e-12);
            prop_assert_eq!(found, auc(&cubed, &outcomes).unwrap());
        }

        #[test]
        fn bins_hold_everything_once(rows in prop::collection::vec((0u8..=100, any::<bool>()), 1..60), bins in 1usize..30) {
            let predicted: Vec<f64> = rows.iter().map(|row| f64::from(row.0) / 100.0).collect();
            let outcomes: Vec<bool> = rows.iter().map(|row| row.1).collect();
            let found = calibration_bins(&predicted, &outcomes, bins).unwrap();
            prop_assert_eq!(found.iter().map(|bin| bin.count).sum::<usize>(), rows.len());
            for bin in found {
                if let Some(mean) = bin.mean_predicted {
                    prop_assert!(bin.low - 1e-12 <= mean && mean <= bin.high + 1e-12);
                }
            }
            let error = expected_calibration_error(&predicted, &outcomes, bins).unwrap();
            prop_assert!((0.0..=1.0).contains(&error));
        }
    }
}
