//! Estimates of unseen probability mass and of the total number of kinds, from how often each kind was seen.
//! A kind may be a claim, a failure mode or a source. The estimates assume that equal things were recognized
//! as equal: each missed match looks like a new kind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::distribution::normal_critical;
use super::error::{Result, StatsError, check_open_unit};
use super::interval::Interval;

/// Summary of a sample for the estimators: number of observations and kinds, and of kinds seen exactly once
/// and exactly twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Abundance {
    /// Number of observations, `n`.
    pub observations: u64,
    /// Number of distinct kinds observed, `S`.
    pub kinds: u64,
    /// Number of kinds observed exactly once, `f1`.
    pub singletons: u64,
    /// Number of kinds observed exactly twice, `f2`.
    pub doubletons: u64,
}

impl Abundance {
    /// Builds the summary from the number of times each kind was seen. Zero counts are ignored.
    pub fn from_counts(counts: impl IntoIterator<Item = u64>) -> Self {
        let mut summary = Self::default();
        for count in counts {
            summary.observations = summary.observations.saturating_add(count);
            summary.kinds += u64::from(count > 0);
            summary.singletons += u64::from(count == 1);
            summary.doubletons += u64::from(count == 2);
        }
        summary
    }

    /// Adds an observation of a kind that, with it, was observed `times` times.
    pub(crate) fn add_observation(&mut self, times: u64) {
        self.observations = self.observations.saturating_add(1);
        self.kinds += u64::from(times == 1);
        self.singletons += u64::from(times == 1);
        self.singletons -= u64::from(times == 2);
        self.doubletons += u64::from(times == 2);
        self.doubletons -= u64::from(times == 3);
    }

    fn check(&self) -> Result<()> {
        if self.observations == 0 {
            return Err(StatsError::TooFew { needed: 1, got: 0 });
        }
        // Wide integers, because a summary built by a caller may hold any values.
        let least =
            u128::from(self.singletons) + 2 * u128::from(self.doubletons) + 3 * u128::from(self.others()?);
        if least > u128::from(self.observations) {
            return Err(StatsError::OutOfRange {
                what: "observations",
                value: self.observations as f64,
                range: "at least the count implied by the kinds",
            });
        }
        Ok(())
    }

    fn others(&self) -> Result<u64> {
        self.kinds
            .checked_sub(self.singletons)
            .and_then(|rest| rest.checked_sub(self.doubletons))
            .ok_or(StatsError::OutOfRange {
                what: "kinds",
                value: self.kinds as f64,
                range: "at least singletons + doubletons",
            })
    }
}

/// Estimated probability that the next observation is of an unseen kind.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UnseenMass {
    /// Good-Turing estimate, `f1 / n`.
    pub estimate: f64,
    /// Esty's standard error of the estimate.
    pub standard_error: f64,
    /// Normal interval, clamped to [0, 1]. Absent when the standard error is zero (every kind seen once, or
    /// none seen once or twice), because the uncertainty is then unknown.
    pub interval: Option<Interval>,
}

/// Good-Turing unseen mass (Good 1953) with the interval of Esty (1983, *Annals of Statistics* 11:905):
/// `f1/n ± z √(f1 + 2 f2 − f1²/n) / n`.
///
/// ```
/// use satiety::stats::{Abundance, unseen_mass};
/// let seen = Abundance::from_counts([5, 3, 2, 1, 1]);
/// let mass = unseen_mass(&seen, 0.95)?;
/// assert!((mass.estimate - 2.0 / 12.0).abs() < 1e-15);
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn unseen_mass(abundance: &Abundance, confidence: f64) -> Result<UnseenMass> {
    abundance.check()?;
    check_open_unit("confidence", confidence)?;
    let n = abundance.observations as f64;
    let f1 = abundance.singletons as f64;
    let f2 = abundance.doubletons as f64;
    let estimate = f1 / n;
    // f1 (n - f1) / n instead of f1 - f1²/n: the same number, never negative.
    let standard_error = (f1 * (n - f1) / n + 2.0 * f2).sqrt() / n;
    let interval = (standard_error > 0.0).then(|| {
        let half_width = normal_critical(confidence) * standard_error;
        Interval {
            low: (estimate - half_width).max(0.0),
            high: (estimate + half_width).min(1.0),
            confidence,
        }
    });
    Ok(UnseenMass {
        estimate,
        standard_error,
        interval,
    })
}

