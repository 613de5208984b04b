//! Exact stratified tests of the hypothesis that every case passes as often as before, over repeated cases.
//!
//! Under this hypothesis the repeats of a case are exchangeable between the two runs. Given the total number
//! of passes of a case, the candidate's passes are therefore hypergeometric, independently for each case.
//! Without any model of how cases differ, this yields:
//!
//! - one test of the whole suite: the weighted sum of the candidate's passes, whose distribution is the
//!   convolution of the cases' distributions. With one repeat it equals the exact `McNemar` test, with one
//!   case Fisher's test;
//! - one test per case (Fisher's), adjusted for multiple testing by the exact distribution of the smallest
//!   p-value. Cases that never vary cannot reach a small p-value and cost nothing, unlike under Bonferroni or
//!   Holm.
//!
//! A test that treats cases as a sample (paired t, sign flips by case) answers a different question: whether
//! a suite of *other* cases would show the change too. It needs at least five worse cases to reach
//! significance.
//!
//! This module operates on counts only.

/// Passes and decided repeats of one case in both runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stratum {
    /// Passes in the baseline run.
    pub baseline_passes: u64,
    /// Decided repeats in the baseline run.
    pub baseline_tries: u64,
    /// Passes in the candidate run.
    pub candidate_passes: u64,
    /// Decided repeats in the candidate run.
    pub candidate_tries: u64,
}

/// Maximum number of elementary steps of the convolution. Larger inputs use a normal approximation, which is
/// accurate at that size.
const MAX_STEPS: f64 = 2e7;

impl Stratum {
    fn passes(&self) -> u64 {
        self.baseline_passes + self.candidate_passes
    }

    fn tries(&self) -> u64 {
        self.baseline_tries + self.candidate_tries
    }

    /// Whether more than one split of the passes between the runs is possible.
    fn varies(&self) -> bool {
        self.least() < self.most()
    }

    /// The smallest possible number of candidate passes, given the total.
    fn least(&self) -> u64 {
        self.passes().saturating_sub(self.baseline_tries)
    }

    fn most(&self) -> u64 {
        self.passes().min(self.candidate_tries)
    }

    /// Probability of each number of candidate passes, from `least` to `most`.
    fn distribution(&self) -> Vec<f64> {
        let (passes, tries) = (self.passes() as f64, self.tries() as f64);
        let (own, misses) = (self.candidate_tries as f64, tries - passes);
        // Ratios of neighbouring hypergeometric probabilities, from the mode outwards to avoid overflow.
        let ratio = |k: f64| (passes - k) * (own - k) / ((k + 1.0) * (misses - own + k + 1.0));
        let low = self.least();
        let length = usize::try_from(self.most() - low).unwrap_or(0) + 1;
        let mode = ((own + 1.0) * (passes + 1.0) / (tries + 2.0)).floor();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "clamped to the range of the counts"
        )]
        let at = ((mode - low as f64).clamp(0.0, (length - 1) as f64)) as usize;
        let mut weights = vec![1.0; length];
        for index in at + 1..length {
            weights[index] = weights[index - 1] * ratio((low + index as u64 - 1) as f64);
        }
        for index in (0..at).rev() {
            weights[index] = weights[index + 1] / ratio((low + index as u64) as f64);
        }
        let total: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / total).collect()
    }

    /// The attainable one-sided p-values of the case, in ascending order.
    fn attainable(&self) -> Vec<f64> {
        let mut sum = 0.0;
        self.distribution()
            .into_iter()
            .map(|probability| {
                sum += probability;
                f64::min(sum, 1.0)
            })
            .collect()
    }

    /// Fisher's one-sided p-value: the probability of at most this many candidate passes.
    pub fn p_value(&self) -> f64 {
        let index = usize::try_from(self.candidate_passes - self.least()).unwrap_or(usize::MAX);
        self.attainable().get(index).copied().unwrap_or(1.0)
    }

    /// Weight of one pass in the sum: the change in log odds caused by a drop of ten percentage points at the
    /// case's rate, which is the optimal weight against such a drop. Losing a pass in a case that nearly
    /// always passes weighs about three times as much as in a flaky case. The weight depends only on the total
    /// passes of both runs, on which the test conditions, so the test remains valid. Integer weights keep it
    /// exact.
    fn weight(&self) -> usize {
        let rate = ((self.passes() as f64 + 0.5) / (self.tries() as f64 + 1.0)).clamp(0.08, 0.92);
        let log_odds = |rate: f64| (rate / (1.0 - rate)).ln();
        let change = log_odds(rate + 0.05) - log_odds(rate - 0.05);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between 8 and 36 for rates within the clamp"
        )]
        let weight = (20.0 * change).round() as usize;
        weight
    }
}

