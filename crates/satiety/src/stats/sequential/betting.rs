//! Testing by betting: an e-process for the mean of bounded differences and its confidence sequence
//! (Waudby-Smith and Ramdas 2024, *JRSS B* 86:1, the hedged capital process with predictable plug-in bets).
//! Valid for any distribution inside the bounds, at any stopping time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Evidence;
use crate::stats::error::{Result, StatsError, check_open_unit};
use crate::stats::hypothesis::Alternative;
use crate::stats::interval::Interval;

/// Bounds, level and resolution of a betting test.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BettingSettings {
    /// Smallest possible difference, such as −1.
    pub low: f64,
    /// Largest possible difference, such as 1.
    pub high: f64,
    /// Significance level that bets and the confidence sequence are tuned for.
    pub alpha: f64,
    /// Mean difference under the null hypothesis.
    pub null: f64,
    /// Maximum share of the wealth in one bet. One half suits most data; three quarters detects differences
    /// with little variation a third sooner and skewed ones later.
    pub truncation: f64,
    /// Number of grid steps in the search for the confidence sequence, which is widened by one step on either
    /// side: a coarser grid only gives a wider interval.
    pub grid: usize,
}

impl Default for BettingSettings {
    fn default() -> Self {
        Self {
            low: -1.0,
            high: 1.0,
            alpha: 0.05,
            null: 0.0,
            truncation: 0.5,
            grid: 400,
        }
    }
}

/// State of a betting test. Wealth is tracked for the null and for each candidate mean.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BettingTest {
    settings: BettingSettings,
    samples: u64,
    /// Sum of the observations and of their squared distances from the running mean, on the unit scale.
    total: f64,
    squares: f64,
    null: Wealth,
    candidates: Vec<Wealth>,
    /// Running intersection of the confidence sequence, on the unit scale.
    low: f64,
    high: f64,
    /// Largest log-wealth against the null so far, in total and for either direction.
    best: [f64; 3],
}

/// Log-wealth of betting that the mean is above, and that it is below, `mean`.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
struct Wealth {
    mean: f64,
    above: f64,
    below: f64,
}

impl Wealth {
    fn bet(&mut self, x: f64, stake: f64, truncation: f64) {
        let gain = x - self.mean;
        // At the ends of the scale the truncation alone does not bound the stake.
        let above = if self.mean > 0.0 {
            stake.min(truncation / self.mean)
        } else {
            stake
        };
        let below = if self.mean < 1.0 {
            stake.min(truncation / (1.0 - self.mean))
        } else {
            stake
        };
        self.above += (above * gain).ln_1p();
        self.below += (-below * gain).ln_1p();
    }

    /// Hedged wealth: half of the capital on either side, counting the better half.
    fn hedged(&self) -> f64 {
        self.above.max(self.below) - std::f64::consts::LN_2
    }
}

impl BettingTest {
    /// Starts a test.
    pub fn new(settings: BettingSettings) -> Result<Self> {
        check_open_unit("alpha", settings.alpha)?;
        check_open_unit("truncation", settings.truncation)?;
        let BettingSettings {
            low,
            high,
            null,
            grid,
            ..
        } = settings;
        if !(low.is_finite() && high.is_finite() && low < high) {
            return Err(StatsError::OutOfRange {
                what: "low",
                value: low,
                range: "below high, both finite",
            });
        }
        if !(low < null && null < high) {
            return Err(StatsError::OutOfRange {
                what: "null",
                value: null,
                range: "between the bounds",
            });
        }
        if !(10..=100_000).contains(&grid) {
            return Err(StatsError::OutOfRange {
                what: "grid",
                value: grid as f64,
                range: "10 to 100,000",
            });
        }
        let wealth = |mean| Wealth {
            mean,
            above: 0.0,
            below: 0.0,
        };
        Ok(Self {
            settings,
            samples: 0,
            total: 0.0,
            squares: 0.0,
            null: wealth((null - low) / (high - low)),
            candidates: (0..=grid).map(|i| wealth(i as f64 / grid as f64)).collect(),
            low: 0.0,
            high: 1.0,
            best: [0.0; 3],
        })
    }

    /// Adds the next difference, which must lie within the bounds.
    pub fn observe(&mut self, difference: f64) -> Result<()> {
        let BettingSettings {
            low,
            high,
            alpha,
            truncation,
            ..
        } = self.settings;
        if !(low..=high).contains(&difference) {
            return Err(StatsError::OutOfRange {
                what: "difference",
                value: difference,
                range: "within the bounds of the test",
            });
        }
        let x = (difference - low) / (high - low);
        // The stake is fixed before x is used: λ_t = √(2 ln(2/α) / (σ̂²_{t−1} t ln(1+t))).
        self.samples += 1;
        let t = self.samples as f64;
        let variance = (0.25 + self.squares) / t;
        let stake = (2.0 * (2.0 / alpha).ln() / (variance * t * t.ln_1p())).sqrt();
        self.null.bet(x, stake, truncation);
        for candidate in &mut self.candidates {
            candidate.bet(x, stake, truncation);
        }
        self.total += x;
        let mean = (0.5 + self.total) / (t + 1.0);
        self.squares += (x - mean) * (x - mean);
        for (best, now) in self
            .best
            .iter_mut()
            .zip([self.null.hedged(), self.null.above, self.null.below])
        {
            *best = best.max(now);
        }
        self.narrow();
        Ok(())
    }

    /// Number of differences observed.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Mean difference so far.
    pub fn mean(&self) -> Option<f64> {
        (self.samples > 0).then(|| self.to_scale(self.total / self.samples as f64))
    }

