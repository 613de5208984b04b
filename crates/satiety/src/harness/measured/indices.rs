//! The classical figures of each case: how hard it is and how well it tells good versions from poor ones.
//!
//! [`super::Items`] has the corrected correlation with the rest, which is the one to act on; these are what
//! textbooks and other tools print.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::items::correlation;
use super::matrix::{Matrix, rate};
use crate::stats::mean;

/// The share of versions at either end that the upper-lower index compares (Kelley 1939).
const TAIL: f64 = 0.27;

/// The figures of one case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseIndex {
    /// Which.
    pub case_id: String,
    /// Mean pass rate over the versions; 1 is easiest.
    pub easiness: f64,
    /// Pass rate among the best 27 % of the versions less that among the poorest, between −1 and 1; absent below three
    /// versions or when all do equally well.
    pub upper_lower: Option<f64>,
    /// Correlation with the versions' means, the case included (point-biserial for single runs); absent when either does
    /// not vary.
    pub point_biserial: Option<f64>,
}

/// The figures of the cases that every version decided.
pub fn case_indices(matrix: &Matrix) -> Vec<CaseIndex> {
    let rows: Vec<(&str, Vec<f64>)> = matrix
        .cases
        .iter()
        .filter_map(|case| {
            let row: Option<Vec<f64>> = case.tallies.iter().map(|tally| tally.map(rate)).collect();
            Some((case.case_id.as_str(), row?))
        })
        .collect();
    let mut totals = vec![0.0; matrix.versions];
    for (_, row) in &rows {
        for (total, value) in totals.iter_mut().zip(row) {
            *total += value;
        }
    }
    let tails = tails(&totals);
    rows.into_iter()
        .filter_map(|(case_id, row)| {
            let among = |versions: &[usize]| {
                let picked: Vec<f64> = versions
                    .iter()
                    .filter_map(|&version| row.get(version).copied())
                    .collect();
                mean(&picked).ok()
            };
            Some(CaseIndex {
                case_id: case_id.to_owned(),
                easiness: mean(&row).ok()?,
                upper_lower: tails
                    .as_ref()
                    .and_then(|(upper, lower)| Some(among(upper)? - among(lower)?)),
                point_biserial: correlation(&row, &totals),
            })
        })
        .collect()
}

/// The best and the poorest versions. Of versions that do equally well the newer counts as better, so that neither end
/// depends on anything but the matrix.
fn tails(totals: &[f64]) -> Option<(Vec<usize>, Vec<usize>)> {
    let mut order: Vec<usize> = (0..totals.len()).collect();
    order.sort_by(|&a, &b| {
        let total = |version: usize| totals.get(version).copied().unwrap_or(0.0);
        total(a).total_cmp(&total(b)).then(a.cmp(&b))
    });
    let (poorest, best) = (order.first()?, order.last()?);
    if totals.len() < 3 || totals.get(*poorest) == totals.get(*best) {
        return None;
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of the number of versions"
    )]
    let size = ((totals.len() as f64 * TAIL).round() as usize).max(1);
    Some((
        order.iter().rev().take(size).copied().collect(),
        order.iter().take(size).copied().collect(),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;

    /// Rows 000, 001, 011, 111, 100: totals 2, 2, 3. Oracle: numpy 2.4 `corrcoef(row, [2, 2, 3])`.
    #[test]
    fn by_hand() {
        let matrix = rows(
            vec![
                vec![0, 0, 0],
                vec![0, 0, 1],
                vec![0, 1, 1],
                vec![1, 1, 1],
                vec![1, 0, 0],
            ],
            1,
        );
        let expected = [
            (0.0, 0.0, None),
            (1.0 / 3.0, 1.0, Some(1.0)),
            (2.0 / 3.0, 1.0, Some(0.5)),
            (1.0, 0.0, None),
            (1.0 / 3.0, -1.0, Some(-0.5)),
        ];
        for (found, (easiness, upper_lower, point_biserial)) in case_indices(&matrix).iter().zip(expected) {
            assert!((found.easiness - easiness).abs() < 1e-12, "{found:?}");
            assert_eq!(found.upper_lower, Some(upper_lower), "{found:?}");
            match (found.point_biserial, point_biserial) {
                (Some(found), Some(wanted)) => assert!((found - wanted).abs() < 1e-12, "{found}"),
                (found, wanted) => assert_eq!(found, wanted),
            }
        }
    }

    #[test]
    fn tails_of_twenty_are_five_and_missing_results_are_left_out() {
        // Version v passes v of 20 cases: the best five are 15 to 19, the poorest 0 to 4.
        let mut matrix = rows(
            (0..20)
                .map(|case| (0..20).map(|version| u64::from(version > case)).collect())
                .collect(),
            1,
        );
        let found = case_indices(&matrix);
        assert_eq!(found[0].upper_lower, Some(1.0 - 0.8));
        assert_eq!(found[10].upper_lower, Some(1.0));
        assert_eq!(found[17].upper_lower, Some(0.4));
        matrix.cases[0].tallies[3] = None;
        assert_eq!(case_indices(&matrix).len(), 19);
        // Two versions, or versions that do equally well, have no upper and lower end.
        assert_eq!(case_indices(&rows(vec![vec![0, 1]; 4], 1))[0].upper_lower, None);
        assert_eq!(
            case_indices(&rows(vec![vec![0, 0, 0]; 4], 1))[0].upper_lower,
            None
        );
    }
}
