//! The specification's own arithmetic, verbatim. It is kept for comparison; no decision depends on it.
//!
//! | rule | where it fails | what is done instead |
//! |---|---|---|
//! | trend from the slope alone | gains that have settled near 0 have no slope: a fully saturated harness scores 0.80, and CRITICAL begins at 0.85 | [`super::signals`]: decline or stall |
//! | a regression rate below 1 counts 0.5 | a system that fails everything still gets 0.125 | half of the rate |
//! | one loop counts both runs of levels | `HHHHHHHHHC` counts 2 high: getting worse resets the count | [`super::cycles`]: two independent trailing runs |

use super::signals::{Level, SignalError, SignalMetrics, SignalSettings, check, decline};

/// Computes the specification's score. Absent metrics count as 0; the specification's code would fail on
/// them.
pub fn literal_score(metrics: &SignalMetrics, deltas: &[f64]) -> Result<f64, SignalError> {
    check(metrics, deltas)?;
    let share = |value: Option<f64>, full: f64| (value.unwrap_or(0.0) / full).min(1.0);
    let regression = if metrics.regression_pass_rate == Some(1.0) {
        1.0
    } else {
        0.5
    };
    let SignalSettings { declining_slope, .. } = SignalSettings::default();
    let trend = if deltas.len() < 5 {
        0.0
    } else {
        decline(deltas, declining_slope)
    };
    Ok(share(metrics.benchmark_ceiling_rate, 0.80) * 0.30
        + regression * 0.25
        + trend * 0.20
        + share(metrics.proposal_pass_rate, 0.85) * 0.15
        + share(metrics.auditor_unanimous_rate, 0.90) * 0.10)
}

/// Counts consecutive HIGH and CRITICAL cycles by the specification's rule.
pub fn literal_counts(levels: &[Level]) -> (u32, u32) {
    let (mut high, mut critical) = (0, 0);
    for level in levels.iter().rev() {
        match level {
            Level::Critical => {
                critical += 1;
                high += 1;
            }
            Level::High => {
                high += 1;
                if critical > 0 {
                    break;
                }
            }
            Level::Elevated | Level::Normal => break,
        }
    }
    (high, critical)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::harness::cycles::trailing_runs;

    fn metrics(ceiling: f64, regression: f64, proposals: f64, auditors: f64) -> SignalMetrics {
        SignalMetrics {
            benchmark_ceiling_rate: Some(ceiling),
            regression_pass_rate: Some(regression),
            improvement_delta: None,
            proposal_pass_rate: Some(proposals),
            auditor_unanimous_rate: Some(auditors),
        }
    }

    // Oracle: the specification's Python run on the same inputs.
    #[test]
    fn the_literal_score_of_the_archetypes() {
        let falling: Vec<f64> = (0..20).map(|cycle| 0.03 * f64::from(19 - cycle) / 19.0).collect();
        for (name, metrics, deltas, expected) in [
            ("fresh", metrics(0.0, 1.0, 1.0, 1.0), vec![0.05; 6], 0.500),
            ("all zero", metrics(0.0, 0.0, 0.0, 0.0), vec![], 0.125),
            ("half regression", metrics(0.0, 0.5, 1.0, 1.0), vec![], 0.375),
            (
                "saturated, flat",
                metrics(1.0, 1.0, 1.0, 1.0),
                vec![0.0; 20],
                0.800,
            ),
            ("saturated, .03 to 0", metrics(1.0, 1.0, 1.0, 1.0), falling, 0.800),
            (
                "0 % ceiling, .5 to 0",
                metrics(0.0, 1.0, 1.0, 1.0),
                vec![0.5, 0.4, 0.3, 0.2, 0.1, 0.0],
                0.700,
            ),
            ("auditors reject all", metrics(0.0, 1.0, 0.0, 1.0), vec![], 0.350),
        ] {
            let score = literal_score(&metrics, &deltas).unwrap();
            assert!((score - expected).abs() < 1e-12, "{name}: {score}");
        }
    }

    #[test]
    fn getting_worse_resets_the_literal_count_but_not_ours() {
        let levels = |text: &str| -> Vec<Level> {
            text.chars()
                .map(|level| match level {
                    'C' => Level::Critical,
                    'H' => Level::High,
                    'E' => Level::Elevated,
                    _ => Level::Normal,
                })
                .collect()
        };
        for (text, literal, ours) in [
            ("HHHHHHHHHC", (2, 1), (10, 1)),
            ("CCCCCH", (6, 5), (6, 0)),
            ("HHHHHHHHHH", (10, 0), (10, 0)),
            ("NHHECC", (2, 2), (2, 2)),
            ("CCCCCN", (0, 0), (0, 0)),
            ("HCHCHC", (2, 1), (6, 1)),
            ("", (0, 0), (0, 0)),
        ] {
            assert_eq!(literal_counts(&levels(text)), literal, "specification on {text}");
            assert_eq!(trailing_runs(levels(text)), ours, "ours on {text}");
        }
    }
}
