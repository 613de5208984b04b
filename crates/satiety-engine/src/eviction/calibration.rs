//! Learning from exclusions: reports, exports, and new scorer versions. No new version becomes active by
//! itself.

use crate::handles::EvictionOperations;
use satiety::Hint;
use satiety::eviction::calibration::{
    FeedbackReport, FitSettings, Fitted, Online, OnlineSettings, feedback_report, fit,
};
use satiety::eviction::gate::{Scorer, Variant};
use satiety::eviction::{EvictionFeedback, EvictionProposal, Label, ResolvedBy, Timeline, labels, timeline};
use satiety::ids;
use satiety_store::eviction::{ProposalRow, ScorerRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use super::scopes::parse;
use crate::EngineError;

/// Proposals per page when reading from the database.
const PAGE: u32 = 500;
/// Number of the latest proposals that pages show, so that their cost does not grow with the number of proposals.
pub const RECENT_PROPOSALS: u32 = 200;

/// Statistics over the feedback to proposals.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Feedback {
    /// Scope of the statistics; all scopes if absent.
    pub scope_id: Option<String>,
    /// Number of proposals answered by an agent or a person.
    pub answered: usize,
    /// Number of proposals that timed out; they are not used for learning.
    pub timed_out: usize,
    /// Number of proposals that can still be answered.
    pub open: usize,
    /// Exclusion rates and how well they were predicted; absent without answers.
    pub report: Option<FeedbackReport>,
}

/// Request to export feedback.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportFeedbackRequest {
    /// Scope to export; all scopes if `None`.
    pub scope_id: Option<String>,
    /// Whether to include snippets and reasons, which contain text of the context.
    pub content: bool,
}

/// Feedback as JSON Lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFeedback {
    /// JSON Lines, one label per line.
    pub text: String,
    /// Number of labels.
    pub labels: usize,
}

/// Basis of a new scorer version.
#[derive(Debug, Clone, PartialEq)]
pub enum CalibrateWith {
    /// Variant A: weights fitted to feedback.
    Weights(FitSettings),
    /// Variant B: a different prompt for the scorer model.
    Prompt(String),
    /// Variant C: weights that are updated online in small steps.
    Online(OnlineSettings),
}

/// Request for a new scorer version.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrateRequest {
    /// Scope whose feedback is used; all scopes if `None`.
    pub scope_id: Option<String>,
    /// Exported feedback (name and JSON Lines) to use instead of the database.
    pub exported: Option<(String, String)>,
    pub with: CalibrateWith,
}

/// Request of a remote caller for a new scorer version: weights fitted to feedback, unless `online` or
/// `prompt` is given.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CalibrateScorerRequest {
    /// Scope whose feedback is used; all scopes if absent.
    #[serde(default)]
    pub scope_id: Option<String>,
    /// Exported feedback (JSON Lines) to use instead of the stored one.
    #[serde(default)]
    pub feedback: Option<String>,
    /// Smallest ridge penalty on the correction by features; 10 if absent.
    #[serde(default)]
    #[schemars(range(min = 0.001, max = 1_000_000.0))]
    pub ridge: Option<f64>,
    /// Whether the weights adjust themselves online (variant C).
    #[serde(default)]
    pub online: bool,
    /// Prompt of the scorer model (variant B).
    #[serde(default)]
    pub prompt: Option<String>,
}

impl From<CalibrateScorerRequest> for CalibrateRequest {
    fn from(asked: CalibrateScorerRequest) -> Self {
        let with = match asked.prompt {
            Some(prompt) => CalibrateWith::Prompt(prompt),
            None if asked.online => CalibrateWith::Online(OnlineSettings::default()),
            None => {
                let default = FitSettings::default();
                CalibrateWith::Weights(FitSettings {
                    ridge: asked.ridge.unwrap_or(default.ridge),
                    ..default
                })
            }
        };
        Self {
            scope_id: asked.scope_id,
            exported: asked.feedback.map(|text| ("feedback".to_owned(), text)),
            with,
        }
    }
}

