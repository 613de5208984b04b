//! Relevance judgments derived from agents' use of results.

use crate::handles::RetrievalOperations;
use std::collections::BTreeMap;

use satiety::memory::FeedbackKind;
use satiety::retrieval::{
    FeedbackSignal, JudgedFromFeedback, JudgmentSource, judge_from_feedback, signal_rules, weighted_kappa,
};
use satiety_store::evaluation::EvalJudgmentRow;
use satiety_store::journal::Event;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::golden_error::share;
use super::harvest::stands_for;
use crate::EngineError;

/// Annotator name of these judgments.
const ANNOTATOR: &str = "feedback";

/// Request to derive judgments.
#[derive(Debug, Clone, Copy)]
pub struct JudgeFeedbackRequest {
    /// Minimum confidence for a judgment to be written.
    pub min_confidence: f64,
    /// Report only, without writing.
    pub dry_run: bool,
}

/// Result of deriving judgments from feedback.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct JudgedCorpus {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Number of queries in the corpus.
    pub queries: usize,
    /// Number of queries whose results have feedback.
    pub with_feedback: usize,
    /// Total number of feedback events.
    pub events: usize,
    /// Number of judgments that were written.
    pub written: usize,
    /// Number of judgments below the minimum confidence.
    pub uncertain: usize,
    /// Number of results with a human judgment, which are unchanged.
    pub by_people: usize,
    /// Number of written judgments by grade.
    pub grades: BTreeMap<i32, usize>,
    /// Agreement with human judgments, if both exist.
    pub beside_people: Option<HumanAgreement>,
    /// All judgments with their reasons.
    pub judgments: Vec<FeedbackJudgment>,
}

/// A judgment derived from feedback.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct FeedbackJudgment {
    /// Id of the query.
    pub query_id: String,
    /// Id of the result.
    pub memory_id: String,
    /// Grade and confidence derived from feedback.
    #[serde(flatten)]
    pub judged: JudgedFromFeedback,
    /// Outcome of the derived judgment.
    pub outcome: FeedbackOutcome,
}

/// Outcome of a derived judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FeedbackOutcome {
    /// Written with source `bootstrapped`.
    Written,
    /// Confidence is below the minimum.
    Uncertain,
    /// A person has already judged the result.
    ByPerson,
}

/// Agreement of feedback with human judgments.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, JsonSchema)]
pub struct HumanAgreement {
    /// Number of results judged by both.
    pub results: usize,
    /// Share with the same grade, 0 to 1.
    pub same_grade: f64,
    /// Share on the same side of the relevance threshold (grade 2), 0 to 1.
    pub same_side: f64,
    /// Cohen's kappa with quadratic weights.
    pub kappa: Option<f64>,
}

impl RetrievalOperations<'_> {
    /// Judges results of the corpus by agents' use of them. Human judgments are never changed.
    pub async fn judge_from_feedback(
        self,
        request: JudgeFeedbackRequest,
    ) -> Result<JudgedCorpus, EngineError> {
        share("minimum confidence", request.min_confidence)?;
        let corpus = self.whole_corpus().await?;
        let store = self.engine.store().await?;
        let mut meant: BTreeMap<String, String> = BTreeMap::new();
        for (row, _) in &corpus {
            for other in stands_for(row) {
                meant.insert(other, row.query_id.clone());
            }
            meant.insert(row.query_id.clone(), row.query_id.clone());
        }
        let ids: Vec<String> = meant.keys().cloned().collect();
        let mut signals: BTreeMap<&str, Vec<FeedbackSignal>> = BTreeMap::new();
        let mut events = 0;
        for event in store.evaluation().feedback_of_queries(&ids).await? {
            let kind = serde_json::from_value::<FeedbackKind>(Value::String(event.event_type)).ok();
            let query = event.query_id.as_ref().and_then(|id| meant.get(id));
            if let Some((kind, query)) = kind.zip(query) {
                events += 1;
                signals.entry(query).or_default().push(FeedbackSignal {
                    memory_id: event.memory_id,
                    kind,
                    // Two queries of one session count as two occasions.
                    session: format!(
                        "{}/{}",
                        event.session_id,
                        event.query_id.as_deref().unwrap_or_default()
                    ),
                    at: event.created_at,
                });
            }
        }
        let mut judgments = Vec::new();
        let mut both = Vec::new();
        for (row, known) in &corpus {
            let Some(signals) = signals.get(row.query_id.as_str()) else {
                continue;
            };
            for (memory_id, judged) in judge_from_feedback(signals, signal_rules()) {
                let person = known.iter().find(|judgment| {
                    judgment.source == JudgmentSource::Manual.name() && judgment.memory_id == memory_id
                });
                let outcome = match person {
                    Some(person) => {
                        both.push((i32::try_from(person.relevance).unwrap_or(0), judged.grade));
                        FeedbackOutcome::ByPerson
                    }
                    None if judged.confidence < request.min_confidence => FeedbackOutcome::Uncertain,
                    None => FeedbackOutcome::Written,
                };
                judgments.push(FeedbackJudgment {
                    query_id: row.query_id.clone(),
                    memory_id,
                    judged,
                    outcome,
                });
            }
        }
        let count = |outcome| judgments.iter().filter(|one| one.outcome == outcome).count();
        let mut answer = JudgedCorpus {
            dry_run: request.dry_run,
            queries: corpus.len(),
            with_feedback: signals.len(),
            events,
            written: count(FeedbackOutcome::Written),
            uncertain: count(FeedbackOutcome::Uncertain),
            by_people: count(FeedbackOutcome::ByPerson),
            grades: BTreeMap::new(),
            beside_people: agreement(&both),
            judgments,
        };
        let written = || {
            answer
                .judgments
                .iter()
                .filter(|one| one.outcome == FeedbackOutcome::Written)
        };
        let rows: Vec<EvalJudgmentRow> = written().map(row_of).collect();
        let mut grades = BTreeMap::new();
        for one in written() {
            *grades.entry(one.judged.grade).or_default() += 1;
        }
        answer.grades = grades;
        if !request.dry_run && !rows.is_empty() {
            store.evaluation().put_corpus(&[], &rows).await?;
            let body = json!({"written": rows.len(), "min_confidence": request.min_confidence});
            store
                .journal()
                .append(Event::now("retrieval.judged", "feedback", body))
                .await?;
        }
        Ok(answer)
    }
}

fn row_of(one: &FeedbackJudgment) -> EvalJudgmentRow {
    EvalJudgmentRow {
        query_id: one.query_id.clone(),
        memory_id: one.memory_id.clone(),
        source: JudgmentSource::Bootstrapped.name().into(),
        relevance: one.judged.grade.into(),
        annotator: Some(ANNOTATOR.into()),
        // Four digits: more would be false precision.
        confidence: Some((one.judged.confidence * 10_000.0).round() / 10_000.0),
    }
}

fn agreement(both: &[(i32, i32)]) -> Option<HumanAgreement> {
    let share = |same: &dyn Fn(&(i32, i32)) -> bool| {
        both.iter().filter(|pair| same(pair)).count() as f64 / both.len() as f64
    };
    (!both.is_empty()).then(|| HumanAgreement {
        results: both.len(),
        same_grade: share(&|(a, b)| a == b),
        same_side: share(&|(a, b)| (*a >= 2) == (*b >= 2)),
        kappa: weighted_kappa(both),
    })
}
