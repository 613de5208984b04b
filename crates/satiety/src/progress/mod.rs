//! Is an agent at work still making progress? CONTINUE, NUDGE, SHIP, STOP or ESCALATE after each step.
//!
//! [`Progress`] takes the [`Step`](crate::trajectory::Step)s of a run one at a time. Each step is compared with
//! the ones before it: repeats of action and outcome, cycles, the same error or the same result again, undone
//! edits, repeated questions. Every finding is an [`Evidence`] with a weight in nats (a log-likelihood ratio
//! between a stuck and a working agent), and Page's CUSUM adds them up: new results lower the level, repeats
//! raise it. Above one threshold the agent is nudged, above another it is stopped. The judge never ships
//! because of repetition: SHIP needs an agent that ends by itself with nothing left open.
//!
//! ```
//! use satiety::progress::{Progress, ProgressSignal};
//! use satiety::trajectory::{Call, Step};
//!
//! let mut progress = Progress::default();
//! let step = Step {
//!     calls: vec![Call::new("bash", "pytest tests/x.py".into()).with_result("E   ImportError: no module named x")],
//!     ..Step::default()
//! };
//! let signals: Vec<_> = (0..6).map(|_| progress.observe(&step).signal).collect();
//! assert_eq!(signals[0], ProgressSignal::Continue);
//! assert_eq!(signals[5], ProgressSignal::Escalate);
//! ```

mod evidence;
mod finish;
mod judge;
mod nudge;
mod profile;
mod report;
mod run;
mod signature;
mod snapshot;
mod sweep;
#[cfg(test)]
mod tests;

pub use evidence::{Evidence, EvidenceKind};
pub use judge::{Progress, texts_to_embed};
pub use nudge::describe_call;
pub use profile::{DecisionLimits, EvidenceWeights, ProgressProfile, ProgressProfileError, SimilarityLimits};
pub use report::{
    LogKind, OpenEnd, OpenEndKind, ProgressReport, ProgressSignal, StepVerdict, ToolStats, Waste, judge,
};
pub use run::RunJudge;
pub use signature::{has_failed, telling_line};
pub use sweep::{LabelledRun, RuleResult, SweepPoint, WorkSweep, baseline_rules, sweep_work};