/// A new scorer version, not yet active.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "CalibratedScorer")]
pub struct Calibrated {
    /// Version of the new scorer.
    pub version: String,
    /// Kind of change that the version makes.
    pub variant: Variant,
    /// Version that it is based on.
    pub based_on: String,
    /// Prediction quality on held-out proposals, for fitted weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Fitted>,
    /// Number of labels that it learned from.
    pub labels: usize,
    /// Number of drift alarms, for weights that are updated online.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_alarms: Option<u64>,
}

impl EvictionOperations<'_> {
    /// Reports how often items are excluded, and how well that was predicted.
    pub async fn feedback(self, scope_id: Option<&str>) -> Result<Feedback, EngineError> {
        summarize_feedback(scope_id, &self.proposals(scope_id).await?)
    }

    /// The same over the latest [`RECENT_PROPOSALS`] of all scopes.
    pub async fn recent_feedback(self) -> Result<Feedback, EngineError> {
        summarize_feedback(None, &self.recent_proposals(None).await?)
    }

    /// Returns the outcome of each of the latest [`RECENT_PROPOSALS`] of a scope.
    pub async fn recent_timeline(self, scope_id: &str) -> Result<Timeline, EngineError> {
        let rows = self.recent_proposals(Some(scope_id)).await?;
        Ok(timeline(
            rows.iter()
                .map(|(proposal, feedback)| (proposal, feedback.as_ref())),
        ))
    }

    async fn recent_proposals(self, scope_id: Option<&str>) -> Result<Vec<StoredProposal>, EngineError> {
        let store = self.engine.store().await?;
        let rows = store
            .eviction()
            .latest_proposals(scope_id, RECENT_PROPOSALS)
            .await?;
        rows.iter().map(parse_proposal).collect()
    }

    /// Returns the outcome of each proposal of a scope.
    pub async fn timeline(self, scope_id: &str) -> Result<Timeline, EngineError> {
        let rows = self.proposals(Some(scope_id)).await?;
        Ok(timeline(
            rows.iter()
                .map(|(proposal, feedback)| (proposal, feedback.as_ref())),
        ))
    }

    /// Returns a proposal of a scope with its items, and the feedback on it.
    pub async fn stored_proposal(
        self,
        scope_id: &str,
        proposal_id: &str,
    ) -> Result<(EvictionProposal, Option<EvictionFeedback>), EngineError> {
        let row = self
            .engine
            .store()
            .await?
            .eviction()
            .proposal(proposal_id)
            .await?;
        let row = row
            .filter(|row| row.scope_id == scope_id)
            .ok_or_else(|| EngineError::NotFound {
                what: format!("proposal `{proposal_id}`"),
                hint: "see the timeline of the scope for its proposals".into(),
            })?;
        let what = || format!("proposal {proposal_id}");
        let feedback = row
            .feedback
            .as_deref()
            .map(|text| parse(text, what))
            .transpose()?;
        Ok((parse(&row.body, what)?, feedback))
    }

    /// Exports feedback as JSON Lines, without text of the context unless requested.
    pub async fn export(self, request: &ExportFeedbackRequest) -> Result<ExportedFeedback, EngineError> {
        let mut exported = ExportedFeedback {
            text: String::new(),
            labels: 0,
        };
        for (proposal, feedback) in self.proposals(request.scope_id.as_deref()).await? {
            let Some(feedback) = feedback else { continue };
            for mut label in labels(&proposal, &feedback) {
                let snippet = proposal
                    .candidates
                    .iter()
                    .find(|candidate| candidate.ctx_id == label.ctx_id);
                if !request.content {
                    label.exclude_reason = None;
                }
                let mut line = serde_json::to_value(&label)?;
                if let (true, Some(candidate), Some(fields)) =
                    (request.content, snippet, line.as_object_mut())
                {
                    fields.insert("snippet".into(), Value::from(candidate.snippet.clone()));
                }
                exported.text.push_str(&line.to_string());
                exported.text.push('\n');
                exported.labels += 1;
            }
        }
        Ok(exported)
    }

    /// Creates a new scorer version. It is not active until [`EvictionOperations::activate`].
    pub async fn calibrate(self, request: CalibrateRequest) -> Result<Calibrated, EngineError> {
        let base = self.active_scorer().await?;
        let version = ids::prefixed("scorer", Uuid::now_v7());
        let all = match &request.exported {
            Some((name, text)) => read_labels(name, text)?,
            None => self.labels(request.scope_id.as_deref()).await?,
        };
        let mut fitted = None;
        let mut drift_alarms = None;
        let mut scorer = Scorer {
            weights: base.weights.clone(),
            ..Scorer::baseline()
        };
        scorer.weights.version.clone_from(&version);
        match request.with {
            CalibrateWith::Weights(settings) => {
                let found = fit(&all, &base.weights, &version, &settings)?;
                scorer.variant = Variant::Weights;
                scorer.weights = found.weights.clone();
                fitted = Some(found);
            }
            CalibrateWith::Prompt(prompt) => {
                scorer.variant = Variant::Prompt;
                scorer.prompt = Some(prompt);
            }
            CalibrateWith::Online(settings) => {
                let mut online = Online::new(&base.weights, &all, settings)?;
                for label in &all {
                    online.observe(label)?;
                }
                scorer.variant = Variant::Online;
                scorer.weights = online.weights(&version);
                scorer.online = Some(settings);
                drift_alarms = Some(online.counts().1);
            }
        }
        scorer.check()?;
        let row = ScorerRow {
            version: version.clone(),
            variant: scorer.variant.name().into(),
            created_at: now_micros(),
            body: serde_json::to_string(&scorer)?,
            fit: fitted.as_ref().map(serde_json::to_string).transpose()?,
        };
        self.engine.store().await?.eviction().put_scorer(&row).await?;
        Ok(Calibrated {
            version,
            variant: scorer.variant,
            based_on: base.weights.version,
            fitted,
            labels: all.len(),
            drift_alarms,
        })
    }

    async fn labels(self, scope_id: Option<&str>) -> Result<Vec<Label>, EngineError> {
        let rows = self.proposals(scope_id).await?;
        let resolved = rows
            .iter()
            .filter_map(|(proposal, feedback)| Some((proposal, feedback.as_ref()?)));
        Ok(resolved
            .flat_map(|(proposal, feedback)| labels(proposal, feedback))
            .collect())
    }

    async fn proposals(self, scope_id: Option<&str>) -> Result<Vec<StoredProposal>, EngineError> {
        let store = self.engine.store().await?;
        let mut all = Vec::new();
        let mut after: Option<(i64, String)> = None;
        loop {
            let from = after.as_ref().map(|(at, id)| (*at, id.as_str()));
            let page: Vec<ProposalRow> = store.eviction().proposals(scope_id, from, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.proposed_at, last.proposal_id.clone()));
            for row in &page {
                all.push(parse_proposal(row)?);
            }
        }
        Ok(all)
    }
}

