//! Proposals of channel weights from the judged queries of the store, including judgments from feedback.

use std::sync::Arc;

use satiety::experiment::{
    Feature, ProposalVerdict, ProposedWeights, RELEVANT, WEIGHT_RATIOS, outcome, propose_weights,
    weight_change,
};
use satiety::memory::ValidPipeline;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::assignment::apply_change;
use super::features::{ExperimentChange, StartRequest};
use crate::EngineError;
use crate::handles::ExperimentOperations;
use crate::memory::SearchRequest;

/// Maximum number of judged queries that are searched, seven times each.
const MAX_QUERIES: usize = 500;
/// Name of a proposed feature that was not named.
const DEFAULT_NAME: &str = "learnt-weights";

/// Request for a proposal of channel weights.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProposeRequest {
    /// Start the proposed change as a feature of this name, without rollout; only report it when absent.
    #[serde(default)]
    #[schemars(length(min = 1, max = 64))]
    pub start: Option<String>,
}

/// Channel weights that suit the judged queries of the store.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct WeightProposal {
    /// Evidence for the proposal.
    #[serde(flatten)]
    pub proposed: ProposedWeights,
    /// The change as a feature; absent unless one is proposed.
    pub feature: Option<Feature>,
    /// State of the feature if it was started.
    pub started: Option<ExperimentChange>,
}

impl ExperimentOperations<'_> {
    /// Searches the judged queries with several ratios of lexical to vector weight, and proposes the best one if it is
    /// better on queries that were not used to choose it. Nothing changes for searches: a started feature has no
    /// rollout, shadow runs compare it, and it graduates only by the checklist.
    pub async fn propose(self, request: ProposeRequest) -> Result<WeightProposal, EngineError> {
        let live = self.live_features().await?;
        let mut questions = self.corpus_questions().await?;
        questions.retain(|(question, grades)| {
            !question.trim().is_empty() && grades.values().any(|grade| *grade >= RELEVANT)
        });
        questions.truncate(MAX_QUERIES);
        let name = request.start.as_deref().unwrap_or(DEFAULT_NAME);
        let mut scores: [Vec<f64>; WEIGHT_RATIOS.len()] = Default::default();
        for (ratio, scores) in WEIGHT_RATIOS.iter().zip(&mut scores) {
            let change = weight_change(&live.pipeline.weights, *ratio);
            let pipeline: Arc<ValidPipeline> = Arc::new(apply_change(&live.pipeline, name, &change)?);
            for (question, grades) in &questions {
                let request = SearchRequest {
                    query: question.clone(),
                    scope: Some(satiety::memory::Scope::All),
                    ..SearchRequest::default()
                };
                let found = self.engine.memory().search_with(&pipeline, &request).await?;
                let ids: Vec<String> = found.results.into_iter().map(|result| result.id).collect();
                scores.extend(outcome(&ids, grades).map(|outcome| outcome.ndcg));
            }
        }
        let proposed = propose_weights(&scores);
        let feature = (proposed.verdict == ProposalVerdict::Propose).then(|| {
            let change = weight_change(&live.pipeline.weights, proposed.ratio);
            Feature {
                description: format!(
                    "channel weights learnt from {} judged queries (nDCG@10 {:+.3}, cross-validated)",
                    proposed.queries,
                    proposed.gain.unwrap_or(0.0)
                ),
                shadow_percent: 100.0,
                ..Feature::new(name, change)
            }
        });
        let started = match (&request.start, &feature) {
            (Some(_), Some(feature)) => {
                let feature = feature.clone();
                Some(self.start(StartRequest { feature }).await?)
            }
            _ => None,
        };
        Ok(WeightProposal {
            proposed,
            feature,
            started,
        })
    }
}
