//! Changes of the memory's search, tried before they are trusted: features deal questions to pipelines, shadow runs
//! compare lists behind the asker's back, a sequential test counts what they were worth, and what passes the checklist
//! becomes the default until somebody takes it back.
//!
//! What is decided is decided by `satiety::experiment`; searching itself is [`crate::memory`]'s.

mod assignment;
mod document;
mod error;
mod features;
mod graduation;
mod measurement;
mod queue;
mod shadow;
mod status;
mod tally;

pub use error::ExperimentError;
pub use features::{ExperimentChange, ExperimentFeature, ExperimentList, StartRequest, read_feature};
pub use graduation::ExperimentCheck;
pub use queue::ShadowTally;
pub use status::{ExperimentStatus, ShadowSummary};

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::experiment::{Arm, Feature};
use satiety::memory::ValidPipeline;
use tokio::sync::Mutex;

/// How experiments are carried out.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExperimentSettings {
    /// Whether a feature that passes the checklist becomes the default by itself.
    pub auto_graduate: bool,
    /// How long a shadow run may take, both pipelines together.
    pub time_limit: Duration,
    /// Shadow runs that may wait; more are dropped and counted.
    pub queue: usize,
    /// How long to wait for what the asker does with the results before it is counted.
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

/// What an engine holds for its experiments.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) settings: ExperimentSettings,
    known: Mutex<Option<CachedFeatures>>,
    queue: queue::Queue,
    graded: Mutex<Option<tally::ShadowGrades>>,
}

/// Features as they were read last.
#[derive(Debug, Clone)]
struct CachedFeatures {
    read_at: Instant,
    state: (i64, i64),
    live: Arc<ActiveFeatures>,
}

/// What searches go by.
#[derive(Debug)]
pub(crate) struct ActiveFeatures {
    /// The default with everything that graduated.
    pub(crate) pipeline: Arc<ValidPipeline>,
    /// Pipelines of combinations of arms, each built once; absent for one that does not fit together.
    combined: std::sync::Mutex<BTreeMap<Vec<Arm>, Option<Arc<ValidPipeline>>>>,
    /// What runs, the oldest first.
    pub(crate) running: Vec<Feature>,
    /// Graduated features that no longer fit the pipeline, with the reason.
    pub(crate) unfit: Vec<(String, String)>,
}