/// One-sided p-value of "no case passes less often than before", over all cases.
pub(crate) fn suite_p_value(strata: &[Stratum]) -> f64 {
    let informative: Vec<(&Stratum, usize)> = strata
        .iter()
        .filter(|stratum| stratum.varies())
        .map(|stratum| (stratum, stratum.weight()))
        .collect();
    if informative.is_empty() {
        return 1.0;
    }
    let common = informative
        .iter()
        .fold(0, |divisor, (_, weight)| gcd(divisor, *weight))
        .max(1);
    let span = |stratum: &Stratum| (stratum.most() - stratum.least()) as f64;
    let (mut length, mut steps) = (1.0, 0.0);
    for (stratum, weight) in &informative {
        length += span(stratum) * (weight / common) as f64;
        steps += length * (span(stratum) + 1.0);
    }
    if steps > MAX_STEPS {
        return normal_p_value(&informative);
    }
    let mut sum = vec![1.0];
    let mut observed = 0;
    for (stratum, weight) in informative {
        let weight = weight / common;
        let distribution = stratum.distribution();
        let mut next = vec![0.0; sum.len() + weight * (distribution.len() - 1)];
        for (k, probability) in distribution.iter().enumerate() {
            for (place, before) in next.iter_mut().skip(k * weight).zip(&sum) {
                *place += before * probability;
            }
        }
        sum = next;
        observed += weight * usize::try_from(stratum.candidate_passes - stratum.least()).unwrap_or(0);
    }
    sum.iter().take(observed + 1).sum::<f64>().min(1.0)
}

