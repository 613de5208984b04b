//! Before a search: which pipeline answers it. After it: whether it is also run in the shadow. Neither waits for more than
//! a look at what is in memory; features are read from the store again at most once a second.

use crate::handles::ExperimentOperations;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use satiety::experiment::{Arm, Feature, arm, identity, is_shadowed, overridden};
use satiety::memory::{Pipeline, ValidPipeline};
use satiety_store::experiment::ExperimentRow;
use serde_json::{Map, Value};

use super::queue::{Job, SearchInProgress};
use super::{ActiveFeatures, CachedFeatures, ExperimentError};
use crate::EngineError;
use crate::memory::{MemorySearch, SearchRequest};

/// How old what is known about features may be: so long a change takes to reach other processes.
const FRESH: Duration = Duration::from_secs(1);
/// Combinations of arms whose pipelines are kept.
const COMBINATIONS: usize = 256;

/// What was dealt to a search.
#[derive(Debug)]
pub(crate) struct SearchAssignment<'a> {
    live: Option<Arc<ActiveFeatures>>,
    arms: Vec<Arm>,
    _searching: SearchInProgress<'a>,
}

impl<'e> ExperimentOperations<'e> {
    /// Gives a search its pipeline: the one in force, with the features that its bucket gets. A search that asks for a
    /// pipeline of its own takes no part.
    pub(crate) async fn deal(self, request: &mut SearchRequest) -> Result<SearchAssignment<'e>, EngineError> {
        let searching = self.engine.ab.queue.searching();
        let none = SearchAssignment {
            live: None,
            arms: Vec::new(),
            _searching: searching,
        };
        if request.pipeline != *ValidPipeline::standard() {
            return Ok(none);
        }
        let live = self.live_features().await?;
        let who = identity(request.session.as_deref(), &request.query);
        let arms: Vec<Arm> = live
            .running
            .iter()
            .map(|feature| arm(&feature.feature_id, &who, feature.rollout_percent))
            .collect();
        // A combination that does not fit together is left out: the pipeline in force answers.
        request.pipeline = live.with(&arms).unwrap_or_else(|| live.pipeline.clone());
        Ok(SearchAssignment {
            live: Some(live),
            arms,
            ..none
        })
    }

    /// Puts a search that was answered into the line for the shadow, once for each feature whose sample it is in.
    pub(crate) fn shadow(self, deal: &SearchAssignment<'_>, request: &SearchRequest, answer: &MemorySearch) {
        let Some(live) = &deal.live else { return };
        for (position, feature) in live.running.iter().enumerate() {
            let sampled = feature.shadow_enabled
                && is_shadowed(&feature.feature_id, &answer.query_id, feature.shadow_percent);
            if !sampled {
                continue;
            }
            // Everything else as it was dealt: the pair differs in this feature alone.
            let with = |arm: Arm| {
                let mut arms = deal.arms.clone();
                arms.iter_mut()
                    .skip(position)
                    .take(1)
                    .for_each(|place| *place = arm);
                live.with(&arms)
            };
            let (Some(control), Some(treatment)) = (with(Arm::Control), with(Arm::Treatment)) else {
                continue;
            };
            let job = Job {
                query_id: answer.query_id.clone(),
                // What the session has seen is not the pipeline's doing, and by now it has seen this answer.
                request: SearchRequest {
                    skip_shown: false,
                    ..request.clone()
                },
                feature_id: feature.feature_id.clone(),
                control,
                treatment,
                shown: deal.arms.get(position).copied().unwrap_or(Arm::Control),
            };
            self.engine.ab.queue.push(job, self.engine.ab.settings.queue);
        }
    }

    /// What searches go by, read again when it is old and something changed.
    pub(crate) async fn live_features(self) -> Result<Arc<ActiveFeatures>, EngineError> {
        let mut known = self.engine.ab.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.read_at.elapsed() < FRESH) {
            return Ok(known.live.clone());
        }
        let store = self.engine.store().await?;
        let state = store.experiments().state().await?;
        let live = match known.as_ref().filter(|known| known.state == state) {
            Some(known) => known.live.clone(),
            None => Arc::new(ActiveFeatures::of(&store.experiments().list().await?)),
        };
        *known = Some(CachedFeatures {
            read_at: Instant::now(),
            state,
            live: live.clone(),
        });
        Ok(live)
    }

    /// Forgets what was read, so that the next search sees a change of this process at once.
    pub(super) async fn forget_features(self) {
        *self.engine.ab.known.lock().await = None;
    }
}

impl ActiveFeatures {
    /// The pipeline in force and what runs, from what is stored. A graduated feature that no longer fits (a later version
    /// may know other knobs) is left out and named, because a search must answer.
    pub(crate) fn of(rows: &[ExperimentRow]) -> Self {
        let mut graduated: Vec<&ExperimentRow> =
            rows.iter().filter(|row| row.status == "graduated").collect();
        graduated.sort_by_key(|row| row.graduated_at);
        let mut pipeline = ValidPipeline::default();
        let mut unfit = Vec::new();
        for row in graduated {
            let change = row.feature.get("pipeline").and_then(Value::as_object);
            match laid_over(&pipeline, &row.feature_id, change.unwrap_or(&Map::new())) {
                Ok(changed) => pipeline = changed,
                Err(problem) => {
                    tracing::warn!(feature = row.feature_id, %problem, "a graduated feature is left out");
                    unfit.push((row.feature_id.clone(), problem.to_string()));
                }
            }
        }
        let running = rows
            .iter()
            .filter(|row| row.status == "running")
            .filter_map(|row| serde_json::from_value::<Feature>(row.feature.clone()).ok())
            .filter(|feature| feature.enabled)
            .collect();
        Self {
            pipeline: Arc::new(pipeline),
            combined: Mutex::default(),
            running,
            unfit,
        }
    }

    /// The pipeline in force with the features whose arm is the treatment, the oldest first; none when they do not fit
    /// together.
    fn with(&self, arms: &[Arm]) -> Option<Arc<ValidPipeline>> {
        if !arms.contains(&Arm::Treatment) {
            return Some(self.pipeline.clone());
        }
        let mut combined = self.combined.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = combined.get(arms) {
            return known.clone();
        }
        let features = self.running.iter().zip(arms);
        let mut treated = features.filter(|(_, arm)| **arm == Arm::Treatment);
        let built = treated.try_fold(self.pipeline.as_ref().clone(), |pipeline, (feature, _)| {
            laid_over(&pipeline, &feature.feature_id, &feature.pipeline)
        });
        let built = built.ok().map(Arc::new);
        // Many features have more combinations than are worth keeping.
        if combined.len() < COMBINATIONS {
            combined.insert(arms.to_vec(), built.clone());
        }
        built
    }
}

/// A pipeline with a feature's change, checked.
pub(super) fn laid_over(
    base: &ValidPipeline,
    feature: &str,
    change: &Map<String, Value>,
) -> Result<ValidPipeline, ExperimentError> {
    let changed: Pipeline = overridden(&**base, change).map_err(|problem| ExperimentError::Override {
        feature: feature.into(),
        problem,
    })?;
    changed.validate().map_err(|problem| ExperimentError::Pipeline {
        feature: feature.into(),
        problem,
    })
}
