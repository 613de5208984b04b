//! Statistics behind the decisions, written like a numerical library: the tests compare every function with
//! an independent implementation; invalid input returns a [`StatsError`], and valid input never yields NaN.
//! The functions are independent of what the numbers mean, and take a seed where they need randomness.
//!
//! | question | module |
//! |---|---|
//! | what does the sample look like? | [`descriptive`] |
//! | how precise is an estimate? | [`interval`], [`bootstrap`], [`bayes`] |
//! | is there a difference between paired results? | [`permutation`], [`ttest`], [`exact`] |
//! | ... checked after every result? | [`sequential`] |
//! | ... and among many metrics? | [`multiple`] |
//! | how much can a design detect? | [`power`] |
//! | does a series rise or fall? | [`trend`] |
//! | how similar are two rankings? | [`rank_correlation`] |
//! | how far do raters agree? | [`agreement`] |
//! | what has not been seen yet? | [`richness`] |
//! | how reliable is a system over repeats? | [`passk`] |
//! | are probabilities calibrated, and how are they fitted? | [`calibration`], [`logistic`], [`mod@isotonic`] |
//! | has the mean of a stream changed? | [`drift`] |

#![expect(clippy::float_cmp, reason = "rank statistics compare ties and zeros exactly")]
#![expect(
    clippy::doc_markdown,
    reason = "McNemar, DiDonato and BCa are proper names, not code"
)]

pub mod agreement;
pub mod bayes;
pub mod bootstrap;
pub mod calibration;
pub mod descriptive;
pub(crate) mod distribution;
pub mod drift;
mod error;
pub mod exact;
mod hypothesis;
pub mod interval;
pub mod isotonic;
pub mod logistic;
pub mod multiple;
pub mod passk;
pub mod permutation;
pub mod power;
pub(crate) mod random;
pub mod rank_correlation;
pub mod richness;
pub mod sequential;
#[cfg(test)]
mod testing;
pub mod trend;
pub mod ttest;

pub use agreement::AgreementLevel;
pub(crate) use agreement::krippendorff_alpha;
pub use bayes::BetaPosterior;
pub use bootstrap::{
    BootstrapEstimate, BootstrapMethod, BootstrapSettings, bootstrap_clustered_mean, bootstrap_mean,
    bootstrap_paired_mean,
};
pub use calibration::{auc, log_loss};
pub(crate) use calibration::{brier_score, expected_calibration_error};
pub use descriptive::{Moments, mean, median, quantile, quantiles, standard_deviation, variance};
pub use drift::PageHinkley;
pub use error::{Result, StatsError};
pub use exact::sign_test;
pub use hypothesis::{Alternative, PValue};
pub use interval::{Interval, MeanEstimate, clustered_mean_interval, mean_interval, wilson};
pub use isotonic::Isotonic;
pub(crate) use isotonic::isotonic;
pub(crate) use logistic::fit_logistic_penalized;
pub use logistic::{LogisticModel, fit_logistic};
pub(crate) use multiple::holm;
pub use passk::{pass_at_k, pass_hat_k};
pub use permutation::{SignFlip, sign_flip};
pub use power::smallest_p;
pub(crate) use power::{differences_needed, paired_t_detectable, paired_t_pairs};
pub use rank_correlation::{kendall_tau, spearman};
pub use richness::{Abundance, Richness, UnseenMass, chao1, unseen_mass};
pub use sequential::{
    BettingSettings, BettingTest, Evidence, NormalSprt, SprtDecision, SprtSettings, SprtSigma,
    discordant_evidence, nominal_levels,
};
pub use trend::{LinearFit, least_squares};
pub use ttest::{TTest, differences, one_sample_t, paired_t, welch_t};