fn normal_p_value(informative: &[(&Stratum, usize)]) -> f64 {
    let (mut difference, mut variance) = (0.0, 0.0);
    for (stratum, weight) in informative {
        let (passes, tries) = (stratum.passes() as f64, stratum.tries() as f64);
        let (own, other) = (stratum.candidate_tries as f64, stratum.baseline_tries as f64);
        let weight = *weight as f64;
        difference += weight * (stratum.candidate_passes as f64 - own * passes / tries);
        variance +=
            weight * weight * own * other * passes * (tries - passes) / (tries * tries * (tries - 1.0));
    }
    0.5 * libm::erfc(-difference / (2.0 * variance).sqrt())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Results of the tests of individual cases.
#[derive(Debug, Clone, PartialEq)]
pub struct CaseTests {
    /// Unadjusted p-value of each case.
    pub p_values: Vec<f64>,
    /// Probability that any case reaches a p-value this small by chance.
    pub adjusted: Vec<f64>,
    /// Family-wise error that the case tests can attain at the requested level; never more than that level.
    pub spent: f64,
}

/// Tests every case and adjusts for multiple testing.
pub(crate) fn case_tests(strata: &[Stratum], level: f64) -> CaseTests {
    let attainable: Vec<Vec<f64>> = strata
        .iter()
        .filter(|stratum| stratum.varies())
        .map(Stratum::attainable)
        .collect();
    // The cases are independent, so the probability that none falls below p is a product.
    let any_below = |p: f64| {
        let ln_none: f64 = attainable
            .iter()
            .map(|values| {
                let reached = values.partition_point(|&value| value <= p * (1.0 + 1e-12));
                reached
                    .checked_sub(1)
                    .map_or(0.0, |index| (-values[index]).ln_1p())
            })
            .sum();
        -ln_none.exp_m1()
    };
    let p_values: Vec<f64> = strata.iter().map(Stratum::p_value).collect();
    // Many cases have the same counts; compute each distinct p-value once.
    let mut known: Vec<(f64, f64)> = Vec::new();
    let adjusted = p_values
        .iter()
        .map(|&p| {
            if let Some((_, found)) = known.iter().find(|(value, _)| *value == p) {
                return *found;
            }
            let found = any_below(p).max(p);
            known.push((p, found));
            found
        })
        .collect();
    let mut candidates: Vec<f64> = attainable
        .iter()
        .flatten()
        .copied()
        .filter(|&p| p <= level)
        .collect();
    candidates.sort_by(f64::total_cmp);
    candidates.dedup();
    let within = candidates.partition_point(|&p| any_below(p) <= level);
    let spent = within
        .checked_sub(1)
        .map_or(0.0, |index| any_below(candidates[index]));
    CaseTests {
        p_values,
        adjusted,
        spent,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{Alternative, sign_test};
    use proptest::prelude::*;

    fn stratum(b: u64, bt: u64, c: u64, ct: u64) -> Stratum {
        Stratum {
            baseline_passes: b,
            baseline_tries: bt,
            candidate_passes: c,
            candidate_tries: ct,
        }
    }

    fn any_stratum() -> impl Strategy<Value = Stratum> {
        (1_u64..12, 1_u64..12)
            .prop_flat_map(|(bt, ct)| (0..=bt, Just(bt), 0..=ct, Just(ct)))
            .prop_map(|(b, bt, c, ct)| stratum(b, bt, c, ct))
    }

    /// Reference implementation of Fisher's exact test by counting tables.
    fn fisher_less(case: &Stratum) -> f64 {
        let choose = |n: u64, k: u64| (0..k).fold(1.0, |all, i| all * (n - i) as f64 / (i + 1) as f64);
        let tables = |passes: u64| {
            let baseline = case.baseline_passes + case.candidate_passes - passes;
            if baseline > case.baseline_tries || passes > case.candidate_tries {
                return 0.0;
            }
            choose(case.candidate_tries, passes) * choose(case.baseline_tries, baseline)
        };
        let all = (0..=case.baseline_passes + case.candidate_passes)
            .map(tables)
            .sum::<f64>();
        (0..=case.candidate_passes).map(tables).sum::<f64>() / all
    }

    proptest! {
        /// With one case the test equals Fisher's test.
        #[test]
        fn one_case_is_fisher(case in any_stratum()) {
            let oracle = fisher_less(&case);
            prop_assert!((suite_p_value(&[case]) - oracle).abs() < 1e-9);
            prop_assert!((case.p_value() - oracle).abs() < 1e-9);
            prop_assert!((case_tests(&[case], 0.05).adjusted[0] - oracle).abs() < 1e-9);
        }

        /// With one repeat the test equals McNemar's test.
        #[test]
        fn one_repeat_is_mcnemar(flips in prop::collection::vec((0_u64..2, 0_u64..2), 1..60)) {
            let strata: Vec<Stratum> = flips.iter().map(|&(b, c)| stratum(b, 1, c, 1)).collect();
            let better = flips.iter().filter(|(b, c)| c > b).count() as u64;
            let worse = flips.iter().filter(|(b, c)| c < b).count() as u64;
            let oracle = if better + worse == 0 { 1.0 } else { sign_test(better, worse, Alternative::Less) };
            prop_assert!((suite_p_value(&strata) - oracle).abs() < 1e-9);
        }

        /// The p-value increases with the number of passes, and the attained error of the case tests stays
        /// within the level.
        #[test]
        fn p_values_are_monotonic_and_error_stays_within_level(mut strata in prop::collection::vec(any_stratum(), 1..20), level in 0.001..0.2_f64) {
            let before = suite_p_value(&strata);
            prop_assert!((0.0..=1.0).contains(&before));
            let tests = case_tests(&strata, level);
            prop_assert!(tests.spent <= level);
            for (p, adjusted) in tests.p_values.iter().zip(&tests.adjusted) {
                prop_assert!(*adjusted >= p * (1.0 - 1e-9));
            }
            // Weights depend on the total passes of a case, so move one pass from the candidate to the
            // baseline.
            if let Some(case) = strata.iter_mut().find(|case| case.candidate_passes > 0 && case.baseline_passes < case.baseline_tries) {
                case.candidate_passes -= 1;
                case.baseline_passes += 1;
                prop_assert!(suite_p_value(&strata) <= before + 1e-12);
            }
        }
    }

    /// The exact test and its approximation agree where both apply.
    #[test]
    fn large_suites_are_approximated() {
        let strata: Vec<Stratum> = (0..400)
            .map(|i| stratum(3 + i % 3, 5, 3 + (i * 7) % 3 - u64::from(i % 10 == 0), 5))
            .collect();
        let informative: Vec<(&Stratum, usize)> = strata
            .iter()
            .filter(|case| case.varies())
            .map(|case| (case, case.weight()))
            .collect();
        let (exact, normal) = (suite_p_value(&strata), normal_p_value(&informative));
        assert!((exact.ln() - normal.ln()).abs() < 0.1, "{exact} {normal}");
        let many: Vec<Stratum> = (0..100_000).map(|i| stratum(i % 2, 1, (i / 2) % 2, 1)).collect();
        assert!((suite_p_value(&many) - 0.5).abs() < 0.01);
    }

    /// One case from 5/5 to 0/5 has p = 1/252. Next to 49 cases that never vary it needs no correction.
    #[test]
    fn stable_cases_cost_nothing() {
        let mut strata = vec![stratum(5, 5, 5, 5); 49];
        strata.push(stratum(5, 5, 0, 5));
        let tests = case_tests(&strata, 0.01);
        assert!((tests.adjusted[49] - 1.0 / 252.0).abs() < 1e-12);
        assert!((tests.spent - 1.0 / 252.0).abs() < 1e-12);
        assert!((suite_p_value(&strata) - 1.0 / 252.0).abs() < 1e-12);
        assert_eq!(tests.adjusted[0], 1.0);
    }
}
