//! Evidence that a suite is *consistently* saturated: an anytime-valid test over all versions against "the
//! accepted versions fail as many cases as an improvement needs to be shown".
//!
//! This metric complements the counters of the window. It does not decide levels or actions, and whether a
//! suite is too easy or too small is decided by the verdict.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Matrix, MeasureError, MeasureSettings};
use crate::stats::power::differences_needed;
use crate::stats::sequential::rate_below_evidence;
use crate::stats::{Alternative, Evidence};

/// E-value from which saturation counts as shown: a suite that is not saturated reaches it in at most one
/// history of twenty, regardless of the length of the history.
pub(crate) const SHOWN_AT: f64 = 20.0;

/// Evidence of saturation over all versions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaturationEvidence {
    /// Tested failure rate: failing cases that an improvement needs, divided by all cases.
    pub rate: f64,
    /// Number of failed results of all versions.
    pub failures: u64,
    /// Number of decided results of all versions.
    pub results: u64,
    /// Current evidence against "the failure rate is at least `rate`".
    pub now: Evidence,
    /// Strongest evidence after any version; once shown, saturation stays shown.
    pub strongest: Evidence,
    /// Number of versions until saturation was shown; absent if it was not.
    pub shown_after: Option<usize>,
}

/// Computes the evidence that a suite is saturated; `None` if it has too few cases to show any improvement.
///
/// Versions count as batches: cases are independent and may have different failure rates, and the tested
/// quantity is the mean failure rate of *this* suite. Every version needs its own run; a run that is passed
/// twice counts twice.
pub fn saturation_evidence(
    matrix: &Matrix,
    settings: &MeasureSettings,
) -> Result<Option<SaturationEvidence>, MeasureError> {
    let needed = differences_needed(settings.alpha, Alternative::Greater)?;
    if needed >= matrix.cases.len() as u64 {
        return Ok(None);
    }
    let rate = needed as f64 / matrix.cases.len() as f64;
    let (mut failures, mut results) = (0_u64, 0_u64);
    let no_evidence = Evidence { ln_e: 0.0 };
    let (mut now, mut strongest, mut shown_after) = (no_evidence, no_evidence, None);
    for version in 0..matrix.versions {
        for tally in matrix
            .cases
            .iter()
            .filter_map(|case| case.tallies.get(version).copied().flatten())
        {
            failures = failures.saturating_add(tally.tries.saturating_sub(tally.passes));
            results = results.saturating_add(tally.tries);
        }
        now = rate_below_evidence(failures, results, rate)?;
        if now > strongest {
            strongest = now;
        }
        if shown_after.is_none() && strongest.e_value() >= SHOWN_AT {
            shown_after = Some(version + 1);
        }
    }
    Ok(Some(SaturationEvidence {
        rate,
        failures,
        results,
        now,
        strongest,
        shown_after,
    }))
}

#[cfg(test)]
mod tests {
    use super::super::tests::rows;
    use super::*;
    use crate::stats::random::{stream, uniform};

    fn evidence_of(matrix: &Matrix) -> Option<SaturationEvidence> {
        saturation_evidence(matrix, &MeasureSettings::default()).unwrap()
    }

    /// 0 of 100 against 5 %: ln E = 4.19, so one version suffices; 4 of 100 never suffice in this many
    /// versions.
    #[test]
    fn evidence_needed() {
        let clean = evidence_of(&rows(vec![vec![1; 3]; 100], 1)).unwrap();
        assert_eq!((clean.rate, clean.failures, clean.results), (0.05, 0, 300));
        assert_eq!(clean.shown_after, Some(1));
        let four = (0..100).map(|case| vec![u64::from(case >= 4); 3]).collect();
        let four = evidence_of(&rows(four, 1)).unwrap();
        assert_eq!((four.failures, four.shown_after), (12, None));
        // Shown saturation stays shown, although the suite has found failures again.
        let mut again: Vec<Vec<u64>> = vec![vec![1, 1, 0]; 30];
        again.extend(vec![vec![1, 1, 1]; 70]);
        let again = evidence_of(&rows(again, 1)).unwrap();
        assert!(again.now.ln_e < 0.0 && again.strongest.e_value() > 1_000.0);
        // Five cases cannot show anything: too few, not too easy.
        assert_eq!(evidence_of(&rows(vec![vec![1; 3]; 5], 1)), None);
    }

    /// 1,000 histories of 20 versions whose mean failure rate is exactly the tested one, of equal and of very different
    /// cases: at most one in twenty is ever called saturated. Three standard errors of .05 are .0207.
    #[test]
    fn a_borderline_suite_is_rarely_called_saturated() {
        let equal = vec![0.05; 100];
        let mut different = vec![0.0; 90];
        different.extend([0.5; 10]);
        for rates in [equal, different] {
            let mut shown = 0_u32;
            for history in 0..1_000 {
                let mut random = stream(history, 7);
                let (mut failures, mut results) = (0, 0);
                for _ in 0..20 {
                    failures += rates.iter().filter(|rate| uniform(&mut random) < **rate).count() as u64;
                    results += 100;
                    if rate_below_evidence(failures, results, 0.05)
                        .unwrap()
                        .rejects(0.05)
                    {
                        shown += 1;
                        break;
                    }
                }
            }
            assert!(shown <= 70, "{shown} of 1,000");
        }
    }
}
