//! What was kept back, and what follows from it: reports, exports, and new versions of the scorer, none of which goes into
//! force by itself.

use crate::handles::EvictionOperations;
use satiety::eviction::calibration::{
    FeedbackReport, FitSettings, Fitted, Online, OnlineSettings, feedback_report, fit,
};
use satiety::eviction::gate::{Scorer, Variant};
use satiety::eviction::{EvictionFeedback, EvictionProposal, Label, ResolvedBy, Timeline, labels, timeline};
use satiety::ids;
use satiety_store::eviction::{ProposalRow, ScorerRow};
use satiety_store::now_micros;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;
use uuid::Uuid;

use super::scopes::parse;
use crate::EngineError;

/// Proposals read at a time.
const PAGE: u32 = 500;

/// What is known from feedback.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Feedback {
    /// The scope; all where absent.
    pub scope_id: Option<String>,
    /// Proposals that were answered by somebody.
    pub answered: usize,
    /// Proposals that nobody answered in time: nothing is learned from them.
    pub timed_out: usize,
    /// Proposals that may still be answered.
    pub open: usize,
    /// Keep-back rates and how well they were foretold; absent where nothing was answered.
    pub report: Option<FeedbackReport>,
}

/// Feedback to be taken elsewhere.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExportFeedbackRequest {
    /// The scope; all where absent.
    pub scope_id: Option<String>,
    /// Whether snippets and reasons go along: words of the context.
    pub content: bool,
}

/// Feedback as JSON Lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExportedFeedback {
    /// The lines.
    pub text: String,
    /// How many.
    pub labels: usize,
}

/// What a new version of the scorer is made from.
#[derive(Debug, Clone, PartialEq)]
pub enum CalibrateWith {
    /// A: weights fitted to feedback.
    Weights(FitSettings),
    /// B: another prompt for the scorer model.
    Prompt(String),
    /// C: weights that adjust themselves in small steps.
    Online(OnlineSettings),
}

/// Asks for a new version of the scorer.
#[derive(Debug, Clone, PartialEq)]
pub struct CalibrateRequest {
    /// From the feedback of this scope; of all where absent.
    pub scope_id: Option<String>,
    /// From exported feedback (name and JSON Lines) in place of the store's.
    pub exported: Option<(String, String)>,
    /// How.
    pub with: CalibrateWith,
}

/// A new version of the scorer, not in force.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Calibrated {
    /// Its name.
    pub version: String,
    /// What it changes.
    pub variant: Variant,
    /// What it builds on.
    pub based_on: String,
    /// How well it foretells what is kept back, for fitted weights.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Fitted>,
    /// Labels that it learned from.
    pub labels: usize,
    /// Alarms of drift, for weights that adjust themselves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub drift_alarms: Option<u64>,
}

impl EvictionOperations<'_> {
    /// How often items are kept back, and how well that was foretold.
    pub async fn feedback(self, scope_id: Option<&str>) -> Result<Feedback, EngineError> {
        let rows = self.proposals(scope_id).await?;
        let (mut answered, mut timed_out, mut open) = (0, 0, 0);
        let mut all = Vec::new();
        for (proposal, feedback) in &rows {
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

    /// What became of each proposal of a scope.
    pub async fn timeline(self, scope_id: &str) -> Result<Timeline, EngineError> {
        let rows = self.proposals(Some(scope_id)).await?;
        Ok(timeline(
            rows.iter()
                .map(|(proposal, feedback)| (proposal, feedback.as_ref())),
        ))
    }

    /// Feedback as JSON Lines, without words of the context unless asked for.
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

    /// Makes a new version of the scorer. It is not in force: see [`EvictionOperations::activate`].
    pub async fn calibrate(self, request: CalibrateRequest) -> Result<Calibrated, EngineError> {
        let base = self.scorer_in_force().await?;
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

    async fn proposals(
        self,
        scope_id: Option<&str>,
    ) -> Result<Vec<(EvictionProposal, Option<EvictionFeedback>)>, EngineError> {
        let store = self.engine.store().await?;
        let mut all = Vec::new();
        let mut after: Option<(i64, String)> = None;
        loop {
            let from = after.as_ref().map(|(at, id)| (*at, id.as_str()));
            let page: Vec<ProposalRow> = store.eviction().proposals(scope_id, from, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some((last.proposed_at, last.proposal_id.clone()));
            for row in page {
                let what = || format!("proposal {}", row.proposal_id);
                let feedback = row
                    .feedback
                    .as_deref()
                    .map(|text| parse(text, what))
                    .transpose()?;
                all.push((parse(&row.body, what)?, feedback));
            }
        }
        Ok(all)
    }
}

fn read_labels(name: &str, text: &str) -> Result<Vec<Label>, EngineError> {
    let mut all = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        if line.trim().is_empty() {
            continue;
        }
        let label: Label = serde_json::from_str(line).map_err(|error| EngineError::Invalid {
            message: format!("{name}:{number}: {error}"),
            hint: "a line is what `satiety evict export` writes".into(),
        })?;
        all.push(label);
    }
    Ok(all)
}
