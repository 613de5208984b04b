//! Counts observations from shadow runs into the sequential test: judgments of the same query if there are
//! any, otherwise the use of the results. Each run is counted once, even with concurrent counters.

use crate::handles::ExperimentOperations;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use satiety::experiment::{Decision, Observation, Used, grades_from_usage, outcome};
use satiety::memory::FeedbackKind;
use satiety::text::normalize;
use satiety_store::evaluation::EvalJudgmentRow;
use satiety_store::experiment::{GradedRun, ShadowRunRow};
use satiety_store::now_micros;

use super::ExperimentError;
use super::features::{TRIES, put_trial, trial_of};
use crate::EngineError;

/// Number of open runs that are checked for judgments, most recent first.
const MAX_OPEN_RUNS: u32 = 1000;
/// Queries of the corpus per page.
const PAGE: u32 = 500;
/// Maximum age of the cached corpus.
const MAX_AGE: Duration = Duration::from_secs(30);
/// Judgment sources by precedence.
const BY_TRUST: [&str; 4] = ["manual", "validated", "implicit", "bootstrapped"];

/// Grades of memories by query.
pub(super) type Grades = HashMap<String, BTreeMap<String, i32>>;

/// Corpus as last loaded.
#[derive(Debug, Clone)]
pub(super) struct ShadowGrades {
    read_at: Instant,
    grades: Arc<Grades>,
}

