//! Is a suite *consistently* saturated? The evidence of all versions against "the accepted versions fail as many cases
//! as an improvement needs to be shown", valid however often it is looked at.
//!
//! A figure beside the window's counters, not in their place: it says nothing of levels or actions, and whether a suite is
//! too easy or too small is the verdict's business.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Matrix, MeasureError, MeasureSettings};
use crate::stats::power::differences_needed;
use crate::stats::sequential::rate_below_evidence;
use crate::stats::{Alternative, Evidence};

/// From this e-value on saturation counts as shown: a suite that is not saturated reaches it in one history of twenty at
/// most, however long the history is.
pub(crate) const SHOWN_AT: f64 = 20.0;

/// What the versions say together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SaturationEvidence {
    /// The failure rate that is tested: failing cases that an improvement needs, over cases.
    pub rate: f64,
    /// Failed results of all versions.
    pub failures: u64,
    /// Decided results of all versions.
    pub results: u64,
    /// The evidence against "the failure rate is at least that", now.
    pub now: Evidence,
    /// The largest after any version; what is shown stays shown.
    pub strongest: Evidence,
    /// How many versions it took until it was shown; absent when it was not.
    pub shown_after: Option<usize>,
}

/// The evidence that a suite is saturated; absent when the suite has too few cases to be anything but underpowered.
///
/// Versions count as batches: cases may differ and stand or fall by themselves, and what is tested is the mean failure
/// rate of *this* suite. Versions that were looked at must have been run anew; a run that is counted twice counts twice.
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
    let nothing = Evidence { ln_e: 0.0 };
    let (mut now, mut strongest, mut shown_after) = (nothing, nothing, None);
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

    fn of(matrix: &Matrix) -> Option<SaturationEvidence> {
        saturation_evidence(matrix, &MeasureSettings::default()).unwrap()
    }

    /// 0 of 100 against 5 %: ln E = 4.19, so one version is enough; 4 of 100 never are, in this many versions.
    #[test]
    fn what_it_takes() {
        let clean = of(&rows(vec![vec![1; 3]; 100], 1)).unwrap();
        assert_eq!((clean.rate, clean.failures, clean.results), (0.05, 0, 300));
        assert_eq!(clean.shown_after, Some(1));
        let four = (0..100).map(|case| vec![u64::from(case >= 4); 3]).collect();
        let four = of(&rows(four, 1)).unwrap();
        assert_eq!((four.failures, four.shown_after), (12, None));
        // What was shown stays shown, although the suite has found something again.
        let mut again: Vec<Vec<u64>> = vec![vec![1, 1, 0]; 30];
        again.extend(vec![vec![1, 1, 1]; 70]);
        let again = of(&rows(again, 1)).unwrap();
        assert!(again.now.ln_e < 0.0 && again.strongest.e_value() > 1_000.0);
        // Five cases cannot show anything: too few, not too easy.
        assert_eq!(of(&rows(vec![vec![1; 3]; 5], 1)), None);
    }

    /// 1,000 histories of 20 versions whose mean failure rate is exactly the tested one, of equal and of very different
    /// cases: at most one in twenty is ever called saturated. Three standard errors of .05 are .0207.
    #[test]
    fn a_suite_on_the_border_is_seldom_called_saturated() {
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