/// A proposal with the feedback on it, once it is resolved.
type StoredProposal = (EvictionProposal, Option<EvictionFeedback>);

fn parse_proposal(row: &ProposalRow) -> Result<StoredProposal, EngineError> {
    let what = || format!("proposal {}", row.proposal_id);
    let feedback = row.feedback.as_deref().map(|text| parse(text, what));
    Ok((parse(&row.body, what)?, feedback.transpose()?))
}

fn summarize_feedback(scope_id: Option<&str>, rows: &[StoredProposal]) -> Result<Feedback, EngineError> {
    let (mut answered, mut timed_out, mut open) = (0, 0, 0);
    let mut all = Vec::new();
    for (proposal, feedback) in rows {
        match feedback {
            None => open += 1,
            Some(feedback) if feedback.resolved_by == ResolvedBy::Timeout => timed_out += 1,
            Some(feedback) => {
                answered += 1;
                all.extend(labels(proposal, feedback));
            }
        }
    }
    let report = if all.is_empty() {
        None
    } else {
        Some(feedback_report(&all)?)
    };
    Ok(Feedback {
        scope_id: scope_id.map(str::to_owned),
        answered,
        timed_out,
        open,
        report,
    })
}

fn read_labels(name: &str, text: &str) -> Result<Vec<Label>, EngineError> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let label: Label = serde_json::from_str(line).map_err(|error| EngineError::Invalid {
            message: format!("{name}:{number}: {error}"),
            hint: Hint::with_command("use lines of an export", "satiety evict export"),
        })?;
        all.push(label);
    }
    Ok(all)
}