impl ExperimentOperations<'_> {
    /// Counts new observations of a feature's shadow runs.
    pub async fn count_observations(self, feature_id: &str) -> Result<(), EngineError> {
        let store = self.engine.store().await?;
        for _ in 0..TRIES {
            let mut row = self.row(feature_id).await?;
            if row.status != "running" {
                return Ok(());
            }
            let mut trial = trial_of(&row)?;
            if trial.decision() != Decision::Continue {
                return Ok(());
            }
            let mut graded = Vec::new();
            for (run, observation, graded_by) in self.known_outcomes(feature_id, row.started_at).await? {
                let counted = trial
                    .observe(observation)
                    .map_err(|problem| ExperimentError::Test {
                        feature: feature_id.into(),
                        problem,
                    })?;
                if !counted {
                    break;
                }
                graded.push(GradedRun {
                    run_id: run,
                    mrr_delta: observation.treatment.mrr - observation.control.mrr,
                    ndcg_delta: observation.treatment.ndcg - observation.control.ndcg,
                    graded_by: graded_by.into(),
                });
            }
            if graded.is_empty() {
                return Ok(());
            }
            put_trial(&mut row, &trial)?;
            if store.experiments().change(&row, &graded).await? {
                if trial.decision() == Decision::AcceptTreatment && self.engine.ab.settings.auto_graduate {
                    // A refusal or an undecided check is stored with the test, too.
                    Box::pin(self.graduate(feature_id, Some("automatically (`ab.auto_graduate`)".into())))
                        .await?;
                }
                return Ok(());
            }
        }
        Err(ExperimentError::Contended(feature_id.into()).into())
    }

    /// Returns open runs whose outcome is known by now, oldest first.
    async fn known_outcomes(
        self,
        feature_id: &str,
        since: i64,
    ) -> Result<Vec<(String, Observation, &'static str)>, EngineError> {
        let store = self.engine.store().await?;
        let judged = self.corpus_grades().await?;
        let settle = i64::try_from(self.engine.ab.settings.settle.as_micros()).unwrap_or(i64::MAX);
        let settled = now_micros().saturating_sub(settle);
        let latest = store
            .experiments()
            .open_shadow_runs(feature_id, MAX_OPEN_RUNS)
            .await?;
        let used = store
            .experiments()
            .used_shadow_runs(feature_id, settled, MAX_OPEN_RUNS)
            .await?;
        let ids: Vec<String> = used.iter().map(|run| run.query_id.clone()).collect();
        let uses = store.experiments().use_of_queries(&ids).await?;
        let mut by_query: HashMap<&str, Vec<Used<'_>>> = HashMap::new();
        for one in &uses {
            if let Some(kind) = kind_named(&one.event_type) {
                let memory_id = one.memory_id.as_str();
                by_query
                    .entry(&one.query_id)
                    .or_default()
                    .push(Used { memory_id, kind });
            }
        }
        let mut known: BTreeMap<(i64, String), (Observation, &'static str)> = BTreeMap::new();
        let key = |run: &ShadowRunRow| (run.created_at, run.run_id.clone());
        for run in &used {
            let events = by_query.remove(run.query_id.as_str()).unwrap_or_default();
            if let Some(found) = observed(run, &grades_from_usage(events)) {
                known.insert(key(run), (found, "use"));
            }
        }
        // A judgment outweighs a use; it comes last so that it overwrites.
        for run in latest.iter().chain(&used) {
            let question = run
                .difference
                .get("query")
                .and_then(|query| query.as_str())
                .unwrap_or_default();
            let found = judged
                .get(&normalize(question))
                .and_then(|grades| observed(run, grades));
            if let Some(found) = found {
                known.insert(key(run), (found, "judgments"));
            }
        }
        Ok(known
            .into_iter()
            .filter(|((at, _), _)| *at >= since)
            .map(|((_, run), (observation, by))| (run, observation, by))
            .collect())
    }

    /// Returns the judged queries of the corpus, by normalized text.
    pub(super) async fn corpus_grades(self) -> Result<Arc<Grades>, EngineError> {
        let mut kept = self.engine.ab.graded.lock().await;
        if let Some(kept) = kept.as_ref().filter(|kept| kept.read_at.elapsed() < MAX_AGE) {
            return Ok(kept.grades.clone());
        }
        let mut grades = Grades::new();
        for (question, judged) in self.corpus_questions().await? {
            grades.entry(normalize(&question)).or_insert(judged);
        }
        let grades = Arc::new(grades);
        *kept = Some(ShadowGrades {
            read_at: Instant::now(),
            grades: grades.clone(),
        });
        Ok(grades)
    }

    /// Returns all queries of the corpus with their grades, ordered by id.
    pub(super) async fn corpus_questions(self) -> Result<Vec<(String, BTreeMap<String, i32>)>, EngineError> {
        let store = self.engine.store().await?;
        let mut questions = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = store.evaluation().corpus(after.as_deref(), PAGE).await?;
            let Some((last, _)) = page.last() else { break };
            after = Some(last.query_id.clone());
            questions.extend(
                page.into_iter()
                    .map(|(row, judgments)| (row.query, most_trusted(&judgments))),
            );
        }
        Ok(questions)
    }
}

/// Picks one grade per memory: a person's before any other.
fn most_trusted(judgments: &[EvalJudgmentRow]) -> BTreeMap<String, i32> {
    let trust = |source: &str| {
        BY_TRUST
            .iter()
            .position(|known| *known == source)
            .unwrap_or(BY_TRUST.len())
    };
    let mut best: BTreeMap<&str, &EvalJudgmentRow> = BTreeMap::new();
    for judgment in judgments {
        let known = best.entry(&judgment.memory_id).or_insert(judgment);
        if trust(&judgment.source) < trust(&known.source) {
            *known = judgment;
        }
    }
    let grade = |judgment: &EvalJudgmentRow| i32::try_from(judgment.relevance).unwrap_or(0);
    best.into_iter()
        .map(|(id, judgment)| (id.to_owned(), grade(judgment)))
        .collect()
}

fn observed(run: &ShadowRunRow, grades: &BTreeMap<String, i32>) -> Option<Observation> {
    Some(Observation {
        control: outcome(&run.control_result_ids, grades)?,
        treatment: outcome(&run.treatment_result_ids, grades)?,
    })
}

fn kind_named(name: &str) -> Option<FeedbackKind> {
    serde_json::from_value(name.into()).ok()
}