/// Lower-bound estimate of how many kinds exist.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Richness {
    /// Estimated number of kinds, never below the number observed.
    pub estimate: f64,
    /// Standard error of the estimate.
    pub standard_error: f64,
    /// Asymmetric interval that starts at or above the number observed.
    pub interval: Interval,
    /// Observed kinds divided by estimated kinds.
    pub completeness: f64,
}

/// Chao1 (Chao 1984; the `(n−1)/n` form of Chao and Chiu 2016) with Chao's (1987) log-normal interval.
/// Without doubletons the bias-corrected form is used. It estimates a *lower bound*: report it, do not use it
/// for decisions.
///
/// ```
/// use satiety::stats::{Abundance, chao1};
/// let spiders = Abundance { observations: 168, kinds: 26, singletons: 12, doubletons: 4 };
/// let richness = chao1(&spiders, 0.95)?;
/// assert!((richness.estimate - 43.893).abs() < 0.0005);
/// # Ok::<(), satiety::stats::StatsError>(())
/// ```
pub fn chao1(abundance: &Abundance, confidence: f64) -> Result<Richness> {
    abundance.check()?;
    check_open_unit("confidence", confidence)?;
    let Abundance {
        observations,
        kinds,
        singletons,
        doubletons,
    } = *abundance;
    Ok(lower_bound(
        observations as f64,
        observations as f64,
        kinds,
        singletons,
        doubletons,
        confidence,
    ))
}

