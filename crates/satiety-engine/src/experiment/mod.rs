//! Experiments on the memory search: features assign queries to pipelines, shadow runs compare result lists
//! in the background, a sequential test accumulates the evidence, and a feature that passes the checklist
//! becomes the default until it is rolled back.
//!
//! The decisions are made by `satiety::experiment`; the search itself is in [`crate::memory`].

mod assignment;
mod document;
mod error;
mod features;
mod graduation;
mod measurement;
mod proposal;
mod queue;
mod shadow;
mod status;
mod tally;

pub use error::ExperimentError;
pub use features::{ExperimentChange, ExperimentFeature, ExperimentList, StartRequest, read_feature};
pub use graduation::ExperimentCheck;
pub use proposal::{ProposeRequest, WeightProposal};
pub use queue::ShadowTally;
pub use status::{ExperimentStatus, ShadowSummary};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::experiment::{Arm, Feature};
use satiety::memory::ValidPipeline;
use tokio::sync::Mutex;

/// Settings of experiments.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentSettings {
    /// Whether a feature that passes the checklist graduates automatically.
    pub auto_graduate: bool,
    /// Timeout of a shadow run, both pipelines together.
    pub time_limit: Duration,
    /// Maximum number of queued shadow runs; more are dropped and counted.
    pub queue: usize,
    /// How long to wait for the use of results before a run is counted.
    pub settle: Duration,
}

impl Default for ExperimentSettings {
    fn default() -> Self {
        Self {
            auto_graduate: false,
            time_limit: Duration::from_secs(5),
            queue: 64,
            settle: Duration::from_mins(30),
        }
    }
}

/// In-memory state of an engine's experiments.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) settings: ExperimentSettings,
    known: Mutex<Option<CachedFeatures>>,
    queue: queue::Queue,
    graded: Mutex<Option<tally::ShadowGrades>>,
}

/// Features as last loaded.
#[derive(Debug, Clone)]
struct CachedFeatures {
    read_at: Instant,
    state: (i64, i64),
    live: Arc<ActiveFeatures>,
}

/// Features and pipelines that searches use.
#[derive(Debug)]
pub(crate) struct ActiveFeatures {
    /// The default pipeline with all graduated features.
    pub(crate) pipeline: Arc<ValidPipeline>,
    /// Pipelines for combinations of arms, each built once; `None` for a combination that is invalid.
    combined: std::sync::Mutex<BTreeMap<Vec<Arm>, Option<Arc<ValidPipeline>>>>,
    /// Running features, oldest first.
    pub(crate) running: Vec<Feature>,
    /// Graduated features that are no longer valid, with the reason.
    pub(crate) unfit: Vec<(String, String)>,
}
