//! Assignment of searches to pipelines: before a search, which pipeline answers it; after it, whether it is
//! also run as a shadow. Both use data in memory only; features are reloaded from the database at most once a
//! second.

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

/// Maximum age of cached features: a change reaches other processes after at most this long.
const MAX_AGE: Duration = Duration::from_secs(1);
/// Maximum number of cached pipelines for combinations of arms.
const MAX_COMBINATIONS: usize = 256;

/// The arms assigned to a search.
#[derive(Debug)]
pub(crate) struct SearchAssignment<'a> {
    live: Option<Arc<ActiveFeatures>>,
    arms: Vec<Arm>,
    _searching: SearchInProgress<'a>,
}

impl<'e> ExperimentOperations<'e> {
    /// Assigns a pipeline to a search: the default one with the features of its bucket. A search that sets
    /// its own pipeline is excluded.
    pub(crate) async fn assign(
        self,
        request: &mut SearchRequest,
    ) -> Result<SearchAssignment<'e>, EngineError> {
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
        // If the features do not combine, the default pipeline answers.
        request.pipeline = live.with(&arms).unwrap_or_else(|| live.pipeline.clone());
        Ok(SearchAssignment {
            live: Some(live),
            arms,
            ..none
        })
    }

    /// Enqueues an answered search for shadow runs, one for each feature whose sample includes it.
    pub(crate) fn shadow(
        self,
        assignment: &SearchAssignment<'_>,
        request: &SearchRequest,
        answer: &MemorySearch,
    ) {
        let Some(live) = &assignment.live else { return };
        for (position, feature) in live.running.iter().enumerate() {
            let sampled = feature.shadow_enabled
                && is_shadowed(&feature.feature_id, &answer.query_id, feature.shadow_percent);
            if !sampled {
                continue;
            }
            // The other features stay as assigned, so the pair differs in this feature alone.
            let with = |arm: Arm| {
                let mut arms = assignment.arms.clone();
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
                // Do not skip results already shown: the session has seen this answer by now, and that is not
                // the pipeline's doing.
                request: SearchRequest {
                    skip_shown: false,
                    ..request.clone()
                },
                feature_id: feature.feature_id.clone(),
                control,
                treatment,
                shown: assignment.arms.get(position).copied().unwrap_or(Arm::Control),
            };
            self.engine.ab.queue.push(job, self.engine.ab.settings.queue);
        }
    }

    /// Returns the active features, reloaded when outdated and changed.
    pub(crate) async fn live_features(self) -> Result<Arc<ActiveFeatures>, EngineError> {
        let mut known = self.engine.ab.known.lock().await;
        if let Some(known) = known.as_ref().filter(|known| known.read_at.elapsed() < MAX_AGE) {
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

    /// Invalidates the cache, so that the next search sees a change made by this process.
    pub(super) async fn invalidate_features(self) {
        *self.engine.ab.known.lock().await = None;
    }
}

impl ActiveFeatures {
    /// Builds the default pipeline and the running features from database rows. A graduated feature that is
    /// no longer valid (a later version may have other parameters) is skipped and reported, because a search
    /// must answer.
    pub(crate) fn of(rows: &[ExperimentRow]) -> Self {
        let mut graduated: Vec<&ExperimentRow> =
            rows.iter().filter(|row| row.status == "graduated").collect();
        graduated.sort_by_key(|row| row.graduated_at);
        let mut pipeline = ValidPipeline::default();
        let mut unfit = Vec::new();
        for row in graduated {
            let change = row.feature.get("pipeline").and_then(Value::as_object);
            match apply_change(&pipeline, &row.feature_id, change.unwrap_or(&Map::new())) {
                Ok(changed) => pipeline = changed,
                Err(problem) => {
                    tracing::warn!(feature = row.feature_id, %problem, "skipped a graduated feature that is no longer valid");
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

    /// Returns the default pipeline with the features whose arm is the treatment, oldest first; `None` if
    /// they do not combine.
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
            apply_change(&pipeline, &feature.feature_id, &feature.pipeline)
        });
        let built = built.ok().map(Arc::new);
        // Many features have more combinations than are worth caching.
        if combined.len() < MAX_COMBINATIONS {
            combined.insert(arms.to_vec(), built.clone());
        }
        built
    }
}

/// Applies a feature's change to a pipeline and validates the result.
pub(super) fn apply_change(
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