    /// Current evidence against the null. It may fall again.
    pub fn evidence(&self, alternative: Alternative) -> Evidence {
        let ln_e = match alternative {
            Alternative::TwoSided => self.null.hedged(),
            Alternative::Greater => self.null.above,
            Alternative::Less => self.null.below,
        };
        Evidence { ln_e }
    }

    /// Largest evidence so far. Its p-value is valid even if it was checked after every observation.
    pub(crate) fn strongest_evidence(&self, alternative: Alternative) -> Evidence {
        let ln_e = match alternative {
            Alternative::TwoSided => self.best[0],
            Alternative::Greater => self.best[1],
            Alternative::Less => self.best[2],
        };
        Evidence { ln_e }
    }

    /// Confidence sequence: contains the mean difference at all times simultaneously with probability 1 −
    /// alpha. It never grows.
    pub fn interval(&self) -> Interval {
        Interval {
            low: self.to_scale(self.low),
            high: self.to_scale(self.high),
            confidence: 1.0 - self.settings.alpha,
        }
    }

    fn narrow(&mut self) {
        let limit = -self.settings.alpha.ln();
        let accepted = |wealth: &Wealth| wealth.hedged() < limit;
        let (Some(first), Some(last)) = (
            self.candidates.iter().position(accepted),
            self.candidates.iter().rposition(accepted),
        ) else {
            // Every grid point is refuted: the accepted means lie between two of them; keep the last
            // interval.
            return;
        };
        let low = if first == 0 {
            0.0
        } else {
            self.candidates[first - 1].mean
        };
        let high = self
            .candidates
            .get(last + 1)
            .map_or(1.0, |candidate| candidate.mean);
        let (low, high) = (self.low.max(low), self.high.min(high));
        // With drifting data the intersection may become empty; then keep the last interval.
        if low <= high {
            (self.low, self.high) = (low, high);
        }
    }

    fn to_scale(&self, x: f64) -> f64 {
        self.settings.low + x * (self.settings.high - self.settings.low)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::stats::testing::{A, B, assert_close};

    fn run(differences: &[f64], settings: BettingSettings) -> BettingTest {
        let mut test = BettingTest::new(settings).unwrap();
        for &d in differences {
            test.observe(d).unwrap();
        }
        test
    }

    // Oracle: `python perf/peers/stats_oracle.py sequential`: the formulas of the paper written with numpy, and the
    // confidence sequence on the same grid.
    #[test]
    fn wealth_agrees_with_the_paper() {
        let differences: Vec<f64> = (0..60).map(|i| A[i % 12] - B[(i * 5) % 12] * 0.6).collect();
        let test = run(&differences, BettingSettings::default());
        assert_close(test.evidence(Alternative::Greater).ln_e, 7.672480374002958, 1e-11);
        assert_close(test.evidence(Alternative::Less).ln_e, -9.336286379499208, 1e-11);
        assert_close(
            test.evidence(Alternative::TwoSided).ln_e,
            6.979333193443012,
            1e-11,
        );
        assert_close(test.interval().low, 0.125, 1e-12);
        assert_close(test.interval().high, 0.375, 1e-12);
        assert_close(test.interval().confidence, 0.95, 0.0);
        assert_eq!(test.samples(), 60);
    }

    #[test]
    fn extreme_data_keep_wealth_finite() {
        for extreme in [-1.0, 1.0, 0.0] {
            let test = run(&[extreme; 300], BettingSettings::default());
            let interval = test.interval();
            assert!(interval.contains(extreme), "{interval:?} {extreme}");
            assert!(interval.width() < 0.2);
            assert!(!test.evidence(Alternative::TwoSided).ln_e.is_nan());
            assert_close(test.mean().unwrap(), extreme, 1e-12);
        }
    }

    #[test]
    fn the_strongest_evidence_is_remembered() {
        let mut test = run(&[0.8; 40], BettingSettings::default());
        let peak = test.evidence(Alternative::Greater);
        assert!(peak.rejects(0.05) && peak.p_value() < 0.05);
        for _ in 0..200 {
            test.observe(-0.5).unwrap();
        }
        assert!(test.evidence(Alternative::Greater).ln_e < peak.ln_e);
        assert!(test.strongest_evidence(Alternative::Greater).ln_e >= peak.ln_e);
        assert!(test.interval().low <= test.interval().high);
    }

    #[test]
    fn invalid_input_is_rejected() {
        let settings = BettingSettings::default();
        assert!(BettingTest::new(BettingSettings { low: 1.0, ..settings }).is_err());
        assert!(
            BettingTest::new(BettingSettings {
                null: 1.0,
                ..settings
            })
            .is_err()
        );
        assert!(BettingTest::new(BettingSettings { grid: 2, ..settings }).is_err());
        let mut test = BettingTest::new(settings).unwrap();
        assert!(test.observe(1.1).is_err() && test.observe(f64::NAN).is_err());
        assert_eq!((test.samples(), test.mean()), (0, None));
        assert_close(test.evidence(Alternative::Greater).p_value(), 1.0, 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn the_interval_shrinks_and_mirrors(differences in prop::collection::vec(-1.0..=1.0f64, 1..80)) {
            let settings = BettingSettings { grid: 40, ..Default::default() };
            let mut test = BettingTest::new(settings).unwrap();
            let mut mirror = BettingTest::new(settings).unwrap();
            let mut before = test.interval();
            for &d in &differences {
                test.observe(d).unwrap();
                mirror.observe(-d).unwrap();
                let now = test.interval();
                prop_assert!(now.low >= before.low && now.high <= before.high);
                before = now;
            }
            assert_close(mirror.interval().high, -before.low, 1e-9);
            assert_close(mirror.evidence(Alternative::Less).ln_e, test.evidence(Alternative::Greater).ln_e, 1e-9);
        }
    }
}
