//! Is a change of the memory's search worth keeping? Features are named changes of its pipeline; questions are dealt to
//! them by hash; runs in the shadow compare both lists; a sequential test weighs what the lists were worth; a checklist
//! decides what may become the default.
//!
//! Everything takes values that somebody else fetched. Nothing here knows about stores, searches, clocks or settings.
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
mod outcome;
mod overrides;
mod shadow;
mod trial;

pub use bucket::{Arm, arm, bucket, identity, is_shadowed};
pub use feature::{Feature, FeatureError};
pub use graduation::{
    Check, Checked, Checklist, CorpusEvidence, GraduationEvidence, GraduationLimits, GraduationVerdict,
    MeasuredChange, ShadowCounts, check_graduation,
};
pub use history::History;
pub use outcome::{Outcome, RELEVANT, Used, grades_of_use, outcome};
pub use overrides::{OverrideError, overridden};
pub use shadow::{ListDifference, Listed, compare_lists};
pub use trial::{Bounds, Decision, Method, Observation, Standing, Trial, TrialSettings};
