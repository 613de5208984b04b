//! Relevance judgments derived from agents' use of results.

use crate::handles::RetrievalOperations;
use std::collections::{BTreeMap, BTreeSet};

use satiety::memory::{FeedbackKind, LoggedEvent, PastQuery, attribution_settings, reattribute};
use satiety::retrieval::{
    FeedbackSignal, JudgedFromFeedback, JudgmentSource, judge_from_feedback, signal_rules, weighted_kappa,
};
use satiety_store::evaluation::{EvalJudgmentRow, EvalQueryRow};
use satiety_store::journal::Event;
use satiety_store::memory::FeedbackRow;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::golden_error::share;
use super::harvest::stands_for;
use crate::EngineError;
use crate::memory::{attributed_probability, past_query};

/// Maximum number of queries and events of a session that are attributed again.
const MAX_EVENTS: u32 = 5000;
/// Queries per embedding batch.
const EMBED_BATCH: usize = 64;
/// Annotator name of these judgments.
const ANNOTATOR: &str = "feedback";

/// Request to derive judgments.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct JudgeFeedbackRequest {
    /// Minimum confidence for a judgment to be written, 0 to 1; 0.6 by default.
    #[serde(default = "default_confidence")]
    #[schemars(range(min = 0.0, max = 1.0))]
    pub min_confidence: f64,
    /// Report only, without writing.
    #[serde(default)]
    pub dry_run: bool,
    /// Attribute all uses to queries again, and replace the judgments that earlier feedback led to.
    #[serde(default)]
    pub rederive: bool,
}

/// A single read has a confidence of 0.7 and is right about as often: it is not a judgment. From 0.88 on, 95 % of the grades
/// are on the right side in simulations, and an explicit rating counts alone (0.89).
fn default_confidence() -> f64 {
    0.88
}

impl Default for JudgeFeedbackRequest {
    fn default() -> Self {
        Self {
            min_confidence: default_confidence(),
            dry_run: false,
            rederive: false,
        }
    }
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
    /// Number of earlier judgments from feedback that are gone, if they were derived again.
    pub removed: u64,
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
        let logged = if request.rederive {
            self.reattributed_feedback(&corpus, &ids).await?
        } else {
            let rows = store.evaluation().feedback_of_queries(&ids).await?.into_iter();
            rows.filter_map(|row| {
                let weight = attributed_probability(&row.metadata);
                Some((row.session_id.clone(), logged_event(&row)?, weight))
            })
            .collect()
        };
        let mut signals: BTreeMap<&str, Vec<FeedbackSignal>> = BTreeMap::new();
        let mut events = 0;
        for (session, event, weight) in logged {
            let Some(query) = event.query_id.as_ref().and_then(|id| meant.get(id)) else {
                continue;
            };
            events += 1;
            signals.entry(query).or_default().push(FeedbackSignal {
                memory_id: event.memory_id,
                kind: event.kind,
                // Two queries of one session count as two occasions.
                session: format!("{session}/{}", event.query_id.as_deref().unwrap_or_default()),
                at: event.at,
                weight,
            });
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
            removed: 0,
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
        if !request.dry_run && (request.rederive || !rows.is_empty()) {
            if request.rederive {
                let queries: Vec<String> = corpus.iter().map(|(row, _)| row.query_id.clone()).collect();
                let source = JudgmentSource::Bootstrapped.name();
                answer.removed = store
                    .evaluation()
                    .replace_judgments(&queries, source, ANNOTATOR, &rows)
                    .await?;
            } else {
                store.evaluation().put_corpus(&[], &rows).await?;
            }
            let body = json!({
                "written": rows.len(), "min_confidence": request.min_confidence, "rederived": request.rederive,
                "removed": answer.removed,
            });
            store
                .journal()
                .append(Event::now("retrieval.judged", "feedback", body))
                .await?;
        }
        Ok(answer)
    }

    /// Attributes the uses of all sessions of the corpus again. Queries that were logged without a vector are
    /// embedded, if there is a model.
    async fn reattributed_feedback(
        self,
        corpus: &[(EvalQueryRow, Vec<EvalJudgmentRow>)],
        queries: &[String],
    ) -> Result<Vec<(String, LoggedEvent, f64)>, EngineError> {
        let store = self.engine.store().await?;
        let mut sessions: BTreeSet<String> = corpus
            .iter()
            .filter_map(|(row, _)| row.session_id.clone())
            .collect();
        // Queries that others stand for may belong to other sessions.
        let events = store.evaluation().feedback_of_queries(queries).await?;
        sessions.extend(events.into_iter().map(|event| event.session_id));
        let rule = self.engine.memory_settings.attribution;
        let mut all = Vec::new();
        for session in sessions {
            let rows = store.query_log().queries_of_session(&session, MAX_EVENTS).await?;
            let mut asked: Vec<PastQuery> = rows.into_iter().map(past_query).collect();
            self.embed_missing(&mut asked).await?;
            let events = store.memories().feedback_of_session(&session, MAX_EVENTS).await?;
            let events: Vec<LoggedEvent> = events.iter().filter_map(logged_event).collect();
            let ids: BTreeSet<String> = events
                .iter()
                .filter_map(|event| event.memory_id.clone())
                .collect();
            let ids: Vec<String> = ids.into_iter().collect();
            let memories = store.memories().by_id(&ids).await?;
            let memories = self.engine.memory().used_memories(&memories).await?;
            let again = reattribute(&asked, &events, &memories, rule, attribution_settings());
            all.extend(
                again
                    .into_iter()
                    .map(|(event, weight)| (session.clone(), event, weight)),
            );
        }
        Ok(all)
    }

    async fn embed_missing(self, queries: &mut [PastQuery]) -> Result<(), EngineError> {
        let Some(embedder) = self.engine.embedder().await? else {
            return Ok(());
        };
        let missing: Vec<usize> = (0..queries.len())
            .filter(|at| queries[*at].vector.is_none())
            .collect();
        for batch in missing.chunks(EMBED_BATCH) {
            let texts: Vec<String> = batch.iter().map(|at| queries[*at].text.clone()).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let vectors = embedder.embed(&texts).await?;
            for (at, vector) in batch.iter().zip(vectors) {
                queries[*at].vector = Some((embedder.id().to_string(), vector));
            }
        }
        Ok(())
    }
}

/// A logged event; `None` for a kind of a newer version.
fn logged_event(row: &FeedbackRow) -> Option<LoggedEvent> {
    Some(LoggedEvent {
        kind: FeedbackKind::named(&row.event_type)?,
        query_id: row.query_id.clone(),
        memory_id: row.memory_id.clone(),
        asked_again_as: None,
        at: row.created_at,
    })
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
