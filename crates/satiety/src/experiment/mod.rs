//! Online experiments on the memory search. Features are named changes of the search pipeline. A hash assigns
//! queries to arms, shadow runs compare the results of both pipelines, a sequential test evaluates the
//! outcomes, and a checklist decides which feature may become the default.
//!
//! All functions take values that the caller has fetched. This module is independent of stores, searches,
//! clocks and settings.
//!
//! ```
//! use satiety::experiment::{Decision, Observation, Outcome, Trial, TrialSettings};
//!
//! let mut trial = Trial::new(TrialSettings { min_samples: 10, ..TrialSettings::default() })?;
//! let (first, second) = (Outcome { mrr: 1.0, ndcg: 1.0 }, Outcome { mrr: 0.5, ndcg: 0.6 });
//! while trial.decision() == Decision::Continue {
//!     trial.observe(Observation { control: second, treatment: first })?;
//! }
//! assert_eq!(trial.decision(), Decision::AcceptTreatment);
//! # Ok::<(), satiety::stats::StatsError>(())
//! ```

mod bucket;
mod feature;
mod graduation;
mod history;
mod latency;
mod outcome;
mod overrides;
mod proposal;
mod shadow;
mod trial;

pub use bucket::{Arm, arm, bucket, identity, is_shadowed};
pub use feature::{Feature, FeatureError};
pub use graduation::{
    Check, Checked, Checklist, CorpusEvidence, GraduationEvidence, GraduationLimits, GraduationVerdict,
    MeasuredChange, ShadowCounts, check_graduation,
};
pub use history::History;
pub use latency::{LatencyComparison, compare_latency};
pub use outcome::{Outcome, RELEVANT, Used, grades_from_usage, outcome};
pub use overrides::{OverrideError, overridden};
pub use proposal::{
    MIN_PROPOSAL_QUERIES, ProposalVerdict, ProposedWeights, WEIGHT_RATIOS, WeightCandidate, propose_weights,
    weight_change,
};
pub use shadow::{ListDifference, Listed, compare_lists};
pub use trial::{Bounds, Decision, Method, Observation, Standing, Trial, TrialSettings};