/// Chao's estimator for sample size `m` (observations or units) and its variance, `EstimateS` 9 appendix B,
/// eqs. 5-8 and 13-14.
#[expect(clippy::many_single_char_names, reason = "the names of the formula")]
fn lower_bound(m: f64, observations: f64, kinds: u64, once: u64, twice: u64, confidence: f64) -> Richness {
    let s = kinds as f64;
    let f1 = once as f64;
    let f2 = twice as f64;
    let a = (m - 1.0) / m;
    let z = normal_critical(confidence);
    let unseen = if twice > 0 {
        a * f1 * f1 / (2.0 * f2)
    } else {
        a * f1 * (f1 - 1.0) / 2.0
    };
    let estimate = s + unseen;
    let (standard_error, interval) = if unseen > 0.0 {
        let variance = if twice > 0 {
            let r = f1 / f2;
            f2 * (a * r.powi(2) / 2.0 + a * a * r.powi(3) + a * a * r.powi(4) / 4.0)
        } else {
            // Not negative: the estimate is at least a f1 (f1-1) / 2 + f1.
            a * f1 * (f1 - 1.0) / 2.0 + a * a * f1 * (2.0 * f1 - 1.0).powi(2) / 4.0
                - a * a * f1.powi(4) / (4.0 * estimate)
        };
        let k = (z * (variance / (unseen * unseen)).ln_1p().sqrt()).exp();
        (
            variance.sqrt(),
            Interval {
                low: s + unseen / k,
                high: s + unseen * k,
                confidence,
            },
        )
    } else {
        // Every kind was seen again: use the kinds that a Poisson sample of this size would still have
        // missed.
        let p = (-observations / s).exp();
        let middle = s / (1.0 - p);
        let half_width = z * (s * p).sqrt() / (1.0 - p);
        (
            (s * p * (1.0 - p)).sqrt(),
            Interval {
                low: (middle - half_width).max(s),
                high: middle + half_width,
                confidence,
            },
        )
    };
    Richness {
        estimate,
        standard_error,
        interval,
        completeness: s / estimate,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::testing::assert_close;
    use super::*;

    fn abundance(observations: u64, kinds: u64, singletons: u64, doubletons: u64) -> Abundance {
        Abundance {
            observations,
            kinds,
            singletons,
            doubletons,
        }
    }

    // Oracle: `python perf/peers/stats_oracle.py richness`. The first two rows are the spider data of Chao et
    // al. (2014), for which iNEXT prints 43.893, 14.306, 30.511, 96.971 and 61.403, 18.532, 43.502, 128.583.
    #[test]
    fn chao1_agrees_with_inext() {
        for (sample, [estimate, standard_error, low, high]) in [
            (
                abundance(168, 26, 12, 4),
                [
                    43.89285714285714,
                    14.305577708412498,
                    30.511048132961765,
                    96.97116397303745,
                ],
            ),
            (
                abundance(252, 37, 14, 4),
                [
                    61.40277777777778,
                    18.531547644539888,
                    43.50226115539508,
                    128.5828431125852,
                ],
            ),
            (
                abundance(20, 9, 5, 0),
                [18.5, 9.656896954186877, 10.822465120670739, 58.52083799923946],
            ),
            (
                abundance(30, 6, 0, 2),
                [6.0, 0.20038783000955396, 6.0, 6.437458079696918],
            ),
        ] {
            let richness = chao1(&sample, 0.95).unwrap();
            assert_close(richness.estimate, estimate, 1e-12);
            assert_close(richness.standard_error, standard_error, 1e-12);
            assert_close(richness.interval.low, low, 1e-12);
            assert_close(richness.interval.high, high, 1e-12);
            assert_close(richness.completeness, sample.kinds as f64 / estimate, 1e-12);
        }
    }

    // iNEXT prints 0.9289 and 0.9446 for the spiders.
    // Oracle: skbio.diversity.alpha.esty_ci with its z = 1.959963985 replaced by scipy's; it does not clamp.
    #[test]
    fn unseen_mass_agrees_with_scikit_bio() {
        let mass = unseen_mass(&Abundance::from_counts([5, 3, 2, 1, 1]), 0.95).unwrap();
        let interval = mass.interval.unwrap();
        assert_close(interval.low, 0.0, 0.0);
        assert_close(interval.high, 0.47942044150412866, 1e-12);
        let mass = unseen_mass(&Abundance::from_counts([9, 7, 4, 2, 2, 2, 1, 1, 1, 1, 1]), 0.95).unwrap();
        assert_close(mass.interval.unwrap().high, 0.36314977535428705, 1e-12);
        assert_close(
            2.0 * mass.estimate - 0.36314977540165755,
            -0.040569130240367235,
            1e-12,
        );
    }

    #[test]
    fn a_sample_without_information_has_no_interval() {
        for counts in [vec![1, 1, 1], vec![3, 4], vec![1]] {
            let mass = unseen_mass(&Abundance::from_counts(counts), 0.95).unwrap();
            assert_eq!(mass.interval, None);
        }
    }

    #[test]
    fn impossible_summaries_are_rejected() {
        let empty = Abundance::from_counts([]);
        assert_eq!(
            unseen_mass(&empty, 0.95),
            Err(StatsError::TooFew { needed: 1, got: 0 })
        );
        assert!(chao1(&abundance(4, 1, 2, 0), 0.95).is_err());
        assert!(chao1(&abundance(4, 3, 1, 2), 0.95).is_err());
        assert!(chao1(&abundance(u64::MAX, u64::MAX, u64::MAX, 1), 0.95).is_err());
        assert!(chao1(&abundance(4, 2, 1, 0), 1.0).is_err());
        assert!(chao1(&abundance(4, 2, 1, 0), f64::NAN).is_err());
    }

    proptest! {
        #[test]
        fn estimates_stay_in_their_ranges(counts in prop::collection::vec(0u64..9, 1..60)) {
            prop_assume!(counts.iter().sum::<u64>() > 0);
            let sample = Abundance::from_counts(counts);
            let mass = unseen_mass(&sample, 0.9).unwrap();
            prop_assert!((0.0..=1.0).contains(&mass.estimate));
            if let Some(interval) = mass.interval {
                prop_assert!(interval.low >= 0.0 && interval.high <= 1.0 && interval.contains(mass.estimate));
            }
            let richness = chao1(&sample, 0.9).unwrap();
            let observed = sample.kinds as f64;
            prop_assert!(richness.estimate >= observed);
            prop_assert!(richness.interval.low >= observed && richness.interval.high.is_finite());
            prop_assert!(richness.standard_error >= 0.0);
            prop_assert!(richness.completeness > 0.0 && richness.completeness <= 1.0);
        }

        #[test]
        fn order_does_not_matter(counts in prop::collection::vec(0u64..9, 1..60)) {
            let mut reversed = counts.clone();
            reversed.reverse();
            prop_assert_eq!(Abundance::from_counts(counts), Abundance::from_counts(reversed));
        }
    }
}
